"""A stream: what one kind of batch is made of. Manifests, fields, a budget, filters, and how manifests are mixed.

Legend: F fields, R rows.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Annotated

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dragoman.shared.annotations import Checked
from dragoman.shared.batches.fields import Field, Rows
from dragoman.shared.batches.find import find_manifests
from dragoman.shared.batches.grid import rounded_up
from dragoman.shared.batches.manifest import Manifest
from dragoman.shared.batches.mapped import blocks, is_large, mapped
from dragoman.shared.batches.row_table import Table
from dragoman.shared.errors import DataError, UsageError
from dragoman.shared.ranges import PositiveFloat, PositiveInt, Range, Share
from dragoman.shared.sound.audio import SAMPLE_RATE, samples
from dragoman.shared.text.balance import smoothed_counts

#: Lengths are kept in 32 bits: 37 hours of sound.
LONGEST = np.iinfo(np.int32).max


#: The keys that decide on rows, by the first word of the reasons for which rows are dropped.
_LIMITS = {
    "shorter": "minimum_seconds",
    "longer": "maximum_seconds",
    "more": "maximum_tokens",
    "ratio": "maximum_ratio",
    "larger": "the budget (batch_tokens, batch_seconds)",
}


class Budget(Checked):
    """The size of a batch, padding included: rows x longest row <= budget, for each field by itself.

    Args:
        seconds: for fields of sound.
        tokens: for fields of text, symbols included.
        rows: the most rows.
        grid: lengths in training are padded to so many sizes a doubling, a power of two, but none beyond the longest
            row of the stream; and batches are cut at so many sizes of rows, but for rests. Then few batches differ in
            shape, which compiled code, kernels that plan for a shape, and captured graphs want. None pads to the
            longest row of a batch.

    Raises:
        UsageError: if no size is given, or the grid is no power of two.
    """

    def __init__(
        self,
        *,
        seconds: PositiveFloat | None = None,
        tokens: PositiveInt | None = None,
        rows: PositiveInt | None = None,
        grid: PositiveInt | None = None,
    ) -> None:
        if grid is not None and grid & (grid - 1):
            raise UsageError(f"the grid of a budget must be a power of two, not {grid}")
        if seconds is None and tokens is None and rows is None:
            raise UsageError("a budget needs at least one of seconds, tokens, rows")
        self.seconds = seconds
        self.tokens = tokens
        self.rows = rows
        self.grid = grid

    def of(self, field: Field) -> int | None:
        """Return the most units (samples, tokens) of a field, or None if it is not limited, as "elements" never are.

        Raises:
            UsageError: for a field in another unit.
        """
        if field.unit == "samples":
            return None if self.seconds is None else samples(min(self.seconds, LONGEST / SAMPLE_RATE))
        if field.unit == "tokens":
            return self.tokens
        if field.unit == "elements":
            return None
        raise UsageError(f"a field's unit must be 'samples', 'tokens' or 'elements', not {field.unit!r}")

    def capacities(self, fields: dict[str, Field], lengths: np.ndarray) -> np.ndarray:
        """Return (R,) int32: the most rows that a batch with this row in it can have; 0 if it does not fit alone.

        Args:
            fields: the F fields.
            lengths: (F, R) int32.
        """
        rows = min(self.rows or lengths.shape[1] or 1, LONGEST)
        capacities = np.full(lengths.shape[1], rows, dtype=np.int32)
        for field, length in zip(fields.values(), lengths, strict=True):
            limit = self.of(field)
            if limit is None:
                continue
            for part in blocks(len(length)):
                most = min(limit, LONGEST) // np.maximum(length[part], 1)
                np.minimum(capacities[part], most, out=capacities[part])
        return capacities

    def padded(self, lengths: np.ndarray, longest: np.ndarray | int) -> np.ndarray:
        """Return the lengths that rows of these lengths are padded to, but for longer ones beside them.

        Args:
            lengths: int, of any shape.
            longest: of all rows of the stream, of a shape that fits; nothing is padded beyond it.
        """
        if self.grid is None:
            return lengths
        return np.minimum(rounded_up(lengths.astype(np.int64), self.grid), longest).astype(lengths.dtype)

    def all_padded(self, lengths: np.ndarray, longest: np.ndarray) -> np.ndarray:
        """Return :meth:`padded` of lengths (F, R), of which ``longest`` (F,) are the longest that are trained on."""
        if self.grid is None:
            return lengths
        found = np.empty_like(lengths)
        for part in blocks(lengths.shape[1]):
            found[:, part] = self.padded(lengths[:, part], longest[:, None])
        return found


def translation_budget(rows: int) -> Budget:
    """Return the budget of a batch for translation: at most `rows` rows, and 16,384 tokens or 480 seconds.

    That bounds the memory that a batch needs, whatever the lengths of its rows (see docs/search.md).
    """
    return Budget(rows=rows, tokens=16384, seconds=480.0)


class Filter(Checked):
    """The rows that are left out of training. Nothing is ever left out of an evaluation.

    Args:
        minimum_seconds: the shortest recording.
        maximum_seconds: the longest recording, at normal speed.
        maximum_tokens: the most tokens of any text field, symbols included.
        maximum_ratio: the most that a text field may be longer than another, in tokens without symbols.
        maximum_dropped: the share of rows that may be dropped for whatever reason; more is an error.
    """

    def __init__(
        self,
        *,
        minimum_seconds: PositiveFloat | None = None,
        maximum_seconds: PositiveFloat | None = None,
        maximum_tokens: PositiveInt | None = None,
        maximum_ratio: Annotated[float, Range(least=1)] | None = None,
        maximum_dropped: Share = 0.25,
    ) -> None:
        self.minimum_seconds = minimum_seconds
        self.maximum_seconds = maximum_seconds
        self.maximum_tokens = maximum_tokens
        self.maximum_ratio = maximum_ratio
        self.maximum_dropped = maximum_dropped

    def reasons(self, fields: dict[str, Field], lengths: np.ndarray, seconds: np.ndarray) -> dict[str, np.ndarray]:
        """Return why rows are to be dropped, (R,) bool for each reason, in words.

        Args:
            fields: the F fields.
            lengths: (F, R) int32, -1 where a row lacks the field.
            seconds: (R,) float64, NaN where a row has no recording.
        """
        reasons = {}
        tokens = np.array([field.unit == "tokens" for field in fields.values()])
        for (name, field), length in zip(fields.items(), lengths, strict=True):
            reasons[f"without {name}"] = length < 0
            if field.unit != "elements":  # a text may have none of what it is annotated with
                reasons[f"empty {name}"] = (length >= 0) & (length <= field.overhead)
        if self.minimum_seconds is not None:
            reasons[f"shorter than {self.minimum_seconds:g} s"] = seconds < self.minimum_seconds
        if self.maximum_seconds is not None:
            reasons[f"longer than {self.maximum_seconds:g} s"] = seconds > self.maximum_seconds
        if self.maximum_tokens is not None and tokens.any():
            reasons[f"more than {self.maximum_tokens} tokens"] = (lengths[tokens] > self.maximum_tokens).any(0)
        if self.maximum_ratio is not None and tokens.sum() > 1:
            overheads = np.array([field.overhead for field in fields.values()])
            content = np.maximum(lengths - overheads[:, None], 0)[tokens]
            reasons[f"ratio above {self.maximum_ratio:g}"] = content.max(0) > float(self.maximum_ratio) * content.min(0)
        return reasons


class Stream(Checked):
    """Rows of one or several manifests, as batches with the same fields.

    Manifests are opened, filtered and counted when the stream is first used.

    Args:
        name: for messages, and to tell batches apart.
        manifests: paths of the manifests, or patterns (``*-en/train.arrow``).
        turned: those that are read with source and target exchanged, in addition: each counts as a manifest of its own.
        fields: by name in the batch: ``{"speech": SpeechField(), "target": TextField(...)}``. Rows of a batch are
            alike in the lengths of the first two.
        budget: the size of a batch.
        weight: how many batches of this stream come for each of another one with weight 1.
        alpha: manifest m with n_m of N rows gives n_m^alpha / sum_k n_k^alpha of the N rows of an epoch: 1 takes every
            row once, 0 takes equally many from each manifest; in papers also 1 / temperature.
        group_by: column or columns in which all rows of a batch are to be equal.
        filter: which rows are left out; default: those without text or sound.
        window: rows, for each process, that are shuffled together, of neighbours in the manifests: row groups of
            Parquet files are then read once, and ahead (see shared/batches/windows.py). None shuffles all.
        folder: where token counts are kept if a manifest's own folder is read-only.

    Attributes:
        mapped_in: where a large table is written once for all processes (see shared/batches/mapped.py), or None.

    Raises:
        UsageError: without manifests or fields.
    """

    mapped_in: Path | None = None

    def __init__(
        self,
        *,
        name: str,
        manifests: list[str],
        turned: list[str] | None = None,
        fields: dict[str, Field],
        budget: Budget,
        weight: PositiveFloat = 1.0,
        alpha: Share = 1.0,
        group_by: str | list[str] | None = None,
        filter: Filter | None = None,
        window: PositiveInt | None = None,
        folder: str | None = None,
    ) -> None:
        if isinstance(manifests, str | Path) or not (manifests or turned):
            raise UsageError(f"stream {name!r}: manifests must be a list of paths, not {manifests!r}")
        if isinstance(turned, str | Path):
            raise UsageError(f"stream {name!r}: turned must be a list of paths, not {turned!r}")
        if not fields:
            raise UsageError(f"stream {name!r} has no fields")
        self.name = name
        self.paths = [Path(path) for path in manifests]
        self.turned = [Path(path) for path in turned or []]
        self.fields = dict(fields)
        self.budget = budget
        self.weight = weight
        self.alpha = alpha
        self.group_by = [group_by] if isinstance(group_by, str) else list(group_by or [])
        self.filter = filter or Filter()
        self.window = window
        self.folder = None if folder is None else Path(folder)

    @cached_property
    def manifests(self) -> list[Manifest]:
        """The open manifests."""
        straight = [Manifest.open(path) for path in find_manifests(self.paths)]
        return straight + [Manifest.open(path).turned() for path in find_manifests(self.turned)]

    @cached_property
    def table(self) -> Table:
        """The rows as planning needs them; their tokens are counted here if the counts are not kept yet.

        Raises:
            DataError: if a manifest is broken, or more rows than allowed would be dropped, or none is left.
        """
        if self.mapped_in is None or not is_large(sum(map(len, self.manifests))):
            return self._table()
        name = hashlib.blake2b(self.name.encode(), digest_size=8).hexdigest()
        return Table.restored(*mapped(self.mapped_in, f"table-{name}", lambda: self._table().stored()))

    def _table(self) -> Table:
        bounds = [0, *accumulate(map(len, self.manifests))]
        rows = bounds[-1]
        lengths = np.empty((len(self.fields), rows), dtype=np.int32)
        for manifest, (first, end) in zip(self.manifests, pairwise(bounds), strict=True):
            _fill(lengths[:, first:end], self.fields, manifest, self.folder)
        capacities = self.budget.capacities(self.fields, lengths)
        counts: Counter[str] = Counter()
        kept, start = [], 0
        for manifest in self.manifests:
            kept.append(self._kept(manifest, start, lengths, capacities, counts))
            start += len(manifest)
        dropped = {reason: count for reason, count in counts.items() if count}
        self._check(rows, dropped)
        longest = [max(int(length[part].max(initial=0)) for part in kept) for length in lengths]
        padded = self.budget.all_padded(lengths, np.array(longest))
        if padded is not lengths:
            capacities = self.budget.capacities(self.fields, padded)
        return Table(kept, lengths, padded, capacities, *self._groups(), dropped)

    def _kept(
        self, manifest: Manifest, start: int, lengths: np.ndarray, capacities: np.ndarray, counts: Counter[str]
    ) -> np.ndarray:
        """Return the numbers of a manifest's rows that are trained on, and count the others by reason.

        The first row of the manifest is row ``start`` of ``lengths`` (F, R) and ``capacities`` (R,).
        """
        seconds = np.asarray(manifest.column("duration"), dtype=np.float64)
        kept = [np.empty(0, dtype=np.int32)]
        for block in blocks(len(manifest)):
            part = slice(start + block.start, start + block.stop)
            reasons = self.filter.reasons(self.fields, lengths[:, part], seconds[block])
            keep = np.ones(part.stop - part.start, dtype=bool)
            for reason, applies in (reasons | {"larger than the budget": capacities[part] < 1}).items():
                counts[reason] += int((keep & applies).sum())
                keep &= ~applies
            kept.append((np.flatnonzero(keep) + part.start).astype(np.int32))
        return np.concatenate(kept)

    @cached_property
    def longest(self) -> dict[str, int]:
        """The greatest length of each field, of all rows that are trained on."""
        table = self.table
        longest = [max(int(length[part].max(initial=0)) for part in table.kept) for length in table.lengths]
        return dict(zip(self.fields, longest, strict=True))

    def padded(self, field: str, length: int) -> int:
        """Return what a field is padded to in a batch whose longest row has this length, see :meth:`Budget.padded`."""
        return length if self.budget.grid is None else int(self.budget.padded(np.array(length), self.longest[field]))

    @property
    def dropped(self) -> dict[str, int]:
        """Number of rows left out, by reason."""
        return self.table.dropped

    def shares(self) -> np.ndarray:
        """Return (manifests,) int64: how many rows each manifest gives to a pass of as many rows as there are."""
        sizes = np.array([len(kept) for kept in self.table.kept])
        counts = np.zeros(len(sizes), dtype=np.int64)
        counts[sizes > 0] = smoothed_counts(sizes[sizes > 0], self.alpha, int(sizes.sum()))
        return counts

    def report(self) -> str:
        """Return one line about the stream's rows, for the log."""
        text = f"stream {self.name!r}: {sum(map(len, self.table.kept)):,} rows"
        if self.alpha < 1 and len(self.manifests) > 1:
            shares = zip(self.manifests, self.shares().tolist(), self.table.kept, strict=True)
            text += f", mixed with alpha {self.alpha:g}: " + ", ".join(
                f"{manifest.path.parent.name}/{manifest.path.stem} {count:,} of {len(kept):,}"
                for manifest, count, kept in shares
            )
        return text + (f", dropped {_listed(self.dropped)}" if self.dropped else "")

    def locate(self, row: int) -> tuple[Manifest, int]:
        """Return the manifest that holds a row, and its number there."""
        for manifest in self.manifests:
            if row < len(manifest):
                return manifest, row
            row -= len(manifest)
        raise IndexError(f"stream {self.name!r} has no row {row}")

    def __getstate__(self) -> dict[str, object]:
        """Pickle without the table, of which workers need the longest rows alone."""
        kept = {key: value for key, value in self.__dict__.items() if key != "table"}
        return kept | ({"longest": self.longest} if "table" in self.__dict__ else {})

    def _check(self, rows: int, dropped: dict[str, int]) -> None:
        count = sum(dropped.values())
        if count == rows or count > self.filter.maximum_dropped * rows:
            paths = ", ".join(map(str, [*self.paths, *self.turned]))
            keys = [key for word, key in _LIMITS.items() if any(reason.startswith(word) for reason in dropped)]
            keys += [f"maximum_dropped of the filter of {self.name!r}"] if count < rows else []
            raise DataError(
                f"{paths}: stream {self.name!r} would drop {count:,} of {rows:,} rows "
                f"({_listed(dropped) or 'there are none'}), at most {self.filter.maximum_dropped:.0%} are allowed"
                + (f"; change {' or '.join(keys)}" if keys else "")
            )

    def _groups(self) -> tuple[np.ndarray, list[str | None]]:
        if not self.group_by:
            return np.broadcast_to(np.int32(0), sum(map(len, self.manifests))), [None]  # takes no memory
        parts = [part for manifest in self.manifests for part in _groups_in_blocks(manifest, self.group_by)]
        encoded = pa.chunked_array(parts, type=pa.dictionary(pa.int32(), pa.string())).unify_dictionaries()
        indices = np.concatenate([part.indices.to_numpy() for part in encoded.chunks])
        return indices, encoded.chunk(0).dictionary.to_pylist()


def field_lengths(fields: dict[str, Field], rows: Rows, folder: Path | None = None) -> np.ndarray:
    """Return (F, R) int32: the lengths of all fields of all rows; one above ``LONGEST`` counts as that."""
    lengths = np.empty((len(fields), len(rows)), dtype=np.int32)
    _fill(lengths, fields, rows, folder)
    return lengths


def _fill(lengths: np.ndarray, fields: dict[str, Field], rows: Rows, folder: Path | None) -> None:
    """Put :func:`field_lengths` into an array."""
    for length, field in zip(lengths, fields.values(), strict=True):
        np.minimum(field.lengths(rows, folder), LONGEST, out=length, casting="unsafe")


def _groups_in_blocks(manifest: Manifest, columns: Sequence[str]) -> Iterator[pa.DictionaryArray]:
    """Yield the name of each row's group: the values of the columns, joined by "-".

    Raises:
        DataError: if a row lacks one of them.
    """
    whole = []
    for name in columns:
        column = manifest.column(name)
        column = column if isinstance(column, pa.ChunkedArray) else pa.chunked_array([pa.array(column)])
        if column.null_count:
            row = manifest[int(np.flatnonzero(np.asarray(column.is_null()))[0])]
            raise DataError(f"{manifest.path}: row {row['id']!r} has no {name}, by which batches are grouped")
        whole.append(column)
    for part in blocks(len(manifest)):
        parts = [column[part].cast(pa.string()).combine_chunks() for column in whole]
        yield pc.binary_join_element_wise(*parts, "-").dictionary_encode()


def _listed(dropped: dict[str, int]) -> str:
    return ", ".join(f"{count:,} {reason}" for reason, count in dropped.items())
