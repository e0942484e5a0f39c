"""Masked prediction against torch's cross entropy over the masked places alone."""

import torch
from torch.nn import functional as F

from dragoman.shared.batch import Batch
from dragoman.shared.errors import UsageError
from dragoman.shared.generator import Encoding
from dragoman.shared.nn.heads import MaskedTokenHead, OutputProjection
from dragoman.shared.nn.spans import spans
from dragoman.shared.objectives.masked import MaskedTokens, at_places, places_of
from dragoman.shared.padded import Padded
from tests.small import refuses


class Model:
    """A head, and no encoder."""

    def __init__(self, width=6, vocabulary=11):
        torch.manual_seed(1)
        projection = OutputProjection(width=width, vocabulary=vocabulary, bias=True)
        self.heads = torch.nn.ModuleDict({"masked": MaskedTokenHead(width=width, projection=projection)})


def batch():
    places = Padded.from_sequences([torch.tensor([1, 4]), torch.tensor([2]), torch.tensor([], dtype=torch.int64)], 99)
    labels = Padded.from_sequences([torch.tensor([3, 9]), torch.tensor([5]), torch.tensor([], dtype=torch.int64)], 0)
    return Batch({"source.places": places, "source.labels": labels})


def test_the_loss_is_the_cross_entropy_at_masked_places():
    model, states = Model(), torch.randn(3, 5, 6, requires_grad=True)
    part = MaskedTokens(weight=0.5)
    terms = part.terms(model, batch(), Encoding({"source": Padded(states, torch.tensor([5, 4, 3]))}))
    logits = model.heads["masked"](torch.stack([states[0, 1], states[0, 4], states[1, 2]]))
    labels = torch.tensor([3, 9, 5])
    torch.testing.assert_close(terms["masked"].sum, F.cross_entropy(logits, labels, reduction="sum"))
    assert terms["masked_accuracy"].sum == (logits.argmax(-1) == labels).sum()
    assert (terms["masked"].weight, terms["masked_accuracy"].weight) == (0.5, 0.0)
    counts = part.counts(batch())
    assert {name: term.count.item() for name, term in terms.items()} == {n: c.item() for n, c in counts.items()}
    assert counts["masked"] == 3


def test_a_batch_without_masked_places_has_no_loss():
    empty = Padded(torch.zeros(2, 0, dtype=torch.int64), torch.zeros(2, dtype=torch.int64))
    found = MaskedTokens(prefix="text.").terms(
        Model(),
        Batch({"source.places": empty, "source.labels": empty}),
        Encoding({"source": Padded(torch.randn(2, 3, 6), torch.tensor([3, 3]))}),
    )
    assert found["text.masked"].sum == found["text.masked"].count == 0


def test_places_of_a_drawn_mask_are_where_it_is_true():
    torch.manual_seed(1)
    sizes = torch.tensor([9, 3, 0])
    mask = spans(sizes, 9, probability=0.5, span=2)
    places = places_of(mask)
    assert [row.tolist() for row in places.rows()] == [row.nonzero()[:, 0].tolist() for row in mask]
    states = torch.randn(3, 9, 4)
    torch.testing.assert_close(at_places(states, places)[places.mask], states[mask])


def test_a_model_without_the_head_is_refused():
    refuses(UsageError, "no head 'tokens', only masked", MaskedTokens(head="tokens").check, Model())
