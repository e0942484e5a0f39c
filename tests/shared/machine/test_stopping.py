"""A process that is asked to stop ends, whatever it is in the middle of."""

import signal
import subprocess
import sys
import threading
import time

import pytest

from dragoman.shared.machine import stopping
from tests.small import GOLDEN, slow_but

#: Native code that runs for half a minute without a Python instruction: a product of matrices, in torch as everywhere.
STUCK = """
import os, signal, sys
from pathlib import Path
from dragoman.commands.endings import as_ctrl_c
from dragoman.shared.machine import stopping
stopping.PATIENCE = 0.3
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, as_ctrl_c(os.getpid()))
stopping.end_if_stuck()
import torch
torch.set_num_threads(1)
from dragoman.shared.machine.files import replaced_file
begun = replaced_file(Path(sys.argv[1]) / "file")
begun.__enter__().write_text("half")
matrix = torch.randn(4000, 4000, dtype=torch.float64)
print("ready", flush=True)
torch.linalg.svd(matrix)
"""
ASKED = """
import os, signal, sys, time
from dragoman.shared.machine import stopping
stopping.PATIENCE = 0.2
stopping.end_if_stuck()
with stopping.Stop() as stop:
    print("ready", flush=True)
    while not stop.asked:
        time.sleep(0.01)
    end = time.monotonic() + 1
    while time.monotonic() < end:  # the work that is finished before the end
        pass
print("saved", flush=True)
"""


def run(program, *arguments):
    process = subprocess.Popen(
        [sys.executable, "-c", program, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "ready\n"
    return process


@pytest.mark.parametrize("number", slow_but([signal.SIGTERM], [signal.SIGTERM, signal.SIGINT]))
def test_native_code_is_left_and_nothing_half_written_stays(number, tmp_path):
    process = run(STUCK, tmp_path)
    assert [path.read_text() for path in tmp_path.iterdir()] == ["half"]
    time.sleep(0.5)
    process.send_signal(number)
    out, messages = process.communicate(timeout=60)
    assert process.returncode == 128 + number and out == ""
    assert messages == "dragoman: error: stopped in the middle of a computation\n" and not [*tmp_path.iterdir()]


#: The command, which says when it begins to translate.
TRANSLATING = """
import sys
from dragoman.__main__ import main
from dragoman.shared.systems.system import System
translate = System.hypotheses
def hypotheses(self, *inputs, **options):
    print("ready", flush=True)
    return translate(self, *inputs, **options)
System.hypotheses = hypotheses
sys.argv = ["dragoman", "translate", *sys.argv[1:], "--device", "cpu"]
main()
"""


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_line_that_takes_minutes_is_left_within_seconds(number, tmp_path):
    (tmp_path / "long.txt").write_text("one two three " * 9300 + "\n")  # of 130,200 characters, which are allowed
    process = run(TRANSLATING, str(GOLDEN), str(tmp_path / "long.txt"))
    time.sleep(5)
    assert process.poll() is None
    asked = time.monotonic()
    process.send_signal(number)
    out, messages = process.communicate(timeout=60)
    assert time.monotonic() - asked < 20 and process.returncode in (1, 128 + number) and out == ""
    assert messages.count("\n") == 1 and messages.startswith("dragoman: error: ") and "Traceback" not in messages


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_who_has_noticed_is_left_alone(number):
    process = run(ASKED)
    process.send_signal(number)
    out, messages = process.communicate(timeout=60)
    assert (process.returncode, out, messages) == (0, "saved\n", "")


def test_the_end_of_a_worker_is_not_that_of_its_parent():
    program = """
import os, signal, time
from dragoman.shared.machine import stopping
stopping.PATIENCE = 0.2
stopping.end_if_stuck()
signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
child = os.fork()
if not child:
    time.sleep(60)
time.sleep(0.2)
os.kill(child, signal.SIGTERM)
os.waitpid(child, 0)
print("ready", flush=True)
time.sleep(1)
print("alive", flush=True)
"""
    out, messages = run(program).communicate(timeout=60)
    assert (out, messages) == ("alive\n", "")


@pytest.fixture
def clock(monkeypatch):
    """The time, to be set."""
    now = [100.0]
    monkeypatch.setattr(stopping.time, "monotonic", lambda: now[0])
    yield now
    stopping.noticed.clear()


def test_the_first_request_is_noted_and_a_later_one_stops_at_once(clock):
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    with stopping.Stop() as stop:
        assert not stop.asked
        signal.raise_signal(signal.SIGTERM)
        assert stop.asked and stopping.noticed.is_set()
        clock[0] += stopping.ONE_REQUEST  # torchrun and the shell may both pass one request on
        signal.raise_signal(signal.SIGINT)
        clock[0] += 0.01
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before


def test_work_that_can_be_done_again_is_left_at_once(clock):
    with stopping.Stop() as stop:
        with stop.at_once():
            pass
        with pytest.raises(KeyboardInterrupt), stop.at_once():
            signal.raise_signal(signal.SIGTERM)
        assert stop.asked
        done = []
        with pytest.raises(KeyboardInterrupt), stop.at_once():
            done.append("more")
        assert done == []
        signal.raise_signal(signal.SIGTERM)  # in the same moment, and outside: noted


def test_other_threads_take_over_no_signals():
    before, found = signal.getsignal(signal.SIGTERM), []

    def enter():
        with stopping.Stop() as stop:
            found.append((signal.getsignal(signal.SIGTERM), stop.asked))

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    assert found == [(before, False)] and signal.getsignal(signal.SIGTERM) is before
