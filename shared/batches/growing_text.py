"""Texts that are changed each time that they are read, and may grow: more pieces than the text as it is."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np

from dragoman.shared.annotations import Checked
from dragoman.shared.batches.fields import Rows, TextField
from dragoman.shared.batches.manifest import Row
from dragoman.shared.ranges import Range


class GrowingText(Checked):
    """Base class of the fields that read a changed text, whose lengths are known beforehand by a bound.

    Args:
        field: the text as it is.
        growth: at most how many times as many pieces it may have when it is changed.
    """

    unit = "tokens"

    def __init__(self, *, field: TextField, growth: Annotated[float, Range(least=1)]) -> None:
        self.field = field
        self.growth = growth
        self.padding = field.padding
        self.overhead = field.overhead

    def load(self) -> None:
        """Read what the change needs; called before training, so that workers share it."""

    def length(self, row: Row) -> int:
        """Return the greatest number of ids, L, that the text can have."""
        return int(grown(np.array(self.field.length(row)), self.growth, self.overhead))

    def lengths(self, rows: Rows, folder: Path | None = None) -> np.ndarray:
        """Return those numbers for all rows, -1 where there is no text.

        Raises:
            DataError: naming the manifest, if a text cannot be tokenised, or the file that the change needs.
        """
        self.load()
        return grown(self.field.lengths(rows, folder), self.growth, self.overhead)

    def evaluating(self) -> TextField:
        """Return the text as it is."""
        return self.field


def grown(lengths: np.ndarray, growth: float, overhead: int) -> np.ndarray:
    """Return the most ids that texts may have when their pieces grow, where ``lengths`` are negative the same.

    Args:
        lengths: of the texts as they are, ``overhead`` symbols included.
        growth: at most how many times as many pieces they may have.
        overhead: symbols around the pieces, which stay as many.
    """
    longest = np.ceil(growth * (lengths - overhead)).astype(np.int64) + overhead
    return np.where(lengths < 0, lengths, longest)
