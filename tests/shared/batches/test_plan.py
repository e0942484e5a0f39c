"""The plan of an epoch against loops: budgets, groups, every row once, equal ranks, shares."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.shared.batches.plan import Plan, cut, draw, order_of, plan_pass, split
from dragoman.shared.batches.row_table import Table
from dragoman.shared.batches.steps import Pass
from dragoman.shared.batches.stream import Budget, Stream
from dragoman.shared.errors import DataError
from tests.small import examples


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
    padded = budget.padded(lengths, lengths.max(1, keepdims=True))
    stream.__dict__["table"] = Table(
        kept=parts or [np.arange(rows)],
        lengths=lengths,
        padded=padded,
        capacities=budget.capacities(stream.fields, padded),
        groups=np.zeros(rows, dtype=np.int64) if groups is None else groups,
        group_names=[None] if groups is None else [str(group) for group in range(groups.max() + 1)],
        dropped={},
    )
    return stream


def token_lengths(rows: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    source = np.clip(rng.lognormal(3, 0.6, rows), 2, 250)
    return np.stack([source, np.clip(source * rng.lognormal(0.1, 0.25, rows), 2, 250)]).astype(np.int64)


def batches(found: Pass) -> list[list[int]]:
    return [found.rows[a:b].tolist() for a, b in zip(found.bounds[:-1], found.bounds[1:], strict=True)]


@settings(max_examples=examples(100))
@given(
    st.lists(st.tuples(st.integers(1, 30), st.integers(1, 30), st.integers(0, 2)), min_size=1, max_size=60),
    st.integers(30, 90),
    st.sampled_from([None, 1, 5]),
    st.integers(0, 3),
)
def test_budget_groups_and_every_row_once(rows: list, tokens: int, limit: int | None, epoch: int) -> None:
    data = np.array(rows).T
    stream = make_stream(data[:2], Budget(tokens=tokens, rows=limit), groups=data[2])
    found = batches(plan_pass(stream, seed=1, number=epoch))
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


@given(st.lists(st.integers(-50, 50), min_size=1, max_size=40), st.sampled_from([1.0, 1e-9, 1e12]))
def test_order_is_that_of_a_stable_sort(keys: list[int], scale: float) -> None:
    expected = sorted(range(len(keys)), key=lambda row: keys[row])
    assert order_of(np.array(keys) * scale).tolist() == expected


def test_a_function_of_seed_and_epoch() -> None:
    stream = make_stream(token_lengths(2000), Budget(tokens=500))

    def plan(seed: int, number: int) -> list[list[int]]:
        return batches(plan_pass(stream, seed=seed, number=number))

    first = plan(1, 0)
    assert plan(1, 0) == first
    for other in (plan(2, 0), plan(1, 1)):
        assert other != first
        # other rows meet, not only in another order
        assert len({frozenset(batch) for batch in other} & {frozenset(batch) for batch in first}) < 0.1 * len(first)
    lengths = [max(stream.table.lengths[0][row] for row in batch) for batch in first]
    assert abs(np.corrcoef(lengths, np.arange(len(lengths)))[0, 1]) < 0.2  # not sorted by length


def test_padding_is_counted_as_a_loop_does() -> None:
    stream = make_stream(token_lengths(3000), Budget(tokens=500))
    found = plan_pass(stream, seed=1, number=0)
    for share, lengths in zip(found.padding(*[stream.table.lengths] * 2), stream.table.lengths, strict=True):
        padded = sum(len(batch) * max(lengths[row] for row in batch) for batch in batches(found))
        assert share == pytest.approx(1 - lengths.sum() / padded)


def speech_lengths(rows: int) -> np.ndarray:
    """Samples and tokens of MuST-C-like rows (benchmarks/plan.py has the same model)."""
    rng = np.random.default_rng(1)
    seconds = np.clip(rng.lognormal(1.55, 0.7, rows), 0.5, 30)
    characters = 15 * seconds * rng.lognormal(0, 0.25, rows)
    return np.stack([16000 * seconds, characters / 4 + 2]).astype(np.int64)


@pytest.mark.parametrize(
    ("lengths", "budget", "units", "most"),
    [
        (token_lengths(100_000), Budget(tokens=4096), "tokens tokens", (0.04, 0.03)),
        (speech_lengths(100_000), Budget(seconds=400), "samples tokens", (0.03, 0.05)),
        (speech_lengths(100_000)[::-1], Budget(seconds=400), "tokens samples", (0.05, 0.03)),
        (speech_lengths(100_000)[:1], Budget(seconds=400), "samples", (0.03,)),
    ],
)
def test_little_padding_on_both_sides(lengths: np.ndarray, budget: Budget, units: str, most: tuple) -> None:
    stream = make_stream(np.ascontiguousarray(lengths), budget, units=units)
    found = plan_pass(stream, seed=1, number=0)
    assert (found.padding(lengths, lengths) <= most).all()
    limits = [budget.of(field) or np.inf for field in stream.fields.values()]
    unpadded = (lengths / np.array(limits)[:, None]).max(0).sum()  # batches, if all rows of each were equally long
    assert len(found) < 1.06 * unpadded


def test_worst_batches_against_a_loop() -> None:
    stream = make_stream(token_lengths(2000), Budget(tokens=500))
    found = plan_pass(stream, seed=1, number=0)
    worst = found.worst(stream.table.lengths)
    for lengths in stream.table.lengths:
        longest = [max(lengths[row] for row in batch) for batch in batches(found)]
        volumes = [most * len(batch) for most, batch in zip(longest, batches(found), strict=True)]
        assert max(volumes[index] for index in worst) == max(volumes)
        most = max(longest)
        assert any(
            longest[i] == most and volumes[i] == max(v for v, m in zip(volumes, longest, strict=True) if m == most)
            for i in worst
        )
    assert len(worst) <= 4


def test_groups_stand_together() -> None:
    lengths = token_lengths(3000)
    groups = np.random.default_rng(1).integers(0, 3, 3000)
    together = plan_pass(make_stream(lengths, Budget(tokens=500)), seed=1, number=0)
    apart = make_stream(lengths, Budget(tokens=500), groups=groups)
    assert len(plan_pass(apart, seed=1, number=0)) < 1.1 * len(together)


@pytest.mark.parametrize("world", [1, 2, 3, 8])
def test_ranks_have_equally_many_steps_and_share_the_rows(world: int) -> None:
    main = make_stream(token_lengths(1000), Budget(tokens=700), name="main")
    side = make_stream(token_lengths(90, 1), Budget(tokens=700), name="side", weight=0.5)
    plan = Plan([main, side], seed=3, epoch=2, world=world)
    seen: Counter = Counter()
    for index in range(len(plan)):
        steps = [plan.step(index, rank) for rank in range(world)]
        assert len({step.stream for step in steps}) == 1
        if steps[0].stream == 0:
            seen.update(row for step in steps for row in step.rows.tolist())
        for step in steps:
            lengths = (main, side)[step.stream].table.lengths[:, step.rows]
            assert len(step.rows) and (lengths.max(1) * len(step.rows) <= 700).all()
    assert seen == Counter(range(1000))
    streams = Counter(plan.step(index).stream for index in range(len(plan)))
    assert streams[1] == round(len(plan.passes[0][0]) // world * 0.5)


@pytest.mark.parametrize("world", [2, 3, 4])
def test_the_batches_of_a_step_of_all_ranks_are_the_next_ones_of_one_process(world: int) -> None:
    """So an update of many processes is that of one which accumulates as many batches."""
    stream = make_stream(np.full((2, 24), 5), Budget(rows=2))  # 12 batches, which divide evenly
    alone = Plan([stream], seed=1, epoch=0)
    plan = Plan([stream], seed=1, epoch=0, world=world)
    together = [plan.step(index, rank).rows.tolist() for index in range(12 // world) for rank in range(world)]
    assert together == [alone.step(index).rows.tolist() for index in range(12)]


@pytest.mark.parametrize("start", [0, 1, 17, 60])
def test_what_is_left_of_an_epoch_is_the_same_from_anywhere(start: int) -> None:
    def steps(begin: int) -> list[tuple[int, list[int], list[int]]]:
        streams = [
            make_stream(token_lengths(600), Budget(tokens=400), name="main"),
            make_stream(token_lengths(200, 1), Budget(tokens=400), name="side", weight=0.5, alpha=0.3, parts=halves),
        ]
        plan = Plan(streams, seed=5, epoch=3, world=2)
        taken = [plan.step(index, 1) for index in range(begin, len(plan))]
        return [(step.stream, step.rows.tolist(), step.copies.tolist()) for step in taken]

    halves = [np.arange(150), np.arange(150, 200)]
    assert steps(start) == steps(0)[start:]


def test_split_cuts_the_largest() -> None:
    assert split(np.array([0, 2, 12, 15]), 4).tolist() == [0, 2, 7, 12, 15]  # type: ignore[union-attr]
    assert split(np.array([0, 2, 12, 15]), 3).tolist() == [0, 2, 12, 15]  # type: ignore[union-attr]
    assert split(np.array([0, 1, 3]), 4) is None
    with pytest.raises(DataError, match="3 rows, too few for 4"):
        plan_pass(make_stream(token_lengths(3), Budget(rows=2)), seed=1, number=0, world=4)


def test_streams_come_by_weight_and_go_round() -> None:
    ones = np.ones((2, 12), dtype=np.int64)
    main = make_stream(ones, Budget(rows=1), name="main", weight=2)
    side = make_stream(ones[:, :4], Budget(rows=1), name="side", weight=1)
    heavy = make_stream(ones[:, :5], Budget(rows=1), name="heavy", weight=4)
    had: dict[int, list[tuple[int, int]]] = {0: [], 1: [], 2: []}
    for epoch in range(5):
        plan = Plan([main, side, heavy], seed=1, epoch=epoch)
        steps = [plan.step(index) for index in range(len(plan))]
        assert Counter(step.stream for step in steps) == {0: 12, 1: 6, 2: 24}
        for end in range(7, len(steps) + 1, 7):  # at any time in proportion
            count = Counter(step.stream for step in steps[:end])
            assert all(abs(count[stream] - end * share / 7) <= 1 for stream, share in enumerate((2, 1, 4)))
        for step in steps:
            had[step.stream].append((int(step.copies[0]), int(step.rows[0])))
    for stream, rows in ((0, 12), (1, 4), (2, 5)):  # round and round: each row once, then each a second time, ...
        turns = [had[stream][start : start + rows] for start in range(0, len(had[stream]), rows)]
        assert all(
            sorted(turn) == [(number, row) for row in range(len(turn))] for number, turn in enumerate(turns[:-1])
        )
        assert len({tuple(row for _, row in turn) for turn in turns}) > 1  # in new orders


def test_a_large_side_stream_goes_on_where_it_was() -> None:
    main = make_stream(token_lengths(2000), Budget(tokens=500), name="st")
    side = make_stream(token_lengths(30_000, 1), Budget(tokens=500), name="mt", weight=3)
    seen: Counter = Counter()
    for epoch in range(4):  # a fifth of the side stream in each
        plan = Plan([main, side], seed=1, epoch=epoch)
        steps = [plan.step(index) for index in range(len(plan))]
        seen.update(row for step in steps if step.stream for row in step.rows.tolist())
    twice = sum(count > 1 for count in seen.values())
    assert 0.7 < len(seen) / 30_000 < 0.9 and twice < 0.02 * len(seen)  # drawn anew each time: 0.59, of them 0.3 twice


def test_mixtures_follow_the_exponent() -> None:
    parts = [np.arange(1000), np.arange(1000, 1100), np.arange(1100, 1110), np.arange(0)]

    def counts(alpha: float) -> np.ndarray:
        return make_stream(token_lengths(1110), Budget(tokens=500), parts=parts, alpha=alpha).shares()

    rows, copies = draw(parts, counts(1.0), 0, ("key",))
    assert sorted(rows.tolist()) == list(range(1110)) and not copies.any()
    # by hand: roots 31.62, 10, 3.162 of 44.785; of 1110 rows 783.8, 247.9, 78.4
    assert counts(0.5).tolist() == [784, 248, 78, 0]
    assert counts(0.0).tolist() == [370, 370, 370, 0]
    had: list[tuple[int, int]] = []
    for number in range(7):
        rows, copies = draw(parts, counts(0.5), number, ("key",))
        assert np.bincount(np.digitize(rows, [1000, 1100])).tolist() == [784, 248, 78]
        had += zip(rows.tolist(), copies.tolist(), strict=True)
        times = Counter(row for row, _ in had)
        for part, taken in zip(parts[:3], (784, 248, 78), strict=True):  # each row equally often, but for one more
            each, more = divmod((number + 1) * taken, len(part))
            expected = {each: len(part) - more, each + 1: more}
            assert Counter(times[row] for row in part.tolist()) == Counter({k: v for k, v in expected.items() if v})
    assert len(set(had)) == len(had) and {copy for row, copy in had if row == 1105} == set(range(times[1105]))
    again, _ = draw(parts, counts(0.5), 6, ("key",))
    assert (again == rows).all() and (draw(parts, counts(0.5), 6, ("other",))[0] != rows).any()


def test_a_pass_tells_its_sizes() -> None:
    rows, bounds = np.array([2, 0, 1], dtype=np.int64), np.array([0, 1, 3], dtype=np.int64)
    found = Pass(rows, np.zeros(3, dtype=np.int32), bounds)
    lengths = np.array([[5, 2, 4], [1, 1, 3]])
    assert len(found) == 2 and found.nbytes == 24 + 12 + 24
    assert found.longest(lengths).tolist() == [[4, 5], [3, 1]]
    empty = Pass(rows[:0], rows[:0], np.array([0]))
    assert len(empty) == 0 and empty.longest(lengths).shape == (2, 0)
    assert found.padding(lengths, lengths).tolist() == pytest.approx([1 - 11 / 14, 0.0])
