"""Sound files that are heard chunk by chunk, of whatever length."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from dragoman.shared.sound.audio import probe, read_audio, samples

#: Seconds that are read at a time, and those read on either side of them, so that resampling knows what is there. Whole
#: seconds are whole samples at any rate.
_BLOCK, _AROUND = 60, 1


def heard_in(path: Path | str, size: int) -> Iterator[Tensor]:
    """Yield a sound file in chunks of ``size`` samples at 16 kHz, the last of which may be shorter.

    A minute of it is in memory at a time.

    Raises:
        DataError: as :func:`~dragoman.shared.sound.audio.read_audio`, before anything is yielded.
    """
    length = probe(path)
    rest = np.zeros(0, dtype=np.float32)
    for begin in range(0, max(1, int(np.ceil(length))), _BLOCK):
        before = min(begin, _AROUND)
        last = begin + _BLOCK + _AROUND >= length
        block = read_audio(path, begin - before, None if last else before + _BLOCK + _AROUND)[samples(before) :]
        rest = np.concatenate([rest, block if last else block[: samples(_BLOCK)]])
        whole = len(rest) if last else len(rest) // size * size
        yield from (torch.from_numpy(rest[at : min(at + size, whole)].copy()) for at in range(0, whole, size))
        rest = rest[whole:]
        if last:
            return
