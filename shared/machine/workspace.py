"""The place of a run: its folder, log and random seed; and what a phase of a run is."""

from __future__ import annotations

import fcntl
import hashlib
import json
import logging
import os
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import IO, Any, ClassVar, NotRequired

from dragoman.shared.annotations import Checked
from dragoman.shared.errors import DataError, UsageError
from dragoman.shared.machine.device import Machine
from dragoman.shared.machine.files import replaced_file
from dragoman.shared.machine.records import check_record, read_record
from dragoman.shared.moved import as_earliest

#: The name of the log.
LOG = "dragoman"

#: The locks that this process holds. A forked worker lets go of them: one that outlives its parent for a moment, when
#: that is killed, must not keep the next start out.
_locks: set[IO[str]] = set()


@cache
def _release_locks_in_workers() -> None:
    os.register_at_fork(after_in_child=lambda: [lock.close() for lock in _locks])


class Phase(Checked, ABC):
    """One step of a recipe: reads artefacts of earlier phases from disk, writes its own.

    A phase is built only when its turn comes, so that what it opens (tokenizers, models) exists by then. It writes
    into ``workspace.folder`` and nowhere else, unless it names other ``outputs``.

    Attributes:
        extendable: the arguments that may be larger (or 0, without end) at a later start, which then goes on from where
            the phase is; with dots for those of its arguments' own, "validation.patience".
        without_effect: the arguments of which the result of a finished phase does not depend: they may be others at a
            later start, which need not do the phase again; but not null, which means another thing.
        choices: the arguments by which the phase chooses from what there is already: with others, it is done again,
            and so are the phases that read from it, if all of those measure.
        measures: whether the phase only measures what others have made.
        aside: the arguments that change nothing of what the phase makes: they may be others at a later start. So may
            those of these names inside of its arguments.
        later: arguments that came with a later version, perhaps inside of others, and the value with which the phase is
            what it was before: with that, they do not count.
        manifests: those that the phase reads, as paths or patterns; they may not change between two starts.
    """

    extendable: ClassVar[tuple[str, ...]] = ()
    without_effect: ClassVar[tuple[str, ...]] = ()
    choices: ClassVar[tuple[str, ...]] = ()
    measures: ClassVar[bool] = False
    aside: ClassVar[tuple[str, ...]] = ()
    later: ClassVar[Mapping[str, Any]] = {}
    manifests: Sequence[str] = ()

    @abstractmethod
    def run(self, workspace: Workspace) -> None:
        """Do the work; called again after an interruption, it goes on from what is already there."""

    def memory_needed(self) -> int:
        """Return how many bytes the device needs for the phase at least; asked of one built without memory (meta)."""
        return 0

    def check_libraries(self) -> None:
        """Raise a UsageError if a library is missing that the phase can be built without, but not run."""
        return

    def outputs(self) -> list[Path]:
        """Return the places outside the run's folder that the phase writes to."""
        return []

    def manifests_to_write(self) -> list[Path]:
        """Return the manifests that the phase will write into its outputs, where it writes nothing else into them."""
        return []

    @staticmethod
    def left_nothing(folder: Path) -> bool:
        """Tell whether a start that failed left nothing in the phase's folder that a later one goes on from."""
        return not any(place.is_file() for place in folder.rglob("*"))


class InUse(UsageError):
    """Another run is at work in the folder."""


@dataclass
class Workspace(Machine):
    """A phase's view of the run that it is part of, and of the machine that it computes on.

    Attributes:
        output: the folder of the whole run.
        seed: every random choice is derived from it.
        debug: do two updates and two batches of everything, to see that a recipe runs; in a folder of its own, which
            ends in -debug.
        noprogressbar: log lines instead of a progress bar.
        phase: the name of the phase now running.
        inside: the phases of other recipes that this run is part of, "asr" or "asr.mt"; "" if there is none.
        command: how the run was started, for the record.
        recipe: the name of the recipe that is run; "" if none is.
        arm: the name of the recipe's arm; "" if it is run as it is.
        keys: the keys of it that were given other values.
        keep_time: note how long the phase has taken so far; called where work has become safe (at checkpoints), so
            that a kill loses no more time than work.
    """

    output: Path
    seed: int = 1
    debug: bool = False
    noprogressbar: bool = False
    phase: str = ""
    inside: str = ""
    command: str = ""
    recipe: str = ""
    arm: str = ""
    keys: dict[str, Any] = field(default_factory=dict)
    keep_time: Callable[[], None] = lambda: None

    @property
    def folder(self) -> Path:
        """The folder of the phase now running."""
        return self.output / self.phase

    @property
    def where(self) -> str:
        """The place where the run is, as messages name it."""
        return f"in phase {self.phase!r}" if self.phase else "before its first phase"

    @property
    def log(self) -> logging.Logger:
        """The run's log: the terminal and ``log.txt``; lines of a run inside another begin with the other's phase."""
        return logging.getLogger(f"{LOG}.{self.inside}" if self.inside else LOG)

    @property
    def title(self) -> str:
        """The name of the phase now running, as seen from the outermost run: "asr.fit"."""
        return f"{self.inside}.{self.phase}" if self.inside else self.phase

    @property
    def show_progress(self) -> bool:
        """True if progress bars are to be drawn."""
        return self.main and not self.noprogressbar and sys.stderr.isatty()

    def seed_for(self, *names: object) -> int:
        """Derive a 63-bit seed from the run's seed and any names."""
        digest = hashlib.blake2b(repr((self.seed, *names)).encode(), digest_size=8).digest()
        return int.from_bytes(digest, "little") >> 1

    @contextmanager
    def locked(self, *, part: bool = False) -> Iterator[None]:
        """Hold the run's folder for this process (rank 0), and send the log to it.

        A run inside another waits for one that is at work there, since both want the same of it. Processes that each do
        a ``part`` of a phase hold it together.

        Raises:
            InUse: if another run holds the folder and this one is not inside of another.
            UsageError: if it cannot be written.
        """
        logger = logging.getLogger(LOG)
        level = logger.level
        handlers: list[logging.Handler] = []
        lock: IO[str] | None = None
        try:
            try:
                self.output.mkdir(parents=True, exist_ok=True)
                if self.main:
                    _release_locks_in_workers()
                    lock = open(self.output / "lock", "a+", encoding="utf-8")  # noqa: SIM115
                    _locks.add(lock)
                    try:
                        fcntl.flock(lock, (fcntl.LOCK_SH if part else fcntl.LOCK_EX) | fcntl.LOCK_NB)
                    except BlockingIOError:
                        if not self.inside:
                            raise
                        self.log.info("waiting for another run that is at work in %s", self.output)
                        fcntl.flock(lock, fcntl.LOCK_EX)
                    handlers.append(_LogFile(self.output / "log.txt", encoding="utf-8"))
            except BlockingIOError as error:
                raise InUse(f"{self.output}: another run is at work in this folder") from error
            except OSError as error:
                raise UsageError(f"{self.output}: cannot be written ({error.strerror})") from error
            for handler in handlers:
                handler.setFormatter(_LogLine(self.log.name))
                logger.addHandler(handler)
            if handlers and not logger.isEnabledFor(logging.INFO):
                logger.setLevel(logging.INFO)  # called from Python, where only warnings are logged by default
            yield
        finally:
            logger.setLevel(level)
            for handler in handlers:
                logger.removeHandler(handler)
                handler.close()
            if lock is not None:
                _locks.discard(lock)
                lock.close()


def log_message(record: logging.LogRecord, run: str = LOG) -> str:
    """Return the message of a line in the log of a run, behind the phase of it in which another recipe says so."""
    inside = record.name.removeprefix(run).lstrip(".")
    return f"{inside}: {record.getMessage()}" if inside and record.name.startswith(run) else record.getMessage()


class _LogLine(logging.Formatter):
    def __init__(self, run: str) -> None:
        super().__init__("%(asctime)s %(message)s", "%Y-%m-%d %H:%M:%S")
        self.run = run

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  (its name in logging)
        record.message = log_message(record, self.run)
        return super().formatMessage(record)


class _LogFile(logging.FileHandler):
    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802  (its name in logging)
        """Let a full disk be: what cannot be logged still stands on the terminal."""


#: What the record of a phase says that has been started.
_STARTED: dict[str, Any] = {
    "fingerprint": str,
    "outputs": list[str],
    "seed": NotRequired[int],
    "debug": NotRequired[bool],
    "seconds": NotRequired[float],
    "finished": NotRequired[str],
    "runs": NotRequired[list[str]],
    "inputs": NotRequired[dict[str, str]],
    "values": NotRequired[dict[str, str]],
    "manifests": NotRequired[dict[str, str]],
}


class PhaseRecord:
    """``state/<phase>.json``: how far a phase is, for which fingerprint, and how long it took.

    Its ``status`` is "running" (or interrupted), "finished", or "discarded": about to be deleted with its folder.
    """

    STATUSES = ("running", "finished", "discarded")

    def __init__(self, output: Path, name: str) -> None:
        self.path = output / "state" / f"{name}.json"
        self.folder = output / name

    def read(self) -> dict[str, Any]:
        """Return the record, empty if the phase never started.

        Raises:
            DataError: if it is not what :meth:`write` has written.
        """
        if not self.path.is_file():
            return {}
        what, advice = "a phase record", f"delete it and {self.folder} to do the phase again"
        record = read_record(self.path, {"status": str}, what, advice)
        if record["status"] not in self.STATUSES:
            statuses = ", ".join(self.STATUSES)
            raise DataError(
                f"{self.path}: not {what} ('status' is {record['status']!r}, not one of {statuses}); {advice}"
            )
        if record["status"] != "discarded":
            check_record(record, str(self.path), _STARTED, what, advice)
        return record

    def remove(self) -> None:
        """Forget the phase."""
        self.path.unlink(missing_ok=True)

    def write(self, **values: Any) -> None:
        """Replace the record."""
        with replaced_file(self.path) as temporary:
            temporary.write_text(json.dumps(values, indent=2) + "\n", encoding="utf-8")


def fingerprint(plain: Any, inputs: dict[str, str], output: str = "") -> str:
    """Hash a phase's resolved keys and its inputs' fingerprints.

    Args:
        plain: the phase's resolved subtree of the recipe, as plain data.
        inputs: fingerprints of the earlier phases it reads from, by name.
        output: the run's folder as the recipe spells it, on which the hash does not depend.
    """
    text = as_earliest([plain, inputs])
    if output:
        text = text.replace(json.dumps(output, ensure_ascii=False)[1:-1], "<output>")
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def strings(plain: Any) -> Iterator[str]:
    """Yield every string inside plain data."""
    if isinstance(plain, str):
        yield plain
    elif isinstance(plain, dict):
        for value in plain.values():
            yield from strings(value)
    elif isinstance(plain, list | tuple):
        for value in plain:
            yield from strings(value)


class Stopwatch:
    """Seconds since it was made."""

    def __init__(self) -> None:
        self.started = time.monotonic()

    @property
    def seconds(self) -> float:
        """Return the seconds that have gone by."""
        return time.monotonic() - self.started
