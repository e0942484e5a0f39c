"""One batch for all who wait: the rows of many requests, translated together by the thread of a model."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from typing import Any

from dragoman.shared.errors import check_number

Row = Mapping[str, Any]
#: What translates rows in one call; the first argument says how. It returns the outputs of each, or what is wrong with
#: it; or raises what is wrong with any of them.
Translate = Callable[[Any, list[Row]], Sequence[list[Any] | Exception]]
#: The share of the last batch in the average time of a row.
_NEWEST = 0.2


class Job:
    """The rows of one request.

    Args:
        how: passed on to what translates; jobs share a batch if it is the same object.
        rows: at least one.
        heard: called by the thread that translates with each row's number and outputs, in the order of batches.

    Attributes:
        future: the outputs of each row, such as its hypotheses. Once it is cancelled, no further row of the job is
            translated.
    """

    def __init__(self, how: Any, rows: Sequence[Row], heard: Callable[[int, list[Any]], None] | None = None) -> None:
        if not rows:
            raise ValueError("a job without rows has no answer to wait for")
        self.how = how
        self.rows = list(rows)
        self.waiting = deque(range(len(self.rows)))
        self.future: Future[list[list[Any]]] = Future()
        self._found: dict[int, list[Any]] = {}
        self._heard = heard

    def answer(self, number: int, outputs: list[Any]) -> None:
        """Take the outputs of a row; the last one completes the future."""
        self._found[number] = outputs
        if self._heard is not None:
            self._heard(number, outputs)
        if len(self._found) == len(self.rows):
            with suppress(InvalidStateError):  # cancelled by the client in this moment
                self.future.set_result([self._found[place] for place in range(len(self.rows))])

    def fail(self, error: Exception) -> None:
        """End the job with an error."""
        with suppress(InvalidStateError):
            self.future.set_exception(error)


class Batcher:
    """A thread that translates what waits, so many rows at a time; jobs take turns, so that a long one blocks none.

    The job of a row that fails has the error, the others their outputs: if a whole batch fails, each of its rows is
    translated by itself.

    Args:
        translate: called in the thread, never twice at a time.
        rows: of a batch, at most.
        wait: seconds that the first row waits for others.
        observe: called after each batch with the number of its rows and the seconds that it took.
    """

    def __init__(
        self, translate: Translate, *, rows: int, wait: float, observe: Callable[[int, float], None] | None = None
    ) -> None:
        check_number("rows", rows, least=1)
        check_number("wait", wait, least=0, most=60)
        self._translate, self._rows, self._wait = translate, rows, wait
        self._observe = observe
        self._jobs: deque[Job] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._pace = 0.0  # seconds a row, averaged
        self._thread = threading.Thread(target=self._work, name="translating", daemon=True)
        self._thread.start()

    @property
    def alive(self) -> bool:
        """Tell whether rows are translated."""
        return self._thread.is_alive() and not self._closed

    @property
    def waiting(self) -> int:
        """The number of rows that wait."""
        with self._changed:
            return self._count()

    @property
    def seconds_left(self) -> float:
        """The time that the waiting rows will take, by that of the last batches."""
        return self.waiting * self._pace

    def submit(self, job: Job) -> None:
        """Let a job wait for its turn.

        Raises:
            RuntimeError: after :meth:`close`.
        """
        with self._changed:
            if self._closed:
                raise RuntimeError("the server is stopping")
            self._jobs.append(job)
            self._changed.notify_all()

    def close(self) -> None:
        """Translate what waits, and end the thread."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.join()

    def _count(self) -> int:
        return sum(len(job.waiting) for job in self._jobs if not job.future.done())

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._jobs or self._closed)
                if not self._jobs:
                    return
                self._changed.wait_for(lambda: self._closed or self._count() >= self._rows, timeout=self._wait)
                taken = self._take()
            if taken:
                self._time(taken)

    def _take(self) -> list[tuple[Job, int]]:
        """Take rows from all jobs by turns, of those that are translated as the first one is."""
        jobs = [job for job in self._jobs if not job.future.done()]
        turns = deque(job for job in jobs if job.how is jobs[0].how)
        taken: list[tuple[Job, int]] = []
        while turns and len(taken) < self._rows:
            job = turns.popleft()
            taken.append((job, job.waiting.popleft()))
            if job.waiting:
                turns.append(job)
        self._jobs = deque([*(job for job in jobs if job.how is not jobs[0].how), *turns])
        return taken

    def _time(self, taken: list[tuple[Job, int]]) -> None:
        start = time.monotonic()
        self._answer(taken)
        seconds = time.monotonic() - start
        newest = seconds / len(taken)
        self._pace = newest if not self._pace else (1 - _NEWEST) * self._pace + _NEWEST * newest
        if self._observe is not None:
            self._observe(len(taken), seconds)

    def _answer(self, taken: list[tuple[Job, int]]) -> None:
        try:
            found = self._translate(taken[0][0].how, [job.rows[number] for job, number in taken])
        except Exception as error:  # whatever a row did: the thread goes on
            if len(taken) == 1:
                taken[0][0].fail(error)
                return
            for one in taken:
                if not one[0].future.done():
                    self._answer([one])
            return
        for (job, number), outputs in zip(taken, found, strict=True):
            if isinstance(outputs, Exception):
                job.fail(outputs)
            else:
                job.answer(number, outputs)
