"""Memory that a computation may still take, and the refusal of one that needs more."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from dragoman.shared.errors import DataError, UsageError

if TYPE_CHECKING:
    import torch

PROC = Path("/proc")
CGROUPS = Path("/sys/fs/cgroup")
#: Limit, use and statistics of a control group, and what of its use is given back on demand: versions 2 and 1.
CGROUP_FILES = (
    ("memory.max", "memory.current", "inactive_file"),
    ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)
#: Bytes that a process which reads data takes for itself at least; measured with a small stream of text.
WORKER = 8 * 1024**2
UNITS = ("B", "KB", "MB", "GB", "TB", "PB", "EB")


def available_memory(device: str | torch.device = "cpu") -> int:
    """Return how many bytes a process may still take on a device.

    On a CPU: what the system has left, or less if a control group of the process (a container, a job of a scheduler) or
    its limit of address space (ulimit -v) allows less. On a GPU: what is free, and what this process holds without
    using it. A system that does not tell what is left counts with all of its memory.
    """
    if str(device) == "cpu":  # without torch, whose import takes seconds
        return max(min([_left_on_system(PROC), *_left_in_groups(PROC, CGROUPS), *_left_to_process(PROC)]), 0)
    import torch

    device = torch.device(device)
    if device.type == "cuda":
        unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return torch.cuda.mem_get_info(device)[0] + unused
    if device.type == "mps":
        return torch.mps.recommended_max_memory() - torch.mps.driver_allocated_memory()
    return available_memory()


def refuse_over(
    needed: int, what: str, device: str | torch.device = "cpu", *, error: type[DataError | UsageError] = UsageError
) -> None:
    """Refuse a computation (``what``: "--beam 100000") that needs more bytes of memory than the device has.

    Raises:
        UsageError: with both figures; or ``error``.
    """
    available = available_memory(device)
    if needed > available:
        raise error(
            f"{what}: needs about {in_units(needed)} of memory on {device}, but only {in_units(available)} is available"
        )


def check_workers(workers: int) -> None:
    """Refuse a number of processes that no machine, or not this one, can start.

    Raises:
        UsageError: for a negative number, or with the memory that they need and the memory that there is.
    """
    if workers < 0:
        raise UsageError(f"workers must not be negative, not {workers}")
    refuse_over(workers * WORKER, f"--workers {workers}")


def in_units(size: int) -> str:
    """Return bytes as people write them, in powers of 1024: "1.5 GB"."""
    unit = min(max(size.bit_length() - 1, 0) // 10, len(UNITS) - 1)
    tenths = size * 10 >> 10 * unit  # in integers, for sizes that no float holds
    return f"{tenths // 10:,}.{tenths % 10} {UNITS[unit]}" if tenths < 10**9 else f"more than 100 million {UNITS[unit]}"


def _left_on_system(proc: Path) -> int:
    for line in _text(proc / "meminfo").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _left_to_process(proc: Path) -> Iterator[int]:
    """Yield what the limit of this process's address space leaves, if there is one."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    used = _text(proc / "self" / "statm").split(" ")[0]
    if limit != resource.RLIM_INFINITY and used:
        yield limit - int(used) * resource.getpagesize()


def _left_in_groups(proc: Path, cgroups: Path) -> Iterator[int]:
    """Yield what the control groups of this process, and those around them, leave; nothing for those without limit."""
    for line in _text(proc / "self" / "cgroup").splitlines():
        number, controllers, path = line.split(":", 2)
        if number != "0" and "memory" not in controllers.split(","):
            continue
        root = cgroups if number == "0" else cgroups / "memory"
        group = root / path.strip("/")
        # In a container, the path is the host's, and the files of its group are in the root.
        for folder in [group, *(above for above in group.parents if above.is_relative_to(root))]:
            yield from _left_in(folder)


def _left_in(group: Path) -> Iterator[int]:
    for limit_name, used_name, cache_name in CGROUP_FILES:
        limit, used = _text(group / limit_name).strip(), _text(group / used_name).strip()
        if limit.isdecimal() and used.isdecimal():
            statistics = dict(line.split(" ", 1) for line in _text(group / "memory.stat").splitlines())
            yield int(limit) - int(used) + int(statistics.get(cache_name, 0))


def _text(path: Path) -> str:
    """Return what a file of the system says, nothing if there is no such file."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return ""
