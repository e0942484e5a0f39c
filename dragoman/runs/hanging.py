"""A process that hangs in training: the others name it and end the run, instead of waiting for it without end.

Each process has a thread that writes into the store of the run how often it has done so, and what the process is doing.
Who finds for ``PATIENCE`` seconds that another process writes nothing, or reads or computes what all others wait for,
ends the run. Checks are counted, not seconds, so that neither clocks that differ nor a machine that slept matter.
Outside of updates (validation, saving, whatever one process does for all) nobody is found to hang.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from dragoman.shared.errors import UsageError
from dragoman.shared.machine.files import discard_temporaries
from dragoman.shared.machine.processes import activity, store_of_its_own
from dragoman.shared.machine.workspace import Workspace

#: The variable of the environment that says after how many seconds a process hangs, 0 for never, and its default.
VARIABLE, PATIENCE = "DRAGOMAN_HANG_SECONDS", 60.0
#: How often each process looks within that time.
CHECKS = 12


@dataclass(frozen=True)
class Sign:
    """A line in which a process tells of itself.

    Attributes:
        beat: how often it has said something.
        update: the number of the update that it is at.
        doing: "reads" its batches, "computes", "waits" for the others; "" for what may take long.
        host: where it runs.
        pid: its number there.
    """

    beat: int
    update: int
    doing: str
    host: str
    pid: int


class Observer:
    """Finds the processes that hang in what all processes say, check by check."""

    def __init__(self) -> None:
        self._seen: list[Sign] = []
        self._silent: list[int] = []
        self._still: list[int] = []

    def hanging(self, signs: Sequence[Sign]) -> dict[int, str]:
        """Return what is said of each rank that hangs, if others are waiting for it.

        Args:
            signs: one for each rank, in order, at this check.
        """
        if not self._seen:
            self._seen, self._silent, self._still = list(signs), [0] * len(signs), [0] * len(signs)
            return {}
        for rank, (before, now) in enumerate(zip(self._seen, signs, strict=True)):
            self._silent[rank] = 0 if now.beat != before.beat else self._silent[rank] + 1
            same = (now.update, now.doing) == (before.update, before.doing)
            self._still[rank] = self._still[rank] + 1 if same else 0
        self._seen = list(signs)
        waited = any(one.doing == "waits" and still >= CHECKS for one, still in zip(signs, self._still, strict=True))
        found = {}
        for rank, sign in enumerate(signs):
            if (sign.doing or waited) and self._silent[rank] >= CHECKS:
                found[rank] = "does not answer"
            elif waited and sign.doing in ("reads", "computes") and self._still[rank] >= CHECKS:
                found[rank] = f"still {sign.doing}"
        return found


@contextmanager
def watching(workspace: Workspace) -> Iterator[None]:
    """Let a thread tell of this process, and look at the others, until the end; nothing for a single process.

    Raises:
        UsageError: if the variable of the environment is not a number of seconds.
    """
    seconds = _patience()
    store = store_of_its_own("signs") if workspace.world > 1 and seconds else None
    if store is None:
        yield
        return
    over = threading.Event()
    arguments = (workspace, store, seconds / CHECKS, over)
    thread = threading.Thread(target=_watch, args=arguments, name="signs", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(timeout=seconds)


def _patience() -> float:
    given = os.environ.get(VARIABLE, str(PATIENCE))
    try:
        seconds = float(given)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        raise UsageError(f"{VARIABLE} must be a number of seconds, or 0, not {given!r}")
    return seconds


def _watch(workspace: Workspace, store: Any, interval: float, over: threading.Event) -> None:
    observer, beat = Observer(), 0
    names = [str(rank) for rank in range(workspace.world)]
    try:
        while True:
            beat += 1
            update, doing = activity.update, activity.doing
            sign = Sign(beat, update, doing, socket.gethostname(), os.getpid())
            store.set(str(workspace.rank), json.dumps(asdict(sign)))
            if store.check(names):
                signs = [Sign(**json.loads(value)) for value in store.multi_get(names)]
                hanging = observer.hanging(signs)
                others = [rank for rank in range(workspace.world) if rank not in hanging]
                if hanging and others and workspace.rank == others[0]:
                    _end(workspace, signs, hanging, interval * CHECKS)
            if over.wait(interval):
                return
    except RuntimeError:  # the store is gone, and with it the run: whoever waits learns of it there
        return


def _end(workspace: Workspace, signs: Sequence[Sign], hanging: dict[int, str], seconds: float) -> None:
    """End this process, which torchrun takes for the end of all; the main thread is inside of a call that waits."""
    who = "; ".join(
        f"process {rank} of {workspace.world} ({signs[rank].host}, pid {signs[rank].pid}) {what} "
        f"at update {signs[rank].update}"
        for rank, what in hanging.items()
    )
    print(
        f"dragoman: error: {workspace.output}: {who}, for {seconds:g} seconds; the run ends, and the same command goes "
        f"on from its last checkpoint ({VARIABLE}=0 lets it wait)",
        file=sys.stderr,
        flush=True,
    )
    discard_temporaries()
    os._exit(1)
