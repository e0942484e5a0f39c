"""Prefix beam search: against the sum over all alignments, and against dictionaries."""

from __future__ import annotations

import collections
import itertools
import math

import numpy as np
import pytest
import torch

from dragoman.shared.batch import Batch
from dragoman.shared.generator import Encoding
from dragoman.shared.padded import Padded
from dragoman.shared.search import CtcGreedySearch, CtcPrefixSearch, CtcSearch
from dragoman.shared.search.search import Companion
from tests.small import refuses

BLANK, LETTERS, END = 0, (1, 2), 3
VOCABULARY = 4


def scores(rng, sentences, positions, vocabulary=VOCABULARY, sharpness=1.0):
    return torch.from_numpy(rng.normal(size=(sentences, positions, vocabulary)) * sharpness).float().log_softmax(-1)


def all_alignments(frames):
    """Sum the probabilities of all paths of each output: {tokens: log-probability}."""
    outputs = collections.defaultdict(lambda: -math.inf)
    for path in itertools.product(range(frames.shape[1]), repeat=len(frames)):
        output = tuple(symbol for symbol, _ in itertools.groupby(path) if symbol != BLANK)
        total = sum(float(frame[symbol]) for frame, symbol in zip(frames, path, strict=True))
        outputs[output] = float(np.logaddexp(outputs[output], total))
    return outputs


class Bigrams:
    """A language model: the next token depends on the last one and on the number of the sentence."""

    def __init__(self, tables):
        self.tables = tables  # (B, V + 1, V) log-probabilities; row V: after the start symbol
        self.read = 0

    def encode(self, batch):
        return Encoding({}, {"number": torch.arange(len(batch))})

    def log_probabilities(self, prefix, encoding):
        assert int(prefix.values[:, 0].min()) == VOCABULARY  # every prefix begins with the start symbol
        self.read += len(prefix)
        return self.tables[encoding.extras["number"][:, None], prefix.values]

    def total(self, number, tokens):
        path = [VOCABULARY, *tokens, END]
        return sum(float(self.tables[number, a, b]) for a, b in itertools.pairwise(path))


@pytest.mark.parametrize("weight", [0.0, 0.7])
def test_a_wide_beam_sums_over_all_alignments(weight):
    rng = np.random.default_rng(1)
    lengths, bonus = [5, 3, 0, 4, 1], 0.3
    padded = Padded(scores(rng, 5, 5), torch.tensor(lengths))
    padded.values[1, 3:] = math.nan  # padding carries no meaning
    lm = Bigrams(scores(rng, 5, VOCABULARY + 1))
    batch = Batch({"x": padded}, ids=list("abcde"))
    start = Padded(torch.full((5, 1), VOCABULARY), torch.ones(5, dtype=torch.int64))
    companion = Companion(lm, weight, batch, start, END) if weight else None
    search = CtcPrefixSearch(beam=400, candidates=0, n_best=400, length_bonus=bonus)
    found = search.decode(padded, blank=BLANK, companion=companion)
    for number, (length, hypotheses) in enumerate(zip(lengths, found, strict=True)):
        expected = {
            tokens: total + bonus * len(tokens) + weight * lm.total(number, tokens)
            for tokens, total in all_alignments(padded.values[number, :length]).items()
        }
        assert len(hypotheses) == len(expected)
        assert {tuple(h.tokens): h.score for h in hypotheses} == pytest.approx(expected, abs=1e-4)
        assert [h.score for h in hypotheses] == sorted((h.score for h in hypotheses), reverse=True)


def with_dictionaries(frames, beam, candidates, lm=None, number=0, weight=0.0, bonus=0.0):
    """Hannun et al. 2014, algorithm 1, for one sentence."""
    kept = {(): (0.0, -math.inf)}

    def read(tokens):
        path = [VOCABULARY, *tokens]
        return weight * sum(float(lm.tables[number, a, b]) for a, b in itertools.pairwise(path)) if lm else 0.0

    for frame in frames.double().numpy():
        symbols = [int(s) for s in np.argsort(-frame, kind="stable")[: candidates + 1] if s != BLANK]
        new = collections.defaultdict(lambda: [-math.inf, -math.inf])
        for y, (b, n) in kept.items():
            both = np.logaddexp(b, n)
            new[y][0] = np.logaddexp(new[y][0], both + frame[BLANK])
            if y:
                new[y][1] = np.logaddexp(new[y][1], n + frame[y[-1]])
            for c in range(len(frame)):
                if c != BLANK and (c in symbols or (*y, c) in kept):
                    source = b if y and c == y[-1] else both
                    new[*y, c][1] = np.logaddexp(new[*y, c][1], source + frame[c])
        ranked = sorted(new, key=lambda y: -(np.logaddexp(*new[y]) + read(y) + bonus * len(y)))
        kept = {y: tuple(new[y]) for y in ranked[:beam] if np.logaddexp(*new[y]) > -math.inf}
    end = {y: weight * float(lm.tables[number, y[-1] if y else VOCABULARY, END]) if lm else 0.0 for y in kept}
    return {y: np.logaddexp(*kept[y]) + read(y) + bonus * len(y) + end[y] for y in kept}


@pytest.mark.parametrize("case", range(12))
def test_agrees_with_dictionaries(case):
    rng = np.random.default_rng(case)
    beam, candidates = int(rng.integers(1, 6)), int(rng.integers(1, 4))
    lengths = torch.from_numpy(rng.integers(1, 15, 4))
    padded = Padded(scores(rng, 4, 14, sharpness=2.0), lengths)
    lm = Bigrams(scores(rng, 4, VOCABULARY + 1)) if case % 2 else None
    settings = {"weight": 0.5 if lm else 0.0, "bonus": float(rng.choice([0.0, 0.4]))}
    start = Padded(torch.full((4, 1), VOCABULARY), torch.ones(4, dtype=torch.int64))

    def run(rows):
        some = padded.select(torch.tensor(rows))
        batch = Batch({"x": some}, ids=[str(row) for row in rows])
        model = None if lm is None else Bigrams(lm.tables[rows])
        companion = None if model is None else Companion(model, 0.5, batch, start.select(torch.tensor(rows)), END)
        search = CtcPrefixSearch(beam=beam, n_best=beam, candidates=candidates, length_bonus=settings["bonus"])
        return search.decode(some, blank=BLANK, companion=companion)

    together = run([0, 1, 2, 3])
    for number, hypotheses in enumerate(together):
        frames = padded.values[number, : lengths[number]]
        expected = with_dictionaries(frames, beam, candidates, lm, number, **settings)
        assert {tuple(h.tokens): h.score for h in hypotheses} == pytest.approx(expected, abs=1e-4)
        [alone] = run([number])
        assert [h.tokens for h in alone] == [h.tokens for h in hypotheses]
        assert [h.score for h in alone] == pytest.approx([h.score for h in hypotheses], abs=1e-5)
    assert [h[0].tokens for h in run([2, 0])] == [together[2][0].tokens, together[0][0].tokens]


def test_refuses_nonsense():
    assert isinstance(CtcPrefixSearch(), CtcSearch) and isinstance(CtcGreedySearch(), CtcSearch)
    refuses(ValueError, r"n_best must be at most beam \(2\), not 3", CtcPrefixSearch, beam=2, n_best=3)
    padded = Padded(torch.zeros(2, 3, 4), torch.tensor([3, 3]))
    refuses(ValueError, "blank symbol 4", CtcPrefixSearch().decode, padded, blank=4)
    padded.values[1, 2, 0] = math.nan
    for ids, said in (((), "row 1"), (["first", "second"], "second")):
        refuses(ValueError, f"not numbers for: {said}", CtcPrefixSearch().decode, padded, blank=BLANK, ids=ids)
