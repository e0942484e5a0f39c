"""Messages between the processes of a run that ends, without starting any."""

import signal
from datetime import timedelta

import pytest
import torch.distributed as dist

from shared.machine import processes as distributed
from shared.machine.processes import EndedElsewhere, silent, together
from shared.machine.workspace import Workspace

SOON = timedelta(seconds=0.2)


@pytest.fixture
def workspace(tmp_path):
    return Workspace(output=tmp_path / "out", device="cpu", phase="fit", rank=0, world=3)


def test_who_does_not_say_that_it_leaves_was_killed(workspace):
    roll = dist.HashStore()
    roll.set("2", "fit")
    assert silent(workspace, roll, SOON) == [1]
    roll.set("1", "fit")
    assert silent(workspace, roll, SOON) == []
    assert roll.get("0") == b"fit"
    assert silent(workspace, None) == []


@pytest.mark.parametrize("error", [KeyboardInterrupt(), RuntimeError("[gloo] Connection closed by peer")])
@pytest.mark.parametrize(("phase", "where"), [("fit", "in phase 'fit'"), ("", "before its first phase")])
def test_a_killed_process_is_named_whatever_tells_of_it(workspace, monkeypatch, error, phase, where):
    monkeypatch.setattr(distributed.silent, "__defaults__", (SOON,))
    workspace.phase = phase
    for ranks, who in (("2", "process 1"), ("", "processes 1, 2")):
        roll = dist.HashStore()
        for rank in ranks:
            roll.set(rank, phase)
        monkeypatch.setattr(distributed, "_roll", roll)
        with pytest.raises(
            EndedElsewhere, match=f"out: {who} of 3 ended without a message {where}.*; give the same command"
        ):
            with together(workspace):
                raise error


def test_all_that_were_asked_to_stop_are_no_dead(workspace, monkeypatch):
    roll = dist.HashStore()
    for rank in "12":
        roll.set(rank, "fit")
    monkeypatch.setattr(distributed, "_roll", roll)
    with pytest.raises(KeyboardInterrupt), together(workspace):
        raise KeyboardInterrupt
    with pytest.raises(EndedElsewhere, match="its message gives the reason"), together(workspace):
        raise RuntimeError("[gloo] Connection closed by peer")


def test_an_error_of_this_process_is_no_silence(workspace, monkeypatch):
    roll = dist.HashStore()
    monkeypatch.setattr(distributed, "_roll", roll)
    with pytest.raises(ValueError, match="mine"), together(workspace):
        raise ValueError("mine")
    assert roll.get("0") == b"fit"


def test_a_request_to_end_does_not_keep_a_process_from_saying_who_was_killed(workspace, monkeypatch):
    """torchrun sends it to those that are left, while they wait for an answer."""

    class Slow:
        def set(self, key, value):
            pass

        def wait(self, keys, timeout):
            signal.raise_signal(signal.SIGTERM)
            if keys == ["1"]:
                raise dist.DistStoreError("wait timeout")

    def ctrl_c(number, frame):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, ctrl_c)
    try:
        assert silent(workspace, Slow(), SOON) == [1]
        assert signal.getsignal(signal.SIGTERM) is ctrl_c
    finally:
        signal.signal(signal.SIGTERM, before)
