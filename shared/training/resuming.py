"""The rest of a checkpoint, beside the parameters, by which a run that was interrupted goes on as if it had not been.

With as many processes as before, that is to the last bit. With others, every update still has the same rows: each
process takes the batches that were planned for several, or parts of them. Dropout and rounding differ.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.amp import GradScaler

from dragoman.shared.errors import UsageError
from dragoman.shared.machine.processes import gather
from dragoman.shared.machine.workspace import Workspace
from dragoman.shared.training.history import Meter
from dragoman.shared.training.optimizer import check_moments
from dragoman.shared.training.position import Position


def planned_for(training: dict[str, Any] | None, objective: nn.Module, workspace: Workspace) -> int:
    """Return for how many processes the batches of a run are planned: those that it was begun with.

    Args:
        training: the state of its last checkpoint; None if it begins.
        objective: with ``compares_rows``, here or in a module, if its loss compares rows of a batch with each other.
        workspace: of the processes that are there now.

    Raises:
        UsageError: if these would have to cut batches whose rows are compared.
    """
    if training is None:
        return workspace.world
    planned = int(training.get("planned", len(training["ranks"])))  # in older checkpoints, that of the ranks
    if planned % workspace.world and any(getattr(one, "compares_rows", False) for one in objective.modules()):
        fitting = [str(number) for number in range(1, planned + 1) if planned % number == 0]
        begun = f"{planned} process{'es' if planned > 1 else ''}"
        raise UsageError(
            f"{workspace.folder}: was begun with {begun}, and the loss compares the rows of a batch, which "
            f"{workspace.world} would have to cut; use {' or '.join(fitting)}, or --restart {workspace.phase}"
        )
    return planned


def training_state(
    optimizer: dict[str, Any], scaler: GradScaler, position: Position, planned: int, meter: Meter, workspace: Workspace
) -> dict[str, Any]:
    """Return what :func:`restore` reads, the optimiser's state among it; all processes call it together."""
    on_gpu = workspace.device.startswith("cuda")
    of_rank = {
        "cpu": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state(workspace.device) if on_gpu else None,
        "meter": meter.state(),
    }
    return {
        "optimizer": optimizer,
        "scaler": scaler.state_dict(),
        "position": vars(position),
        "planned": planned,
        "ranks": gather(of_rank, workspace),
    }


def restore(
    training: dict[str, Any], optimizer: torch.optim.Optimizer, scaler: GradScaler, meter: Meter, workspace: Workspace
) -> Position:
    """Give everything the state that it had; return the position.

    The optimiser's settings stay those of the recipe. A process that was not there at the last checkpoint draws random
    numbers of its own.
    """
    settings = [{key: value for key, value in g.items() if key != "params"} for g in optimizer.param_groups]
    optimizer.load_state_dict(training["optimizer"])
    for group, of_rank in zip(optimizer.param_groups, settings, strict=True):
        group.update(of_rank)
    check_moments(optimizer)
    if training.get("scaler"):  # empty in other precisions, and older checkpoints have none
        scaler.load_state_dict(training["scaler"])
    position = Position(**training["position"])
    if workspace.rank >= len(training["ranks"]):
        torch.manual_seed(workspace.seed_for(workspace.phase, "rank", workspace.rank, position.update))
        return position
    of_rank = training["ranks"][workspace.rank]
    meter.load_state(of_rank["meter"])
    torch.set_rng_state(of_rank["cpu"])
    if of_rank["cuda"] is not None and workspace.device.startswith("cuda"):
        torch.cuda.set_rng_state(of_rank["cuda"], workspace.device)
    return position
