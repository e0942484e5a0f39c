"""The speed of a command that translates sound: its real-time factor, seconds of work for a second of sound."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dragoman.shared.sound.audio import probe_header


class Pace:
    """The seconds of sound that a command has translated, and those that it took.

    Reading the files, finding their speech, the search and the times of words count; loading the model does not.
    """

    def __init__(self) -> None:
        self._sound = 0.0
        self._spent = 0.0

    @contextmanager
    def working(self) -> Iterator[None]:
        """Count the time of the block."""
        begin = time.perf_counter()
        try:
            yield
        finally:
            self._spent += time.perf_counter() - begin

    def heard(self, file: str | Path) -> None:
        """Count the sound of a file that was translated."""
        rate, frames = probe_header(file)
        self._sound += frames / rate

    def report(self) -> None:
        """Print a line to standard error, if there was any sound."""
        if self._sound:
            share = self._spent / self._sound
            print(
                f"dragoman: {self._sound:.1f} s of sound in {self._spent:.1f} s: real-time factor {share:.4f}",
                file=sys.stderr,
            )
