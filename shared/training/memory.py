"""Memory of a process that computes on a CPU."""

from __future__ import annotations

import ctypes
import platform

TRIM_THRESHOLD, MMAP_MAX = -1, -4  # their numbers in malloc.h


def keep_freed_memory() -> bool:
    """Let this process keep what it frees for its next allocation; return whether the C library knows how.

    glibc gives each large block back to the system when it is freed. A step, of training or of search, would then ask
    for what it has just freed again, and the system clears that page by page: five to ten per cent of a step's time.
    """
    if platform.libc_ver()[0] != "glibc":
        return False
    mallopt = ctypes.CDLL(None).mallopt
    return bool(mallopt(MMAP_MAX, 0)) and bool(mallopt(TRIM_THRESHOLD, 2**31 - 1))
