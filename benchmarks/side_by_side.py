"""Runs several programs that do the same work by turns, and writes what they took, as JSON and as a table.

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
import random
import re
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from shared.machine.processor import processor

ROOT = Path(__file__).parent.parent
SAMPLES = 2000  # of the bootstrap
#: Times, and how the table calls them. That of the CPU says more where others use the machine, and less where threads
#: wait for each other.
KINDS = {"seconds": "", "cpu_seconds": ", CPU time"}


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


def short_name(result: dict[str, Any]) -> str:
    """Return the GPU, or the processor's maker and widest vectors, on which ratios depend: ``intel_avx512f``."""
    host = result["machine"]
    graphics = gpu_of(result)
    name = graphics or f"{host['processor'].split('(')[0].split()[0]} {(host.get('vectors') or [''])[-1]}"
    return re.sub(r"\W+", "_", name.strip().lower())


def gpu_of(result: dict[str, Any]) -> str | None:
    """Return the GPU of a result, None if it was measured without."""
    return next((arm["ready"]["gpu"] for arm in result["arms"].values() if arm["ready"].get("gpu")), None)


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


# -- numbers ---------------------------------------------------------------------------------------------------------


def ratio(times: Sequence[float], ours: Sequence[float]) -> tuple[float, float, float]:
    """Return how many times faster we are, and a 95 % interval.

    Args:
        times: a peer's seconds, one a round.
        ours: our seconds in the same rounds.

    Returns:
        The ratio of medians, and its 2.5 % and 97.5 % quantiles over rounds drawn with replacement.

    """
    draw = random.Random(1)
    ratios = []
    for _ in range(SAMPLES):
        rows = draw.choices(range(len(times)), k=len(times))
        ratios.append(median(times[row] for row in rows) / median(ours[row] for row in rows))
    ratios.sort()
    return median(times) / median(ours), ratios[SAMPLES // 40], ratios[-SAMPLES // 40]


def seconds_of(arm: dict[str, Any], kind: str = "seconds") -> list[float]:
    """Return the seconds of each round."""
    return [repetition[kind] for repetition in arm["repetitions"]]


def per_second(arm: dict[str, Any], kind: str = "seconds") -> float:
    """Return the median of the work done in a second."""
    return median(repetition["work"] / repetition[kind] for repetition in arm["repetitions"])


def floor(arm: dict[str, Any], arms: dict[str, dict[str, Any]], kind: str = "seconds") -> float | None:
    """Return the seconds that an arm's matrix products take at the peak, if both are known."""
    flops = arm["ready"].get("flops")
    return flops / per_second(arms[arm["peak"]], kind) if flops and arm["peak"] in arms else None


def floors(name: str, arm: dict[str, Any], arms: dict[str, dict[str, Any]]) -> str:
    """Return a line on the least that an arm has to do, and how long that takes; "" if nobody counted."""
    least, moved = floor(arm, arms), arm["ready"].get("bytes")
    if not least or not moved:
        return ""
    speed = median(repetition["bytes_per_second"] for repetition in arms[arm["peak"]]["repetitions"])
    return (
        f"floors of {name}: {arm['ready']['flops'] / 1e9:,.0f} GFLOP of products, {least:.3g} s at the peak; "
        f"{moved / 1e9:.3g} GB of {arm['ready']['bytes_of']}, {moved / speed:.3g} s at the {speed / 1e9:.0f} GB/s of a "
        "copy in the same rounds"
    )


def share_of_peak(arm: dict[str, Any], arms: dict[str, dict[str, Any]], kind: str) -> str:
    """Return the floor as a share of the time."""
    least = floor(arm, arms, kind)
    return f"{least / median(seconds_of(arm, kind)):.0%}" if least else ""


# -- the table -------------------------------------------------------------------------------------------------------


def markdown(result: dict[str, Any]) -> str:
    """Write a result as Markdown."""
    arms: dict[str, dict[str, Any]] = result["arms"]
    peaks = {arm["peak"] for arm in arms.values()}
    compared = {name: arm for name, arm in arms.items() if name not in peaks}
    with_floor = any(floor(arm, arms) for arm in compared.values())
    head = ["", "seconds: median (middle half)", "CPU seconds", f"{result['unit']}/s", "peak memory, GB"]
    head += ["of the peak", "in CPU time"] if with_floor else []
    rows = [head]
    for name, arm in compared.items():
        times = sorted(seconds_of(arm))
        half = f"{times[len(times) // 4]:.3g} to {times[-1 - len(times) // 4]:.3g}"
        row = [name, f"{median(times):.3g} ({half})", f"{median(seconds_of(arm, 'cpu_seconds')):.3g}"]
        row += [f"{per_second(arm):,.0f}" if per_second(arm) >= 100 else f"{per_second(arm):.1f}"]
        memory = max(seconds_of(arm, "peak_memory"))
        row += [f"{memory / 1e9:.2f}" if memory else ""]
        if with_floor:
            row += [share_of_peak(arm, arms, kind) for kind in KINDS]
        rows.append(row)
    lines = [f"## {result['name']}, {short_name(result)}", "", result["title"], "", *table(rows), ""]
    lines += ratios(compared)
    for name in sorted(peaks & set(arms)):
        lines.append(f"- {name}: {per_second(arms[name]) / 1e9:,.0f} GFLOP/s in the same rounds")
    lines += [f"- {line}" for name, arm in compared.items() if arm["ours"] and (line := floors(name, arm, arms))]
    said = {name: arm["ready"]["said"] for name, arm in compared.items() if "said" in arm["ready"]}
    lines += [f"- {name}: {text}" for name, text in said.items()]
    lines += [f"- {note}" for note in result["notes"]]
    lines += [f"- not run: {name} ({reason})" for name, reason in result["absent"].items()]
    return "\n".join([*lines, *circumstances(result), ""])


def ratios(compared: dict[str, dict[str, Any]]) -> list[str]:
    """Return how many times faster ours are than each other."""
    ours = [name for name, arm in compared.items() if arm["ours"]]
    others = [name for name in compared if name not in ours]
    if not ours or not others:
        return []
    rows = [["times faster than", *others]]
    for kind, about in KINDS.items():
        for name in ours:
            cells = [name + about]
            for other in others:
                mid, low, high = ratio(seconds_of(compared[other], kind), seconds_of(compared[name], kind))
                cells.append(f"{mid:.2f} ({low:.2f} to {high:.2f})")
            rows.append(cells)
    return [*table(rows), ""]


def table(rows: list[list[str]]) -> list[str]:
    """Return the lines of a table whose first row is its head."""
    rule = ["---"] + ["---:"] * (len(rows[0]) - 1)
    return ["| " + " | ".join(row) + " |" for row in (rows[0], rule, *rows[1:])]


def circumstances(result: dict[str, Any]) -> list[str]:
    """Return where and with what a result was found."""
    host, load = result["machine"], result["load"]
    count = len(next(iter(result["arms"].values()))["repetitions"])
    graphics = gpu_of(result)
    vectors = f" ({', '.join(host['vectors'])})" if host.get("vectors") else ""
    place = f"{host['processor']}{vectors}, {host['cores']} cores, {host.get('memory_gb', '?')} GB"
    idle = max(
        (repetition["idle_cpu_seconds"] for arm in result["arms"].values() for repetition in arm["repetitions"]),
        default=0.0,
    )
    lines = [
        f"- {place}{f', {graphics}' if graphics else ''}; {result['threads']} threads; {count} rounds on "
        f"{result['date']}; load {min(load):.1f} to {max(load):.1f}; at most {idle:.2f} CPU seconds of an idle arm"
    ]
    versions: dict[str, list[str]] = {}
    for name, arm in result["arms"].items():
        told = ", ".join(f"{package} {version}" for package, version in arm["ready"].get("versions", {}).items())
        versions.setdefault(told, []).append(name)
    return lines + [f"- {', '.join(names)}: {told}" for told, names in versions.items() if told]


def write(result: dict[str, Any], folder: Path) -> Path:
    """Write ``<name>.<processor or GPU>.json`` into a folder; return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{result['name']}.{short_name(result)}.json"
    path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return path
