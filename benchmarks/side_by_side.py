"""Runs several programs that do the same work by turns, and says what they took (benchmarks/tables.py writes it).

Each arm is a process of its own (benchmarks/worker.py), with its own Python, that stays alive and waits. Round by round
each does one repetition, in an order that rotates, so that whatever else the machine does hits all of them alike. The
first thing compared is what they compute: an arm whose checks are not those of the first stops the run.

One or more arms may measure the matrix peak and the speed of memory (benchmarks/matrix_peak.py): an arm that names one,
and counts its floating point operations and the bytes that it cannot but move, is given the time that its matrix
products would take at that peak, and the bytes at that speed: its floors.
"""

from __future__ import annotations

import json
import math
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dragoman.shared.machine.processor import processor

ROOT = Path(__file__).parent.parent


@dataclass(frozen=True)
class Arm:
    """One of those that are compared.

    Attributes:
        name: in the table.
        command: what its Python is given: ``["-m", "benchmarks.module", ...]`` or a file, with arguments.
        python: the interpreter.
        ours: whether its speed is divided by that of the others.
        peak: the arm that measures the matrix peak for it; "" for none.
        tolerance: how far its checks may be from those of the first arm, as a share of them.

    """

    name: str
    command: list[str]
    python: str = sys.executable
    ours: bool = False
    peak: str = ""
    tolerance: float = 1e-4


@dataclass(frozen=True)
class Benchmark:
    """A comparison: its arms, and where its results go.

    Attributes:
        name: of the file of results.
        title: one line on what is done.
        unit: what "work" counts, such as "target tokens".
        arms: those that are compared; the first is what the others' checks are compared with.
        notes: what a reader of the table has to know.
        absent: arms that cannot be run here, with the reason.

    """

    name: str
    title: str
    unit: str
    arms: list[Arm]
    notes: list[str] = field(default_factory=list)
    absent: dict[str, str] = field(default_factory=dict)


class Worker:
    """A running arm.

    Raises:
        RuntimeError: by any method, if the process ends early; its own message stands on stderr.

    """

    def __init__(self, arm: Arm, threads: int) -> None:
        self.arm = arm
        self.process = subprocess.Popen(
            [arm.python, *arm.command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment(threads),
            cwd=ROOT,
        )
        try:
            self.ready = self._answer()
        except BaseException:
            self.process.kill()
            raise

    def go(self) -> dict[str, Any]:
        """Do one repetition."""
        assert self.process.stdin is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"arm {self.arm.name!r} ended with exit code {self.process.wait()}")
        return dict(json.loads(line))

    def close(self) -> None:
        """Hang up, and wait for the end."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def environment(threads: int) -> dict[str, str]:
    """Return the variables of a worker: its threads, and the modules of this repository.

    Threads that wait spin briefly and then sleep: an idle arm must take nothing from the one whose turn it is.
    """
    number = str(threads)
    kept = {name: value for name, value in os.environ.items() if name != "OMP_WAIT_POLICY"}
    return kept | {
        "OMP_NUM_THREADS": number,
        "MKL_NUM_THREADS": number,
        "OPENBLAS_NUM_THREADS": number,
        "GOMP_SPINCOUNT": "10000",
        "KMP_BLOCKTIME": "1",  # milliseconds
        # Several models share a GPU. Some virtual machines refuse it, and may give another value.
        "PYTORCH_CUDA_ALLOC_CONF": os.environ.get("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True"),
        "THP_MEM_ALLOC_ENABLE": "1",  # large pages for torch, as `dragoman` asks for them
        "TOKENIZERS_PARALLELISM": "false",
        "HF_HUB_OFFLINE": "1",
        "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])),
    }


def run(benchmark: Benchmark, *, rounds: int, threads: int, told: Callable[[str], None] = print) -> dict[str, Any]:
    """Run a benchmark; return its results as plain data.

    Raises:
        ValueError: if an arm's checks are not those of the first.
        RuntimeError: if an arm ends early.

    """
    workers: list[Worker] = []
    before = os.getloadavg()[0]
    try:
        for arm in benchmark.arms:
            clock = time.perf_counter()
            workers.append(Worker(arm, threads))
            compare(benchmark.arms[0], workers[0].ready, arm, workers[-1].ready)
            told(f"{arm.name}: ready after {time.perf_counter() - clock:.0f} s, {workers[-1].ready.get('checks', {})}")
        repetitions: dict[str, list[dict[str, Any]]] = {arm.name: [] for arm in benchmark.arms}
        loads = [before]
        for number in range(rounds):
            first = number % len(workers)
            for worker in workers[first:] + workers[:first]:
                repetitions[worker.arm.name].append(worker.go())
            loads.append(os.getloadavg()[0])
            told(
                f"round {number + 1} of {rounds}: "
                + ", ".join(f"{name} {done[-1]['seconds']:.2f} s" for name, done in repetitions.items())
            )
    finally:
        for worker in workers:
            worker.close()
    return {
        "name": benchmark.name,
        "title": benchmark.title,
        "unit": benchmark.unit,
        "notes": benchmark.notes,
        "absent": benchmark.absent,
        "machine": machine(),
        "threads": threads,
        "date": time.strftime("%Y-%m-%d %H:%M"),
        "load": [round(load, 2) for load in loads],
        "arms": {
            worker.arm.name: {
                "ours": worker.arm.ours,
                "peak": worker.arm.peak,
                "ready": worker.ready,
                "repetitions": repetitions[worker.arm.name],
            }
            for worker in workers
        },
    }


def compare(first: Arm, expected: dict[str, Any], arm: Arm, found: dict[str, Any]) -> None:
    """Refuse an arm that does other work than the first.

    Raises:
        ValueError: if a check that both have differs.

    """
    for name, value in found.get("checks", {}).items():
        other = expected.get("checks", {}).get(name, value)
        same = math.isclose(value, other, rel_tol=arm.tolerance) if isinstance(value, float) else value == other
        if not same:
            raise ValueError(f"{name} of {arm.name} is {value}, that of {first.name} is {other}: not the same work")


def machine() -> dict[str, Any]:
    """Say what this machine is."""
    found: dict[str, Any] = {"system": platform.system(), "cores": cores(), "processor": processor()}
    information = Path("/proc/cpuinfo")
    if information.is_file():
        lines = dict(line.split(":", 1) for line in information.read_text().splitlines() if ":" in line)
        lines = {name.strip(): value.strip() for name, value in lines.items()}
        flags = set(lines.get("flags", "").split())
        found["vectors"] = [name for name in ("avx2", "avx512f", "avx512_bf16", "amx_bf16") if name in flags]
    memory = Path("/proc/meminfo")
    if memory.is_file():
        found["memory_gb"] = round(int(memory.read_text().split()[1]) * 1024 / 1e9, 1)
    return found


def multiplies_bf16() -> bool:
    """Tell whether this processor has units for bf16; without, it takes a hundred times as long."""
    return bool({"avx512_bf16", "amx_bf16"} & set(machine().get("vectors", [])))


def fairseq_python() -> str | None:
    """Return the interpreter of fairseq's environment (``make fairseq-env``, or FAIRSEQ_ENV), None if there is none."""
    path = Path(os.environ.get("FAIRSEQ_ENV", ROOT / ".fairseq-env")) / "bin" / "python"
    return str(path) if path.is_file() else None


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
