"""Stopping a run in the middle, so that it can go on from there."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from shared.errors import DataError

#: Seconds within which signals are one request: at Ctrl-C, both the terminal and torchrun send one to every process.
ONE_REQUEST = 1.0


class Interrupted(DataError):
    """The run was asked to stop (Ctrl-C, SIGTERM), has saved its state, and can go on from there."""


class Stop:
    """While it is entered, the first Ctrl-C or SIGTERM only sets ``asked``; a later one stops at once."""

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
            self._before = {number: signal.signal(number, self._ask) for number in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *_: object) -> None:
        """Give the signals back."""
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _ask(self, _number: int, _frame: object) -> None:
        now = time.monotonic()
        again = self._since is not None and now - self._since > ONE_REQUEST
        self._since = now if self._since is None else self._since
        if again or self._hasty:
            raise KeyboardInterrupt
