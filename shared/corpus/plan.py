"""The plan of an epoch: which rows stand in which batch, and which batch comes when.

Everything here is a pure function of the seed, the epoch and the streams, computed with numpy before the epoch starts:
a million rows take about a second. A run that is interrupted takes the same plan up again at any step.

Legend: F fields, R rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from shared.corpus.fields import Field
from shared.corpus.randomness import generator
from shared.corpus.stream import Budget, Stream, Table
from shared.errors import DataError
from shared.tokenizer import smoothed_counts

#: Rows whose lengths differ by less than this factor are in random order among each other.
BUCKET_RATIO = 1.1


@dataclass(frozen=True)
class Pass:
    """One pass through a stream.

    Attributes:
        rows: (R,) int64 row numbers, batch after batch.
        copies: (R,) int64, 0 for a row's first time in this pass, 1 for its second, ...
        bounds: (batches + 1,) int64: batch i is ``rows[bounds[i]:bounds[i + 1]]``.

    """

    rows: np.ndarray
    copies: np.ndarray
    bounds: np.ndarray

    def __len__(self) -> int:
        """Return the number of batches."""
        return len(self.bounds) - 1

    def padding(self, lengths: np.ndarray) -> np.ndarray:
        """Return (F,) float: the share of padding in all batches, by field, for lengths (F, R)."""
        if not len(self):
            return np.zeros(len(lengths))
        ordered = lengths[:, self.rows]
        longest = np.maximum.reduceat(ordered, self.bounds[:-1], axis=1)
        return 1 - ordered.sum(1) / np.maximum((longest * np.diff(self.bounds)).sum(1), 1)


@dataclass(frozen=True)
class Step:
    """One batch to be made: the stream, which pass through it, and the rows with their copy numbers."""

    stream: int
    number: int
    rows: np.ndarray
    copies: np.ndarray


class Plan:
    """The steps of one epoch, for one of ``world`` ranks.

    The epoch is one pass through the first stream; the others are gone through as often as their weights ask, each pass
    in a new order. At each step all ranks have a batch of the same stream, and every rank has equally many steps: if
    the batches of a pass do not divide evenly, the largest ones are cut in two.

    Args:
        streams: the first is the main one.
        seed: of the run.
        epoch: number of the epoch.
        rank: whose steps.
        world: number of ranks.

    Raises:
        DataError: if a stream has fewer rows than there are ranks.

    """

    def __init__(self, streams: Sequence[Stream], *, seed: int, epoch: int, rank: int = 0, world: int = 1) -> None:
        self._rank, self._world = rank, world
        self.passes: list[list[Pass]] = []
        counts: list[int] = []
        for stream in streams:
            first = plan_pass(stream, seed=seed, epoch=epoch, number=0, world=world)
            per_pass = len(first) // world
            share = stream.weight / streams[0].weight
            counts.append(per_pass if not counts else round(counts[0] * share))
            needed = -(-counts[-1] // per_pass)
            others = range(1, needed)
            more = [plan_pass(stream, seed=seed, epoch=epoch, number=number, world=world) for number in others]
            self.passes.append([first, *more])
        times = [(np.arange(count) + 0.5) / stream.weight for count, stream in zip(counts, streams, strict=True)]
        order = np.argsort(np.concatenate(times), kind="stable")
        self._stream = np.repeat(np.arange(len(streams)), counts)[order]
        self._within = np.concatenate([np.arange(count) for count in counts])[order]

    def __len__(self) -> int:
        """Return the number of steps."""
        return len(self._stream)

    def __getitem__(self, index: int) -> Step:
        """Return a step of this rank."""
        stream, batch = int(self._stream[index]), int(self._within[index])
        number = 0
        while batch >= len(self.passes[stream][number]) // self._world:
            batch -= len(self.passes[stream][number]) // self._world
            number += 1
        found = self.passes[stream][number]
        position = batch * self._world + self._rank
        part = slice(found.bounds[position], found.bounds[position + 1])
        return Step(stream, number, found.rows[part], found.copies[part])


def plan_pass(stream: Stream, *, seed: int, epoch: int, number: int, world: int) -> Pass:
    """Plan one pass through a stream: draw rows, bucket them by length, cut batches, shuffle the batches.

    Args:
        stream: the stream.
        seed: of the run.
        epoch: number of the epoch.
        number: how many passes of this epoch came before.
        world: the number of batches is a multiple of this.

    Raises:
        DataError: if there are fewer rows than ranks.

    """
    rng = generator(seed, epoch, number, stream.name, "plan")
    table = stream.table
    rows, copies = draw(table.kept, stream.alpha, rng)
    order = _bucketed(table, stream, rows, rng)
    rows, copies = rows[order], copies[order]
    bounds = split(cut(table.capacities[rows], table.groups[rows]), world)
    if bounds is None:
        raise DataError(f"stream {stream.name!r} has {len(rows)} rows, too few for {world} processes")
    return _shuffled(Pass(rows, copies, bounds), rng)


def draw(parts: Sequence[np.ndarray], alpha: float, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Draw as many rows as there are, from each part in proportion to its size^alpha, and shuffle them.

    A part gives each of its rows equally often, but for one more of some.

    Args:
        parts: row numbers, (n,) int64 each.
        alpha: 1 takes every row once.
        rng: decides which rows, and the order.

    Returns:
        Rows (R,) int64 and how many times each had come before, (R,) int64.

    """
    filled = [part for part in parts if len(part)]
    sizes = np.array([len(part) for part in filled])
    counts = smoothed_counts(sizes, alpha, int(sizes.sum()))
    rows, copies = [], []
    for part, count in zip(filled, counts.tolist(), strict=True):
        whole, rest = divmod(count, len(part))
        rows += [np.tile(part, whole), rng.permutation(part)[:rest]]
        copies += [np.repeat(np.arange(whole), len(part)), np.full(rest, whole)]
    order = rng.permutation(int(counts.sum()))
    return np.concatenate(rows)[order], np.concatenate(copies)[order]


def cut(capacities: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """Cut ordered rows into batches, each as long as the capacities of all its rows and their group allow.

    Args:
        capacities: (R,) int64, positive: the most rows of a batch with this row in it.
        groups: (R,) int64; rows of a group stand together.

    Returns:
        (batches + 1,) int64 bounds.

    """
    total = len(capacities)
    ends = np.append(np.flatnonzero(np.diff(groups)) + 1, total)
    bounds, start, group = [0], 0, 0
    while start < total:
        while ends[group] <= start:
            group += 1
        window = capacities[start : min(start + int(capacities[start]), int(ends[group]))]
        fits = np.minimum.accumulate(window) > np.arange(len(window))
        start += len(window) if fits.all() else int(np.argmin(fits))
        bounds.append(start)
    return np.array(bounds, dtype=np.int64)


def split(bounds: np.ndarray, world: int) -> np.ndarray | None:
    """Cut the largest batches in two until their number is a multiple of ``world``; None if there are too few rows."""
    for _ in range(-(len(bounds) - 1) % world):
        sizes = np.diff(bounds)
        largest = int(np.argmax(sizes))
        if sizes[largest] < 2:
            return None
        bounds = np.insert(bounds, largest + 1, bounds[largest] + (sizes[largest] + 1) // 2)
    return bounds


def sorting_keys(budget: Budget, fields: dict[str, Field], lengths: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return what rows are sorted by, so that those of a batch are alike.

    Args:
        budget: what is shared out.
        fields: the F fields.
        lengths: (F, R) int64.

    Returns:
        The largest share of its budget that a field of the row takes (R,); which field that is (R,); and the sum over
        all fields (R,), where one without a budget counts in shares of the longest row.

    """
    limits = [budget.of(field) for field in fields.values()]
    scale = [limit or max(int(length.max(initial=1)), 1) for limit, length in zip(limits, lengths, strict=True)]
    shares = np.maximum(lengths, 1) / np.array(scale, dtype=np.float64)[:, None]
    limited = [number for number, limit in enumerate(limits) if limit is not None] or list(range(len(limits)))
    return shares[limited].max(0), shares[limited].argmax(0), shares.sum(0)


def _bucketed(table: Table, stream: Stream, rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return the order in which rows are cut into batches.

    They are sorted by group; by buckets of the dearest field, which alone decides how many fit; by which field that is;
    and by buckets of all fields together, so that the cheaper ones are alike as well. The borders of the buckets lie
    elsewhere each time, and rows of a bucket stay in the random order that they come in, so that other rows meet.
    """
    share, dearest, total = sorting_keys(stream.budget, stream.fields, table.lengths[:, rows])
    shift = rng.random(2)
    first = np.floor(np.log(share) / np.log(BUCKET_RATIO) + shift[0])
    second = np.floor(np.log(total) / np.log(BUCKET_RATIO) + shift[1])
    return np.lexsort((second, dearest, first, table.groups[rows]))


def _shuffled(found: Pass, rng: np.random.Generator) -> Pass:
    order = rng.permutation(len(found))
    sizes = np.diff(found.bounds)[order]
    bounds = np.concatenate([[0], np.cumsum(sizes)])
    index = np.arange(len(found.rows)) + np.repeat(found.bounds[:-1][order] - bounds[:-1], sizes)
    return Pass(found.rows[index], found.copies[index], bounds)
