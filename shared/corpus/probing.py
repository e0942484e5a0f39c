"""Looking into sound files for a whole corpus: chunks of segments, a pool of processes, a journal of what was found."""

from __future__ import annotations

import json
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
from pathlib import Path
from typing import IO, Any

from shared.corpus.audio import clip_duration, probe
from shared.errors import DataError

#: Audio file (None for none), start and duration in seconds.
Segment = tuple[str | None, float | None, float | None]

#: The true duration of a segment (None without audio), or what is wrong with it.
Finding = float | str | None


def check_segments(segments: list[Segment]) -> list[Finding]:
    """Look at the file of each segment; this is what runs in the pool."""
    findings: list[Finding] = []
    for path, start, duration in segments:
        try:
            findings.append(None if path is None else clip_duration(path, start or 0.0, duration, _length(path)))
        except DataError as error:
            findings.append(str(error))
    return findings


def _length(path: str) -> float:
    """Return the length of a file in seconds; a talk is opened once for all its segments."""
    try:
        status = os.stat(path)
    except OSError as error:
        raise DataError(f"{path}: {(error.strerror or 'cannot be read').lower()}") from error
    return _known_length(path, status.st_size, status.st_mtime_ns)


@lru_cache(maxsize=4096)
def _known_length(path: str, size: int, time: int) -> float:
    return probe(path)


class Pool:
    """Processes that check chunks; none is started before the first chunk with audio."""

    def __init__(self, workers: int = 0) -> None:
        """Take the number of processes: 0 means one per processor, 1 means to work in this process."""
        if workers < 0:
            raise ValueError(f"the number of workers cannot be {workers}")
        self.workers = workers or _processors()
        self._executor: ProcessPoolExecutor | None = None

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *failure: object) -> None:
        if self._executor is not None:
            self._executor.shutdown(cancel_futures=True)

    def check(
        self, chunks: Iterable[tuple[Any, list[Segment], list[Finding] | None]]
    ) -> Iterator[tuple[Any, list[Finding]]]:
        """Check chunks, ahead of the consumer by a bounded number, and give their findings in order.

        Args:
            chunks: whatever the caller wants back, the segments, and the findings if they are known already.

        Raises:
            DataError: if a process of the pool dies.

        """
        pending: deque[tuple[Any, Callable[[], list[Finding]]]] = deque()
        for label, segments, known in chunks:
            pending.append((label, self._start(segments, known)))
            if len(pending) > 4 * self.workers:
                label, result = pending.popleft()
                yield label, result()
        while pending:
            label, result = pending.popleft()
            yield label, result()

    def _start(self, segments: list[Segment], known: list[Finding] | None) -> Callable[[], list[Finding]]:
        if known is not None:
            return lambda: known
        if self.workers == 1 or not any(path for path, _, _ in segments):
            return lambda: check_segments(segments)
        if self._executor is None:
            method = "fork" if sys.platform == "linux" else "spawn"
            self._executor = ProcessPoolExecutor(
                self.workers, mp_context=multiprocessing.get_context(method), initializer=_begin_worker
            )
        try:
            future: Future[list[Finding]] = self._executor.submit(check_segments, segments)
        except BrokenProcessPool as error:
            raise _death(segments) from error

        def result() -> list[Finding]:
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


class Journal:
    """The findings of finished chunks, a line of JSON each, behind a line with the fingerprint they hold for.

    A line that a kill left unfinished is cut off when the journal is opened again.
    """

    def __init__(self, path: Path, fingerprint: str) -> None:
        """Take the file and the fingerprint of what is being prepared; nothing is opened yet."""
        self.path = path
        self.fingerprint = fingerprint
        self.chunks: dict[int, list[Finding]] = {}
        self._file: IO[str] | None = None

    def __enter__(self) -> Journal:
        whole = self._read()
        if not self.path.exists() or not whole:
            self.path.write_text(json.dumps({"fingerprint": self.fingerprint}) + "\n", encoding="utf-8")
        else:
            os.truncate(self.path, whole)
        self._file = open(self.path, "a", encoding="utf-8")  # noqa: SIM115  closed by __exit__
        return self

    def __exit__(self, *failure: object) -> None:
        if self._file is not None:
            self._file.close()

    def _read(self) -> int:
        """Load the chunks; return how many bytes of the file are whole lines of this fingerprint."""
        whole = 0
        if not self.path.exists():
            return whole
        with open(self.path, "rb") as file:
            for line in file:
                if not line.endswith(b"\n"):
                    break
                entry = json.loads(line)
                if whole == 0:
                    if entry != {"fingerprint": self.fingerprint}:
                        break
                else:
                    number, findings = entry
                    self.chunks[number] = findings
                whole += len(line)
        return whole

    def add(self, number: int, findings: list[Finding]) -> None:
        """Note a chunk in which every segment is sound; those without audio are not worth noting."""
        if self._file is None or number in self.chunks or not any(findings):
            return
        self._file.write(json.dumps([number, findings]) + "\n")
        self._file.flush()

    def remove(self) -> None:
        """Delete the file: the split is finished."""
        self.path.unlink(missing_ok=True)
