"""The field of recordings: a segment of one becomes a waveform.

Legend: N samples.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from dragoman.shared.batches.fields import Rows
from dragoman.shared.batches.manifest import Manifest, Row
from dragoman.shared.batches.mapped import blocks
from dragoman.shared.described import Described
from dragoman.shared.errors import DataError, UsageError
from dragoman.shared.sound.audio import LATEST, read_audio, samples, samples_of

Count = TypeVar("Count", int, np.ndarray)


class SpeechField(Described):
    """A segment of a recording as a waveform at 16 kHz in [-1, 1].

    Args:
        speeds: one of these is drawn for each row and epoch, and the waveform is resampled so that it lasts 1 / speed
            times as long, pitch changing with it (Ko et al. 2015, section 2). Default: ``[1.0]``, no perturbation.

    Raises:
        UsageError: if a speed is outside [0.5, 2] or has more than two decimals (the filters would become long).
    """

    unit = "samples"
    padding = 0.0
    overhead = 0

    def __init__(self, *, speeds: list[float] | None = None) -> None:
        self.speeds = [1.0] if speeds is None else [float(speed) for speed in speeds]
        for speed in self.speeds:
            if not 0.5 <= speed <= 2 or abs(100 * speed - round(100 * speed)) > 1e-6:
                raise UsageError(f"a speed must be between 0.5 and 2 with at most two decimals, not {speed}")
        if not self.speeds:
            raise UsageError("speeds must hold at least one speed, not []")

    def __call__(self, row: Row, rng: np.random.Generator) -> Tensor:
        """Return (N,) float32; see :meth:`waveform`."""
        return self.waveform(row, self.speed(rng))

    def speed(self, rng: np.random.Generator) -> float:
        """Draw a speed."""
        return self.speeds[int(rng.integers(len(self.speeds)))] if len(self.speeds) > 1 else self.speeds[0]

    def waveform(self, row: Row, speed: float) -> Tensor:
        """Return a row at a speed, (N,) float32: second t of the row is at second t / speed.

        Raises:
            DataError: if the row has no audio, or it cannot be read.
        """
        if not row.get("audio"):
            raise DataError(f"row {row.get('id')!r} has no audio")
        waveform = torch.from_numpy(read_audio(row["audio"], row.get("start") or 0.0, row.get("duration")))
        return waveform if speed == 1 else _resampler(speed)(waveform)

    def length(self, row: Row) -> int:
        """Return the number of samples, N, at the slowest speed.

        Raises:
            DataError: if the row has no duration.
        """
        duration = row.get("duration")
        if duration is None:
            raise DataError(f"row {row.get('id')!r} has no duration")
        return self._slowest(samples(duration))

    def lengths(self, rows: Rows, folder: Path | None = None) -> np.ndarray:
        """Return the numbers of samples at the slowest speed, -1 where there is no audio.

        Raises:
            DataError: if a row has audio, but no duration.
        """
        if not isinstance(rows, Manifest):
            return np.array([self.length(row) if row.get("audio") else -1 for row in rows], dtype=np.int64)
        durations = rows.column("duration")
        there = np.asarray(rows.column("audio").is_valid())
        lost = np.flatnonzero(there & np.isnan(durations))
        if len(lost):
            raise DataError(f"{rows.path}: row {rows[int(lost[0])]['id']!r} has audio, but no duration")
        impossible = np.flatnonzero(there & ~((durations > 0) & (durations <= LATEST)))
        if len(impossible):
            number = int(impossible[0])
            raise DataError(f"{rows.path}: row {rows[number]['id']!r} has a duration of {durations[number]:g} s")
        lengths = np.empty(len(rows), dtype=np.int64)
        for part in blocks(len(rows)):
            known = np.where(there[part], durations[part], 0)
            lengths[part] = np.where(there[part], self._slowest(samples_of(known)), -1)
        return lengths

    def evaluating(self) -> SpeechField:
        """Return the field at normal speed."""
        return SpeechField()

    def _slowest(self, count: Count) -> Count:
        # Speeds have two decimals: in hundredths, the division is exact. It is the length that _resampler gives.
        return -(-count * 100 // round(100 * min(self.speeds)))


@lru_cache(maxsize=64)
def _resampler(speed: float) -> Any:
    """Return torchaudio's windowed sinc filter for a speed (in its module form, which keeps the coefficients)."""
    from torchaudio.transforms import Resample

    return Resample(round(100 * speed), 100)
