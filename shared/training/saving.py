"""Saving while training goes on: what a checkpoint holds is copied to the host's memory, and a thread writes it.

One checkpoint is written at a time. With sharding, each process has such a thread, which writes its rows of parameters
and moments; that of the main process gives the checkpoint its name when all have.
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from dragoman.shared.errors import DataError
from dragoman.shared.machine.files import discard_folder
from dragoman.shared.machine.processes import EndedElsewhere, activity, gather, group_of_its_own, on_all
from dragoman.shared.machine.workspace import Workspace
from dragoman.shared.training.checkpoints import Checkpoints
from dragoman.shared.training.history import History, Meter
from dragoman.shared.training.part_files import MOMENTS, PARAMETERS, Part, moments_apart, save_part
from dragoman.shared.training.position import Position
from dragoman.shared.training.resuming import training_state
from dragoman.shared.training.update import Learner


class Saver:
    """The thread that writes the checkpoints of a training; within ``with``, at whose end nothing is being written.

    Args:
        checkpoints: which of them to keep.
        learner: what is saved.
        history: is on the disk when a checkpoint is.
        planned: the number of processes that batches are planned for.
        adapter_scale: as the optimiser's settings say it.
        workspace: of the phase.
    """

    def __init__(
        self,
        checkpoints: Checkpoints,
        learner: Learner,
        history: History,
        planned: int,
        adapter_scale: float | None,
        workspace: Workspace,
    ) -> None:
        self._checkpoints = checkpoints
        self._learner = learner
        self._history = history
        self._planned = planned
        self._adapter_scale = adapter_scale
        self._workspace = workspace
        self._folder = workspace.folder / "checkpoints"
        self._thread = ThreadPoolExecutor(1, "saving")
        self._group = group_of_its_own(workspace) if learner.shards else None
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
        workspace, shards = self._workspace, self._learner.shards
        whole, rows, optimizer = self._learner.state()
        training = training_state(optimizer, self._learner.scaler, position, self._planned, meter, workspace)
        moments, share = dict[str, Tensor](), (0, 1)
        if shards is not None:
            share = shards.share
            moments, optimizer["state"] = moments_apart(optimizer["state"])
            if workspace.rank >= share[1]:  # of machines that have copies, the first writes
                rows, moments = {}, {}
        meta = {"update": position.update, "epoch": position.epoch, "score": score, "interim": interim}
        meta |= {"adapter_scale": self._adapter_scale}
        if not workspace.main:
            whole, training = {}, {}
        whole, rows, moments, training = copied([whole, rows, moments, training])
        if workspace.device.startswith("cuda"):
            torch.cuda.current_stream(workspace.device).synchronize()
        if workspace.main or shards is not None:
            self._writing = self._thread.submit(self._write, whole, rows, moments, training, share, meta)

    def wait(self) -> None:
        """Wait until all is written; all processes call it together.

        Raises:
            DataError: if the disk is full or cannot be written; earlier checkpoints stay as they are.
        """
        writing, self._writing = self._writing, None
        on_all(lambda: None if writing is None else writing.result(), self._workspace)

    def _write(
        self,
        whole: dict[str, Tensor],
        rows: dict[str, Tensor],
        moments: dict[str, Tensor],
        training: dict[str, Any],
        share: Part,
        meta: dict[str, Any],
    ) -> None:
        """Write what this process has to; in the main process, end with the whole checkpoint in its place."""

        def complete() -> None:
            if self._workspace.main:
                self._history.sync()
                self._checkpoints.save(self._folder, whole, training, meta, parts)
                self._workspace.keep_time()

        parts: dict[Path, str] = {}
        if self._group is None:
            complete()
            return
        place, kinds = self._folder / ".parts.0.tmp", {PARAMETERS: rows, MOMENTS: moments}

        def write_parts() -> dict[Path, str]:
            return dict(save_part(place, kind, own, share) for kind, own in kinds.items() if own)

        try:
            own = on_all(write_parts, self._workspace, self._group)
            parts = {file: digest for one in gather(own, self._workspace, self._group) for file, digest in one.items()}
            on_all(complete, self._workspace, self._group)
        finally:
            if self._workspace.main:
                discard_folder(place)

    def __enter__(self) -> Saver:
        """Return itself."""
        return self

    def __exit__(self, _kind: type | None, error: BaseException | None, _trace: TracebackType | None) -> None:
        """Wait for what is being written; what is wrong with it came before an error in training, and is raised."""
        activity.at("")  # the others wait for this process, which does not hang
        self._thread.shutdown()
        if self._group is not None:
            dist.destroy_process_group(self._group)
        problem = self._writing.exception() if self._writing is not None else None
        if isinstance(error, Exception) and isinstance(problem, DataError) and not isinstance(problem, EndedElsewhere):
            raise problem from error


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
