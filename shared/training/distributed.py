"""The few things that several training processes (torchrun) do together; with one process all of them are no-ops."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from shared.workspace import Workspace


def join(workspace: Workspace) -> None:
    """Join the processes that torchrun started."""
    if workspace.world > 1 and not dist.is_initialized():
        dist.init_process_group("nccl" if workspace.device.startswith("cuda") else "gloo")


def leave() -> None:
    """Part from the other processes."""
    if dist.is_initialized():
        dist.destroy_process_group()


def add_up(counts: dict[str, Tensor], workspace: Workspace, device: torch.device | str) -> dict[str, Tensor]:
    """Add up counts by name over all ranks, which may hold different names (they train on different streams)."""
    if workspace.world == 1:
        return counts
    names: list[Any] = [None] * workspace.world
    dist.all_gather_object(names, sorted(counts))
    every = sorted({name for rank in names for name in rank})
    zero = torch.zeros((), dtype=torch.float64, device=device)
    stacked = torch.stack([counts[name].to(zero) if name in counts else zero for name in every])
    dist.all_reduce(stacked)
    return dict(zip(every, stacked.float().unbind(), strict=True))


def wrap(objective: nn.Module, workspace: Workspace, *, several_streams: bool) -> nn.Module:
    """Wrap an objective in DDP; with several streams a step may leave parameters unused."""
    if workspace.world == 1:
        return objective
    devices = [torch.device(workspace.device)] if workspace.device.startswith("cuda") else None
    return nn.parallel.DistributedDataParallel(
        objective, device_ids=devices, find_unused_parameters=several_streams, broadcast_buffers=False
    )


def barrier(workspace: Workspace) -> None:
    """Wait until all processes are here."""
    if workspace.world > 1:
        dist.barrier()
