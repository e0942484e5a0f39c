"""CTC alignment is the best of all paths that give the labels."""

import itertools

import pytest
import torch

from dragoman.shared.errors import DataError
from dragoman.shared.padded import Padded
from dragoman.shared.search.alignment import ctc_alignment
from tests.small import refuses


def collapsed(path, blank):
    return [symbol for symbol, _ in itertools.groupby(path) if symbol != blank]


def best_spans(scores, labels, blank):
    """Try every path; return the spans of the best one that gives the labels, None if none does."""
    symbols, length = range(scores.shape[1]), scores.shape[0]
    paths = [path for path in itertools.product(symbols, repeat=length) if collapsed(path, blank) == labels]
    if not paths:
        return None
    best = max(paths, key=lambda path: sum(scores[place, symbol].item() for place, symbol in enumerate(path)))
    runs = [(symbol, list(group)) for symbol, group in itertools.groupby(range(len(best)), best.__getitem__)]
    return [(group[0], group[-1] + 1) for symbol, group in runs if symbol != blank]


@pytest.mark.parametrize("seed", range(8))
def test_no_path_is_better(seed):
    rng = torch.Generator().manual_seed(seed)
    blank, lengths = 2, [6, 4, 5, 3]
    labels = [[0, 1, 1], [1], [], [0, 0, 1]]
    scores = [(2 * torch.randn(length, 3, generator=rng)).log_softmax(-1) for length in lengths]
    found = ctc_alignment(Padded.from_sequences(scores), labels, blank=blank)
    assert found == [best_spans(one, wanted, blank) for one, wanted in zip(scores, labels, strict=True)]
    assert found[3] is None and found[2] == []


def test_what_cannot_be_aligned_is_refused():
    scores = Padded.from_sequences([torch.zeros(3, 3).log_softmax(-1)])
    refuses(DataError, "label 1 of a text is the blank", ctc_alignment, scores, [[0, 2]], blank=2)
    refuses(DataError, "not numbers", ctc_alignment, scores.map(lambda values: values * float("nan")), [[0]], blank=2)
