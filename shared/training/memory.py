"""Memory of a process that computes on a CPU."""

from __future__ import annotations

import ctypes
import platform

import torch

TRIM_THRESHOLD, MMAP_MAX = -1, -4  # their numbers in malloc.h


def keep_freed_memory(device: str | torch.device = "cpu") -> bool:
    """Let a process that computes on a CPU keep what it frees; return whether it does, and its C library knows how.

    glibc gives each large block back to the system when it is freed. A step, of training or of search, would then ask
    for what it has just freed again, and the system clears that page by page: five to ten per cent of a step's time.
    """
    if torch.device(device).type != "cpu" or platform.libc_ver()[0] != "glibc":
        return False
    mallopt = ctypes.CDLL(None).mallopt
    return bool(mallopt(MMAP_MAX, 0)) and bool(mallopt(TRIM_THRESHOLD, 2**31 - 1))
