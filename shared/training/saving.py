"""Saving while training goes on: what a checkpoint holds is copied to the host's memory, and a thread writes it.

One checkpoint is written at a time. With sharding, each process has such a thread, which writes its rows of parameters
and moments; that of the main process gives the checkpoint its name when all have.
"""

from __future__ import annotations

import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from dragoman.shared.errors import DataError
from dragoman.shared.machine.files import discard_folder, fork_between_placings
from dragoman.shared.machine.processes import EndedElsewhere, activity, gather, group_of_its_own, on_all
from dragoman.shared.machine.workspace import Workspace
from dragoman.shared.training.checkpoints import Checkpoints
from dragoman.shared.training.history import History, Meter
from dragoman.shared.training.part_files import MOMENTS, PARAMETERS, moments_apart, save_part
from dragoman.shared.training.position import Position
from dragoman.shared.training.resuming import training_state
from dragoman.shared.training.update import Learner

#: Seconds between two looks at what is being written.
POLL = 0.05


@dataclass
class Saver(AbstractContextManager["Saver"]):
    """The thread that writes the checkpoints of a training; within ``with``, at whose end nothing is being written.

    Attributes:
        checkpoints: which of them to keep.
        learner: what is saved.
        history: is on the disk when a checkpoint is.
        planned: the number of processes that batches are planned for.
        adapter_scale: as the optimiser's settings say it.
        workspace: of the phase.
    """

    checkpoints: Checkpoints
    learner: Learner
    history: History
    planned: int
    adapter_scale: float | None
    workspace: Workspace

    def __post_init__(self) -> None:
        fork_between_placings()
        self._thread = ThreadPoolExecutor(1, "saving")
        self._group = group_of_its_own(self.workspace) if self.learner.shards else None
        self._writing: Future[None] | None = None

    @property
    def failed(self) -> bool:
        """True once what was being written could not be, until ``wait`` has raised the error."""
        return self._writing is not None and self._writing.done() and self._writing.exception() is not None

    def save(self, position: Position, meter: Meter, score: float | None, *, interim: bool) -> None:
        """Begin to write a checkpoint, once the one before is written; all processes call it together.

        Raises:
            DataError: as :meth:`wait`.
        """
        self.wait()
        workspace, shards = self.workspace, self.learner.shards
        whole, rows, optimizer = self.learner.state()
        training = training_state(optimizer, self.learner.scaler, position, self.planned, meter, workspace)
        parts: dict[str, dict[str, Tensor]] = {}
        if shards is not None:
            moments, optimizer["state"] = moments_apart(optimizer["state"])
            if workspace.rank < shards.share[1]:  # of machines that have copies, the first writes
                parts = {PARAMETERS: rows, MOMENTS: moments}
        meta = {"update": position.update, "epoch": position.epoch, "score": score, "interim": interim}
        meta |= {"adapter_scale": self.adapter_scale}
        whole, training, parts = copied([whole, training, parts] if workspace.main else [{}, {}, parts])
        if workspace.device.startswith("cuda"):
            torch.cuda.synchronize(workspace.device)
        if workspace.main or shards is not None:
            self._writing = self._thread.submit(self._write, whole, training, meta, parts)

    def wait(self) -> None:
        """Wait until all is written; all processes call it together.

        Raises:
            DataError: if the disk is full or cannot be written; earlier checkpoints stay as they are.
        """
        writing = self._writing
        while not all(gather(writing is None or writing.done(), self.workspace)):
            time.sleep(POLL)  # not in the gathering, in which no signal is heard
        self._writing = None
        on_all(lambda: None if writing is None else writing.result(), self.workspace)

    def _write(
        self, whole: dict[str, Tensor], training: dict[str, Any], meta: dict[str, Any], own: dict[str, Any]
    ) -> None:
        """Write what this process has to, its ``own`` parts at first; the main process's thread ends with the whole."""
        workspace, shards, group = self.workspace, self.learner.shards, self._group
        folder = workspace.folder / "checkpoints"
        place, parts = folder / ".parts.0.tmp", dict[Path, str]()

        def complete() -> None:
            if workspace.main:
                self.history.sync()
                self.checkpoints.save(folder, whole, training, meta, parts)
                workspace.keep_time()

        if shards is None:
            complete()
            return
        try:
            written = on_all(lambda: [save_part(place, *part, shards.share) for part in own.items()], workspace, group)
            parts.update(file for files in gather(written, workspace, group) for file in files)
            on_all(complete, workspace, group)
        finally:
            if workspace.main:
                discard_folder(place)

    def __exit__(self, _kind: type | None, error: BaseException | None, _trace: TracebackType | None) -> None:
        """Wait for what is being written; what is wrong with it came before an error in training, and is raised."""
        activity.at("")  # the others wait for this process, which does not hang
        interruption = None
        while True:
            try:
                self._thread.shutdown()
                break
            except KeyboardInterrupt as asked:  # a run that begins meanwhile would sweep away what is being written
                interruption = asked
        if self._group is not None:
            dist.destroy_process_group(self._group)
        problem = self._writing.exception() if self._writing is not None else None
        if isinstance(error, Exception) and isinstance(problem, DataError) and not isinstance(problem, EndedElsewhere):
            raise problem from error
        if interruption is not None:
            raise interruption


def copied(value: Any, seen: dict[int, Tensor] | None = None) -> Any:
    """Return plain data with copies of its tensors on the CPU; what it has twice, it has twice afterwards.

    From a GPU, they are under way when this returns.
    """
    seen = {} if seen is None else seen
    if isinstance(value, dict):
        return {key: copied(one, seen) for key, one in value.items()}
    if isinstance(value, list):
        return [copied(one, seen) for one in value]
    if not isinstance(value, Tensor):
        return value
    if id(value) not in seen:
        on_gpu, tensor = value.is_cuda, value.detach()
        copy = torch.empty_like(tensor, device="cpu", pin_memory=on_gpu).copy_(tensor, non_blocking=on_gpu)
        seen[id(value)] = nn.Parameter(copy, value.requires_grad) if isinstance(value, nn.Parameter) else copy
    return seen[id(value)]
