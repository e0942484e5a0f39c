"""Jobs of many requests share batches, by turns, and fail alone."""

import threading
from concurrent.futures import CancelledError

import pytest

from dragoman.serving.batching import Batcher, Job
from tests import small


class Upper:
    """Translates to capitals; "bad" is an error of a batch, "poor" of a row. The first batch waits to be let go."""

    def __init__(self):
        self.batches, self.begun, self.go = [], threading.Event(), threading.Event()

    def __call__(self, how, rows):
        self.batches.append((how, rows))
        self.begun.set()
        assert self.go.wait(60)
        if "bad" in rows:
            raise ValueError("bad")
        return [KeyError(row) if row == "poor" else [row.upper()] for row in rows]


@pytest.fixture
def upper():
    return Upper()


@pytest.fixture
def batcher(upper):
    made = Batcher(upper, rows=4, wait=0.0)
    yield made
    upper.go.set()
    made.close()


def submit(batcher, *texts, how="best"):
    job = Job(how, texts)
    batcher.submit(job)
    return job


def busy(batcher, upper):
    """Submit a job and wait until it is worked on: what comes now waits."""
    job = submit(batcher, "first")
    assert upper.begun.wait(60)
    return job


def test_jobs_take_turns_in_batches(batcher, upper):
    first = busy(batcher, upper)
    long = submit(batcher, *"abcdef")
    short = submit(batcher, "x")
    assert batcher.waiting == 7
    upper.go.set()
    assert [job.future.result(60) for job in (first, short)] == [[["FIRST"]], [["X"]]]
    assert long.future.result(60) == [[letter] for letter in "ABCDEF"]
    assert [rows for _, rows in upper.batches] == [["first"], ["a", "x", "b", "c"], ["d", "e", "f"]]


def test_a_row_that_fails_fails_its_job_alone(batcher, upper):
    busy(batcher, upper)
    jobs = [submit(batcher, text) for text in ("a", "bad", "b")]
    upper.go.set()
    assert [job.future.exception(60) and "bad" for job in jobs] == [None, "bad", None]
    assert [jobs[0].future.result(), jobs[2].future.result()] == [[["A"]], [["B"]]]
    assert submit(batcher, "c").future.result(60) == [["C"]] and batcher.alive


def test_a_row_may_fail_without_its_batch(batcher, upper):
    busy(batcher, upper)
    jobs = [submit(batcher, text) for text in ("a", "poor", "b")]
    upper.go.set()
    assert isinstance(jobs[1].future.exception(60), KeyError)
    assert [jobs[0].future.result(60), jobs[2].future.result(60)] == [[["A"]], [["B"]]]
    assert [rows for _, rows in upper.batches] == [["first"], ["a", "poor", "b"]]


def test_what_nobody_waits_for_is_not_translated(batcher, upper):
    busy(batcher, upper)
    gone, stays = submit(batcher, "gone", "too"), submit(batcher, "stays")
    gone.future.cancel()
    assert batcher.waiting == 1
    upper.go.set()
    assert stays.future.result(60) == [["STAYS"]]
    assert [rows for _, rows in upper.batches] == [["first"], ["stays"]]
    with pytest.raises(CancelledError):
        gone.future.result(60)


def test_rows_that_are_translated_otherwise_have_batches_of_their_own(batcher, upper):
    busy(batcher, upper)
    jobs = [submit(batcher, "a"), submit(batcher, "b", how="other"), submit(batcher, "c")]
    upper.go.set()
    assert [job.future.result(60) for job in jobs] == [[["A"]], [["B"]], [["C"]]]
    assert upper.batches[1:] == [("best", ["a", "c"]), ("other", ["b"])]


def test_closing_translates_what_waits_and_takes_nothing_more(upper):
    batcher = Batcher(upper, rows=4, wait=60.0)
    upper.go.set()
    job = submit(batcher, "a")
    batcher.close()
    assert job.future.result() == [["A"]] and not batcher.alive
    assert "stopping" in small.refusal(RuntimeError, submit, batcher, "b")


def test_a_full_batch_waits_for_nobody(upper):
    batcher = Batcher(upper, rows=2, wait=60.0)
    upper.go.set()
    jobs = [submit(batcher, "a"), submit(batcher, "b")]
    assert [job.future.result(50) for job in jobs] == [[["A"]], [["B"]]]
    batcher.close()
