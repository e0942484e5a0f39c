"""Best path decoding against its definition."""

from __future__ import annotations

import itertools

import pytest
import torch

from dragoman import CtcGreedySearch, DataError, UsageError
from dragoman.shared.padded import Padded
from dragoman.shared.search.ctc_greedy import check_blank
from tests.small import refusal, refuses

BLANK = 3


@pytest.mark.parametrize("seed", range(20))
def test_collapses_repeats_and_drops_blanks(seed):
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(5, 12, 4, generator=generator) * 2
    lengths = torch.tensor([12, 7, 1, 0, 11])
    scores = logits.log_softmax(-1)
    found = CtcGreedySearch().decode(Padded(scores, lengths), blank=BLANK)
    for row, length, [hypothesis] in zip(scores, lengths.tolist(), found, strict=True):
        path = [max(range(4), key=lambda symbol, frame=frame: float(frame[symbol])) for frame in row[:length]]
        assert hypothesis.tokens == [symbol for symbol, _ in itertools.groupby(path) if symbol != BLANK]
        total = sum(float(frame[symbol]) for frame, symbol in zip(row, path, strict=False))
        assert hypothesis.score == pytest.approx(total / max(1, length), abs=1e-5)


def test_what_is_said_and_what_needs_no_positions():
    scores = Padded(torch.zeros(2, 3, 4), torch.tensor([3, 3]))
    for blank in (4, -1):
        complaint = refusal(ValueError, check_blank, blank, scores)
        assert complaint == f"the blank symbol {blank} is outside the vocabulary of 4"
    check_blank(3, scores)
    check_blank(0, scores)
    with pytest.raises(UsageError, match=r"^best path decoding takes no language model: search prefixes \(a beam"):
        CtcGreedySearch().decode(scores, blank=0, companion=object())
    empty = Padded(torch.zeros(2, 0, 4), torch.tensor([0, 0]))
    found = CtcGreedySearch().decode(empty, blank=0)
    assert [[(one.tokens, one.score) for one in some] for some in found] == [[([], 0.0)], [([], 0.0)]]
    scores.values[1, 2, 0] = float("nan")
    refuses(ValueError, "not numbers for: row 1", CtcGreedySearch().decode, scores, blank=0)
    CtcGreedySearch().decode(Padded(scores.values, torch.tensor([3, 2])), blank=0)  # padding carries no meaning
    scores.values[0, 1, 2] = scores.values[1, 0, 0] = float("nan")
    complaint = refusal(DataError, lambda: CtcGreedySearch().decode(scores, blank=0, ids=["a", "b"]))
    assert complaint == "the model's log-probabilities are not numbers for: a, b"
    half = Padded(torch.zeros(1, 2, 4, dtype=torch.float16, requires_grad=True), torch.tensor([2]))
    [[one]] = CtcGreedySearch().decode(half, blank=1)
    assert one.score == 0.0 and one.tokens == [0]
