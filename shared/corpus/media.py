"""Sound of m4a, mp4, webm and the like, which libsndfile does not read: FFmpeg decodes it, by way of torchcodec.

Legend: N samples, C channels.
"""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from shared.errors import DataError, one_line

#: Endings of what is read here; the best audio stream of a film is taken.
MEDIA_SUFFIXES = {".m4a", ".mp4", ".webm", ".mkv", ".mov"}


#: Seconds that are decoded together for who reads a file from end to end (115 MB of stereo at 48 kHz).
AHEAD = 300

#: Seconds by which a file may end before it says so.
_TAIL = 0.1


def is_media(path: str | Path) -> bool:
    """Tell by its ending whether a file is read here."""
    return os.path.splitext(path)[1].lower() in MEDIA_SUFFIXES


class MediaSound:
    """The sound of a file at its own rate, with as much of soundfile's interface as is used here.

    torchcodec decodes from the beginning of a file whenever it is asked for less than the frames that it has decoded
    last. So who reads on gets what was decoded ahead, ``AHEAD`` seconds of it.

    Args:
        path: the file.

    Attributes:
        samplerate: of the stream.
        channels: C.
        frames: N, by the file's own word.
        format: what soundfile calls the container; here always "MEDIA".
        subtype: what soundfile calls the coding; here always "".

    Raises:
        DataError: if torchcodec or FFmpeg is not installed, or the file has no sound that they read.

    """

    format, subtype = "MEDIA", ""

    def __init__(self, path: str | Path) -> None:
        self._path = path
        if not os.path.isfile(path):
            raise DataError(f"{path}: there is no such sound file")
        decoder = _decoder_class(path)
        try:
            self._decoder = decoder(os.path.abspath(path))  # no address of something elsewhere
        except (RuntimeError, ValueError, TypeError) as error:
            raise DataError(f"{path}: not readable as sound ({one_line(error)})") from error
        said = self._decoder.metadata
        if not said.sample_rate or not said.num_channels or not said.duration_seconds:
            raise DataError(f"{path}: does not say its sampling rate, channels and duration")
        self.samplerate = int(said.sample_rate)
        self.channels = int(said.num_channels)
        # The duration of a stream begins with its first sample, that of the whole file at 0.
        late = said.begin_stream_seconds or 0.0 if said.duration_seconds_from_header is not None else 0.0
        self.frames = round((said.duration_seconds + max(late, 0.0)) * self.samplerate)
        self._position = 0
        self._reads_on = False
        self._first = 0
        self._kept = np.zeros((0, self.channels), dtype=np.float32)

    def tell(self) -> int:
        """Return the sample that the next reading begins with."""
        return self._position

    def seek(self, position: int) -> None:
        """Let the next reading begin with a sample."""
        self._reads_on &= position == self._position
        self._position = position

    def read(self, count: int, dtype: str = "float32", always_2d: bool = True) -> np.ndarray:
        """Return the next samples, float32 (N, C) with N up to ``count``: fewer at the end.

        Raises:
            DataError: if they cannot be decoded.

        """
        first = self._position
        end = min(first + count, self.frames)
        if first < self._first or end > self._first + len(self._kept):
            ahead = AHEAD * self.samplerate if self._reads_on else 0
            self._kept = self._decoded(first, min(max(end, first + ahead), self.frames))
            self._first = first
        values = self._kept[first - self._first : max(end - self._first, 0)]
        self._position += len(values)
        self._reads_on = True
        return values

    def _decoded(self, first: int, end: int) -> np.ndarray:
        """Decode samples ``first`` to ``end``, (N, C); fewer if the file ends before."""
        none = np.zeros((0, self.channels), dtype=np.float32)
        if first >= end:
            return none
        start = first / self.samplerate
        try:
            found = self._decoder.get_samples_played_in_range(start, end / self.samplerate)
        except (RuntimeError, ValueError) as error:
            if first > self.frames - _TAIL * self.samplerate:
                return none
            raise DataError(f"{self._path}: broken sound at {start:.2f} s ({one_line(error)})") from error
        values = found.data.numpy().T
        late = round((found.pts_seconds - start) * self.samplerate)
        if late > 0 and len(values):  # the stream begins later than the file
            values = np.concatenate([np.zeros((late, self.channels), dtype=np.float32), values])
        return np.ascontiguousarray(values[: end - first], dtype=np.float32)

    def close(self) -> None:
        """Let the decoder go."""
        self._decoder = None

    def __enter__(self) -> MediaSound:
        """Return this."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the file."""
        self.close()


def _decoder_class(path: str | Path) -> Any:
    """Import torchcodec.

    Raises:
        DataError: naming the file that needs it, and what to install.

    """
    try:
        from torchcodec.decoders import AudioDecoder
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "torchcodec":
            raise
        raise DataError(f"{path}: needs torchcodec and FFmpeg: pip install 'dragoman[media]'") from error
    except (ImportError, OSError, RuntimeError) as error:
        raise DataError(
            f"{path}: torchcodec is installed, but cannot be loaded: it needs FFmpeg's shared libraries, which "
            "apt, brew or conda install as ffmpeg, and a version that fits torch"
        ) from error
    return AudioDecoder
