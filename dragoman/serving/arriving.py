"""Sound that arrives in pieces, as OpenAI's protocol has it: 24 kHz, 16 bits, one channel."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torchaudio.functional import resample

from dragoman.shared.errors import DataError
from dragoman.shared.sound.audio import SAMPLE_RATE

#: Hz of what arrives.
RATE = 24_000
#: Samples that arrive for each two of ours.
_STEP = 3
#: Samples on either side that a resampled one depends on: torchaudio's filter reaches 10.
_REACH = 12
#: What a sample of 16 bits counts as 1.
_FULL = 32768.0


class ArrivingSound:
    """Resamples pieces of one recording to 16 kHz; their outputs, joined, are those of the whole recording."""

    def __init__(self) -> None:
        self._kept = torch.zeros(0)  # the samples before the next output, and those that wait for what is behind them
        self._before = 0

    def add(self, data: bytes) -> Tensor:
        """Take the next samples, and return those at 16 kHz that they complete, (N,) in [-1, 1].

        Raises:
            DataError: if it ends in half a sample.
        """
        if len(data) % 2:
            raise DataError(f"{len(data)} bytes are no whole samples of 16 bits")
        samples = torch.from_numpy(np.frombuffer(data, dtype="<i2").astype(np.float32) / _FULL)
        self._kept = torch.cat([self._kept, samples])
        return self._taken((len(self._kept) - self._before - _REACH) // _STEP * _STEP)

    def rest(self) -> Tensor:
        """Return what waited for more samples, of which there are none; the next ones begin another recording."""
        found = self._taken(len(self._kept) - self._before)
        self._kept, self._before = torch.zeros(0), 0
        return found

    def _taken(self, count: int) -> Tensor:
        """Resample the next ``count`` samples, and return what they become."""
        if count <= 0:
            return torch.zeros(0)
        whole = resample(self._kept, RATE, SAMPLE_RATE)
        first = self._before // _STEP * 2
        found = whole[first : first - (-2 * count // _STEP)]
        cut = max(0, self._before + count - _REACH)
        self._kept, self._before = self._kept[cut:], self._before + count - cut
        return found
