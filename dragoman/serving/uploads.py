"""Uploads are decoded in a process of their own, with limits: a hostile file ends that process, not the server.

The process rewrites a file as plain samples at its own rate, with its own channels. The server reads nothing else: what
it writes is what ``dragoman translate`` writes for the file itself.
"""

from __future__ import annotations

import resource
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any

import soundfile

from dragoman.shared.errors import DataError
from dragoman.shared.sound.audio import open_audio, probe
from dragoman.shared.sound.mpeg import naming_damage

#: Bytes that the process may have: some hundred times what decoding takes.
MEMORY = 4 << 30
#: Samples that are decoded at a time.
_BLOCK = 1 << 16
#: Signals that end a process for what it does itself, such as reading a hostile file; others come from outside.
_OWN_FAULTS = {signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGSEGV}
#: Seconds for which a process that has closed its channel may still be ending.
_ENDING = 10.0


class TooLongError(DataError):
    """A file holds more sound than a request may."""


class KilledError(Exception):
    """Somebody has ended the process that read a file: the file may be good."""


def rewrite(source: str, target: str, longest: float) -> None:
    """Write the samples of a sound file to another one, as 32-bit numbers in RF64.

    Args:
        source: a file that libsndfile or FFmpeg reads.
        target: the other file.
        longest: seconds that it may hold.

    Raises:
        DataError: if it cannot be read, or is cut off or broken.
        TooLongError: if it holds more.
    """
    with naming_damage(source), open_audio(source) as sound:
        seconds = sound.frames / sound.samplerate
    if seconds > longest:
        raise TooLongError(f"the file has {seconds:.0f} seconds of sound, more than {longest:g}")
    probe(source)
    with naming_damage(source), open_audio(source) as sound:
        most = round(longest * sound.samplerate)  # whatever the header says
        form: Any = {"samplerate": sound.samplerate, "channels": sound.channels, "format": "RF64", "subtype": "FLOAT"}
        with soundfile.SoundFile(target, "w", **form) as out:
            while out.frames <= most and len(block := sound.read(_BLOCK, dtype="float32", always_2d=True)):
                out.write(block)


class Decoder:
    """The process that decodes, one file at a time; another one takes its place if it ends or takes too long.

    Args:
        seconds: that a file may take.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._turn = threading.Lock()
        self._process: SpawnProcess | None = None
        self._channel: Connection | None = None

    def run(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function of a module in the process, and return its result.

        Raises:
            DataError: what the function raises; or if it has ended the process, taken more memory than there is, or
                too long.
            KilledError: if the process was ended from outside.
        """
        with self._turn:
            channel = self._ready()
            try:
                channel.send((function, arguments))
                if not channel.poll(self._seconds):
                    self._end()
                    raise DataError(f"the file could not be read within {self._seconds:g} seconds")
                value, error = channel.recv()
            except (OSError, EOFError) as ended:
                kind = KilledError if self._killed() else DataError
                self._end()
                raise kind("the file could not be read: the process that read it ended") from ended
        if error is not None:
            raise error
        return value

    def close(self) -> None:
        """End the process."""
        with self._turn:
            self._end()

    def _ready(self) -> Connection:
        if self._process is not None and not self._process.is_alive():  # ended from outside, by no upload
            self._end()
        if self._channel is None:
            context = get_context("spawn")
            self._channel, theirs = context.Pipe()
            self._process = context.Process(target=_work, args=(theirs,), name="decoding", daemon=True)
            self._process.start()
            theirs.close()
        return self._channel

    def _killed(self) -> bool:
        """Tell whether the process was ended from outside, once it has ended."""
        assert self._process is not None
        self._process.join(_ENDING)
        code = self._process.exitcode
        return code is not None and code < 0 and -code not in _OWN_FAULTS

    def _end(self) -> None:
        if self._process is not None and self._channel is not None:
            self._process.kill()
            self._process.join()
            self._channel.close()
        self._process = self._channel = None


def _work(channel: Connection) -> None:
    """Call what is asked for, until nobody asks any more."""
    with suppress(ValueError, OSError):  # less is allowed already
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    with suppress(EOFError, KeyboardInterrupt):
        while True:
            function, arguments = channel.recv()
            answer: tuple[Any, DataError | None]
            try:
                answer = function(*arguments), None
            except DataError as error:
                answer = None, type(error)(*error.args)
            except MemoryError:
                answer = None, DataError("the file needs more memory than an upload may")
            except Exception as error:
                answer = None, DataError(f"the file could not be read ({type(error).__name__})")
            channel.send(answer)


def decoded(decoder: Decoder, upload: Path, longest: float) -> Path:
    """Return a file of plain samples beside an upload, made by the decoder; see :func:`rewrite`."""
    target = upload.with_name("decoded.wav")
    decoder.run(rewrite, str(upload), str(target), longest)
    return target
