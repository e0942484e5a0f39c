"""One update: the batches of all processes, their loss and gradient, the optimiser's step.

Each part of the loss is divided by its own count over the whole global batch (all accumulated batches of all ranks),
before clipping. The device is not waited for, unless an objective does so (where it draws masks, for instance).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.amp import GradScaler

from dragoman.shared.batch import Batch
from dragoman.shared.batches.loader import Loader
from dragoman.shared.machine.processes import activity, add_up
from dragoman.shared.machine.settings import enough_memory
from dragoman.shared.machine.workspace import Workspace
from dragoman.shared.nn.casting import cast_together
from dragoman.shared.objectives.cross_entropy import compiled_losses
from dragoman.shared.objectives.objective import Loss, Objective
from dragoman.shared.training.compiling import loss_backend
from dragoman.shared.training.history import Meter
from dragoman.shared.training.loss_scale import hopeless
from dragoman.shared.training.optimizer import Adam, clip_gradient, set_learning_rate, step_if_finite
from dragoman.shared.training.scheduled import Scheduled

if TYPE_CHECKING:
    from dragoman.shared.training.fsdp import Shards


@dataclass(frozen=True)
class Learner:
    """The objects that an update changes.

    Attributes:
        objective: what is trained.
        model: the objective, in DDP if there are several processes, unless they share it.
        optimizer: of the objective's parameters.
        max_grad_norm: the norm that the whole gradient is clipped to; 0 for no clipping.
        scheduled: numbers of modules that follow the update; None for none.
        scaler: what scales losses in fp16 (see :func:`dragoman.shared.training.loss_scale.loss_scaler`); by
            default, nothing.
        shards: what processes share, if they do (shared/training/fsdp.py).
    """

    objective: Objective
    model: nn.Module
    optimizer: torch.optim.Optimizer
    max_grad_norm: float = 0.0
    scheduled: Scheduled | None = None
    scaler: GradScaler = field(default_factory=lambda: GradScaler(enabled=False))
    shards: Shards | None = None

    def at(self, update: int, rate: float) -> None:
        """Set all that is a function of the update: 1, 2, ...; ``rate`` is its learning rate."""
        self.objective.at(update)
        if self.scheduled is not None:
            self.scheduled.at(update)
        set_learning_rate(self.optimizer, rate, update)

    def update(self, batches: list[Batch], meter: Meter, workspace: Workspace) -> None:
        """Do one update on the batches of this process."""
        objective, model = self.objective, self.model
        device = torch.device(workspace.device)
        meter.count([batch for batch in batches if not batch.idle])
        alone = objective.prepares_alone or type(objective).prepare is Objective.prepare
        with nullcontext() if alone else self.whole():
            on_device = [prepared(objective, batch, workspace) for batch in batches]
        model.train()
        local: dict[str, Tensor] = {}
        for batch in (one for one in on_device if not one.idle):
            for name, count in objective.counts(batch).items():
                local[name] = local[name] + count if name in local else count
        watched = activity.doing != ""
        activity.at("waits" if watched else "")
        counts = add_up(local, workspace, device)
        activity.at("computes" if watched else "")
        whole = torch.zeros((), device=device)
        for number, batch in enumerate(on_device, start=1):
            if isinstance(model, nn.parallel.DistributedDataParallel):
                model.require_backward_grad_sync = number == len(on_device)  # gradients travel once per update
            with cast_together(objective, None if self.shards else cast_type(workspace)):
                with workspace.autocast(), compiled_losses(loss_backend(workspace)):
                    loss: Loss = model(batch)
                    if workspace.debug:
                        loss.check(objective.counts(batch))
                    # DDP averages over ranks; counts are global already, so the average has to become a sum again
                    total = loss.total(counts) * (0 if batch.idle else workspace.world)
                    if self.shards is not None:
                        self.shards.check(total, batch.stream)
                self.scaler.scale(total).backward()
            whole += total.detach()
            if not batch.idle:
                meter.add(loss)
        if self.shards is not None:
            self.shards.take_gradients()
        self.scaler.unscale_(self.optimizer)
        norm = clip_gradient(self.optimizer, self.max_grad_norm, None if self.shards is None else self.shards.norm)
        skipped = step_if_finite(self.optimizer, norm)
        meter.add_update(norm, hopeless(self.scaler, skipped, whole))
        self.scaler.update()
        self.optimizer.zero_grad(set_to_none=True)

    def state(self) -> tuple[dict[str, Tensor], dict[str, Tensor], dict[str, Any]]:
        """Return the objective's whole tensors, this process's rows of the divided ones, and the optimiser's state."""
        state = self.objective.state_dict(keep_vars=True)
        rows = {} if self.shards is None else self.shards.rows(state)
        return {name: one for name, one in state.items() if name not in rows}, rows, self.optimizer.state_dict()

    def whole(self) -> AbstractContextManager[None]:
        """Return the context in which every process has all parameters."""
        return nullcontext() if self.shards is None else self.shards.whole()


def cast_type(workspace: Workspace) -> torch.dtype | None:
    """Return the type that parameters are cast to together; None on a CPU, which need not be told what to do next."""
    return workspace.autocast_dtype if workspace.device.startswith("cuda") else None


def prepared(objective: Objective, batch: Batch, workspace: Workspace) -> Batch:
    """Return a batch on the device as the objective has prepared it, in eval mode and without gradient."""
    objective.eval()
    # A search would fill the cache of what is compiled with odd sizes.
    with torch.no_grad(), workspace.autocast(), torch.compiler.set_stance("force_eager"):
        return objective.prepare(batch.to(workspace.device))


def try_largest(objective: Objective, optimizer: Adam, loader: Loader, workspace: Workspace) -> None:
    """Run the largest batches once, without an update: what does not fit into memory is known at once.

    It is done without DDP: an error in one process must not leave the others waiting. What DDP takes, a copy of all
    gradients to be sent, is held free like the moments.

    Raises:
        DataError: with advice, if memory is not enough.
    """
    size = bytes_while_training(objective, optimizer, workspace.world)
    advice = "make the model smaller, let a part of it learn, or take 8-bit moments"
    with enough_memory(f"the optimiser's moments, {size / 2**30:.2f} GiB, do not fit beside the model; {advice}"):
        held = torch.empty(size, dtype=torch.uint8, device=workspace.device)
    with same_randomness_after(workspace):
        for batch in loader.largest():
            shapes = {name: tuple(field.values.shape) for name, field in batch.fields.items()}
            with enough_memory(
                f"stream {batch.stream!r}: a batch of {shapes} does not fit into the GPU's memory; "
                "make the budget smaller and grad_accumulation_factor larger"
            ):
                ready = prepared(objective, batch, workspace)
                objective.train()
                with cast_together(objective, cast_type(workspace)):
                    with workspace.autocast(), compiled_losses(loss_backend(workspace)):
                        total = objective(ready).total()
                    total.backward()
        objective.zero_grad(set_to_none=True)
    del held


def bytes_while_training(objective: Objective, optimizer: Adam, processes: int) -> int:
    """Return the bytes of the moments, and of the gradients that several processes send each other (DDP's buckets)."""
    trained = [parameter for parameter in objective.parameters() if parameter.requires_grad]
    return sum(optimizer.state_bytes(one) + (one.nbytes if processes > 1 else 0) for one in trained)


@contextmanager
def same_randomness_after(workspace: Workspace) -> Iterator[None]:
    """Draw random numbers without any effect on those drawn later."""
    on_gpu = workspace.device.startswith("cuda")
    # torch.manual_seed reaches the generator of mps as well, which fork_rng does not keep.
    before = torch.mps.get_rng_state() if workspace.device == "mps" else None
    with torch.random.fork_rng([torch.device(workspace.device)] if on_gpu else []):
        try:
            yield
        finally:
            if before is not None:
                torch.mps.set_rng_state(before)
