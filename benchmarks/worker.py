"""The worker's half of benchmarks/side_by_side.py: runs in any Python from 3.10 on, and needs nothing else.

A worker is a program that calls :func:`serve`. It talks in lines of JSON: one when it is ready, then one for every line
"go" that it reads. Whatever libraries print goes to stderr.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

#: Sets up and warms up; returns what is to be known before, and what does one repetition and returns its result.
Setup = Callable[[], tuple[dict[str, Any], Callable[[], dict[str, Any]]]]


def serve(setup: Setup) -> None:
    """Set up, say so, and do one repetition for every "go" until the parent hangs up.

    The line "ready" holds what ``setup`` returns, usually "versions", "checks" (numbers that must be those of the other
    workers) and "flops" (those of the matrix products of one repetition). A repetition's line holds what it returns,
    usually "work", and "seconds", "cpu_seconds" (of all threads), "idle_cpu_seconds" (since the last one) and
    "peak_memory" (bytes, of repetitions only where the system can forget what was before).
    """
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def tell(**values: Any) -> None:
        print(json.dumps(values), file=answers, flush=True)

    facts, repeat = setup()
    forgotten = forget_peak_memory()
    tell(ready=True, pid=os.getpid(), peak_memory_of_repetitions=forgotten, **facts)
    rested = time.process_time()
    for line in sys.stdin:
        if line.strip() != "go":
            raise ValueError(f"a worker knows the line 'go', not {line!r}")
        cpu, clock = time.process_time(), time.perf_counter()
        result = repeat()
        seconds, used = time.perf_counter() - clock, time.process_time() - cpu
        measured = {"seconds": seconds, "cpu_seconds": used, "peak_memory": peak_memory()}
        tell(idle_cpu_seconds=cpu - rested, **measured | result)
        rested = time.process_time()


def forget_peak_memory() -> bool:
    """Let the high-water mark of memory begin anew (Linux); return whether that was possible."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return False
    return True


def peak_memory() -> int:
    """Return the most bytes that were in this process's memory."""
    if sys.platform == "linux":
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
