"""The share of a model that each device may hold, as a user writes it: "cuda:0=20GB,cuda:1=20GB,cpu=60GB"."""

from __future__ import annotations

import re

from dragoman.shared.errors import UsageError
from dragoman.shared.machine.memory import UNITS

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
