"""Limits of what one try may use."""

from __future__ import annotations

import resource
from pathlib import Path


def bound_memory(more: int) -> None:
    """Limit this process to ``more`` bytes above what it has mapped; a fork has mapped all that its parent imported."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    most = pages * resource.getpagesize() + more
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
