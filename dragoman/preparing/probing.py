"""Looking into sound files for a whole corpus: chunks of segments, a pool of processes, a journal of what was found."""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import lru_cache
from typing import Any, TypeVar

from dragoman.shared.annotations import Checked
from dragoman.shared.errors import DataError, shortened
from dragoman.shared.machine.files import check_regular
from dragoman.shared.machine.memory import check_workers
from dragoman.shared.machine.remote import remote_stamp, uri_of
from dragoman.shared.preparing.findings import ERRORS, SHORTEST, Problem
from dragoman.shared.ranges import NonNegativeInt
from dragoman.shared.sound.audio import END_TOLERANCE, clip_duration, levels, probe_mix
from dragoman.shared.sound.channels import OPPOSITE
from dragoman.shared.sound.mpeg import listed_damage
from dragoman.shared.sound.shards import file_of

Result = TypeVar("Result")

#: What a pool does with a list of segments, one result for each.
Look = Callable[[list["Segment"]], list[Result]]

#: Audio file (None for none), start and duration in seconds.
Segment = tuple[str | None, float | None, float | None]

#: The true duration of a segment (None without audio), or what is wrong with it.
Finding = float | str | None

#: The true duration of a segment (None without audio, or if it cannot be told), and all that is wrong or strange.
Examination = tuple[float | None, list[Problem]]

#: Seconds that a published segmentation may be off by its last digit; such cuts are not worth a word.
ROUNDING = 1e-3

_LONGEST = 4500  # characters of a message: more than those of a path that can be

#: Peaks below -60 dB are silence.
SILENCE = 1e-3

#: A recording with more than this share of its samples at full scale is clipped: one in a thousand is heard.
CLIPPED_SHARE = 1e-3


def check_segments(segments: list[Segment], *, end_tolerance: float = END_TOLERANCE) -> list[Finding]:
    """Look at the file of each segment; this is what runs in the pool when a corpus is prepared."""
    findings: list[Finding] = []
    told = set()
    for (path, _, _), (duration, problems) in zip(
        segments, examine_segments(segments, listen=False, end_tolerance=end_tolerance), strict=True
    ):
        errors = [problem.detail for problem in problems if problem.kind in ERRORS]
        for problem in problems:
            if problem.kind in ("damaged audio", "cancelling channels") and (path, problem.kind) not in told:
                told.add((path, problem.kind))
                logging.getLogger("dragoman").warning("%s", problem.detail)
        findings.append(errors[0] if errors else duration)
    return findings


def examine_segments(
    segments: list[Segment], *, listen: bool, end_tolerance: float = END_TOLERANCE
) -> list[Examination]:
    """Look at the file of each segment, and with ``listen`` at all its samples too."""
    return [_examine(*segment, listen=listen, end_tolerance=end_tolerance) for segment in segments]


def _examine(
    path: str | None, start: float | None, duration: float | None, *, listen: bool, end_tolerance: float
) -> Examination:
    if path is None:
        return None, []
    kind = "unreadable audio"
    try:
        with listed_damage() as damage:
            length, cancelled = _surveyed(path)
            kind = "segment outside its file"
            real = clip_duration(path, start or 0.0, duration, length, end_tolerance)
            kind = "unreadable audio"
            heard = levels(path, start or 0.0, real) if listen else None
    except DataError as error:
        on_this_machine = uri_of(path) is None
        missing = kind == "unreadable audio" and on_this_machine and not os.path.exists(file_of(path))
        return None, [Problem("missing audio" if missing else kind, shortened(str(error), _LONGEST))]
    strange = {}
    if damage:
        strange["damaged audio"] = damage[0]
    if duration is not None and duration - real > ROUNDING:
        strange["segment cut at the end"] = f"{duration - real:.3f} s past the end ({length:.3f} s)"
    if real < SHORTEST:
        strange["short audio"] = f"{real:.3f} s"
    if heard is not None and heard.mono < SILENCE:
        strange["silent audio"] = f"largest sample {heard.mono:.1g} in {real:.2f} s"
    if heard is not None and heard.full > CLIPPED_SHARE:
        strange["clipped audio"] = f"{heard.full:.2%} of the samples at full scale"
    if cancelled if heard is None else heard.cancelled:
        strange["cancelling channels"] = OPPOSITE
    return real, [Problem(kind, f"{path}, {start or 0.0:g} s: {detail}") for kind, detail in strange.items()]


def _surveyed(path: str) -> tuple[float, bool]:
    """Return the length of a file in seconds, and whether its channels cancel; a talk is opened once for all."""
    file = file_of(path)
    uri = uri_of(file)
    if uri is not None:
        return _known(path, *remote_stamp(uri))
    check_regular(file, "sound file")
    try:
        status = os.stat(file)
    except OSError as error:
        raise DataError(f"{path}: {(error.strerror or 'cannot be read').lower()}") from error
    except ValueError as error:  # a zero byte in the name
        raise DataError(f"{path!r}: no file can have this name ({error})") from error
    return _known(path, status.st_size, status.st_mtime_ns)


@lru_cache(maxsize=4096)
def _known(path: str, size: int, time: int | str) -> tuple[float, bool]:
    return probe_mix(path)


class Pool(Checked):
    """Processes that check chunks; none is started before the first chunk with audio."""

    def __init__(self, workers: NonNegativeInt = 0) -> None:
        """Take the number of processes: 0 means one per processor, 1 means to work in this process."""
        check_workers(workers)
        self.workers = workers or _processors()
        self._executor: ProcessPoolExecutor | None = None

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *failure: object) -> None:
        if self._executor is not None:
            self._executor.shutdown(cancel_futures=True)

    def check(
        self, look: Look[Result], chunks: Iterable[tuple[Any, list[Segment], list[Result] | None]]
    ) -> Iterator[tuple[Any, list[Result]]]:
        """Check chunks, ahead of the consumer by a bounded number, and give what was found in order.

        Raises:
            DataError: if a process of the pool dies.
        """
        pending: deque[tuple[Any, Callable[[], list[Result]]]] = deque()
        for label, segments, known in chunks:
            pending.append((label, self._start(look, segments, known)))
            if len(pending) > 4 * self.workers:
                label, result = pending.popleft()
                yield label, result()
        while pending:
            label, result = pending.popleft()
            yield label, result()

    def _start(
        self, look: Look[Result], segments: list[Segment], results: list[Result] | None
    ) -> Callable[[], list[Result]]:
        if results is not None:
            return lambda: results
        if self.workers == 1 or not any(path for path, _, _ in segments):
            return lambda: look(segments)
        if self._executor is None:
            method = "fork" if sys.platform == "linux" else "spawn"
            self._executor = ProcessPoolExecutor(
                self.workers, mp_context=multiprocessing.get_context(method), initializer=_begin_worker
            )
        try:
            future: Future[list[Result]] = self._executor.submit(look, segments)
        except BrokenProcessPool as error:
            raise _death(segments) from error

        def result() -> list[Result]:
            try:
                return future.result()
            except BrokenProcessPool as error:
                raise _death(segments) from error

        return result


def _death(segments: list[Segment]) -> DataError:
    first = next((path for path, _, _ in segments if path), "?")
    return DataError(
        f"{first}: a process died while reading this file or one of the next {len(segments)} "
        "(out of memory, or a file that crashes libsndfile)"
    )


def _begin_worker() -> None:
    """Leave Ctrl-C to the parent, and end with it: a worker whose parent was killed would wait for work for ever."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
