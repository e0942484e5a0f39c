"""Rows of a table: gradients against torch's own embedding, and when they are as large as the table."""

from copy import deepcopy

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from dragoman.shared.nn.embeddings import TextEmbedding
from dragoman.shared.nn.heads import OutputProjection, TiedProjection
from dragoman.shared.nn.lookup import _WAITING, lookup
from dragoman.shared.objectives.cross_entropy import IGNORED, label_smoothed_cross_entropy
from tests.small import refuses

VOCABULARY, WIDTH, PADDING = 11, 4, 1


class Called(TorchDispatchMode):
    """Counts gradients of lookups that are as large as the table."""

    def __init__(self):
        super().__init__()
        self.large = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.large += function is torch.ops.aten.embedding_dense_backward.default
        return function(*args, **kwargs or {})


def tokens(*shape):
    drawn = torch.randint(0, VOCABULARY, shape, generator=torch.Generator().manual_seed(0))
    drawn[0, -1] = PADDING
    return drawn


def table():
    return torch.randn(VOCABULARY, WIDTH, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


@pytest.mark.parametrize("updates", [1, 2])
@pytest.mark.parametrize("tied", [True, False])
def test_gradients_are_those_of_torchs_embedding(tied, updates):
    source = TextEmbedding(vocabulary=VOCABULARY, width=WIDTH, padding=PADDING, scaled=False).double().eval()
    target = TextEmbedding(vocabulary=VOCABULARY, width=WIDTH, padding=PADDING, scaled=False, shared_with=source)
    target.eval()
    own = OutputProjection(width=WIDTH, vocabulary=VOCABULARY).double()
    projection = TiedProjection(embedding=target) if tied else own
    expected, matrix = nn.Parameter(table()), nn.Parameter(table().flip(0))
    with torch.no_grad():
        source.weight.copy_(expected)
        own.weight.copy_(matrix)
    said, written = tokens(3, 5), tokens(2, 4).flip(1)
    labels = torch.tensor([3, 7, IGNORED, 7, 0, 2, 9, IGNORED])
    for update in range(updates):  # the second adds to what is there
        with Called() as called:
            states = target.embed(written).flatten(0, 1) + source.embed(said).sum()
            label_smoothed_cross_entropy(states, projection, labels, label_smoothing=0.1).loss.backward()
        states = F.embedding(written, expected, PADDING).flatten(0, 1) + F.embedding(said, expected, PADDING).sum()
        scores = F.log_softmax(states @ (expected if tied else matrix).T, -1)
        q = 0.1 / (VOCABULARY - 1)
        losses = -(0.9 - q) * scores.gather(1, labels.clamp(min=0)[:, None])[:, 0] - q * scores.sum(-1)
        losses[labels != IGNORED].sum().backward()
        torch.testing.assert_close(source.weight.grad, expected.grad)
        assert source.weight.grad.layout == torch.strided
        assert called.large == (0 if tied else 2), update


def test_two_losses_of_one_backward_pass_both_count():
    embedding = TextEmbedding(vocabulary=VOCABULARY, width=WIDTH, padding=PADDING, scaled=False, dropout=0.0).double()
    projection, expected = TiedProjection(embedding=embedding), nn.Parameter(embedding.weight.detach().clone())
    batches = (tokens(3, 5), tokens(2, 4).flip(1))
    with Called() as called:
        losses = [
            label_smoothed_cross_entropy(
                embedding.embed(said).flatten(0, 1), projection, said.flatten(), label_smoothing=0.0
            )
            for said in batches  # each loss's lookup is gone through before the other loss
        ]
        sum(loss.loss for loss in losses).backward()
    sum(
        F.cross_entropy(
            F.embedding(said, expected, PADDING).flatten(0, 1) @ expected.T, said.flatten(), reduction="sum"
        )
        for said in batches
    ).backward()
    torch.testing.assert_close(embedding.weight.grad, expected.grad)
    assert called.large == 0


def test_a_projection_that_is_not_part_of_a_backward_pass_announces_nothing():
    embedding = TextEmbedding(vocabulary=VOCABULARY, width=WIDTH, padding=PADDING, dropout=0.0).double()
    projection, said = TiedProjection(embedding=embedding), tokens(3, 5)
    states = embedding.embed(said).flatten(0, 1)
    label_smoothed_cross_entropy(states, projection, said.flatten(), label_smoothing=0.0).loss.backward()
    embedding.weight.grad = None
    with Called() as called:
        embedding.embed(said).sum().backward()
    counts = torch.bincount(said.flatten(), minlength=VOCABULARY).double()
    counts[PADDING] = 0
    assert called.large == 1
    torch.testing.assert_close(embedding.weight.grad, WIDTH**0.5 * counts[:, None].expand(-1, WIDTH))


def test_a_frozen_projection_announces_nothing():
    embedding = TextEmbedding(vocabulary=VOCABULARY, width=WIDTH, padding=PADDING).double()
    frozen = OutputProjection(width=WIDTH, vocabulary=VOCABULARY).double().requires_grad_(requires_grad=False)
    with Called() as called:
        states = embedding.embed(tokens(2, 3)).flatten(0, 1)
        label_smoothed_cross_entropy(states, frozen, tokens(2, 3).flatten(), label_smoothing=0.0).loss.backward()
    assert called.large == 1 and frozen.weight not in _WAITING


def test_a_gradient_that_is_asked_for_is_whole_and_what_failed_leaves_nothing_behind():
    embedding = TextEmbedding(vocabulary=VOCABULARY, width=WIDTH, padding=PADDING, dropout=0.0).double()
    projection, said = TiedProjection(embedding=embedding), tokens(3, 5)

    def loss():
        states = embedding.embed(said).flatten(0, 1)
        return label_smoothed_cross_entropy(states, projection, said.flatten(), label_smoothing=0.1).loss

    def fail(gradient):
        raise RuntimeError("on purpose")

    loss().backward()
    handle = embedding.weight.register_hook(fail)
    refuses(RuntimeError, "on purpose", loss().backward)
    handle.remove()
    (asked,) = torch.autograd.grad(loss(), [embedding.weight])
    torch.testing.assert_close(asked, embedding.weight.grad)
    copy = deepcopy(embedding)
    copy.weight.grad = None
    states = copy.embed(said).flatten(0, 1)
    label_smoothed_cross_entropy(
        states, TiedProjection(embedding=copy), said.flatten(), label_smoothing=0.1
    ).loss.backward()
    torch.testing.assert_close(copy.weight.grad, embedding.weight.grad)


def test_a_table_that_does_not_learn_is_looked_up():
    frozen = table()
    said = tokens(2, 3)
    assert torch.equal(lookup(said, frozen, PADDING), frozen[said])


def test_what_is_compiled_is_left_to_the_compiler():
    learnt, said = nn.Parameter(table()), tokens(2, 3)
    torch.compile(lookup, backend="eager", fullgraph=True)(said, learnt, PADDING).sum().backward()
    assert learnt.grad[PADDING].tolist() == [0.0] * WIDTH and learnt.grad.sum() > 0
