"""Checkpoints are written while training goes on: each is that of its update, and an error in writing ends the run."""

import io
import os
import signal
import threading
import time

import pytest
import torch

from dragoman.shared.errors import DataError
from dragoman.shared.machine.processes import activity
from dragoman.shared.machine.stopping import Interrupted
from dragoman.shared.objectives import CrossEntropy, EncoderDecoderObjective
from dragoman.shared.training.checkpoints import Checkpoints, list_checkpoints
from dragoman.shared.training.saving import copied
from tests.small import refuses


class Told(EncoderDecoderObjective):
    """Knows the number of the update; fails in one, or gets a signal."""

    fails = signalled = 0

    def at(self, update):
        self.update = update
        if update == self.signalled:
            os.kill(os.getpid(), signal.SIGTERM)

    def prepare(self, batch):
        if self.update == self.fails:
            raise DataError("row 'r7': broken")
        return batch


@pytest.fixture
def told(world):
    return Told(system=world.system(0.2), parts=[CrossEntropy(label_smoothing=0.1)])


@pytest.fixture
def saving(monkeypatch):
    """Return a function that lets another be called before each training state is written, with the state."""

    def before(function):
        real = torch.save

        def save(state, place):
            if threading.current_thread() is not threading.main_thread():
                function(state)
            real(state, place)

        monkeypatch.setattr(torch, "save", save)

    return before


def content(place):
    """All that checkpoints hold, but for the time, by update."""
    found = {}
    for one in list_checkpoints(place.folder / "checkpoints"):
        state = one.training()
        for rank in state["ranks"]:
            rank["meter"]["seconds"] = 0.0
        file = io.BytesIO()
        torch.save(state, file)
        found[one.update] = (one.folder / "objective.safetensors").read_bytes(), file.getvalue()
    return found


def test_one_that_is_written_late_is_that_of_its_update(world, workspace, told, saving):
    world.fit(dropout=0.2).run(workspace("whole"))
    expected, later = content(workspace("whole")), []

    def wait(state):
        end = time.monotonic() + 60
        while told.update < min(state["position"]["update"] + 3, 12) and time.monotonic() < end:
            time.sleep(0.01)
        later.append(told.update)

    saving(wait)
    world.fit(objective=told).run(workspace("late"))
    assert later[0] >= 7 and later[1] >= 11, "training has waited"
    assert content(workspace("late")) == expected and expected.keys() == {4, 8, 12}


def test_one_is_written_at_a_time(world, workspace, told, saving):
    writing, updates = threading.Lock(), []

    def slow(state):
        assert writing.acquire(blocking=False), "two are written at once"
        time.sleep(0.02)
        updates.append(state["position"]["update"])
        writing.release()

    saving(slow)
    world.fit(objective=told, checkpoints=Checkpoints(keep="last 9", every=1), updates=8).run(workspace())
    assert updates == [1, 2, 3, 4, 5, 6, 7, 8]
    assert [c.update for c in list_checkpoints(workspace().folder / "checkpoints")] == updates


def full(state):
    if state["position"]["update"] > 4:
        raise OSError(28, "No space left on device")


MESSAGE = "00000008: the checkpoint could not be written .*No space left on device.*00000004 is intact"


def test_a_full_disk_ends_the_training_by_the_next_checkpoint(world, workspace, told, saving):
    saving(full)
    refuses(DataError, MESSAGE, world.fit(objective=told, updates=1000).run, workspace())
    assert told.update <= 12
    assert [path.name for path in (workspace().folder / "checkpoints").iterdir()] == ["00000004"]


def test_at_the_last_update_too(world, workspace, told, saving):
    saving(full)
    refuses(DataError, MESSAGE, world.fit(objective=told, updates=8).run, workspace())


def test_an_error_waits_for_what_is_being_written(world, workspace, told, saving):
    """Meanwhile, the other processes do not take it for one that hangs in reading or computing."""
    doing = []
    saving(lambda state: (time.sleep(0.3), doing.append((state["position"]["update"], activity.doing))))
    told.fails = 9
    refuses(DataError, "row 'r7': broken", world.fit(objective=told).run, workspace())
    assert [c.update for c in list_checkpoints(workspace().folder / "checkpoints")] == [4, 8]
    assert doing[-1] == (8, "")


def test_an_error_after_a_full_disk_does_not_hide_it(world, workspace, told, saving):
    """As when the record of the training finds no room either."""

    def slow(state):
        time.sleep(0.3)
        full(state)

    saving(slow)
    told.fails = 9
    refuses(DataError, MESSAGE, world.fit(objective=told).run, workspace())


def test_who_is_asked_to_stop_waits_until_all_is_written(world, workspace, told, saving):
    saving(lambda state: time.sleep(0.3))
    told.signalled = 9
    refuses(Interrupted, "stopped at update 9 of 12", world.fit(objective=told).run, workspace())
    found = list_checkpoints(workspace().folder / "checkpoints")
    assert [(c.update, c.interim) for c in found] == [(4, False), (8, False), (9, True)]


def test_a_copy_is_written_to_the_same_bytes():
    """Tensors that occur twice are copied once, and a transposed tensor stays transposed in memory."""
    parameter, shared = torch.nn.Parameter(torch.ones(3, 2)), torch.arange(5)
    state = {"tied": [parameter, parameter], 0: {"map": shared, "step": torch.tensor(3.0)}, 1: {"map": shared}}
    state |= {"turned": torch.randn(4, 3).t(), "groups": [{"betas": (0.9, 0.98), "params": [0, 1]}], "position": {}}
    found = copied(state)
    files = [io.BytesIO(), io.BytesIO()]
    for file, one in zip(files, (state, found), strict=True):
        torch.save(one, file)
    assert files[0].getvalue() == files[1].getvalue()
    with torch.no_grad():
        parameter.zero_()
    shared.zero_()
    state["position"]["update"] = 1
    assert found["tied"][0].eq(1).all() and found[1]["map"].tolist() == [0, 1, 2, 3, 4] and found["position"] == {}
    assert found["tied"][0] is found["tied"][1] and found["tied"][0].requires_grad
    assert not copied(torch.nn.Parameter(torch.ones(1), requires_grad=False)).requires_grad
