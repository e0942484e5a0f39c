"""Batches of a pass through a stream, as numbers of rows.

Legend: F fields, R rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True)
class Pass:
    """One pass through a stream.

    Attributes:
        rows: (R,) int32 row numbers, batch after batch.
        copies: (R,) int32: how often the stream has had the row before, in this pass and in all earlier ones.
        bounds: (batches + 1,) int64: batch i is ``rows[bounds[i]:bounds[i + 1]]``.
        windows: (windows,) int64: the first batch of each window, see shared/batches/windows.py.
    """

    rows: np.ndarray
    copies: np.ndarray
    bounds: np.ndarray
    windows: np.ndarray = field(default_factory=lambda: np.zeros(1, dtype=np.int64))

    def __len__(self) -> int:
        """Return the number of batches."""
        return len(self.bounds) - 1

    def step(self, stream: int, index: int) -> Step:
        """Return a batch as a step of the stream with this number."""
        part = slice(self.bounds[index], self.bounds[index + 1])
        return Step(stream, self.rows[part], self.copies[part])

    def ahead(self, index: int, world: int) -> np.ndarray:
        """Return the rows of the next window that are to be read ahead at a batch: (n,) int32, sorted.

        They are rows of the same rank, if ``world`` of them take turns: each of its batches has an equal share.
        """
        window = int(np.searchsorted(self.windows, index, side="right")) - 1
        first, begin, end = [*self.windows[window : window + 3].tolist(), len(self), len(self)][:3]
        own = [self.rows[self.bounds[one] : self.bounds[one + 1]] for one in range(begin + index % world, end, world)]
        rows = np.sort(np.concatenate([*own, np.empty(0, dtype=self.rows.dtype)]))
        place, steps = (index - first) // world, max((begin - first) // world, 1)
        return rows[place * len(rows) // steps : (place + 1) * len(rows) // steps]

    def ordered(self, order: np.ndarray) -> Pass:
        """Return the batches in another order, as one window."""
        sizes = np.diff(self.bounds)[order]
        bounds = np.concatenate([[0], np.cumsum(sizes)])
        index = np.arange(len(self.rows), dtype=np.int32)
        index += np.repeat((self.bounds[:-1][order] - bounds[:-1]).astype(np.int32), sizes)
        return Pass(self.rows[index], self.copies[index], bounds)

    @property
    def nbytes(self) -> int:
        """The memory that it takes."""
        return self.rows.nbytes + self.copies.nbytes + self.bounds.nbytes

    def longest(self, lengths: np.ndarray) -> np.ndarray:
        """Return (F, batches): the length of the longest row of each batch, for lengths (F, rows of the stream)."""
        if not len(self):
            return np.zeros((len(lengths), 0), dtype=lengths.dtype)
        return np.stack([np.maximum.reduceat(length[self.rows], self.bounds[:-1]) for length in lengths])

    def padding(self, lengths: np.ndarray, padded: np.ndarray) -> np.ndarray:
        """Return (F,) float: the share of padding in all batches, by field.

        Args:
            lengths: (F, rows of the stream).
            padded: (F, rows of the stream), what these are padded to where no row beside them is longer.
        """
        volume = (self.longest(padded) * np.diff(self.bounds)).sum(1)
        filled = np.array([length[self.rows].sum(dtype=np.int64) for length in lengths])
        return 1 - filled / np.maximum(volume, 1) if len(self) else np.zeros(len(lengths))

    def shapes(self, padded: np.ndarray) -> np.ndarray:
        """Return (shapes, 1 + F): rows and length of each field, of all batches that differ; ``padded`` as there."""
        return np.unique(np.vstack([np.diff(self.bounds), self.longest(padded)]), axis=1).T

    def worst(self, lengths: np.ndarray) -> list[int]:
        """Return the numbers of the batches that need the most memory, for lengths (F, rows of the stream).

        Of each field, they are the one that has the most of it, padding included, and the one with the longest row.
        """
        longest = self.longest(lengths)
        volumes = longest * np.diff(self.bounds)
        largest = [int(volume.argmax()) for volume in volumes]
        return sorted({*largest, *(int(np.lexsort(pair)[-1]) for pair in zip(volumes, longest, strict=True))})


@dataclass(frozen=True)
class Step:
    """One batch to be made: the number of its stream, and its rows with the number of earlier draws of each.

    If the stream has windows, ``ahead`` are rows of the next one that are read ahead with it. If it is ``idle``, its
    rows are those of another process, and count there.
    """

    stream: int
    rows: np.ndarray
    copies: np.ndarray
    ahead: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.int32))
    idle: bool = False


def joined(passes: Sequence[Pass]) -> Pass:
    """Return the batches of several passes one after another; each is a window."""
    starts = np.cumsum([0, *(len(one) for one in passes)])[:-1]
    ends = np.cumsum(np.concatenate([np.diff(one.bounds) for one in passes]))
    rows, copies = (np.concatenate([getattr(one, name) for one in passes]) for name in ("rows", "copies"))
    return Pass(rows, copies, np.concatenate([[0], ends]), starts)
