"""A part of each recording, drawn anew in every epoch: what training on sound alone reads of long recordings.

Legend: N samples.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from torch import Tensor

from dragoman.shared.batches.fields import Field, Rows
from dragoman.shared.batches.manifest import Row
from dragoman.shared.batches.speech_field import SpeechField
from dragoman.shared.described import Described
from dragoman.shared.errors import UsageError
from dragoman.shared.sound.audio import SAMPLE_RATE, samples


class Crop(Described):
    """A field of sound that takes a part of each longer row and reads only that part from disk.

    Args:
        field: what turns the part into a tensor.
        seconds: the length of the part, before the field changes its speed.
        random: draw where the part begins; otherwise it is the beginning of the row.

    Raises:
        UsageError: if seconds is not positive.
    """

    unit = "samples"
    padding = 0.0
    overhead = 0

    def __init__(self, *, field: SpeechField, seconds: float, random: bool = True) -> None:
        if not samples(seconds) > 0:
            raise UsageError(f"seconds must be at least the length of a sample, not {seconds}")
        self.field = field
        self.seconds = seconds
        self.random = random

    def __call__(self, row: Row, rng: np.random.Generator) -> Tensor:
        """Return (N,) float32.

        Raises:
            DataError: if the row has no audio or duration, or it cannot be read.
        """
        return self.field(self._part(row, rng) if row.get("audio") else row, rng)

    def length(self, row: Row) -> int:
        """Return the greatest length that the row's tensor can have, N."""
        return min(self.field.length(row), self._longest)

    def lengths(self, rows: Rows, folder: Path | None = None) -> np.ndarray:
        """Return the greatest lengths of all rows, -1 where there is no audio."""
        return np.minimum(self.field.lengths(rows, folder), self._longest)

    def evaluating(self) -> Field:
        """Return the field that takes the beginning of each row, without noise."""
        return Crop(field=self.field.evaluating(), seconds=self.seconds, random=False)

    @property
    def _longest(self) -> int:
        return self.field.length({"duration": self.seconds})

    def _part(self, row: Row, rng: np.random.Generator) -> Row:
        self.field.length(row)  # refuses a row without a duration
        spare = samples(row["duration"]) - samples(self.seconds)
        if spare <= 0:
            return row
        offset = int(rng.integers(spare + 1)) if self.random else 0
        return {**row, "start": (row.get("start") or 0.0) + offset / SAMPLE_RATE, "duration": self.seconds}
