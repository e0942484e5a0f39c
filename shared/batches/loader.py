"""The loader: steps of a plan become batches, in worker processes or in this one.

What stands in a batch depends on the seed, the epoch and the rows alone: not on the number of workers, not on where an
interrupted epoch is taken up again.

Legend: B batch, L length.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from dragoman.shared.batch import Batch
from dragoman.shared.batches.fields import Field, Rows
from dragoman.shared.batches.grid import spacing
from dragoman.shared.batches.manifest import Manifest, Row
from dragoman.shared.batches.plan import Plan, cut, split
from dragoman.shared.batches.randomness import generator
from dragoman.shared.batches.steps import Pass, Step, joined
from dragoman.shared.batches.stream import Budget, Stream, field_lengths
from dragoman.shared.batches.windows import crowding
from dragoman.shared.batches.workers import Feed, data_loader, signals_held_back
from dragoman.shared.errors import DataError, UsageError
from dragoman.shared.machine.files import discard_folder
from dragoman.shared.machine.memory import check_workers
from dragoman.shared.padded import Padded
from dragoman.shared.sound.shards import keep_row_groups

#: Bytes that a batch takes beside the elements of its fields: for tensors and lists as objects.
OVERHEAD = 4096


class Loader:
    """Batches of several streams, epoch after epoch.

    Args:
        streams: the first is the main one: an epoch is one pass through it (see shared/batches/plan.py).
        seed: of all random choices.
        workers: processes that read and tokenise; 0 does it in this one.
        rank: number of this process among those that train together.
        world: how many those are.
        planned: for how many processes the batches are planned; ``world`` by default. If ``world`` divides it, each has
            those of ``planned / world``, step by step; else some are cut, so that all have equally many.
        passes: plan each batch for all processes together, and cut it into about so many parts for each of them, by
            length; None: plan a batch for each process, and cut none. What stands in a step then depends neither on the
            number of processes nor on that of passes.
        pin_memory: put batches where a GPU copies from without waiting.
        mapped_in: a folder that all processes see, and that is empty when the first of them gets here: tables and plans
            of large streams are written there once, and mapped. Default: each process has its own.

    Raises:
        UsageError: if there is no stream, two have the same name, or a number is out of its range.
    """

    def __init__(
        self,
        *,
        streams: list[Stream],
        seed: int,
        workers: int = 0,
        rank: int = 0,
        world: int = 1,
        planned: int | None = None,
        passes: int | None = None,
        pin_memory: bool = False,
        mapped_in: Path | None = None,
    ) -> None:
        names = [stream.name for stream in streams]
        if not streams or len(set(names)) < len(names):
            raise UsageError(f"a loader needs streams with different names, not {names}")
        check_workers(workers)
        if not 0 <= rank < world:
            raise UsageError(f"rank must be between 0 and world - 1 = {world - 1}, not {rank}")
        planned = 1 if passes else planned or world
        self.streams = list(streams)
        for stream in self.streams:
            stream.mapped_in = mapped_in
        self.mapped_in = mapped_in
        self.seed = seed
        self.workers = workers
        self.planned = planned
        self.parts = 1 if passes else -(-planned // world)
        self.passes = passes
        self._rank, self._world = rank, world
        self._plan: tuple[int, Plan] | None = None
        self._feed = Feed()
        self._dataset = _Steps(self.streams, seed)
        self._pin_memory = pin_memory
        self._batches = self._with_workers()

    def _with_workers(self) -> DataLoader:
        return data_loader(self._dataset, self._feed, self.workers, keep=True, pin_memory=self._pin_memory)

    def close(self) -> None:
        """End the workers; an epoch that is asked for later starts others."""
        self._batches = self._with_workers()

    def plan(self, epoch: int) -> Plan:
        """Return the plan of an epoch; the last one asked for is kept."""
        if self._plan is None or self._plan[0] != epoch:
            self._plan = None  # its memory is wanted
            even = self.passes is not None
            folder = None if self.mapped_in is None else self.mapped_in / f"epoch-{epoch}"
            plan = Plan(self.streams, seed=self.seed, epoch=epoch, world=self.planned, even=even, folder=folder)
            self._plan = (epoch, plan)
            if self.mapped_in is not None and self._rank == 0:  # others may be an epoch behind, but no more
                discard_folder(self.mapped_in / f"epoch-{epoch - 2}")
        return self._plan[1]

    def length(self, epoch: int) -> int:
        """Return the number of steps of an epoch, in each of which every planned process has a batch."""
        return len(self.plan(epoch))

    def epoch(self, number: int, start: int = 0) -> Iterator[Batch]:
        """Yield the batches of an epoch one by one; see :meth:`steps`."""
        for batches in self.steps(number, start):
            yield from batches

    def steps(self, number: int, start: int = 0) -> Iterator[list[Batch]]:
        """Yield this process's batches of each step of an epoch, on the CPU.

        Args:
            number: of the epoch.
            start: how many steps to leave out, because their batches were drawn before an interruption.

        Raises:
            DataError: naming manifest, row and file, if something cannot be read.
        """
        plan = self.plan(number)
        sizes: deque[int] = deque()  # of the steps that the workers have been given

        def fed() -> Iterator[Step]:
            for index in range(start, len(plan)):
                parts = self._parts(plan, index)
                sizes.append(len(parts))
                yield from parts

        self._feed.items = fed()
        batches = _checked(self._batches)
        for first in batches:
            yield [first, *islice(batches, sizes.popleft() - 1)]

    def _parts(self, plan: Plan, index: int) -> list[Step]:
        """Return what this process has of a step; all have equally many parts, some idle if there are too few rows."""
        if self.passes is None and self.planned % self._world == 0:
            return [plan.step(index, rank) for rank in range(self._rank, self.planned, self._world)]
        steps = [plan.step(index, rank) for rank in range(self.planned)]
        parts = self._cut(steps[0]) if self.passes else self._cut_few(steps)
        own = []
        for part in range(self._rank, -(-len(parts) // self._world) * self._world, self._world):
            step = parts.step(steps[0].stream, part % len(parts))
            own.append(replace(step, idle=part >= len(parts)))
        return [replace(own[0], ahead=np.concatenate([step.ahead for step in steps])), *own[1:]]

    def _cut_few(self, steps: list[Step]) -> Pass:
        """Cut batches until all processes have equally many parts, always the one that takes the most of a budget."""
        whole = joined([Pass(step.rows, step.copies, np.array([0, len(step.rows)])) for step in steps])
        bounds = split(whole.bounds, self._world, 1 / self.streams[steps[0].stream].table.capacities[whole.rows])
        return Pass(whole.rows, whole.copies, np.arange(len(whole.rows) + 1) if bounds is None else bounds)

    def _cut(self, step: Step) -> Pass:
        """Cut a step into parts of all processes, those of the longest rows first; all have equally many.

        A row takes 1 / capacity of a batch, and the parts take equally much, up to the grid of the stream's budget.
        """
        assert self.passes is not None
        stream = self.streams[step.stream]
        grid, table = stream.budget.grid, stream.table
        alike = () if grid is None else table.padded[::-1, step.rows]  # rows of one size: by their other lengths
        order = np.lexsort((step.rows, *alike, table.capacities[step.rows]))
        rows, copies = step.rows[order], step.copies[order]
        taken = 1 / table.capacities[rows]
        middle = taken.cumsum() - taken / 2
        parts = min(self.passes * self._world, max(len(rows) // self._world * self._world, 1))
        part = (middle / taken.sum() * parts).astype(np.int64)
        bounds = np.array([0, *np.flatnonzero(np.diff(part)) + 1, len(rows)])
        if grid is not None:
            apart = spacing(np.array(len(rows) // parts), grid)
            bounds[1:-1] = (bounds[1:-1] + apart // 2) // apart * apart
            bounds = np.unique(bounds)
        shared = split(bounds, self._world)
        return Pass(rows, copies, np.arange(len(rows) + 1) if shared is None else shared)

    def largest(self) -> Iterator[Batch]:
        """Yield the batches of each stream that need the most memory, of all ranks' batches of epoch 0.

        Of each field, they are the one that has the most of it, padding included, and the one with the longest row.
        What does not fit into memory is found before training starts.
        """
        for number, (stream, passes) in enumerate(zip(self.streams, self.plan(0).passes, strict=True)):
            first = passes[0]
            for index in first.worst(stream.table.padded):
                step = first.step(number, index)
                if self.passes is None:
                    yield _unwrapped(self._dataset[step])
                    continue
                parts = self._cut(step)
                for part in parts.worst(stream.table.padded):
                    yield _unwrapped(self._dataset[parts.step(number, part)])

    def mean_bytes(self) -> int:
        """Return about how much memory this process's part of a batch takes, on the average of an epoch."""
        plan, total = self.plan(0), 0.0
        for steps, stream, passes in zip(plan.shares, self.streams, plan.passes, strict=True):
            elements = passes[0].longest(stream.table.padded) * np.diff(passes[0].bounds)  # (F, batches), with padding
            sizes = [4 if field.unit == "samples" else 8 for field in stream.fields.values()]  # float32, int64
            total += steps * (elements.T @ sizes).mean() if len(passes[0]) else 0.0
        shared = self._world if self.passes else 1
        return OVERHEAD + round(total / max(len(plan), 1) / shared)

    def report(self, epoch: int = 0) -> list[str]:
        """Return one line per stream: rows, dropped ones, batches, and padding by field and shapes, as computed."""
        lines = []
        passes_of_streams = zip(self.streams, self.plan(epoch).passes, self.computed(epoch), strict=True)
        for stream, passes, computed in passes_of_streams:
            table = stream.table
            shares = zip(stream.fields, computed.padding(table.lengths, table.padded), strict=True)
            padding = ", ".join(f"{name} {share:.0%}" for name, share in shares)
            cut = "" if self.passes is None else f" in {len(computed):,} parts"
            shapes = f"{len(computed.shapes(table.padded)):,} shapes"
            lines.append(f"{stream.report()}; {len(passes[0]):,} batches{cut} of {shapes}, padding: {padding}")
        return lines

    def crowding(self) -> list[str]:
        """Return one line per stream whose windows find no room on this machine (see shared/batches/windows.py)."""
        together = self.passes is not None or self.planned % self._world > 0
        shared = None if together else (self.planned, self._world)
        firsts = (passes[0] for passes in self.plan(0).passes)
        said = (crowding(stream, first, shared) for stream, first in zip(self.streams, firsts, strict=True))
        return [line for line in said if line]

    def computed(self, epoch: int) -> list[Pass]:
        """Return a pass through each stream in an epoch, in the parts that all processes compute."""
        firsts = [passes[0] for passes in self.plan(epoch).passes]
        return firsts if self.passes is None else [self._all_cut(*numbered) for numbered in enumerate(firsts)]

    def _all_cut(self, number: int, whole: Pass) -> Pass:
        cut = [self._cut(whole.step(number, index)) for index in range(len(whole))]
        sizes = np.concatenate([np.diff(parts.bounds) for parts in cut])
        rows, copies = (np.concatenate([getattr(parts, name) for parts in cut]) for name in ("rows", "copies"))
        return Pass(rows, copies, np.concatenate([[0], np.cumsum(sizes)]))

    @staticmethod
    def evaluation(
        rows: Rows, fields: dict[str, Field], budget: Budget, workers: int = 0, *, rank: int = 0, world: int = 1
    ) -> Iterator[tuple[Batch, np.ndarray]]:
        """Yield all rows once, the longest first; nothing is left out.

        Of several processes, each has every ``world``-th batch; the batches are the same however many there are.

        Args:
            rows: a manifest or a list of rows.
            fields: by name in the batch; what is random in them is the same for a row each time.
            budget: the size of a batch; a row that is larger has a batch of its own.
            workers: processes that read and tokenise; 0 does it in this one.
            rank: number of this process among those that share the batches.
            world: how many those are.

        Yields:
            A batch and the (B,) int64 numbers of its rows.

        Raises:
            DataError: naming the row, if it lacks a field or cannot be read.
        """
        numbers = evaluation_batches(rows, fields, budget)[rank::world]
        batches = data_loader(_Selections(rows, fields), Feed(numbers), workers, keep=False, pin_memory=False)
        yield from zip(_checked(batches), numbers, strict=True)


def evaluation_batches(rows: Rows, fields: dict[str, Field], budget: Budget) -> list[np.ndarray]:
    """Return the row numbers (B,) int64 of each batch of an evaluation, the longest rows first.

    Raises:
        DataError: naming a row that lacks a field.
    """
    if not len(rows):
        return []
    lengths = field_lengths(fields, rows)
    for name, length in zip(fields, lengths, strict=True):
        lost = np.flatnonzero(length < 0)
        if len(lost):
            raise DataError(f"{_place(rows, int(lost[0]))}: there is nothing for field {name!r}")
    capacities = budget.capacities(fields, lengths)
    order = np.lexsort((*-lengths[::-1], capacities))
    bounds = cut(np.maximum(capacities[order], 1), np.zeros(len(order), dtype=np.int32))
    return np.split(order, bounds[1:-1])


def collate(rows: Sequence[Row], fields: dict[str, Field], rng: np.random.Generator) -> Batch:
    """Make a batch of rows; all their noise comes from one generator.

    Raises:
        DataError: if a row lacks a field or cannot be read.
    """
    return _assemble(rows, fields, lambda number, field: rng, place=lambda number: _place(rows, number))


def _assemble(
    rows: Sequence[Row],
    fields: dict[str, Field],
    rng: Callable[[int, str], np.random.Generator],
    *,
    place: Callable[[int], str],
    stream: Stream | None = None,
    group: str | None = None,
) -> Batch:
    """Make a batch; ``rng`` is asked with the position in the batch and the field's name."""
    padded: dict[str, Padded] = {}
    for name, field in fields.items():
        tensors = []
        with _one_thread():
            for number, row in enumerate(rows):
                try:
                    tensors.append(field(row, rng(number, name)))
                except (DataError, OSError) as error:
                    raise DataError(f"{place(number)}: field {name!r}: {error}") from error
        padded |= _padded(name, tensors, field, stream)
    languages = {}
    for side in ("source", "target"):
        codes = [row[f"{side}_language"] for row in rows if row.get(f"{side}_language")]
        if len(codes) == len(rows):
            languages[side] = codes
    return Batch(padded, languages, [str(row.get("id", "")) for row in rows], stream.name if stream else "", group)


def _padded(name: str, items: list[Any], field: Field, stream: Stream | None) -> dict[str, Padded]:
    """Pad what a field made of each row, one tensor or several by key, to a length that the stream's budget allows."""
    by_key = {key: [one[key] for one in items] for key in items[0]} if isinstance(items[0], dict) else {"": items}
    padded = {}
    for key, tensors in by_key.items():
        least = stream.padded(name, max(map(len, tensors))) if stream else 0
        padded[f"{name}.{key}" if key else name] = Padded.from_sequences(tensors, field.padding, least)
    return padded


@contextmanager
def _one_thread() -> Iterator[None]:
    """Compute as workers do: the last bit of a resampled waveform depends on the number of threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@dataclass(frozen=True)
class _Failure:
    """A message on its way out of a worker, which torch would wrap into a traceback."""

    message: str


class _Steps(Dataset):
    """Makes the batch of a step."""

    def __init__(self, streams: Sequence[Stream], seed: int) -> None:
        self._streams = streams
        self._seed = seed

    def __getitem__(self, step: Step) -> Batch | _Failure:
        stream = self._streams[step.stream]
        copies = step.copies.tolist()
        try:
            located = [stream.locate(row) for row in step.rows.tolist()]
            rows = [manifest[index] for manifest, index in located]
            if stream.window is not None:
                keep_row_groups(row.get("audio") for row in rows)

            def rng(number: int, field: str) -> np.random.Generator:
                return generator(self._seed, copies[number], str(rows[number]["id"]), field)

            group = "-".join(str(rows[0][name]) for name in stream.group_by) if stream.group_by else None
            batch = _assemble(
                rows, stream.fields, rng, place=lambda number: _place(*located[number]), stream=stream, group=group
            )
            later = (stream.locate(row) for row in step.ahead.tolist())
            keep_row_groups((manifest[index].get("audio") for manifest, index in later), ahead=True)
            return replace(batch, idle=step.idle)
        except DataError as error:
            return _Failure(str(error))


class _Selections(Dataset):
    """Makes the batch of some rows."""

    def __init__(self, rows: Rows, fields: dict[str, Field]) -> None:
        self._rows = rows
        self._fields = fields

    def __getitem__(self, numbers: np.ndarray) -> Batch | _Failure:
        chosen = [self._rows[index] for index in numbers.tolist()]
        try:
            return _assemble(
                chosen,
                self._fields,
                lambda number, field: generator(str(chosen[number].get("id")), field),
                place=lambda number: _place(self._rows, int(numbers[number])),
            )
        except DataError as error:
            return _Failure(str(error))


def _checked(batches: DataLoader) -> Iterator[Batch]:
    with signals_held_back():
        started = iter(batches)
    for batch in started:
        yield _unwrapped(batch)


def _unwrapped(batch: Batch | _Failure) -> Batch:
    if isinstance(batch, _Failure):
        raise DataError(batch.message)
    return batch


def _place(rows: Rows, index: int) -> str:
    name = f"row {rows[index].get('id')!r}"
    return f"{rows.path}: {name}" if isinstance(rows, Manifest) else name
