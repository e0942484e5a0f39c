"""Label-smoothed cross entropy against hand values, torch's own, and finite differences."""

from __future__ import annotations

import math
import os
import shutil
from types import SimpleNamespace

import pytest
import torch
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from dragoman.shared.batch import Batch
from dragoman.shared.generator import Encoding
from dragoman.shared.objectives import CrossEntropy
from dragoman.shared.objectives.cross_entropy import IGNORED, compiled_losses, label_smoothed_cross_entropy
from dragoman.shared.padded import Padded
from tests.small import refusal, refuses


def make(rows=11, width=5, vocabulary=7, seed=0, dtype=torch.float64):
    torch.manual_seed(seed)
    states = torch.randn(rows, width, dtype=dtype, requires_grad=True)
    weight = torch.randn(vocabulary, width, dtype=dtype, requires_grad=True)
    labels = torch.randint(vocabulary, (rows,))
    labels[::4] = IGNORED
    return states, weight, labels


def linear(weight, bias=None):
    return SimpleNamespace(weight=weight, bias=bias)


def test_hand_value():
    logits = torch.tensor([[math.log(0.5), math.log(0.25), math.log(0.25)]])
    sums = label_smoothed_cross_entropy(logits, linear(torch.eye(3)), torch.tensor([0]), label_smoothing=0.2)
    # 0.8 on the label and 0.1 on each of the two others
    assert sums.loss.item() == pytest.approx(0.8 * math.log(2) + 0.2 * math.log(4), abs=1e-6)
    assert sums.nll.item() == pytest.approx(math.log(2), abs=1e-6)
    assert (sums.correct.item(), sums.count.item()) == (1, 1)


@pytest.fixture(params=[1, 4, 1000, "compiled"], ids=lambda rows: f"blocks of {rows}")
def blocks(request, monkeypatch):
    """Let this many rows of logits be worked on at a time; or all of them, by the form that is compiled."""
    if request.param == "compiled":
        with compiled_losses("eager"):
            yield
    else:
        monkeypatch.setattr("dragoman.shared.objectives.cross_entropy.BLOCK", 1)
        monkeypatch.setattr("dragoman.shared.objectives.cross_entropy.FEWEST", request.param)
        yield


@pytest.mark.parametrize("label_smoothing", [0.0, 0.1, 0.3])
@pytest.mark.parametrize("chunk", [1, 5 * 7, 1000])
def test_equals_torch_with_its_own_definition_of_smoothing(label_smoothing, chunk, blocks):
    states, weight, labels = make()
    logits = states @ weight.T
    expected = F.cross_entropy(
        logits, labels, ignore_index=IGNORED, reduction="sum", label_smoothing=label_smoothing * 7 / (7 - 1)
    )
    expected_gradients = torch.autograd.grad(expected, (states, weight))
    sums = label_smoothed_cross_entropy(states, linear(weight), labels, label_smoothing=label_smoothing, chunk=chunk)
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


class Largest(TorchDispatchMode):
    """Notes the elements of the largest tensor that is made."""

    size = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        made = [result] if isinstance(result, torch.Tensor) else []
        self.size = max([self.size, *(tensor.numel() for tensor in made)])
        return result


def test_memory_never_holds_the_logits_of_all_rows():
    states, weight, labels = make(rows=64, width=4, vocabulary=50, dtype=torch.float32)
    found = {}
    for rows in (8, 64):
        with Largest() as largest:
            sums = label_smoothed_cross_entropy(states, linear(weight), labels, label_smoothing=0.1, chunk=rows * 50)
            sums.loss.backward()
        found[rows] = largest.size
    assert found == {8: 8 * 50, 64: 64 * 50}


def test_only_what_learns_has_a_gradient_and_only_once():
    states, weight, labels = make()
    bias = torch.randn(7, dtype=torch.float64, requires_grad=True)
    for trained in ((states,), (weight,), (bias,), (states, weight, bias)):
        given = [x if any(x is one for one in trained) else x.detach() for x in (states, weight, bias)]
        expected = F.cross_entropy(F.linear(*given), labels, ignore_index=IGNORED, reduction="sum")
        sums = label_smoothed_cross_entropy(given[0], linear(*given[1:]), labels, chunk=3 * 7)
        assert sums.loss.item() == pytest.approx(expected.item(), abs=1e-9)
        torch.testing.assert_close(
            torch.autograd.grad(3 * sums.loss, trained, retain_graph=True), torch.autograd.grad(3 * expected, trained)
        )
        refuses(RuntimeError, "one backward pass", torch.autograd.grad, sums.loss, trained)
    with torch.no_grad():
        assert not label_smoothed_cross_entropy(states, linear(weight), labels).loss.requires_grad


def test_half_precision_logits_are_summed_in_single(blocks):
    states, weight, labels = make(rows=40, vocabulary=30, dtype=torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        sums = label_smoothed_cross_entropy(states, linear(weight), labels, label_smoothing=0.1, chunk=16 * 30)
    exact = label_smoothed_cross_entropy(states, linear(weight), labels, label_smoothing=0.1)
    assert sums.loss.dtype == torch.float32 and sums.loss.item() == pytest.approx(exact.loss.item(), rel=0.02)
    gradients = torch.autograd.grad(sums.loss, (states, weight))
    for ours, right in zip(gradients, torch.autograd.grad(exact.loss, (states, weight)), strict=True):
        assert (ours - right).norm() < 0.02 * right.norm()


@pytest.mark.slow
@pytest.mark.parametrize("label_smoothing", [0.0, 0.1])
def test_real_compilation_in_bfloat16_is_exact_to_its_rounding(label_smoothing):
    if not shutil.which(os.environ.get("CXX", "g++")):
        pytest.skip("there is no C++ compiler")
    states, weight, labels = make(rows=64, width=32, vocabulary=503, dtype=torch.float32)
    how = {"ignore_index": IGNORED, "reduction": "sum", "label_smoothing": label_smoothing * 503 / 502}
    exact = F.cross_entropy((states @ weight.T).double(), labels, **how)
    wanted = torch.autograd.grad(exact, (states, weight))
    with compiled_losses("inductor"), torch.autocast("cpu", torch.bfloat16):
        sums = label_smoothed_cross_entropy(
            states, linear(weight), labels, label_smoothing=label_smoothing, chunk=20 * 503
        )
    found = torch.autograd.grad(sums.loss, (states, weight))
    assert sums.loss.item() == pytest.approx(exact.item(), rel=5e-3)
    for one, other in zip(found, wanted, strict=True):
        assert (one - other).norm() < 2e-2 * other.norm()


def test_no_rows_and_nonsense():
    same = linear(torch.eye(3))
    empty = label_smoothed_cross_entropy(
        torch.zeros(0, 3, requires_grad=True), same, torch.zeros(0, dtype=torch.int64), label_smoothing=0.1
    )
    empty.loss.backward()
    assert empty.loss.item() == 0 and empty.count.item() == 0


@pytest.mark.parametrize("ignore_prefix", [0, 1, 3])
def test_the_decoder_reads_what_comes_before_each_label(ignore_prefix):
    rows = [[4, 5, 6, 2], [4, 6, 2], [4, 2]]
    target = Padded.from_sequences([torch.tensor(row) for row in rows], padding=0)
    logits = torch.randn(7, 7)  # a decoder without memory of what came before the last token
    model = SimpleNamespace(decode=lambda prefix, encoding: logits[prefix.values], projection=linear(torch.eye(7)))
    batch = Batch({"target": target})
    part = CrossEntropy(label_smoothing=0.0, weight=0.7, ignore_prefix=ignore_prefix, prefix="x_")
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


@pytest.mark.parametrize("label_smoothing", [0.0, 0.2])
@pytest.mark.parametrize("chunk", [1, 5 * 7, 1000])
def test_several_labels_equal_torch_with_a_distribution_for_each_row(label_smoothing, chunk, blocks):
    states, weight, first = make()
    torch.manual_seed(3)
    labels = torch.cat([first[:, None], torch.randint(7, (len(first), 3))], dim=1)  # some symbols twice
    weights = torch.rand(len(first), 4, dtype=torch.float64)
    weights = weights / weights.sum(1, keepdim=True)
    target = torch.zeros(len(first), 7, dtype=torch.float64)
    for row in range(len(first)):
        for place, (label, share) in enumerate(zip(labels[row].tolist(), weights[row].tolist(), strict=True)):
            taken = label_smoothing if place == 0 else 0.0  # the first label alone is smoothed
            if first[row] != IGNORED:
                target[row] += share * taken / 6
                target[row, label] += share * (1 - taken - taken / 6)
    expected = F.cross_entropy(states @ weight.T, target, reduction="sum")
    expected_gradients = torch.autograd.grad(expected, (states, weight))
    sums = label_smoothed_cross_entropy(
        states, linear(weight), labels, weights=weights, label_smoothing=label_smoothing, chunk=chunk
    )
    gradients = torch.autograd.grad(sums.loss, (states, weight))
    torch.testing.assert_close(sums.loss, expected)
    for found, wanted in zip(gradients, expected_gradients, strict=True):
        torch.testing.assert_close(found, wanted)
    alone = label_smoothed_cross_entropy(states, linear(weight), first)
    torch.testing.assert_close(sums.nll, alone.nll)
    assert (sums.correct, sums.count) == (alone.correct, alone.count)


def test_labels_of_weight_zero_change_no_bit():
    states, weight, first = make(dtype=torch.float32)
    labels = torch.cat([first[:, None], torch.full((len(first), 2), 3)], dim=1)
    weights = torch.tensor([1.0, 0.0, 0.0]).expand(len(first), 3)
    one = label_smoothed_cross_entropy(states, linear(weight), first, label_smoothing=0.1)
    several = label_smoothed_cross_entropy(states, linear(weight), labels, weights=weights, label_smoothing=0.1)
    assert torch.equal(one.loss, several.loss)
    gradients = (torch.autograd.grad(found.loss, (states, weight)) for found in (several, one))
    assert all(torch.equal(found, wanted) for found, wanted in zip(*gradients, strict=True))


def test_a_part_has_its_defaults():
    part = CrossEntropy()
    assert (part.weight, part.label_smoothing, part.source, part.prefix) == (1.0, 0.1, None, "")


def test_arguments_of_the_loss_are_shown():
    states, weight, labels = make(dtype=torch.float32)
    loss, linear_map, shares = label_smoothed_cross_entropy, linear(weight), torch.ones(11, 2)
    for label_smoothing, chunk in ((1.0, 5), (-0.1, 5), (0.1, 0)):
        said = f"^need 0 <= label_smoothing < 1 and chunk >= 1, not {label_smoothing} and {chunk}$"
        refuses(ValueError, said, loss, states, linear_map, labels, label_smoothing=label_smoothing, chunk=chunk)
    for given, weights, said in (
        (labels[:-1], None, "states (11, 5) and labels (10,) are not (N, D) and (N,)"),
        (torch.stack([labels, labels], 1), None, "states (11, 5) and labels (11, 2) are not (N, D) and (N,)"),
        (labels, shares, "states (11, 5) and labels (11,) are not (N, D) and (N, K), with weights (11, 2)"),
        (labels[:, None], shares, "states (11, 5) and labels (11, 1) are not (N, D) and (N, K), with weights (11, 2)"),
    ):
        assert refusal(ValueError, loss, states, linear_map, given, weights=weights) == said
