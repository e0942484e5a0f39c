"""Sound of m4a, mp4, webm and the like, which libsndfile does not read: FFmpeg decodes it, by way of torchcodec.

Legend: N samples, C channels.
"""

from __future__ import annotations

import os
import tempfile
from functools import lru_cache
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import numpy as np

from dragoman.shared.errors import DataError, one_line
from dragoman.shared.machine.files import check_regular
from dragoman.shared.machine.remote import uri_of

#: Endings of what is read here; the best audio stream of a film is taken.
MEDIA_SUFFIXES = {".m4a", ".mp4", ".webm", ".mkv", ".mov"}


#: Seconds that are decoded together when a file is read from end to end (115 MB of stereo at 48 kHz).
AHEAD = 300

#: Seconds by which a file may end before it says so.
_TAIL = 0.1

#: Files whose decoded sound a process keeps.
_KEPT_FILES = 16


def is_media(path: str | Path) -> bool:
    """Tell by its ending whether a file is read here."""
    return os.path.splitext(path)[1].lower() in MEDIA_SUFFIXES


class MediaSound:
    """The sound of a file at its own rate, with as much of soundfile's interface as is used here.

    torchcodec decodes from the beginning of a file whenever it is asked for less than the frames that it has decoded
    last. So who reads on gets what was decoded ahead, ``AHEAD`` seconds of it. And a file that is opened again is
    decoded once to its end, into a file without a name in the temporary folder: else the segments of a long recording
    would cost the square of its length.

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
        if uri_of(path) is not None:
            raise DataError(f"{path}: such files are read from a disk only: copy it there, or convert it to FLAC")
        check_regular(path, "sound file")
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
        about = os.stat(path)
        self._recording = _recording(os.path.abspath(path), about.st_mtime_ns, about.st_size)
        self._recording.openings += 1

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
        if self._recording.openings > 1:
            values = self._copied(first, end)
            self._position += len(values)
            return values
        if first < self._first or end > self._first + len(self._kept):
            ahead = AHEAD * self.samplerate if self._reads_on else 0
            self._kept = self._decoded(first, min(max(end, first + ahead), self.frames))
            self._first = first
        values = self._kept[first - self._first : max(end - self._first, 0)]
        self._position += len(values)
        self._reads_on = True
        return values

    def _copied(self, first: int, end: int) -> np.ndarray:
        """Return samples ``first`` to ``end`` of the decoded file, (N, C); it is decoded now, if it was not yet."""
        try:
            if self._recording.copy is None:
                self._recording.copy = self._decoded_file()
            file, size = self._recording.copy, 4 * self.channels
            count = min(end, os.fstat(file.fileno()).st_size // size) - first
            if count <= 0:
                return np.zeros((0, self.channels), dtype=np.float32)
            # Not by reading: processes that were forked share the position in a file.
            return np.array(np.memmap(file, np.float32, mode="r", offset=first * size, shape=(count, self.channels)))
        except OSError as error:
            folder = tempfile.gettempdir()
            raise DataError(f"{self._path}: cannot be decoded into {folder} ({one_line(error)}; see TMPDIR)") from error

    def _decoded_file(self) -> IO[bytes]:
        """Return a file with all samples, float32, those of a time together; it is gone when it is closed."""
        file = tempfile.TemporaryFile()
        step = AHEAD * self.samplerate
        for first in range(0, self.frames, step):
            values = self._decoded(first, min(first + step, self.frames))
            file.write(values.tobytes())
            if len(values) < min(step, self.frames - first):
                break
        file.flush()
        return file

    def _decoded(self, first: int, end: int) -> np.ndarray:
        """Decode samples ``first`` to ``end``, (N, C); fewer if the file ends before."""
        none = np.zeros((0, self.channels), dtype=np.float32)
        if first >= end:
            return none
        start = first / self.samplerate
        try:
            frames = self._decoder.get_samples_played_in_range(start, end / self.samplerate)
        except (RuntimeError, ValueError) as error:
            if first > self.frames - _TAIL * self.samplerate:
                return none
            raise DataError(f"{self._path}: broken sound at {start:.2f} s ({one_line(error)})") from error
        values = frames.data.numpy().T
        late = round((frames.pts_seconds - start) * self.samplerate)
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


class _Recording:
    """A file that this process has opened: how often, and its decoded sound, if that is kept."""

    def __init__(self) -> None:
        self.openings = 0
        self.copy: IO[bytes] | None = None


@lru_cache(maxsize=_KEPT_FILES)
def _recording(path: str, modified: int, size: int) -> _Recording:
    """Return what is known of a file, by its path, time of change and size; the least recent one is forgotten."""
    return _Recording()


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
