"""Greedy search: the same as a beam of one, and as a loop."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from dragoman.shared.batch import Batch
from dragoman.shared.padded import Padded
from dragoman.shared.search import BeamSearch, GreedySearch, Rules, Search
from tests.small import refuses


@pytest.mark.parametrize("case", range(20))
def test_equals_a_loop_and_a_beam_of_one(world, case):
    rng = np.random.default_rng(case)
    sources = world.sources(case, 6)
    prefixes = [[world.start, *rng.integers(3, world.vocabulary, size=rng.integers(0, 3)).tolist()] for _ in sources]
    limits = {"maximum_length_ratio": 0.5, "maximum_length_extra": 4, "minimum_length": int(rng.integers(0, 3))}
    table = world.table(case)
    arguments = {"prefix": world.prefix(prefixes), "end": world.end, "padding": world.pad}
    found = GreedySearch(rules=Rules(**limits)).search(table, world.batch(sources), **arguments)
    beam = BeamSearch(beam=1, rules=Rules(**limits)).search(table, world.batch(sources), **arguments)
    for source, prefix, [ours], [other] in zip(sources, prefixes, found, beam, strict=True):
        tokens, total = [], 0.0
        while world.end not in tokens:
            scores = table.log_probabilities(source, [world.start, *tokens])
            allowed = scores.copy()
            allowed[world.pad] = -math.inf
            if len(tokens) < limits["minimum_length"]:
                allowed[world.end] = -math.inf
            token = int(allowed.argmax())
            if len(tokens) < len(prefix) - 1:
                token = prefix[1 + len(tokens)]
            elif len(tokens) == math.floor(0.5 * len(source)) + 4:
                token = world.end
            tokens.append(token)
            total += scores[token]
        assert ours.tokens == tokens == other.tokens
        assert ours.score == pytest.approx(total / len(tokens), abs=1e-5)
        assert ours.score == pytest.approx(other.score, abs=1e-5)


def test_no_sentences_have_no_outputs(world):
    empty = Padded(torch.zeros(0, 1, dtype=torch.int64), torch.zeros(0, dtype=torch.int64))
    symbols = {"prefix": empty, "end": world.end, "padding": world.pad}
    assert GreedySearch().search(world.table(1), Batch({"source": empty}), **symbols) == []


def test_finished_sentences_leave_the_batch_and_errors_name_rows(world):
    assert isinstance(GreedySearch(), Search)
    table = world.table(2, sharpness=3.0)
    search = GreedySearch(rules=Rules(maximum_length_ratio=2.0, maximum_length_extra=0))
    arguments = {"prefix": world.prefix([[world.start]] * 2), "end": world.end, "padding": 0}
    search.search(table, world.batch([[1], [1, 2, 3, 4]]), **arguments)
    assert table.steps[0] == 2 and table.steps == sorted(table.steps, reverse=True)
    table.logits = lambda source, history: np.full(9, math.nan if source == [3] else 0.0, dtype=np.float32)
    refuses(ValueError, "id1$", search.search, table, world.batch([[1], [3]]), **arguments)
    table.logits = lambda source, history: np.where(np.arange(9) == world.end, -np.inf, 0.0).astype(np.float32)
    refuses(ValueError, "above zero for: id0", search.search, table, world.batch([[1], [3]]), **arguments)
