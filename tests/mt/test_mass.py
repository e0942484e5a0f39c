"""MASS: fragments by hand and by counting; their loss against a loop, and against the cross entropy of copying."""

from collections import Counter

import numpy as np
import pytest
import torch
from scipy.stats import chisquare
from torch.nn import functional as F

from dragoman import Manifest, UsageError
from dragoman.mt.mass import FragmentCrossEntropy, MaskedFragment
from dragoman.shared.batch import Batch
from dragoman.shared.batches.fields import TextField
from dragoman.shared.batches.loader import Loader
from dragoman.shared.batches.stream import Budget, Stream
from dragoman.shared.objectives import CrossEntropy
from dragoman.shared.padded import Padded
from tests import small
from tests.small import objective

TEXTS = ["abcdefg", "gfedc", "bb"]
WIDTH = 16


@pytest.fixture(scope="module")
def plain():
    return TextField(column="source_text", tokenizer=small.tokenizer(TEXTS * 4, ["en"]))


def row(text, id="1"):
    return small.row(id, text)


class Drawn:
    """A generator that begins a fragment where the test wants it, and replaces nothing."""

    def __init__(self, kind, start):
        self.kind, self.start = kind, start

    def random(self, size=None):
        return self.kind if size is None else np.zeros(size)

    def integers(self, end, size=None):
        assert size is not None or self.start < end
        return self.start if size is None else np.zeros(size, dtype=np.int64)


@pytest.mark.parametrize(
    ("kind", "start", "places"),
    [
        (0.1, 3, [1, 2, 3, 4]),  # at the start
        (0.3, 3, [6, 7, 8, 9]),  # at the end: with </s>
        (0.9, 3, [4, 5, 6, 7]),
        (0.9, 5, [6, 7, 8, 9]),
    ],
)
def test_a_fragment_by_hand(plain, kind, start, places):
    tokens = plain(row(TEXTS[0]), None)  # <en> _ a b c d e f g </s>
    assert len(tokens) == 10
    found = MaskedFragment(field=plain, share=0.5)(row(TEXTS[0]), Drawn(kind, start))
    assert found["places"].tolist() == places
    assert found["labels"].tolist() == [int(tokens[place]) for place in places]
    expected = [plain.tokenizer.mask if place in places else int(tokens[place]) for place in range(10)]
    assert found[""].tolist() == expected
    assert found["seen"].tolist() == [place for place in range(10) if place not in places]
    see_all = MaskedFragment(field=plain, share=0.5, see_masks=True)(row(TEXTS[0]), Drawn(kind, start))
    assert see_all["seen"].tolist() == [*range(10)]


@pytest.mark.parametrize(("share", "count"), [(0.0, 1), (0.2, 2), (0.5, 4), (1.0, 9)])
def test_lengths_of_fragments(plain, share, count):
    field = MaskedFragment(field=plain, share=share)
    rng = np.random.default_rng(1)
    assert {len(field(row(TEXTS[0]), rng)["places"]) for _ in range(50)} == {count}


def test_where_fragments_stand_and_what_becomes_of_their_tokens(plain):
    field = MaskedFragment(field=plain, share=0.5)
    rng, starts, kinds = np.random.default_rng(1), Counter(), Counter()
    draws = 6000
    for _ in range(draws):
        found = field(row(TEXTS[0]), rng)
        starts[int(found["places"][0])] += 1
        hidden = found[""][found["places"]]
        for token, label in zip(hidden.tolist(), found["labels"].tolist(), strict=True):
            kinds["mask" if token == plain.tokenizer.mask else "same" if token == label else "other"] += 1
    even = 0.6 / 6  # 9 - 4 + 1 places
    shares = [0.2 + even, even, even, even, even, 0.2 + even]
    assert chisquare([starts[1 + number] for number in range(6)], [draws * share for share in shares]).pvalue > 0.001
    total = sum(kinds.values())
    assert abs(kinds["mask"] / total - 0.8) < 0.01
    pieces = plain.tokenizer.size - len(plain.tokenizer.symbols)
    assert 0.1 <= kinds["same"] / total <= 0.1 + 0.1 / pieces + 0.01


@pytest.fixture
def model(plain):
    return small.translator(plain.tokenizer, seed=1, layers=2, embedded={"positions": 16})


def batch_of(field, tmp_path):
    path = tmp_path / "texts.arrow"
    Manifest.write(path, [row(text, str(number)) for number, text in enumerate(TEXTS)])
    fields = {"source": field, "target": field.field}
    stream = Stream(name="text", manifests=[str(path)], fields=fields, budget=Budget(rows=len(TEXTS)))
    [batch] = Loader(streams=[stream], seed=1, workers=0).epoch(0)
    return batch


def test_loss_of_fragments_against_a_loop(plain, model, tmp_path):
    batch = batch_of(MaskedFragment(field=plain, share=0.4), tmp_path)
    terms = objective(model, FragmentCrossEntropy())(batch).parts
    total, right, count = 0.0, 0, 0
    target = model.target_embedding
    for number in range(len(batch)):
        names = ("source", "target", "source.places", "source.labels")
        ids, text, places, labels = (batch[name].rows()[number] for name in names)
        states = model.encode(small.batch(source=[ids])).memories["source"].values
        memory = states[:, ids != plain.tokenizer.mask]
        first, last = int(places[0]), int(places[-1])
        read = target.weight[text[first - 1 : last]] * WIDTH**0.5 + target.positions.weight[first - 1 : last]
        lengths = torch.tensor([memory.shape[1]]), torch.tensor([len(read)])
        states = model.decoder(Padded(read[None], lengths[1]), {"source": Padded(memory, lengths[0])}).values[0]
        logits = states @ target.weight.T
        total += F.cross_entropy(logits, labels, reduction="sum")
        right += int((logits.argmax(-1) == labels).sum())
        count += len(labels)
    expected = objective(model, FragmentCrossEntropy()).counts(batch)["fragment"]
    assert int(terms["fragment"].count) == int(expected) == count
    torch.testing.assert_close(terms["fragment"].sum, total, atol=1e-4, rtol=1e-4)
    assert int(terms["fragment_accuracy"].sum) == right


def test_a_fragment_of_the_whole_text_in_plain_sight_is_copying(plain, model, tmp_path):
    batch = batch_of(MaskedFragment(field=plain, share=1.0, masked=0.0, replaced=0.0), tmp_path)
    found = objective(model, FragmentCrossEntropy(label_smoothing=0.1))(batch).parts["fragment"]
    copied = Batch({"source": batch["target"], "target": batch["target"]})
    expected = objective(model, CrossEntropy(label_smoothing=0.1))(copied).parts["cross_entropy"]
    assert int(found.count) == int(expected.count)
    torch.testing.assert_close(found.sum, expected.sum)


def used_states(model, batch):
    """Return at which tokens (B, L) the loss of a fragment depends on the states of the encoder."""
    encoding = model.encode(batch)
    states = encoding.memories["source"].values
    states.retain_grad()
    FragmentCrossEntropy().evaluate(model, batch, lambda field: encoding)["fragment"].sum.backward()
    return states.grad.abs().sum(-1) > 0


@pytest.mark.parametrize("see_masks", [False, True])
def test_the_decoder_sees_no_states_of_masks(plain, model, tmp_path, see_masks):
    batch = batch_of(MaskedFragment(field=plain, share=0.5, masked=1.0, replaced=0.0, see_masks=see_masks), tmp_path)
    used = used_states(model, batch)
    real, masked = batch["source"].mask, batch["source"].values == plain.tokenizer.mask
    assert torch.equal(used, real if see_masks else real & ~masked)


def test_what_cannot_be_is_refused(plain):
    message = r"at_start and at_end must add up to at most 1, .* 0\.7 and 0\.4"
    small.refuses(UsageError, message, MaskedFragment, field=plain, at_start=0.7, at_end=0.4)
    bare = TextField(column="source_text", tokenizer=plain.tokenizer, prefix=[], suffix=["</s>", "<en>"])
    small.refuses(UsageError, "one symbol before it and one behind it, not 0 and 2", MaskedFragment, field=bare)
    small.refuses(UsageError, "must be at least 0 and below 1, not 1", FragmentCrossEntropy, label_smoothing=1)
