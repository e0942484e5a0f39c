"""Messages between the processes of a run that ends, without starting any."""

import signal
import threading
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist

from dragoman.shared.machine import processes as distributed
from dragoman.shared.machine.processes import (
    EndedElsewhere,
    add_up,
    barrier,
    gather,
    join,
    leave,
    on_all,
    on_main,
    silent,
    start_of,
    together,
    wrap,
)
from dragoman.shared.machine.workspace import Workspace
from tests.small import refuses

SOON = timedelta(seconds=0.2)


@pytest.fixture
def workspace(tmp_path):
    return Workspace(output=tmp_path / "out", device="cpu", phase="fit", rank=0, world=3)


def left(monkeypatch, ranks, phase="fit"):
    """Let these processes have said that they leave; return where they said it."""
    roll = dist.HashStore()
    for rank in ranks:
        roll.set(rank, phase)
    monkeypatch.setattr(distributed, "_roll", roll)
    return roll


def end(workspace, error):
    with together(workspace):
        raise error


def test_who_does_not_say_that_it_leaves_was_killed(workspace):
    roll = dist.HashStore()
    roll.set("2", "fit")
    assert silent(workspace, roll, SOON) == [1]
    roll.set("1", "fit")
    assert silent(workspace, roll, SOON) == []
    assert roll.get("0") == b"fit"
    assert silent(workspace, None) == []


def started(store, ranks, world=3):
    """Let these ranks start in threads, the others not at all; return what each of them takes for the name."""
    found = {}

    def start(rank):
        try:
            found[rank] = start_of(store, rank, world)
        except dist.DistError as error:
            found[rank] = error

    threads = [threading.Thread(target=start, args=(rank,)) for rank in ranks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [found[rank] for rank in ranks]


def test_processes_that_are_started_again_with_the_same_store_agree_on_a_new_name():
    store = dist.HashStore()
    names = [started(store, ranks) for ranks in ([0, 1, 2], [2, 1, 0], [1, 0, 2])]
    assert all(len(set(one)) == 1 for one in names) and len({one[0] for one in names}) == 3


def test_processes_whose_start_was_cut_short_leave_nothing_that_later_ones_take():
    store = dist.HashStore()
    store.set_timeout(SOON)
    assert all(isinstance(one, dist.DistError) for one in started(store, [1, 2]))  # process 0 was killed
    store.set_timeout(timedelta(seconds=60))
    again = started(store, [0, 2, 1])
    assert len(set(again)) == 1 and isinstance(again[0], str)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), RuntimeError("[gloo] Connection closed by peer")])
@pytest.mark.parametrize(("phase", "where"), [("fit", "in phase 'fit'"), ("", "before its first phase")])
def test_a_killed_process_is_named_whatever_tells_of_it(workspace, monkeypatch, error, phase, where):
    monkeypatch.setattr(distributed.silent, "__defaults__", (SOON,))
    workspace.phase = phase
    for ranks, who in (("2", "process 1"), ("", "processes 1, 2")):
        left(monkeypatch, ranks, phase)
        said = f"out: {who} of 3 ended without a message {where}.*; give the same command"
        refuses(EndedElsewhere, said, end, workspace, error)


def test_all_that_were_asked_to_stop_are_no_dead(workspace, monkeypatch):
    left(monkeypatch, "12")
    with pytest.raises(KeyboardInterrupt):
        end(workspace, KeyboardInterrupt)
    lost = RuntimeError("[gloo] Connection closed by peer")
    refuses(EndedElsewhere, "its message gives the reason", end, workspace, lost)


def test_an_error_of_this_process_is_no_silence(workspace, monkeypatch):
    roll = left(monkeypatch, "")
    refuses(ValueError, "mine", end, workspace, ValueError("mine"))
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


class Clock:
    """A store that takes its time, and the clock that it goes by."""

    def __init__(self, takes, answers=()):
        self.now, self.takes, self.answers, self.granted = 1000.0, takes, answers, []

    def set(self, key, value):
        pass

    def wait(self, keys, timeout):
        self.granted.append((keys, timeout.total_seconds()))
        self.now += self.takes
        if keys[0] not in self.answers:
            raise dist.DistStoreError("wait timeout")


def test_all_processes_together_have_the_time_of_one(workspace, monkeypatch):
    clock = Clock(takes=4.0)
    monkeypatch.setattr(distributed.time, "monotonic", lambda: clock.now)
    assert silent(workspace, clock, timedelta(seconds=7)) == [0, 1, 2]
    assert clock.granted == [(["0"], 7.0), (["1"], 3.0), (["2"], 0.1)]  # the last is asked, too


def test_a_thread_asks_as_well(workspace):
    """Handlers of signals are for the main thread alone."""
    found = []
    roll = dist.HashStore()
    roll.set("1", "fit")
    asked = threading.Thread(target=lambda: found.append(silent(workspace, roll, SOON)))
    asked.start()
    asked.join()
    assert found == [[2]]


def test_an_error_of_torch_that_tells_of_no_process_is_the_own(workspace, monkeypatch):
    roll = left(monkeypatch, "")
    refuses(RuntimeError, "^shapes do not fit$", end, workspace, RuntimeError("shapes do not fit"))
    assert roll.get("0") == b"fit"
    left(monkeypatch, "12")
    with pytest.raises(EndedElsewhere) as error:
        end(workspace, dist.DistNetworkError("reset"))
    assert isinstance(error.value.__cause__, dist.DistNetworkError)


def test_a_store_that_was_killed_is_no_error_of_its_own(workspace, monkeypatch):
    class Dead(Clock):
        def set(self, key, value):
            raise RuntimeError("broken pipe")

    for roll in (Dead(0.0), None):
        monkeypatch.setattr(distributed, "_roll", roll)
        refuses(ValueError, "mine", end, workspace, ValueError("mine"))


def test_one_process_alone_asks_nobody(tmp_path):
    machine = Workspace(output=tmp_path, device="cpu", rank=0, world=1)
    counts, module = {"a": torch.tensor(3)}, torch.nn.Linear(1, 1)
    assert not join(machine)
    assert gather("mine", machine) == ["mine"]
    assert on_main(lambda: 7, machine) == 7
    assert add_up(counts, machine, "cpu") is counts
    assert wrap(module, machine) is module
    assert barrier(machine) is None
    leave()


@pytest.fixture
def group(workspace, monkeypatch):
    """What is asked of torch by process 1 of 3."""
    workspace.rank = 1
    monkeypatch.setattr(distributed, "_control", "control")
    asked = []
    monkeypatch.setattr(dist, "barrier", lambda **how: asked.append(("barrier", how)))

    def broadcast(answer, **how):
        asked.append(([*answer], how))
        if not workspace.main:
            answer[0] = distributed.sent

    def gather_all(values, value, **how):
        asked.append(how)
        values[:] = [value, ["b", "c"], ["a"]] if isinstance(value, list) else [0, value, 2]

    monkeypatch.setattr(dist, "broadcast_object_list", broadcast)
    monkeypatch.setattr(dist, "all_gather_object", gather_all)
    monkeypatch.setattr(dist, "all_reduce", lambda stacked: stacked.mul_(10))
    return asked


def test_what_several_processes_ask_of_torch(workspace, group, monkeypatch):
    barrier(workspace)
    assert group == [("barrier", {"group": "control"})]
    assert gather(5, workspace) == [0, 5, 2] and group[1:] == [{"group": "control"}]
    assert gather(5, workspace, "own") == [0, 5, 2] and group.pop() == {"group": "own"}
    found = add_up({"c": torch.tensor(3), "d": torch.tensor(4)}, workspace, "cpu")
    assert {name: float(count) for name, count in found.items()} == {"a": 0.0, "b": 0.0, "c": 30.0, "d": 40.0}
    assert [*found] == ["a", "b", "c", "d"] and found["c"].dtype == torch.float32
    made = []
    monkeypatch.setattr(torch.nn.parallel, "DistributedDataParallel", lambda *given, **how: made.append((given, how)))
    wrap("objective", workspace)
    workspace.device = "cuda:1"
    wrap("objective", workspace)
    how = {"find_unused_parameters": True, "broadcast_buffers": False}
    assert made == [
        (("objective",), how | {"device_ids": None}),
        (("objective",), how | {"device_ids": [torch.device("cuda:1")]}),
    ]


def test_all_processes_end_with_the_error_of_one(workspace, monkeypatch):
    def others(*problems):
        monkeypatch.setattr(distributed, "gather", lambda said, machine, group: [*problems, said])

    others(None, None)
    assert on_all(lambda: 5, workspace) == 5
    others(None, "moments: torn")
    refuses(EndedElsewhere, "^moments: torn$", on_all, lambda: 5, workspace)
    refuses(ZeroDivisionError, "division", on_all, lambda: 1 // 0, workspace)


def test_the_first_process_works_and_the_others_get_its_result(workspace, group, monkeypatch):
    monkeypatch.setattr(distributed, "sent", ("done",), raising=False)
    assert on_main(lambda: pytest.fail("not here"), workspace) == "done"
    monkeypatch.setattr(distributed, "sent", None)
    said = "^process 0 of this run has ended; its message gives the reason$"
    refuses(EndedElsewhere, said, on_main, lambda: pytest.fail("not here"), workspace)
    workspace.rank = 0
    assert on_main(lambda: None, workspace) is None
    how = {"src": 0, "group": "control"}
    assert group == [([None], how), ([None], how), ([(None,)], how)]
    with pytest.raises(ZeroDivisionError):
        on_main(lambda: 1 // 0, workspace)
    assert group[3:] == [([None], how)]  # the others are told


def test_a_phase_of_the_first_process(workspace, group, monkeypatch):
    class Work(distributed.MainPhase):
        def work(self, workspace):
            group.append(workspace)

    monkeypatch.setattr(distributed, "sent", (None,), raising=False)
    Work().run(workspace)
    assert workspace not in group
    workspace.rank = 0
    Work().run(workspace)
    assert workspace in group


@pytest.mark.parametrize(("device", "backend"), [("cpu", "gloo"), ("cuda:1", "nccl")])
def test_processes_join_once(workspace, monkeypatch, device, backend):
    asked, workspace.device, store = [], device, dist.HashStore()
    monkeypatch.setattr(torch.cuda, "set_device", lambda device: asked.append(device))
    monkeypatch.setattr(dist, "is_initialized", lambda: False)
    monkeypatch.setattr(dist, "rendezvous", lambda where: iter([(store, 1, 3)] if where == "env://" else []))
    monkeypatch.setattr(distributed, "start_of", lambda store, rank, world: f"start of {rank} in {world}")
    monkeypatch.setattr(dist, "init_process_group", lambda backend, **how: asked.append((backend, how)))
    monkeypatch.setattr(dist, "new_group", lambda **how: how)
    monkeypatch.setattr(dist, "destroy_process_group", lambda: asked.append("parted"))
    monkeypatch.setattr(distributed, "_roll", None)
    monkeypatch.setattr(distributed, "_control", None)
    assert distributed.join(workspace)
    [(found, how)] = [one for one in asked if isinstance(one, tuple)]
    assert found == backend and (how["rank"], how["world_size"]) == (1, 3)
    how["store"].set("a", "b")
    distributed._roll.set("a", "c")
    assert (how["store"].get("a"), distributed._roll.get("a")) == (b"b", b"c")
    assert store.get("start of 1 in 3/group/a") == b"b" and store.get("start of 1 in 3/roll/a") == b"c"
    assert distributed._control == {"backend": "gloo", "timeout": timedelta(days=7)}
    assert (asked[0] == device) == (device != "cpu")
    monkeypatch.setattr(dist, "is_initialized", lambda: True)
    assert not distributed.join(workspace)
    leave()
    assert asked[-1] == "parted" and distributed._control is distributed._roll is None
