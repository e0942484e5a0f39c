"""What a try may use of the machine."""

from __future__ import annotations

import resource
from pathlib import Path


def bound_memory(more: int) -> None:
    """Let this process have so many bytes more than it has: one that was forked has all that its parent imported."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    most = pages * resource.getpagesize() + more
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
