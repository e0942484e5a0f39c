"""The plan of an epoch against loops: budgets, groups, every row once, equal ranks, shares."""

from __future__ import annotations

import time
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.corpus.plan import Pass, Plan, cut, draw, plan_pass, split
from shared.corpus.stream import Budget, Stream, Table
from shared.errors import DataError


class Unit:
    """All that planning asks of a field."""

    overhead = 0

    def __init__(self, unit: str) -> None:
        self.unit = unit


def make_stream(
    lengths: np.ndarray,
    budget: Budget,
    *,
    name: str = "s",
    units: str = "tokens tokens",
    groups: np.ndarray | None = None,
    parts: list[np.ndarray] | None = None,
    weight: float = 1.0,
    alpha: float = 1.0,
) -> Stream:
    """A stream with a table made by hand instead of read from manifests."""
    fields = {str(number): Unit(unit) for number, unit in enumerate(units.split())}
    stream = Stream(name=name, manifests=["-"], fields=fields, budget=budget, weight=weight, alpha=alpha)  # type: ignore[arg-type]
    rows = lengths.shape[1]
    stream.__dict__["table"] = Table(
        kept=parts or [np.arange(rows)],
        lengths=lengths,
        capacities=budget.capacities(stream.fields, lengths),
        groups=np.zeros(rows, dtype=np.int64) if groups is None else groups,
        group_names=[None],
        dropped={},
    )
    return stream


def token_lengths(rows: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    source = np.clip(rng.lognormal(3, 0.6, rows), 2, 250)
    return np.stack([source, np.clip(source * rng.lognormal(0.1, 0.25, rows), 2, 250)]).astype(np.int64)


def batches(found: Pass) -> list[list[int]]:
    return [found.rows[a:b].tolist() for a, b in zip(found.bounds[:-1], found.bounds[1:], strict=True)]


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 30), st.integers(1, 30), st.integers(0, 2)), min_size=1, max_size=60),
    st.integers(30, 90),
    st.sampled_from([None, 1, 5]),
    st.integers(0, 3),
)
def test_budget_groups_and_every_row_once(rows: list, tokens: int, limit: int | None, epoch: int) -> None:
    data = np.array(rows).T
    stream = make_stream(data[:2], Budget(tokens=tokens, rows=limit), groups=data[2])
    found = batches(plan_pass(stream, seed=1, epoch=epoch, number=0, world=1))
    assert sorted(row for batch in found for row in batch) == list(range(len(rows)))
    for batch in found:
        for field in (0, 1):
            assert len(batch) * max(rows[row][field] for row in batch) <= tokens
        assert len(batch) <= (limit or len(rows))
        assert len({rows[row][2] for row in batch}) == 1


@given(st.lists(st.tuples(st.integers(1, 8), st.integers(0, 1)), min_size=1, max_size=40))
def test_cut_is_greedy(rows: list[tuple[int, int]]) -> None:
    rows = sorted(rows, key=lambda row: row[1])
    bounds = cut(np.array([capacity for capacity, _ in rows]), np.array([group for _, group in rows])).tolist()
    expected = [0]
    for end in range(1, len(rows) + 1):  # a batch grows row by row until the next one does not fit
        if end == len(rows) or rows[end][1] != rows[end - 1][1]:
            expected.append(end)
        elif min(capacity for capacity, _ in rows[expected[-1] : end + 1]) < end + 1 - expected[-1]:
            expected.append(end)
    assert bounds == expected


def test_a_function_of_seed_and_epoch() -> None:
    stream = make_stream(token_lengths(2000), Budget(tokens=500))

    def plan(seed: int, epoch: int, number: int = 0) -> list[list[int]]:
        return batches(plan_pass(stream, seed=seed, epoch=epoch, number=number, world=1))

    first = plan(1, 0)
    assert plan(1, 0) == first
    others = [plan(2, 0), plan(1, 1), plan(1, 0, 1)]
    for other in others:
        assert other != first
        # other rows meet, not only in another order
        assert len({frozenset(batch) for batch in other} & {frozenset(batch) for batch in first}) < 0.1 * len(first)
    lengths = [max(stream.table.lengths[0][row] for row in batch) for batch in first]
    assert abs(np.corrcoef(lengths, np.arange(len(lengths)))[0, 1]) < 0.2  # not sorted by length


def test_little_padding_counted_as_a_loop_does() -> None:
    stream = make_stream(token_lengths(20000), Budget(tokens=4096))
    found = plan_pass(stream, seed=1, epoch=0, number=0, world=1)
    shares = found.padding(stream.table.lengths)
    for field in (0, 1):
        lengths = stream.table.lengths[field]
        padded = sum(len(batch) * max(lengths[row] for row in batch) for batch in batches(found))
        assert shares[field] == pytest.approx(1 - lengths.sum() / padded)
    assert shares[0] < 0.16 and shares[1] < 0.09
    rng = np.random.default_rng(0)
    seconds = np.clip(rng.lognormal(1.5, 0.6, 20000), 0.5, 30)
    both = np.stack([seconds * 16000, seconds * rng.lognormal(1.5, 0.25, 20000) + 2]).astype(np.int64)
    speech = make_stream(both, Budget(seconds=200), units="samples tokens")
    assert plan_pass(speech, seed=1, epoch=0, number=0, world=1).padding(both)[0] < 0.06


def test_groups_stand_together() -> None:
    lengths = token_lengths(3000)
    groups = np.random.default_rng(1).integers(0, 3, 3000)
    together = plan_pass(make_stream(lengths, Budget(tokens=500)), seed=1, epoch=0, number=0, world=1)
    apart = make_stream(lengths, Budget(tokens=500), groups=groups)
    assert len(plan_pass(apart, seed=1, epoch=0, number=0, world=1)) < 1.1 * len(together)


def test_a_million_rows_within_seconds() -> None:
    stream = make_stream(token_lengths(1_000_000), Budget(tokens=4096))
    start = time.perf_counter()
    Plan([stream], seed=1, epoch=0)
    assert time.perf_counter() - start < 6  # about 0.5 s on an idle core


@pytest.mark.parametrize("world", [2, 3, 8])
def test_ranks_have_equally_many_steps_and_share_the_rows(world: int) -> None:
    main = make_stream(token_lengths(1000), Budget(tokens=700), name="main")
    side = make_stream(token_lengths(90, 1), Budget(tokens=700), name="side", weight=0.5)
    plans = [Plan([main, side], seed=3, epoch=2, rank=rank, world=world) for rank in range(world)]
    assert len({len(plan) for plan in plans}) == 1
    seen: Counter = Counter()
    for index in range(len(plans[0])):
        steps = [plan[index] for plan in plans]
        assert len({(step.stream, step.number) for step in steps}) == 1
        if steps[0].stream == 0:
            seen.update(row for step in steps for row in step.rows.tolist())
        for step in steps:
            lengths = (main, side)[step.stream].table.lengths[:, step.rows]
            assert len(step.rows) and (lengths.max(1) * len(step.rows) <= 700).all()
    assert seen == Counter(range(1000))


def test_split_cuts_the_largest() -> None:
    assert split(np.array([0, 2, 12, 15]), 4).tolist() == [0, 2, 7, 12, 15]  # type: ignore[union-attr]
    assert split(np.array([0, 2, 12, 15]), 3).tolist() == [0, 2, 12, 15]  # type: ignore[union-attr]
    assert split(np.array([0, 1, 3]), 4) is None
    with pytest.raises(DataError, match="3 rows, too few for 4"):
        plan_pass(make_stream(token_lengths(3), Budget(rows=2)), seed=1, epoch=0, number=0, world=4)


def test_streams_come_by_weight_and_go_round() -> None:
    ones = np.ones((2, 12), dtype=np.int64)
    main = make_stream(ones, Budget(rows=1), name="main", weight=2)
    side = make_stream(ones[:, :4], Budget(rows=1), name="side", weight=1)
    heavy = make_stream(ones[:, :5], Budget(rows=1), name="heavy", weight=4)
    plan = Plan([main, side, heavy], seed=1, epoch=0)
    steps = [plan[index] for index in range(len(plan))]
    assert Counter(step.stream for step in steps) == {0: 12, 1: 6, 2: 24}
    for end in range(7, len(steps) + 1, 7):  # at any time in proportion
        count = Counter(step.stream for step in steps[:end])
        assert all(abs(count[stream] - end * share / 7) <= 1 for stream, share in enumerate((2, 1, 4)))
    for number in range(4):  # each pass through a stream takes each of its rows once
        rows = [int(step.rows[0]) for step in steps if (step.stream, step.number) == (2, number)]
        assert sorted(rows) == list(range(5))
    orders = [[int(s.rows[0]) for s in steps if (s.stream, s.number) == (2, number)] for number in range(4)]
    assert len({tuple(order) for order in orders}) > 1  # in new orders


def test_draw_follows_the_exponent() -> None:
    parts = [np.arange(1000), np.arange(1000, 1100), np.arange(1100, 1110), np.arange(0)]
    rng = np.random.default_rng
    rows, copies = draw(parts, 1.0, rng(0))
    assert sorted(rows.tolist()) == list(range(1110)) and not copies.any()
    rows, copies = draw(parts, 0.5, rng(0))
    # by hand: roots 31.62, 10, 3.162 of 44.785; of 1110 rows 783.8, 247.9, 78.4
    assert np.bincount(np.digitize(rows, [1000, 1100])).tolist() == [784, 248, 78]
    counts = Counter(rows.tolist())
    assert {counts[row] for row in range(1000, 1100)} == {2, 3} and {counts[row] for row in range(1100, 1110)} == {7, 8}
    assert sorted(zip(rows.tolist(), copies.tolist(), strict=True)) == sorted(
        (row, copy) for row, count in counts.items() for copy in range(count)
    )
