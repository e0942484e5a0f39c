"""A lower bound on the memory of a training, computed before any is allocated."""

from __future__ import annotations

import os

from torch import nn

from dragoman.shared.batches.loader import Loader
from dragoman.shared.machine.memory import refuse_over
from dragoman.shared.training.optimizer import Adam


def training_bytes(objective: nn.Module, optimizer: Adam) -> int:
    """Return the bytes of an objective's parameters, and of the gradients and moments of those that learn.

    Activations, which depend on the batch, come on top of it.
    """
    groups = optimizer.groups(objective)
    parameters = list(objective.parameters())
    learning = [parameter for parameter in parameters if parameter.requires_grad]
    moving = [parameter for group in groups if group["multiplier"] != 0 for parameter in group["params"]]
    moments = sum(optimizer.state_bytes(parameter) for parameter in moving)
    return moments + sum(parameter.nbytes for parameter in [*parameters, *learning])


def check_copy(objective: nn.Module, optimizer: Adam, parts: int, device: str) -> None:
    """Refuse a training whose copy, of which checkpoints are written, does not fit into the memory of the host.

    Raises:
        UsageError: with what it needs, of the processes of this machine, each of which has one of ``parts`` of the rows
            that learn, and what there is.
    """
    here, size = min(int(os.environ.get("LOCAL_WORLD_SIZE", 1)), parts), 0
    for one in objective.parameters():
        of = len(one) or 1 if one.requires_grad and one.ndim else 1
        rows = -(-of // parts)
        moments = [optimizer.state_bytes(one) // 2] * (2 if one.requires_grad else 0)
        copies = [whole * rows // of for whole in (one.nbytes, *moments)]
        if device.startswith("cuda"):  # pinned: torch takes a power of two of bytes for each tensor
            copies = [1 << (copy - 1).bit_length() if copy else 0 for copy in copies]
        size += sum(copies) * min(here, -(-of // rows))
    refuse_over(size, "checkpoints: the copy of parameters and moments that is written")


def check_accumulation(factor: int, loader: Loader, device: str) -> None:
    """Refuse an update whose batches do not fit into memory: all of them are there before the first is computed.

    Raises:
        UsageError: with what they need and what there is.
    """
    parts = loader.parts
    whose = f" of each of {parts} processes" if parts > 1 else ""
    for place in dict.fromkeys(["cpu", device]):
        what = f"grad_accumulation_factor {factor}: the batches of an update{whose}"
        refuse_over(factor * parts * loader.mean_bytes(), what, place)
