"""Sound that a program holds in memory, as the files that everything else reads.

Legend: N samples, C channels.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch

from dragoman.shared.errors import DataError, UsageError, check_number
from dragoman.shared.sound.audio import LOWEST_RATE

SoundArray: TypeAlias = np.ndarray | torch.Tensor

#: Hz: the rates of the fastest sound cards are below.
HIGHEST_RATE = 1_000_000

#: The largest sample of floating-point sound, whose full scale is 1: resampling goes a little beyond.
LARGEST_SAMPLE = 2.0


@contextmanager
def as_files(inputs: Sequence[Any], sample_rate: int | None, *, speech: bool) -> Iterator[Sequence[Any]]:
    """Give the inputs with files in the place of arrays (:func:`mono`) of sound; the files go at the end.

    Raises:
        DataError: if an array holds no sound.
        UsageError: for an array of another shape or type, or without a rate; or for a rate without an array.
    """
    numbers = [number for number, item in enumerate(inputs) if speech and isinstance(item, SoundArray)]
    if not numbers:
        if sample_rate is not None:
            reason = "sound files have their own" if speech else "this system reads text"
            raise UsageError(f"sample_rate is for arrays of sound: {reason}")
        yield inputs
        return
    if sample_rate is None:
        raise UsageError(f"inputs[{numbers[0]}] is an array: give its sample_rate in Hz, for example sample_rate=16000")
    check_number("sample_rate", sample_rate, least=LOWEST_RATE, most=HIGHEST_RATE)
    if sample_rate != int(sample_rate):
        raise UsageError(f"sample_rate must be a whole number of Hz, not {sample_rate}")
    import soundfile

    items = list(inputs)
    with tempfile.TemporaryDirectory(prefix="dragoman-") as folder:
        for number in numbers:
            items[number] = Path(folder) / f"input-{number}.wav"
            values = mono(inputs[number], f"inputs[{number}]")
            soundfile.write(items[number], values, int(sample_rate), subtype="FLOAT")
        yield items


def mono(array: SoundArray, name: str) -> np.ndarray:
    """Return sound in memory as float32 (N,) with full scale at 1.

    Args:
        array: (N,), or (C, N), whose channels are averaged; floating-point numbers, or int16 or int32, whose full
            scale is that of the type.
        name: of the input, for messages.

    Raises:
        DataError: if there are no samples, or one is not finite.
        UsageError: for another shape or type, or floating-point numbers of another scale.
    """
    if isinstance(array, torch.Tensor):
        array = array.detach().cpu()
        array = (array.float() if array.is_floating_point() else array).numpy()
    shape = " x ".join(map(str, array.shape)) or "a single number"
    if array.dtype.kind != "f" and array.dtype not in (np.int16, np.int32):
        raise UsageError(f"{name}: an array of {array.dtype}: sound is float32 (full scale 1), int16 or int32")
    if array.ndim not in (1, 2):
        raise UsageError(f"{name}: an array of {shape}: sound is (samples,) or (channels, samples)")
    if not array.size:
        raise DataError(f"{name}: holds no samples ({shape})")
    if array.ndim == 2 and array.shape[0] > array.shape[1]:
        raise UsageError(f"{name}: an array of {shape}: sound is (channels, samples); give its transpose, array.T")
    scale = 1.0 if array.dtype.kind == "f" else -float(np.iinfo(array.dtype).min)
    values = np.asarray(array, dtype=np.float64).reshape(-1, array.shape[-1]).mean(axis=0) / scale
    if not np.isfinite(values).all():
        raise DataError(f"{name}: not a number among the samples, at {int(np.isfinite(values).argmin())}")
    if np.abs(values).max() > LARGEST_SAMPLE:
        raise UsageError(
            f"{name}: samples up to {np.abs(values).max():g}: full scale is 1; give int16, or divide by 32768"
        )
    return values.astype(np.float32)
