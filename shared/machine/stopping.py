"""Stopping a run in the middle, so that it can go on from there."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from dragoman.shared.errors import DataError
from dragoman.shared.machine.files import discard_temporaries

#: Seconds within which signals are one request: at Ctrl-C, both the terminal and torchrun send one to every process.
ONE_REQUEST = 1.0
#: Seconds after which a process is ended that was asked to stop and is still inside of one call to native code.
PATIENCE = 3.0
#: What asks a training to stop; SIGUSR1 is what batch systems send before the time is up.
REQUESTS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)
#: Set by the handlers of signals, which Python runs between two of its own instructions.
noticed = threading.Event()


class Interrupted(DataError):
    """The run was asked to stop (Ctrl-C, SIGTERM), has saved its state, and can go on from there."""


def end_if_stuck() -> None:
    """End this process if a handler has not run within ``PATIENCE`` of Ctrl-C or SIGTERM.

    Python's handlers wait for the end of native calls, and a layer over a text of 100,000 tokens takes a minute. The
    system's own handler writes the signal's number to a pipe at once, and a thread reads it there. Whoever sets other
    handlers has to set ``noticed`` in them.
    """
    read, write = os.pipe()
    os.set_blocking(write, False)

    def watch() -> None:
        while number := os.read(read, 1):
            if number[0] in (signal.SIGINT, signal.SIGTERM):
                if not noticed.wait(PATIENCE):
                    print("dragoman: error: stopped in the middle of a computation", file=sys.stderr, flush=True)
                    discard_temporaries()
                    os._exit(128 + number[0])
                noticed.clear()

    signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    os.register_at_fork(after_in_child=lambda: signal.set_wakeup_fd(-1))  # a worker's end is not this process's
    threading.Thread(target=watch, name="signals", daemon=True).start()


class Stop:
    """While it is entered, the first Ctrl-C, SIGTERM or SIGUSR1 only sets ``asked``; a later one stops at once."""

    def __init__(self) -> None:
        self._since: float | None = None
        self._hasty = False
        self._before: dict[signal.Signals, Any] = {}

    @property
    def asked(self) -> bool:
        """True once a stop was asked for."""
        return self._since is not None

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """Let the first request, too, raise KeyboardInterrupt: around work that can simply be done again."""
        self._hasty = True
        try:
            if self.asked:
                raise KeyboardInterrupt
            yield
        finally:
            self._hasty = False

    def __enter__(self) -> Stop:
        """Take over the signals (which only the main thread may)."""
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._ask) for number in REQUESTS}
        return self

    def __exit__(self, *_: object) -> None:
        """Give the signals back."""
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _ask(self, _number: int, _frame: object) -> None:
        noticed.set()
        now = time.monotonic()
        again = self._since is not None and now - self._since > ONE_REQUEST
        self._since = now if self._since is None else self._since
        if again or self._hasty:
            raise KeyboardInterrupt
