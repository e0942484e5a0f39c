"""Best path decoding against its definition."""

from __future__ import annotations

import itertools

import pytest
import torch

from shared.padded import Padded
from shared.search import CtcGreedySearch

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


def test_a_blank_between_equal_symbols_keeps_both():
    path = torch.tensor([[1, 1, BLANK, 1, 2, 2, BLANK]])
    scores = torch.nn.functional.one_hot(path, 4).float().mul(9).log_softmax(-1)
    [[hypothesis]] = CtcGreedySearch().decode(Padded(scores, torch.tensor([7])), blank=BLANK)
    assert hypothesis.tokens == [1, 1, 2]


def test_refuses_nonsense():
    scores = torch.zeros(2, 3, 4)
    with pytest.raises(ValueError, match="blank symbol 4"):
        CtcGreedySearch().decode(Padded(scores, torch.tensor([3, 3])), blank=4)
    scores[1, 2, 0] = float("nan")
    with pytest.raises(ValueError, match="not numbers for: row 1"):
        CtcGreedySearch().decode(Padded(scores, torch.tensor([3, 3])), blank=0)
    assert CtcGreedySearch().decode(Padded(scores, torch.tensor([3, 2])), blank=0)  # padding carries no meaning
