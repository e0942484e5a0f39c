"""Label-smoothed cross entropy against hand values, torch's own, and finite differences."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest
import torch
from torch.nn import functional as F

from shared.batch import Batch
from shared.errors import UsageError
from shared.generator import Encoding
from shared.objectives import CrossEntropy
from shared.objectives.cross_entropy import IGNORED, label_smoothed_cross_entropy
from shared.padded import Padded


def make(rows=11, width=5, vocabulary=7, seed=0, dtype=torch.float64):
    torch.manual_seed(seed)
    states = torch.randn(rows, width, dtype=dtype, requires_grad=True)
    weight = torch.randn(vocabulary, width, dtype=dtype, requires_grad=True)
    labels = torch.randint(vocabulary, (rows,))
    labels[::4] = IGNORED
    return states, weight, labels


def test_hand_value():
    logits = torch.tensor([[math.log(0.5), math.log(0.25), math.log(0.25)]])
    sums = label_smoothed_cross_entropy(logits, lambda x: x, torch.tensor([0]), smoothing=0.2)
    # 0.8 on the label and 0.1 on each of the two others
    assert sums.loss.item() == pytest.approx(0.8 * math.log(2) + 0.2 * math.log(4), abs=1e-6)
    assert sums.nll.item() == pytest.approx(math.log(2), abs=1e-6)
    assert (sums.correct.item(), sums.count.item()) == (1, 1)


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.3])
@pytest.mark.parametrize("chunk", [1, 4 * 7, 1000])
def test_equals_torch_with_its_own_definition_of_smoothing(smoothing, chunk):
    states, weight, labels = make()
    logits = states @ weight.T
    expected = F.cross_entropy(
        logits, labels, ignore_index=IGNORED, reduction="sum", label_smoothing=smoothing * 7 / (7 - 1)
    )
    expected_gradients = torch.autograd.grad(expected, (states, weight))
    sums = label_smoothed_cross_entropy(states, lambda x: x @ weight.T, labels, smoothing=smoothing, chunk=chunk)
    gradients = torch.autograd.grad(sums.loss, (states, weight))
    real = labels != IGNORED
    assert sums.loss.item() == pytest.approx(expected.item(), abs=1e-9)
    assert sums.nll.item() == pytest.approx(
        F.cross_entropy(logits[real], labels[real], reduction="sum").item(), abs=1e-9
    )
    assert sums.count.item() == real.sum().item()
    assert sums.correct.item() == (logits.argmax(-1)[real] == labels[real]).sum().item()
    assert not sums.nll.requires_grad and not sums.correct.requires_grad
    for ours, theirs in zip(gradients, expected_gradients, strict=True):
        torch.testing.assert_close(ours, theirs)


def test_gradients_of_the_chunked_form_are_those_of_its_value():
    states, weight, labels = make(rows=6, width=3, vocabulary=4)

    def loss(states, weight):
        return label_smoothed_cross_entropy(states, lambda x: x @ weight.T, labels, smoothing=0.1, chunk=2 * 4).loss

    assert torch.autograd.gradcheck(loss, (states, weight))


def test_memory_never_holds_the_logits_of_all_rows():
    states, weight, labels = make(rows=64, width=4, vocabulary=50, dtype=torch.float32)
    saved = []
    with torch.autograd.graph.saved_tensors_hooks(lambda x: saved.append(x.numel()) or x, lambda x: x):
        sums = label_smoothed_cross_entropy(states, lambda x: x @ weight.T, labels, smoothing=0.1, chunk=8 * 50)
    assert max(saved) < 8 * 50
    saved.clear()
    with torch.autograd.graph.saved_tensors_hooks(lambda x: saved.append(x.numel()) or x, lambda x: x):
        direct = label_smoothed_cross_entropy(states, lambda x: x @ weight.T, labels, smoothing=0.1, chunk=64 * 50)
    assert max(saved) >= 64 * 50  # the measure does see logits
    assert sums.loss.item() == pytest.approx(direct.loss.item(), rel=1e-6)


def test_half_precision_logits_are_summed_in_single():
    states, weight, labels = make(rows=40, vocabulary=30, dtype=torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        sums = label_smoothed_cross_entropy(states, lambda x: F.linear(x, weight), labels, smoothing=0.1, chunk=16 * 30)
    exact = label_smoothed_cross_entropy(states, lambda x: F.linear(x, weight), labels, smoothing=0.1)
    assert sums.loss.dtype == torch.float32 and sums.loss.item() == pytest.approx(exact.loss.item(), rel=0.02)
    sums.loss.backward()
    assert states.grad.abs().sum() > 0


def test_no_rows_and_nonsense():
    empty = label_smoothed_cross_entropy(
        torch.zeros(0, 3, requires_grad=True), lambda x: x, torch.zeros(0, dtype=torch.int64), smoothing=0.1
    )
    empty.loss.backward()
    assert empty.loss.item() == 0 and empty.count.item() == 0
    with pytest.raises(ValueError, match=r"\(2, 3\) and labels \(3,\)"):
        label_smoothed_cross_entropy(torch.zeros(2, 3), lambda x: x, torch.zeros(3, dtype=torch.int64))
    with pytest.raises(ValueError, match="1.5"):
        label_smoothed_cross_entropy(torch.zeros(2, 3), lambda x: x, torch.zeros(2, dtype=torch.int64), smoothing=1.5)
    for wrong in ({"smoothing": -0.1}, {"ignore_prefix": -1}, {"chunk": 0}):
        with pytest.raises(UsageError, match=str(*wrong.values())):
            CrossEntropy(**wrong)


@pytest.mark.parametrize("ignore_prefix", [0, 1, 3])
def test_the_decoder_reads_what_comes_before_each_label(ignore_prefix):
    rows = [[4, 5, 6, 2], [4, 6, 2], [4, 2]]
    target = Padded.from_sequences([torch.tensor(row) for row in rows], padding=0)
    logits = torch.randn(7, 7)  # a decoder without memory of what came before the last token
    model = SimpleNamespace(decode=lambda prefix, encoding: logits[prefix.values], project=lambda states: states)
    batch = Batch({"target": target})
    part = CrossEntropy(smoothing=0.0, weight=0.7, ignore_prefix=ignore_prefix, prefix="x_")
    terms = part.terms(model, batch, Encoding({}))
    pairs = [(a, b) for row in rows for a, b in list(zip(row, row[1:], strict=False))[ignore_prefix:]]
    expected = sum(-logits[a].log_softmax(-1)[b].item() for a, b in pairs)
    assert terms["x_cross_entropy"].sum.item() == pytest.approx(expected, abs=1e-5)
    assert terms["x_nll"].sum.item() == pytest.approx(expected, abs=1e-5)
    assert terms["x_accuracy"].sum.item() == sum(logits[a].argmax().item() == b for a, b in pairs)
    assert {name: term.weight for name, term in terms.items()} == {"x_cross_entropy": 0.7, "x_nll": 0, "x_accuracy": 0}
    counts = part.counts(batch)
    assert {name: term.count.item() for name, term in terms.items()} == {name: c.item() for name, c in counts.items()}
    assert counts["x_nll"].item() == len(pairs)
