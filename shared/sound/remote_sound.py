"""A sound file that is read by URI, in parts."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import soundfile

from dragoman.shared.errors import DataError
from dragoman.shared.machine.remote import RemoteBytes


class RemoteSound(soundfile.SoundFile):
    """A sound file of libsndfile, of which only what is decoded is fetched (see shared/machine/remote.py).

    libsndfile takes a part that cannot be fetched for the end of the file: the error is raised behind it.

    Args:
        uri: of the file.

    Raises:
        DataError: if the file does not exist, cannot be fetched, or is replaced by another one meanwhile.
        soundfile.LibsndfileError: if it is not readable as sound.
    """

    def __init__(self, uri: str) -> None:
        self._bytes = RemoteBytes(uri, ends=True)
        try:
            super().__init__(io.BufferedReader(self._bytes))
        except soundfile.LibsndfileError:
            self._check()
            raise
        self._check()

    def seek(self, frames: int, whence: int = io.SEEK_SET) -> int:
        """Let the next reading begin elsewhere."""
        try:
            return super().seek(frames, whence)
        finally:
            self._check()

    def read(self, *given: Any, **how: Any) -> np.ndarray:
        """Return the next samples."""
        try:
            return super().read(*given, **how)
        finally:
            self._check()

    def _check(self) -> None:
        error: DataError | None = self._bytes.error
        if error is not None:
            raise error
