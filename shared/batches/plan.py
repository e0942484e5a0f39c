"""The plan of an epoch: which rows stand in which batch, and which batch comes when.

Everything here is a pure function of the seed, the epoch and the streams, computed with numpy before the epoch starts:
a million rows take about a second. A run that is interrupted takes the same plan up again at any step.

Legend: F fields, R rows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from dragoman.shared.batches.grid import rounded_down
from dragoman.shared.batches.mapped import blocks, is_large, mapped
from dragoman.shared.batches.randomness import generator
from dragoman.shared.batches.steps import Pass, Step, joined
from dragoman.shared.batches.stream import Stream
from dragoman.shared.batches.windows import dealt, parts_of, permuted, run_of
from dragoman.shared.errors import DataError

#: Buckets are at least so wide (as a ratio of lengths), however many rows there are: so that other rows meet each time.
#: Half of it becomes padding.
NARROWEST = 1.04

#: How far, in widths of a bucket, lengths are blurred in the other direction.
BLUR = 0.5


class Plan:
    """The steps of one epoch, for ``world`` ranks.

    The epoch is one pass through the first stream. Of the others come as many batches as their weights ask, evenly
    spread; each goes on about where it was at the end of the epoch before, and begins anew, in a new order, when it is
    through. At each step all ranks have a batch of the same stream, and every rank has equally many steps: if the
    batches of a pass do not divide evenly, the largest ones are cut in two, so that no row is left out.

    Args:
        streams: the first is the main one.
        seed: of the run.
        epoch: number of the epoch.
        world: number of ranks.
        even: whether the rests of a pass are shared with the batches before them (see :func:`evened`).
        folder: where large passes of this epoch are written once for all processes (see shared/batches/mapped.py).

    Attributes:
        passes: by stream, the passes that the epoch's batches are from.

    Raises:
        DataError: if a stream has fewer rows than there are ranks.
    """

    def __init__(
        self,
        streams: Sequence[Stream],
        *,
        seed: int,
        epoch: int,
        world: int = 1,
        even: bool = False,
        folder: Path | None = None,
    ) -> None:
        self._world = world
        self._windowed = [stream.window is not None for stream in streams]
        main = streams[0]

        def planned(stream: Stream, number: int) -> Pass:
            return plan_pass(stream, seed=seed, number=number, world=world, even=even, folder=folder)

        self.passes = [[planned(main, epoch)]]
        counts, begins = [len(self.passes[0][0]) // world], [0]
        for stream in streams[1:]:
            share = stream.weight / main.weight
            done, through = divmod(epoch * share * estimated_batches(main) / estimated_batches(stream), 1)
            drawn = [planned(stream, int(done))]
            counts.append(round(counts[0] * share))
            begins.append(int(round(through * len(drawn[0]), 6)) // world)
            while sum(map(len, drawn)) // world < begins[-1] + counts[-1]:
                drawn.append(planned(stream, int(done) + len(drawn)))
            self.passes.append(drawn)
        times = [(np.arange(count) + 0.5) / stream.weight for count, stream in zip(counts, streams, strict=True)]
        order = np.argsort(np.concatenate(times), kind="stable")
        self._stream = np.repeat(np.arange(len(streams)), counts)[order]
        within = [np.arange(begin, begin + count) for begin, count in zip(begins, counts, strict=True)]
        self._within = np.concatenate(within)[order]

    def __len__(self) -> int:
        """Return the number of steps."""
        return len(self._stream)

    def step(self, index: int, rank: int = 0) -> Step:
        """Return a step of a rank."""
        stream, batch = int(self._stream[index]), int(self._within[index])
        for one in self.passes[stream]:
            if batch < len(one) // self._world:
                break
            batch -= len(one) // self._world
        index = batch * self._world + rank
        step = one.step(stream, index)
        return replace(step, ahead=one.ahead(index, self._world)) if self._windowed[stream] else step

    @property
    def shares(self) -> list[int]:
        """The number of steps of each stream."""
        return np.bincount(self._stream, minlength=len(self.passes)).tolist()

    @property
    def nbytes(self) -> int:
        """The memory that it takes, without the streams' tables."""
        passes = sum(one.nbytes for stream in self.passes for one in stream)
        return passes + self._stream.nbytes + self._within.nbytes


def plan_pass(
    stream: Stream, *, seed: int, number: int, world: int = 1, even: bool = False, folder: Path | None = None
) -> Pass:
    """Plan a pass, before which came ``number``: draw rows, bucket them by length, cut batches, shuffle the batches.

    Args:
        stream: whose rows.
        seed: of the run.
        number: of the pass.
        world: the number of batches is a multiple of this.
        even: see :func:`evened`.
        folder: where a large pass is written once for all processes; None computes it in each.

    Raises:
        DataError: if there are fewer rows than ranks.
    """
    if folder is None or not is_large(len(stream.table.capacities)):
        return _planned(stream, seed, number, world, even)
    name = hashlib.blake2b(repr((stream.name, seed, number, world, even)).encode(), digest_size=8).hexdigest()
    arrays, _ = mapped(folder, name, lambda: (vars(_planned(stream, seed, number, world, even)), None))
    return Pass(**arrays)


def _planned(stream: Stream, seed: int, number: int, world: int, even: bool) -> Pass:
    counts, key = stream.shares(), (seed, stream.name)
    rng = generator(seed, number, stream.name, "plan")
    if stream.window is None:
        return _batched(stream, *draw(stream.table.kept, counts, number, key), rng, world=world, even=even)
    total = int(counts.sum())
    if total < world:
        raise _too_few(stream, total, world)
    parts = parts_of(total, stream.window, world)
    run = run_of(total, parts)
    rows, copies = draw(stream.table.kept, counts, number, key, run)
    places = dealt(rng, rows, copies, run, parts)
    lanes = [_batched(stream, rows[one], copies[one], rng, world=1, even=even) for one in places]
    return joined([_taking_turns(stream, lanes[first : first + world]) for first in range(0, parts, world)])


def _batched(
    stream: Stream, rows: np.ndarray, copies: np.ndarray, rng: np.random.Generator, *, world: int, even: bool
) -> Pass:
    """Bucket rows by length, cut batches, as many as ``world`` can share, and shuffle them."""
    table = stream.table
    order = bucketed(stream, rows, rng)
    rows = rows[order]
    copies = copies[order]
    del order
    capacities = table.capacities[rows]
    groups = table.groups[rows] if len(table.group_names) > 1 else np.broadcast_to(np.int32(0), len(rows))
    batches = cut(capacities, groups, stream.budget.grid)
    if even:
        batches = evened(batches, capacities, groups)
    del capacities, groups
    bounds = split(batches, world)
    if bounds is None:
        raise _too_few(stream, len(rows), world)
    return Pass(rows, copies, bounds).ordered(rng.permutation(len(bounds) - 1))


def _taking_turns(stream: Stream, lanes: list[Pass]) -> Pass:
    """Return a window of which batch i is of process i % processes; ``lanes`` are the batches of their own rows.

    A process that has more batches than others gives them the last ones.
    """
    world = len(lanes)
    whole = joined(lanes)
    bounds = split(whole.bounds, world)
    if bounds is None:
        raise _too_few(stream, len(whole.rows), world)
    ends = np.cumsum([len(lane.rows) for lane in lanes])
    batches = np.split(np.arange(len(bounds) - 1), np.searchsorted(bounds, ends[:-1]))
    each = (len(bounds) - 1) // world
    spare = np.concatenate([own[each:] for own in batches])
    lacking = np.cumsum([each - min(len(own), each) for own in batches])
    given = np.split(spare, lacking[:-1])
    turns = [np.concatenate([own[:each], more]) for own, more in zip(batches, given, strict=True)]
    return Pass(whole.rows, whole.copies, bounds).ordered(np.stack(turns, axis=1).ravel())


def _too_few(stream: Stream, rows: int, world: int) -> DataError:
    return DataError(f"stream {stream.name!r} has {rows} rows, too few for {world} processes")


def draw(
    parts: Sequence[np.ndarray], counts: np.ndarray, number: int, key: tuple[int | str, ...], run: int | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Draw the rows of a pass from several parts.

    A part goes round and round its rows, in a new order each time, and pass after pass takes up where the one before
    has ended: after any number of passes, each of its rows was drawn equally often, up to one extra draw.

    Args:
        parts: row numbers, (n,) each.
        counts: (parts,) int: how many rows to draw from each.
        number: of the pass.
        key: decides the orders.
        run: if given, rows of a run come together (see shared/batches/windows.py), so that a part of a turn has whole
            runs.

    Returns:
        Rows (R,) int32, in no order to be relied on, and how often each was drawn before, (R,) int32.
    """
    rows, copies = [], []
    for index, (part, count) in enumerate(zip(parts, counts.tolist(), strict=True)):
        begin, end = number * count, (number + 1) * count
        while begin < end:
            turn, skipped = divmod(begin, len(part))
            whole = (end - begin) // len(part) if skipped == 0 else 0  # turns of which no order is needed
            if whole:
                rows.append(np.tile(part, whole))
                copies.append(np.repeat(np.arange(turn, turn + whole, dtype=np.int32), len(part)))
            else:
                some = permuted(generator(*key, index, turn, "draw"), part, run)[skipped : skipped + end - begin]
                rows.append(some)
                copies.append(np.full(len(some), turn, dtype=np.int32))
            begin += len(rows[-1])
    return np.concatenate(rows).astype(np.int32, copy=False), np.concatenate(copies)


def bucketed(stream: Stream, rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return the order (R,) in which rows are cut into batches, so that those of a batch are alike in two fields.

    Rows are sorted by group, then by buckets of the share that they take of the budget (the greater one, if both of the
    stream's first two fields have a budget), which decides how many fit into a batch, and in a bucket by the length of
    the other field, up and down in turns, so that rows at the border of two buckets are alike too. (Boxes are packed
    likewise into the pages of an R-tree: Leutenegger et al. 1997, "STR".) Buckets are about half as wide as a batch is
    in the other direction: how many rows fit matters more. Their borders lie elsewhere each time, and the other length
    is blurred, so that other rows meet.
    """
    table = stream.table
    # 1 / capacity is a row's part of a batch, so that their sum is the number of batches. Its root would be the number
    # of buckets if these were as wide as a batch is in the other direction; they are half as wide.
    batches = sum((1 / table.capacities[rows[part]]).sum() for part in blocks(len(rows))) / len(table.group_names)
    width = max(round(_spread(stream, rows) / batches**0.5 / 2, 6), np.log(NARROWEST))
    shift = rng.random()  # other borders in each epoch: other rows meet
    box, keys = np.empty(len(rows)), np.empty(len(rows))
    for part in blocks(len(rows)):
        first, second, of_second = _shares(stream, rows[part])
        box[part] = bucket = np.floor(np.where(of_second, second, first) / width + shift)
        # The middle of a bucket stands for the shares in it: only the length of the other field orders what is inside.
        middle = (bucket + 0.5 - shift) * width
        other = np.where(of_second, middle - first, second - middle)
        other += width * BLUR * (rng.random(len(other)) - 0.5)
        np.negative(other, out=other, where=bucket % 2 == 1)  # up and down in turns: alike at the borders, too
        keys[part] = other
    box -= box.min()
    if len(table.group_names) > 1:
        box += table.groups[rows] * (box.max() + 1)
    # One key for both: boxes are further apart than any two lengths, so that a single sort does.
    box *= 2 * max(keys.max(), -keys.min()) + 1
    keys += box
    del box
    return order_of(keys)


def order_of(keys: np.ndarray) -> np.ndarray:
    """Return the order (R,) that sorts keys (R,); near ties, closer than 2**(bits of R - 63) of their range, by number.

    Key and row number are packed into one integer: sorting integers takes a quarter of the time of an argsort, and no
    two being equal, every machine finds the same order.
    """
    bits = max(len(keys) - 1, 1).bit_length()
    low, span = keys.min(), np.ptp(keys) or 1.0
    packed = np.empty(len(keys), dtype=np.uint64)
    for part in blocks(len(keys)):
        packed[part] = ((keys[part] - low) * ((2.0 ** (63 - bits) - 1) / span)).astype(np.uint64)
        packed[part] <<= np.uint64(bits)
        packed[part] |= np.arange(part.start, part.stop, dtype=np.uint64)
    packed.sort()
    packed &= np.uint64(2**bits - 1)
    return packed.view(np.int64)


def _shares(stream: Stream, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return (R,) each: log shares of their budgets that the first two fields take; whether the second's one counts."""
    logs = [np.log(np.maximum(length[rows], 1)) for length in stream.table.padded[:2]]
    limits = [stream.budget.of(field) for field in [*stream.fields.values()][:2]]
    logs = [log - np.log(limit or 1) for log, limit in zip(logs, limits, strict=True)]
    if len(logs) == 1:
        return logs[0], np.zeros(len(rows)), np.zeros(len(rows), dtype=bool)
    if all(limits):
        return logs[0], logs[1], logs[1] > logs[0]
    return logs[0], logs[1], np.full(len(rows), limits[1] is not None)


def _spread(stream: Stream, rows: np.ndarray) -> float:
    """Return the side of the square whose area is that of the parallelogram which the rows would fill evenly.

    Its axes are the share of the budget and the difference of the two fields. Covariances of blocks are put together
    (Chan, Golub and LeVeque 1979, "Updating formulae and a pairwise algorithm").
    """
    count, mean, products = 0, np.zeros(2), np.zeros((2, 2))
    for part in blocks(len(rows)):
        first, second, of_second = _shares(stream, rows[part])
        points = np.stack([np.where(of_second, second, first), second - first])
        size, middle = points.shape[1], points.mean(axis=1)
        points -= middle[:, None]
        apart = middle - mean
        products += points @ points.T + np.outer(apart, apart) * (count * size / (count + size))
        mean += apart * (size / (count + size))
        count += size
    determinant = np.linalg.det(products * (1 / (count - 1))) if count > 1 else 0.0
    return float(np.sqrt(12 * np.sqrt(max(determinant, 0.0))))


def cut(capacities: np.ndarray, groups: np.ndarray, grid: int | None = None) -> np.ndarray:
    """Cut ordered rows into batches, each as long as the capacities of all its rows and their group allow.

    Args:
        capacities: (R,) int, positive: the most rows of a batch with this row in it.
        groups: (R,) int; rows of a group stand together.
        grid: sizes to a doubling that batches are cut down to, but for the rest of a group; None: any.

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
        rows = len(window) if fits.all() else int(np.argmin(fits))
        start += rows if grid is None or start + rows == ends[group] else int(rounded_down(np.array(rows), grid))
        bounds.append(start)
    return np.array(bounds, dtype=np.int64)


def evened(bounds: np.ndarray, capacities: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """Let the last batch of each group, often a rest, take rows of the one before until both have equally many.

    Several processes could not share a rest of a few rows. It takes no more than the capacities allow. Arguments and
    result are those of :func:`cut`.
    """
    bounds = bounds.copy()
    of_batch = groups[bounds[:-1]]
    last = np.append(of_batch[1:] != of_batch[:-1], True)
    for index in np.flatnonzero(last[1:] & ~last[:-1]) + 1:
        begin, end = bounds[index - 1], bounds[index + 1]
        rows = min((end - begin) // 2, int(capacities[begin:end].min()))
        bounds[index] = min(bounds[index], end - rows)
    return bounds


def split(bounds: np.ndarray, world: int, taken: np.ndarray | None = None) -> np.ndarray | None:
    """Cut the largest batches in two until their number is a multiple of ``world``; None if there are too few rows.

    Those are largest that have the most rows, or the most of what the rows are said to take (R,).
    """
    for _ in range(-(len(bounds) - 1) % world):
        sizes = np.diff(bounds)
        weights = sizes if taken is None else np.add.reduceat(taken, bounds[:-1])
        largest = int(np.argmax(np.where(sizes > 1, weights, 0)))
        if sizes[largest] < 2:
            return None
        bounds = np.insert(bounds, largest + 1, bounds[largest] + (sizes[largest] + 1) // 2)
    return bounds


def estimated_batches(stream: Stream) -> float:
    """Return how many batches a pass has if nothing is padded: a few in a hundred too few, but known at once."""
    table = stream.table
    parts = [(part, count) for part, count in zip(table.kept, stream.shares(), strict=True) if count]
    return float(sum((1 / table.capacities[part]).mean() * count for part, count in parts))
