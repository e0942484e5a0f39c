"""The channels of a recording: which one is read, and what is lost when all of them are averaged.

In a manifest, ``audio`` may name a channel, counted from 0: ``/data/call.wav#channel:1``. Without one, the mean of all
channels is read.

Legend: N samples, C channels.
"""

from __future__ import annotations

import logging
import re
from pathlib import Path

import numpy as np

_CHANNEL = re.compile(r"(?s)(.+)#channel:(\d{1,4})")

#: The largest number of a channel.
LAST_CHANNEL = 9999

#: The mean of C unrelated channels has 1 / C of their power; with less than this share of that, they cancel.
CANCELLED = 0.1

#: Channels below -60 dB are silence, which cannot be lost.
_SILENT_POWER = 1e-6

#: What messages propose for a file of channels that cancel.
OPPOSITE = "the channels cancel each other in their mean (opposite phase?); choose one: FILE#channel:0"

_named: set[str] = set()


def with_channel(audio: str, channel: int) -> str:
    """Return the place of one channel of a recording."""
    return f"{audio}#channel:{channel}"


def split_channel(audio: str | Path) -> tuple[str, int | None]:
    """Return the place of a recording and the channel that ``audio`` names, None for the mean of all."""
    match = _CHANNEL.fullmatch(str(audio))
    if match is None or match[1].endswith(".parquet"):  # that is row n of a column "channel"
        return str(audio), None
    return match[1], int(match[2])


class Mix:
    """The power of channels and that of their mean, added up over parts of a recording."""

    def __init__(self) -> None:
        self._channels = 0.0
        self._mean = 0.0
        self._count = 0
        self._width = 1

    def add(self, values: np.ndarray) -> None:
        """Add a part, (N, C) float32."""
        self._width = values.shape[1]
        self._count += len(values)
        self._channels += float(np.square(values, dtype=np.float64).mean(axis=1).sum())
        self._mean += float(np.square(values.mean(axis=1), dtype=np.float64).sum())

    @property
    def cancels(self) -> bool:
        """Return whether the mean has lost what the channels have."""
        loud = self._channels > _SILENT_POWER * self._count
        return self._width > 1 and loud and self._mean * self._width < CANCELLED * self._channels


def mono(path: str | Path, values: np.ndarray) -> np.ndarray:
    """Return the channel (N,) of values (N, C) that ``path`` names, or the mean; one warning a file if they cancel."""
    channel = split_channel(path)[1]
    if channel is not None or values.shape[1] == 1:
        return values[:, channel or 0]
    mix = Mix()
    mix.add(values)
    if mix.cancels and str(path) not in _named:
        _named.add(str(path))
        logging.getLogger("dragoman").warning("%s: %s", path, OPPOSITE)
    return values.mean(axis=1)
