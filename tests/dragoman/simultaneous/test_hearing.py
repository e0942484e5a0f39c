"""Sound that comes in is heard together where the machine is too slow, and never where it comes from a file."""

import threading

import pytest
import torch

from dragoman import DataError
from dragoman.simultaneous.hearing import keeping_up, pieces_of
from tests.small import refuses


class Recorder:
    """Chunks of a second, which come when the clock says so, each a number."""

    def __init__(self, *times):
        self.times, self.now, self.read = times, 0.0, threading.Semaphore(0)
        self.changed = threading.Condition()

    def clock(self):
        return self.now

    def chunks(self):
        for number, due in enumerate(self.times):
            with self.changed:
                self.changed.wait_for(lambda due=due: self.now >= due, timeout=60)
            yield torch.full((16000,), float(number))
            self.read.release()  # asked for the next: this one waits to be heard
        self.read.release()

    def until(self, now, chunks):
        """Let the time come, and wait until so many more chunks have been read."""
        with self.changed:
            self.now = now
            self.changed.notify_all()
        for _ in range(chunks):
            assert self.read.acquire(timeout=60)


def numbers(chunk):
    return chunk[::16000].int().tolist()


def test_what_has_come_meanwhile_is_heard_together():
    recorder = Recorder(0, 5, 6, 7, 8, 9, 10, 11)
    heard = keeping_up(recorder.chunks(), recorder.clock)
    recorder.until(0, 0)
    assert numbers(next(heard)) == [0]
    recorder.until(6.5, 3)  # while the first was translated
    assert numbers(next(heard)) == [1, 2]
    recorder.until(11, 5)
    assert numbers(next(heard)) == [3, 4, 5, 6]  # four at most
    assert numbers(next(heard)) == [7]
    assert list(heard) == []


def test_pieces_of_chunks_are_heard_together_as_if_they_were_chunks():
    recorder = Recorder(0, *[5] * 9)
    heard = keeping_up(recorder.chunks(), recorder.clock, pieces=2)
    recorder.until(0, 0)
    assert numbers(next(heard)) == [0]
    recorder.until(11, 10)
    assert [numbers(chunk) for chunk in heard] == [[*range(1, 9)], [9]]


@pytest.mark.parametrize(
    ("chunk", "wanted"), [(0.5, (1600, 5)), (0.28, (1494, 3)), (0.1, (1600, 1)), (0.05, (800, 1)), (4.0, (1600, 40))]
)
def test_pieces_are_at_most_a_tenth_of_a_second(chunk, wanted):
    assert pieces_of(chunk) == wanted


def test_chunks_of_a_file_stay_as_they_are():
    recorder = Recorder(*[0] * 20)
    heard = keeping_up(recorder.chunks(), recorder.clock)
    first = numbers(next(heard))
    recorder.until(0, 21)
    recorder.now = 1000.0  # the machine is slow
    assert first == [0] and [numbers(chunk) for chunk in heard] == [[number] for number in range(1, 20)]


def test_an_error_comes_after_what_was_read():
    def broken():
        yield torch.zeros(16000)
        raise DataError("standard input: is a file")

    heard = keeping_up(broken(), lambda: 0.0)
    assert len(next(heard)) == 16000
    refuses(DataError, "^standard input: is a file$", next, heard)


@pytest.mark.parametrize("given", [[], [torch.zeros(5)]])
def test_little_sound(given):
    assert sum(map(len, keeping_up(given))) == sum(map(len, given))
