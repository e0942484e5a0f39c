"""Greedy search: the same as a beam of one, and as a loop."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from dragoman.shared.batch import Batch
from dragoman.shared.padded import Padded
from dragoman.shared.search import GreedySearch, Rules, Search
from tests.shared.search.test_beam import slow_beam
from tests.small import refuses


@pytest.mark.parametrize("case", range(20))
def test_equals_a_slow_beam_of_one(world, case):
    rng = np.random.default_rng(case)
    sources = world.sources(case, 6)
    prefixes = [[world.start, *rng.integers(3, world.vocabulary, size=rng.integers(0, 3)).tolist()] for _ in sources]
    minimum, table = int(rng.integers(0, 3)), world.table(case)
    rules = Rules(maximum_length_ratio=0.5, maximum_length_extra=4, minimum_length=minimum)
    one = {"beam": 1, "n_best": 1, "length_penalty": 1.0, "minimum": minimum, "free": False}
    found = world.find(GreedySearch(rules=rules), table, sources, prefixes)
    for source, prefix, [ours] in zip(sources, prefixes, found, strict=True):
        limit = math.floor(0.5 * len(source)) + 4
        [(score, tokens)] = slow_beam(world, table, source, prefix, limit=limit, **one)
        assert ours.tokens == tokens and ours.score == pytest.approx(score, abs=1e-5)


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
