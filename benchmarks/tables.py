"""What the results of benchmarks/side_by_side.py say: medians, ratios, floors, and a table in Markdown."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

SAMPLES = 2000  # of the bootstrap
#: Times, and how the table calls them. That of the CPU says more where others use the machine, and less where threads
#: wait for each other.
KINDS = {"seconds": "", "cpu_seconds": ", CPU time"}


def short_name(result: dict[str, Any]) -> str:
    """Return the GPU, or the processor's maker and widest vectors, on which ratios depend: ``intel_avx512f``."""
    host = result["machine"]
    graphics = gpu_of(result)
    name = graphics or f"{host['processor'].split('(')[0].split()[0]} {(host.get('vectors') or [''])[-1]}"
    return re.sub(r"\W+", "_", name.strip().lower())


def gpu_of(result: dict[str, Any]) -> str | None:
    """Return the GPU of a result, None if it was measured without."""
    return next((arm["ready"]["gpu"] for arm in result["arms"].values() if arm["ready"].get("gpu")), None)


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
