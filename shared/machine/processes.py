"""The few things that several training processes (torchrun) do together; with one process all of them are no-ops.

What is computed travels through the devices' own group. What is only agreed upon (whether to stop, what to report)
travels through a second one between the CPUs: no device is waited for, and waiting for hours while one process
prepares a corpus is no error there.
"""

from __future__ import annotations

import secrets
import signal
import threading
import time
from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn

from dragoman.shared.errors import DataError, one_line
from dragoman.shared.machine.device import Machine
from dragoman.shared.machine.workspace import Phase, Workspace

#: How long processes wait for the one that prepares, validates or evaluates.
LONGEST_WAIT = timedelta(days=7)
#: How long a process that leaves waits for the others to say that they leave too; torchrun grants 30 seconds.
ROLL_CALL = timedelta(seconds=10)

T = TypeVar("T")
_control: Any = None
#: Where processes say that they leave.
_roll: dist.Store | None = None


class Activity:
    """The work of this process, which is told to the other processes of a run (dragoman/runs/hanging.py)."""

    update = 0
    doing = ""

    def at(self, doing: str, update: int | None = None) -> None:
        """Say that the process "reads" or "computes" an update, "waits" for the others, or "" for anything else."""
        self.doing = doing
        self.update = self.update if update is None else update


activity = Activity()


class EndedElsewhere(DataError):
    """Another process of the run has stopped, and says why."""


def join(machine: Machine) -> bool:
    """Join the processes that torchrun started; return whether this call did it, and not one before."""
    global _control, _roll
    if machine.device.startswith("cuda"):
        torch.cuda.set_device(machine.device)
    if machine.world > 1 and not dist.is_initialized():
        store, rank, world = next(dist.rendezvous("env://"))
        store = dist.PrefixStore(start_of(store, rank, world), store)
        backend = "nccl" if machine.device.startswith("cuda") else "gloo"
        dist.init_process_group(backend, store=dist.PrefixStore("group", store), rank=rank, world_size=world)
        _roll = dist.PrefixStore("roll", store)
        _control = group_of_its_own(machine)
        return True
    return False


def start_of(store: dist.Store, rank: int, world: int) -> str:
    """Return a name for this start of all processes, on which they agree.

    torchrun keeps one store for processes that it starts again: in it still stands what those before them have said. So
    each of the others says a word of its own, and takes the name from process 0 by that word.
    """
    own, missing = secrets.token_hex(8), [*range(1, world)]
    if rank:
        store.set(f"word {rank}", own)
        name = store.get(f"name by {own}").decode()
        store.set(f"{name} {rank}", "")
        return name
    while missing := [other for other in missing if not store.check([f"{own} {other}"])]:
        for other in missing:
            if store.check([f"word {other}"]):  # perhaps of one that is dead: a later one replaces it
                store.set(f"name by {store.get(f'word {other}').decode()}", own)
        time.sleep(0.02)
    return own


def leave() -> None:
    """Part from the other processes, all of which have come to the end of their work."""
    global _control, _roll
    if dist.is_initialized():
        dist.destroy_process_group()
        _control = _roll = None


def store_of_its_own(name: str) -> dist.Store | None:
    """Return a connection to the store of the run for a thread, which may not wait for what others ask of theirs."""
    store: Any = _roll  # torch types no clone
    return None if store is None else dist.PrefixStore(name, store.underlying_store.clone())


@contextmanager
def together(workspace: Workspace) -> Iterator[None]:
    """Turn what torch says, or torchrun's signal, when another process is gone into a line.

    Raises:
        EndedElsewhere: if one is.
    """
    try:
        yield
    except KeyboardInterrupt as interruption:
        gone = silent(workspace, _roll)
        if not gone:  # all were asked to stop
            raise
        raise _ended(workspace, gone) from interruption
    except RuntimeError as error:
        if not isinstance(error, dist.DistError) and "gloo" not in str(error):
            _leaves(workspace, _roll)
            raise
        raise _ended(workspace, silent(workspace, _roll)) from error
    except BaseException:
        _leaves(workspace, _roll)
        raise


def _leaves(workspace: Workspace, roll: dist.Store | None) -> None:
    """Let the other processes know that this one was not killed."""
    if roll is not None:
        with suppress(RuntimeError):  # the store, too, may have been killed
            roll.set(str(workspace.rank), workspace.phase)


def silent(workspace: Workspace, roll: dist.Store | None, patience: timedelta = ROLL_CALL) -> list[int]:
    """Say that this process leaves; return the ranks that do not say so in time: they were killed, or hang."""
    if roll is None:
        return []
    _leaves(workspace, roll)
    end = time.monotonic() + patience.total_seconds()
    gone = []
    with _deaf():
        for rank in range(workspace.world):
            try:
                roll.wait([str(rank)], timedelta(seconds=max(end - time.monotonic(), 0.1)))
            except RuntimeError:
                gone.append(rank)
    return gone


@contextmanager
def _deaf() -> Iterator[None]:
    """Ignore requests to end: torchrun sends one to those that are left, who are ending anyway and say why."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _ended(workspace: Workspace, gone: list[int]) -> EndedElsewhere:
    if not gone:
        return EndedElsewhere("another process of this run has ended; its message gives the reason")
    who = f"process {gone[0]}" if len(gone) == 1 else f"processes {', '.join(map(str, gone))}"
    return EndedElsewhere(
        f"{workspace.output}: {who} of {workspace.world} ended without a message {workspace.where} "
        "(killed, perhaps for want of memory: see the system's log); give the same command again"
    )


def group_of_its_own(machine: Machine) -> Any:
    """Return a group between the CPUs for one thread of each process; a joint call."""
    return None if machine.world == 1 else dist.new_group(backend="gloo", timeout=LONGEST_WAIT)


def gather(value: T, machine: Machine, group: Any = None) -> list[T]:
    """Return the values of all ranks, on all of them."""
    if machine.world == 1:
        return [value]
    values: list[Any] = [None] * machine.world
    dist.all_gather_object(values, value, group=group or _control)
    return values


def on_main(function: Callable[[], T], machine: Machine) -> T:
    """Call a function on rank 0 while the others wait; all return its result.

    Raises:
        EndedElsewhere: on the other ranks, if it raises an error on rank 0.
    """
    if machine.world == 1:
        return function()
    answer: list[Any] = [None]
    if machine.main:
        try:
            answer = [(function(),)]
        finally:  # after an error, too: the other processes must not wait for an answer without end
            dist.broadcast_object_list(answer, src=0, group=_control)
    else:
        dist.broadcast_object_list(answer, src=0, group=_control)
    if answer[0] is None:
        raise EndedElsewhere("process 0 of this run has ended; its message gives the reason")
    result: T = answer[0][0]
    return result


def on_all(function: Callable[[], T], machine: Machine, group: Any = None) -> T:
    """Call a function in every process; return its result once all have one.

    Raises:
        Exception: as the function; where it has failed in another process only, EndedElsewhere with that message.
    """
    problem: Exception | None = None
    try:
        result = function()
    except Exception as error:
        problem = error
    said = gather(None if problem is None else one_line(problem), machine, group)
    problems = [one for one in said if one is not None]
    if problem is not None:
        raise problem
    if problems:
        raise EndedElsewhere(problems[0])
    return result


def add_up(counts: dict[str, Tensor], machine: Machine, device: torch.device | str) -> dict[str, Tensor]:
    """Add up counts by name over all ranks, which may hold different names."""
    if machine.world == 1:
        return counts
    every = sorted({name for names in gather(list(counts), machine) for name in names})
    zero = torch.zeros((), dtype=torch.float64, device=device)
    stacked = torch.stack([counts[name].to(zero) if name in counts else zero for name in every])
    dist.all_reduce(stacked)
    return dict(zip(every, stacked.float().unbind(), strict=True))


def wrap(objective: nn.Module, machine: Machine) -> nn.Module:
    """Wrap an objective in DDP; a step may leave parameters unused, for example those of another stream's inputs."""
    if machine.world == 1:
        return objective
    devices = [torch.device(machine.device)] if machine.device.startswith("cuda") else None
    return nn.parallel.DistributedDataParallel(
        objective, device_ids=devices, find_unused_parameters=True, broadcast_buffers=False
    )


def barrier(machine: Machine) -> None:
    """Wait until all processes are here."""
    if machine.world > 1:
        dist.barrier(group=_control)


class MainPhase(Phase):
    """A phase whose work is done by one process, rank 0, while the others wait."""

    @abstractmethod
    def work(self, workspace: Workspace) -> None:
        """Do the work, on rank 0; called again after an interruption, it goes on from what is already there."""

    def run(self, workspace: Workspace) -> None:
        """Do the work on rank 0.

        Raises:
            EndedElsewhere: on the other ranks, if it raises an error on rank 0.
        """
        on_main(lambda: self.work(workspace), workspace)
