"""The share of a model that each device may hold, as a user writes it: "cuda:0=20GB,cuda:1=20GB,cpu=60GB"."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import torch

from dragoman.shared.errors import UsageError
from dragoman.shared.machine.device import Machine
from dragoman.shared.machine.extras import require
from dragoman.shared.machine.memory import UNITS
from dragoman.shared.systems.system import System

#: A device and its share: "0=20GB", "cuda:1=1.5 GB", "cpu=500MB".
_SHARE = re.compile(r"(cpu|mps|cuda(?::\d{1,3})?|\d{1,3})=(\d{1,9}(?:\.\d{1,9})?) ?([KMGT]?B)", re.ASCII)


def memory_budgets(text: str) -> dict[str, int]:
    """Return bytes by device, "cuda:0" for "0" and "cuda"; units are powers of 1024, as in all messages.

    Raises:
        UsageError: for anything else, and for a device that is named twice.
    """
    budgets: dict[str, int] = {}
    for part in text.split(","):
        match = _SHARE.fullmatch(part.strip())
        if match is None:
            raise UsageError(f"memory: {part.strip()!r} is no DEVICE=SIZE such as 0=20GB, cuda:1=20GB or cpu=60GB")
        name, number, unit = match.groups()
        device = f"cuda:{int(name)}" if name.isdecimal() else "cuda:0" if name == "cuda" else name
        if device in budgets:
            raise UsageError(f"memory: {device} is named twice")
        budgets[device] = int(float(number) * 1024 ** UNITS.index(unit))
    return budgets


def loader(memory: str | None, machine: Machine, *, alone: bool) -> Callable[[Path], System] | None:
    """Return what loads a model folder for searches, its layers where ``memory`` has room; None if that is None.

    Args:
        memory: as :func:`memory_budgets` reads it.
        machine: the device that computes, and the precision.
        alone: no other model takes part in the search.

    Raises:
        UsageError: for a search or a device that this does not go with, or without accelerate.
    """
    if memory is None:
        return None
    if not alone or machine.autocast_dtype == torch.int8:
        raise UsageError("memory is for one model, without ensemble and language model, and in no precision int8")
    budgets = memory_budgets(memory)
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise UsageError("memory is for one process: it may hold several devices")
    for name in budgets:
        Machine(device=name)  # refuses one that is not there
    require("accelerate", "offload", "memory")
    from dragoman.placing.placed import load_placed

    return lambda folder: load_placed(System, folder, budgets, str(machine.device), machine.autocast_dtype)
