"""Runs side by side, each a process, as many at once as there are places for, until time is up."""

from __future__ import annotations

import ctypes
import fcntl
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from dragoman.commands.data_seen import training_minutes
from dragoman.commands.seeds import folder
from dragoman.runs.running import is_finished, unfinished
from dragoman.shared.errors import check_number
from dragoman.shared.recipe.recipe import Recipe

#: Of a GPU's memory, the share that is left to what torch does not count.
SPARE = 0.1
#: Seconds that runs have to write down their state before they are killed.
PATIENCE = 60.0
#: Seconds between two looks at the runs.
LOOK = 0.5
#: Linux's prctl: the signal that a process gets when the one that started it is gone.
PR_SET_PDEATHSIG = 1


@dataclass
class Run:
    """A recipe with one seed.

    Attributes:
        words: behind ``dragoman run``.
        recipe: as loaded from them.
        minutes: the longest that it may take.
        state: what there is to say of it if it is not finished.
    """

    words: list[str]
    recipe: Recipe
    minutes: float | None
    state: str = "not begun"
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)
    ends: float = field(default=float("inf"), repr=False)

    def __str__(self) -> str:
        """Return the words."""
        return shlex.join(self.words)

    def trains(self) -> bool:
        """Tell whether training is still to be done, or else what comes after it alone."""
        phases = (self.recipe.plan[name] for name in unfinished(self.recipe))
        return any(phase.inner is not None or "updates" in phase.arguments for phase in phases)

    def wants(self) -> set[Path]:
        """Return the folders that the run will write into: its own, and those of unfinished recipes inside it."""
        return {folder(self.recipe), *_inside(self.recipe)}


def _inside(recipe: Recipe) -> Iterator[Path]:
    for name in unfinished(recipe):
        inner = recipe.plan[name].inner
        if inner is not None and unfinished(inner):
            yield folder(inner)
            yield from _inside(inner)


@dataclass(frozen=True)
class Place:
    """A place for one run: the words that tell the run so, and its environment."""

    words: tuple[str, ...]
    environment: Mapping[str, str]


def places_on(device: str, at_once: int | None, gigabytes: float) -> list[Place]:
    """Return a place for each run that a machine can do at once.

    Args:
        device: "cpu"; or a GPU, of which all are used if it is "cuda" alone.
        at_once: on each device; None means 1 on the CPU, and on a GPU as many as its memory and the cores allow.
        gigabytes: of a GPU's memory that a run may take.

    Raises:
        UsageError: if there would be none.
    """
    check_number("at_once", 1 if at_once is None else at_once, least=1)
    check_number("gigabytes", gigabytes, above=0)
    cores = len(os.sched_getaffinity(0))
    if not device.startswith("cuda"):
        number = at_once or 1
        return [Place((), _threads(cores, number))] * number
    import torch

    devices = [device] if ":" in device else [f"cuda:{index}" for index in range(torch.cuda.device_count())]
    places = []
    for each in devices:
        memory = torch.cuda.get_device_properties(each).total_memory / 1e9 * (1 - SPARE)
        number = at_once or max(1, min(int(memory / gigabytes), cores // len(devices)))
        words = ("--device", each, "--memory_share", f"{(1 - SPARE) / number:.4f}")
        places += [Place(words, _threads(cores, number * len(devices)))] * number
    return places


def _threads(cores: int, number: int) -> dict[str, str]:
    """Return an environment in which several processes do not want more cores than there are."""
    return {"OMP_NUM_THREADS": str(max(1, cores // number))} | dict(os.environ)


class Shift:
    """Does runs at several places until all are done or time is up.

    Args:
        runs: in the order in which they are to be begun; one that needs the same unfinished work as one that is under
            way comes later.
        places: where one can be done each.
        logs: the folder for what runs say.
        end: when they are asked to stop, by ``time.monotonic()``.
    """

    def __init__(self, runs: Sequence[Run], places: Sequence[Place], logs: Path, end: float) -> None:
        self._waiting = [run for run in runs if not is_finished(run.recipe)]
        self._free = list(places)
        self._at: list[tuple[Run, Place]] = []
        self._logs = logs
        self._end = end

    def work(self) -> None:
        """Do them; when this returns, or is interrupted, no process is left.

        Raises:
            KeyboardInterrupt: after Ctrl-C.
        """
        self._logs.mkdir(parents=True, exist_ok=True)
        with ExitStack() as stack:
            stack.callback(self._stop)
            while self._waiting or self._at:
                if time.monotonic() >= self._end:
                    return
                self._begin(stack)
                time.sleep(LOOK)
                self._look()

    def _begin(self, stack: ExitStack) -> None:
        """Begin what there is a place for, and can be done beside what is under way."""
        taken = {place for run, _ in self._at for place in run.wants()}
        for run in list(self._waiting):
            if not self._free:
                return
            limit = run.minutes if run.minutes is not None and run.trains() else float("inf")
            if (left := limit - training_minutes(run.recipe)) <= 0:
                run.state = f"stopped after {run.minutes:g} minutes"
                self._waiting.remove(run)
                continue
            wanted = run.wants()
            if wanted & taken or is_locked(folder(run.recipe)):
                continue
            taken |= wanted
            self._waiting.remove(run)
            place = self._free.pop(0)
            log = self._logs / f"{'-'.join(folder(run.recipe).parts[-3:])}.log"
            out = stack.enter_context(open(log, "ab"))
            words = [sys.executable, "-m", "dragoman", "run", *run.words, *place.words]
            run.process = subprocess.Popen(
                words, stdout=out, stderr=out, env=dict(place.environment), preexec_fn=_end_with(os.getpid())
            )
            run.state = f"failed; its log: {log}"
            run.ends = time.monotonic() + 60 * left
            self._at.append((run, place))
            self._say(f"began {run}")

    def _look(self) -> None:
        """Free the places of what has come to its end, and stop what takes too long."""
        for run, place in list(self._at):
            assert run.process is not None
            code = run.process.poll()
            if code is None and time.monotonic() >= run.ends and run.trains():
                run.process.send_signal(signal.SIGTERM)
                run.state = f"stopped after {run.minutes:g} minutes"
                run.ends = float("inf")
            elif code is not None:
                self._at.remove((run, place))
                self._free.append(place)
                self._say(f"done {run}" if code == 0 else f"{run}: {run.state}")

    def _stop(self) -> None:
        """Ask what is under way to stop, and wait for it."""
        for run, _ in self._at:
            assert run.process is not None
            run.state = "begun"
            run.process.send_signal(signal.SIGTERM)
        until = time.monotonic() + PATIENCE
        for run, _ in self._at:
            assert run.process is not None
            try:
                run.process.wait(max(0.0, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                run.process.kill()
                run.process.wait()

    def _say(self, what: str) -> None:
        print(f"{time.strftime('%H:%M:%S')} {what} ({len(self._at)} under way, {len(self._waiting)} to do)", flush=True)


def is_locked(output: Path) -> bool:
    """Tell whether a run is at work in a folder, perhaps one that a killed call has left behind for a moment."""
    try:
        with open(output / "lock", "a+") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def _end_with(parent: int) -> Callable[[], None]:
    """Return what a new process calls to be asked to stop when its parent is gone, even if that was killed."""
    libc = ctypes.CDLL(None)

    def tie() -> None:
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:
            os._exit(1)

    return tie
