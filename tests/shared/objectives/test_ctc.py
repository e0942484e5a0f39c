"""CTC as a part, against the sum over all alignments."""

from __future__ import annotations

import itertools
import math
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from dragoman.shared.batch import Batch
from dragoman.shared.errors import UsageError
from dragoman.shared.generator import Encoding
from dragoman.shared.objectives import Ctc
from dragoman.shared.padded import Padded
from tests.small import refuses

BLANK, START, END = 2, 8, 9


def brute_force(scores: torch.Tensor, labels: list[int]) -> float:
    """Add up the probabilities of all paths that collapse to the labels."""
    total = 0.0
    for path in itertools.product(range(scores.shape[1]), repeat=len(scores)):
        if [symbol for symbol, _ in itertools.groupby(path) if symbol != BLANK] == labels:
            total += math.exp(sum(scores[i, symbol].item() for i, symbol in enumerate(path)))
    return -math.log(total) if total else math.inf


class Model:
    """States go in, and are the logits."""

    def __init__(self, states: Padded) -> None:
        head = nn.Identity()
        head.tap, head.blank = 3, BLANK
        self.heads = {"ctc": head}
        self.states = states

    def tap(self, encoding: Encoding, layer: int) -> Padded:
        assert layer == 3
        return self.states


def test_equals_the_sum_over_alignments():
    torch.manual_seed(0)
    labels = [[0, 1], [1, 1, 0], [], [0, 0, 0]]
    states = Padded(torch.randn(4, 5, 3, requires_grad=True), torch.tensor([5, 5, 3, 4]))
    field = Padded.from_sequences([torch.tensor([START, *row, END]) for row in labels], padding=7)
    batch = Batch({"transcript": field})
    part = Ctc(weight=0.3)
    terms = part.terms(Model(states), batch, Encoding({}))
    scores = states.values.detach().log_softmax(-1)
    expected = [
        brute_force(row[:length], label)
        for row, length, label in zip(scores, states.lengths.tolist(), labels, strict=True)
    ]
    assert expected[-1] == math.inf  # three equal labels need five positions, and have four
    assert terms["ctc"].sum.item() == pytest.approx(sum(expected[:-1]), rel=1e-5)
    assert terms["ctc"].weight == 0.3 and terms["ctc"].count.item() == 8
    assert (terms["ctc_infeasible"].sum.item(), terms["ctc_infeasible"].count.item()) == (1, 4)
    assert terms["ctc_infeasible"].weight == 0
    assert {name: count.item() for name, count in part.counts(batch).items()} == {"ctc": 8, "ctc_infeasible": 4}
    terms["ctc"].sum.backward()
    gradient = states.values.grad
    assert torch.isfinite(gradient).all() and gradient[0].abs().sum() > 0 and (gradient[3] == 0).all()
    assert (gradient[2, 3:] == 0).all()  # padding


@pytest.mark.parametrize(("labels", "positions", "infeasible"), [([0, 0], 2, 1), ([0, 0], 3, 0), ([0, 1], 2, 0)])
def test_a_blank_is_needed_between_equal_labels(labels, positions, infeasible):
    states = Padded(torch.zeros(1, 6, 3), torch.tensor([positions]))
    field = Padded(torch.tensor([[*labels, 1, 1]]), torch.tensor([len(labels)]))
    terms = Ctc(strip_prefix=0, strip_suffix=0, field="words").terms(
        Model(states), Batch({"words": field}), Encoding({})
    )
    assert terms["ctc_infeasible"].sum.item() == infeasible
    assert (terms["ctc"].sum.item() == 0) == bool(infeasible)


def test_refuses_a_model_without_the_head():
    refuses(UsageError, "no head 'ctc', only other", lambda: Ctc().check(SimpleNamespace(heads={"other": None})))


def test_a_part_has_its_defaults_and_its_arguments():
    part = Ctc()
    assert (part.source, part.weight, part.field, part.head, part.prefix) == (None, 1.0, "transcript", "ctc", "")
    assert (part.strip_prefix, part.strip_suffix) == (1, 1)
    assert Ctc(source="speech").source == "speech"
