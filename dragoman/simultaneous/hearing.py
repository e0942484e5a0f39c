"""Sound that is heard chunk by chunk: files of whatever length, and what comes in while it is spoken."""

from __future__ import annotations

import math
import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from dragoman.shared.sound.audio import SAMPLE_RATE, probe, read_audio, samples

#: Seconds that are read at a time, and those read on either side of them, so that resampling knows what is there. Whole
#: seconds are whole samples at any rate.
_BLOCK, _AROUND = 60, 1
#: Seconds of sound after which a pause may be noticed, at most: a chunk is heard in pieces that are as long.
_PIECE = 0.1
#: Chunks that may wait to be heard, and the most that are heard at once.
_WAITING, _TOGETHER = 600, 4
#: Seconds by which sound may be ahead of the clock and still be called live: what a recorder has collected before.
_AHEAD = 3.0


def pieces_of(chunk: float) -> tuple[int, int]:
    """Return how many samples at 16 kHz a piece of a chunk has, and how many pieces a chunk has.

    Args:
        chunk: seconds.
    """
    count = max(1, math.ceil(round(chunk / _PIECE, 6)))
    return math.ceil(samples(chunk) / count), count


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


def keeping_up(
    chunks: Iterable[Tensor], clock: Callable[[], float] = time.monotonic, *, pieces: int = 1
) -> Iterator[Tensor]:
    """Yield chunks as they come, and those together that came while earlier ones were translated, up to four.

    So a machine that is too slow for each chunk writes later, but does not fall further and further behind. Sound that
    comes faster than it is spoken is a file, whose chunks stay as they are.

    Args:
        chunks: (N,) each at 16 kHz; they are read by a thread.
        clock: seconds.
        pieces: how many of them count as one, for they are pieces of chunks.

    Raises:
        Exception: whatever reading raises.
    """
    waiting: queue.Queue[Tensor | BaseException | None] = queue.Queue(_WAITING * pieces)
    ahead = threading.Event()
    began = clock()

    def read() -> None:
        seconds = 0.0
        try:
            for chunk in chunks:
                seconds += len(chunk) / SAMPLE_RATE
                if seconds > clock() - began + _AHEAD:
                    ahead.set()
                waiting.put(chunk)
            if seconds > clock() - began:
                ahead.set()
            waiting.put(None)
        except BaseException as error:
            waiting.put(error)

    threading.Thread(target=read, name="sound", daemon=True).start()
    while True:
        found = [waiting.get()]
        live = clock() - began > _AHEAD and not ahead.is_set()
        while live and isinstance(found[-1], Tensor) and len(found) < _TOGETHER * pieces and not waiting.empty():
            found.append(waiting.get())
        together = [one for one in found if isinstance(one, Tensor)]
        found = found[len(together) :]
        if together:
            yield torch.cat(together)
        if found:
            if found[0] is None:
                return
            assert isinstance(found[0], BaseException)
            raise found[0]
