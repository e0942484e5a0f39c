"""Results: one JSON line per measured number in results.jsonl, and the RESULTS.md that is made of them.

A row says everything that is needed to trust or repeat its number; the keys of :data:`COLUMNS` stand in the table,
``signature`` and ``command`` below it. Nothing is typed by hand: RESULTS.md is ``render(results.jsonl)``.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
import platform
import subprocess
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shared.errors import DataError
from shared.files import replaced_file

if TYPE_CHECKING:
    import torch

#: What every row has to say.
REQUIRED = ("recipe", "split", "metric", "value", "signature", "lines")

#: The columns of the table: heading by key. A column that no row of a table has is left out.
COLUMNS = {
    "recipe": "recipe",
    "phase": "phase",
    "split": "split",
    "metric": "metric",
    "value": "value",
    "lines": "lines",
    "corpus": "corpus",
    "averaging": "averaging",
    "beam": "beam",
    "seed": "seed",
    "minutes": "minutes",
    "hardware": "hardware",
    "commit": "commit",
}
NUMERIC = {"value", "lines", "beam", "seed", "minutes"}

#: Rows that agree in these are the same measurement: the last one counts.
IDENTITY = ("recipe", "phase", "split", "metric", "corpus", "averaging", "beam", "search", "seed", "hardware")


def record(path: Path, row: dict[str, Any]) -> None:
    """Append a row; several processes may do so at once, and a kill leaves a whole file behind.

    Args:
        path: results.jsonl; made if missing.
        row: plain data with at least the keys of :data:`REQUIRED`.

    Raises:
        DataError: if a key is missing or the value is not a finite number.

    """
    _check(row, str(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        size = os.fstat(descriptor).st_size
        if size and os.pread(descriptor, 1, size - 1) != b"\n":
            raise DataError(f"{path}: the last line is cut off; remove it or complete it")
        data = _line(row).encode("utf-8")
        if os.write(descriptor, data) != len(data):
            os.ftruncate(descriptor, size)
            raise OSError(f"{path}: could not write a whole row")
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def forget(path: Path, recipe: str, phase: str) -> None:
    """Remove the rows of a phase of a recipe, which is about to be done again."""
    if not path.is_file():
        return
    kept = [row for row in read(path) if (row["recipe"], row.get("phase")) != (recipe, phase)]
    with replaced_file(path) as temporary:
        temporary.write_text("".join(map(_line, kept)), encoding="utf-8")


def read(path: Path) -> list[dict[str, Any]]:
    """Return all rows, oldest first.

    Raises:
        DataError: naming the line that is not a row.

    """
    rows = []
    text = path.read_text(encoding="utf-8").removesuffix("\n")
    for number, line in enumerate(text.split("\n") if text else [], 1):
        where = f"{path}, line {number}"
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            raise DataError(f"{where}: not JSON ({error.msg}): {line[:80]!r}") from error
        if not isinstance(row, dict):
            raise DataError(f"{where}: {line[:80]!r} is not a row")
        _check(row, where)
        rows.append(row)
    return rows


def collect(runs: Sequence[Path], into: Path) -> Path:
    """Bring ``into/results.jsonl`` up to date with the results of runs, and write ``into/RESULTS.md`` from it.

    Rows that are there already are not added again, so that collecting twice changes nothing.

    Args:
        runs: output folders of runs, each with a results.jsonl.
        into: the folder of the table; made if missing.

    Returns:
        The path of RESULTS.md.

    Raises:
        DataError: if a run has no results, or a line is not a row.

    """
    path = into / "results.jsonl"
    rows = read(path) if path.is_file() else []
    known = {_line(row) for row in rows}
    for run in runs:
        own = run / "results.jsonl"
        if not own.is_file():
            raise DataError(f"{own}: no results there; was the run finished?")
        for row in read(own):
            if _line(row) not in known:
                known.add(_line(row))
                rows.append(row)
    with replaced_file(path) as temporary:
        temporary.write_text("".join(map(_line, rows)), encoding="utf-8")
    table = into / "RESULTS.md"
    with replaced_file(table) as temporary:
        temporary.write_text(render(path), encoding="utf-8")
    return table


def summarise(path: Path, file: Path) -> None:
    """Put a table of the headline scores (BLEU, WER) between the marks ``<!-- results -->`` of a text file.

    Raises:
        DataError: if the file lacks the marks.

    """
    opening, closing = "<!-- results -->", "<!-- /results -->"
    before, mark, rest = file.read_text(encoding="utf-8").partition(opening)
    _, end, after = rest.partition(closing)
    if not (mark and end):
        raise DataError(f"{file}: has no {opening} ... {closing}")
    found = [row for row in read(path) if row["metric"] in ("bleu", "wer")]
    splits = list(dict.fromkeys(row["split"] for row in found))
    table: dict[tuple[str, str], dict[str, Any]] = {}
    for row in found:
        cells = table.setdefault((row["recipe"], row["metric"]), {})
        cells |= {row["split"]: f"{row['value']:.1f}", "minutes": f"{row.get('minutes', 0):.0f}"}
        cells |= {"hardware": row.get("hardware", "")}
    lines = ["| recipe | score | " + " | ".join(splits) + " | minutes | hardware |"]
    lines.append("|---|---|" + "---:|" * (len(splits) + 1) + "---|")
    for (recipe, metric), cells in sorted(table.items()):
        values = " | ".join(cells.get(name, "") for name in [*splits, "minutes", "hardware"])
        lines.append(f"| {recipe} | {metric.upper()} | {values} |")
    with replaced_file(file) as temporary:
        temporary.write_text(before + opening + "\n" + "\n".join(lines) + "\n" + closing + after, encoding="utf-8")


def render(path: Path) -> str:
    """Return RESULTS.md: a table per group of recipes (the folder they stand in), the last measurement of each kind."""
    latest = {tuple(json.dumps(row.get(name), sort_keys=True) for name in IDENTITY): row for row in read(path)}
    groups: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for _, row in sorted(latest.items()):
        groups[str(row["recipe"]).rpartition("/")[0] or "others"].append(row)
    parts = [f"# Results\n\nMade from `{path.name}` by command; do not edit.\n"]
    for group, rows in sorted(groups.items()):
        parts.append(f"## {group}\n\n{_table(rows)}\n\n{_notes(rows)}")
    return "\n".join(parts)


def _line(row: dict[str, Any]) -> str:
    return json.dumps(row, ensure_ascii=False, sort_keys=True) + "\n"


def _check(row: dict[str, Any], where: str) -> None:
    missing = [name for name in REQUIRED if name not in row]
    if missing:
        raise DataError(f"{where}: a result lacks {', '.join(missing)}")
    value = row["value"]
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise DataError(f"{where}: the value {value!r} of {row['metric']} is not a finite number")


def _table(rows: list[dict[str, Any]]) -> str:
    columns = {key: heading for key, heading in COLUMNS.items() if any(row.get(key) is not None for row in rows)}
    lines = ["| " + " | ".join(columns.values()) + " |"]
    lines.append("|" + "|".join("---:" if key in NUMERIC else "---" for key in columns) + "|")
    lines += ["| " + " | ".join(_cell(key, row.get(key)) for key in columns) + " |" for row in rows]
    return "\n".join(lines)


def _cell(key: str, value: Any) -> str:
    if value is None:
        return ""
    if key == "value":
        return f"{value:.2f}"
    if key == "minutes":
        return f"{float(value):.1f}"
    if key == "commit":
        value = value[:10] + ("+" if value.endswith("+") else "")
    return str(value).replace("|", "\\|").replace("\n", " ")


def _notes(rows: list[dict[str, Any]]) -> str:
    signatures = dict.fromkeys(f"- {row['metric']}: `{row['signature']}`\n" for row in rows)
    commands = dict.fromkeys(f"- {row['recipe']}: `{row['command']}`\n" for row in rows if row.get("command"))
    text = "Signatures:\n\n" + "".join(signatures)
    return text + ("\nCommands:\n\n" + "".join(commands) if commands else "")


def hardware(device: torch.device | str | None = None) -> str:
    """Say what a run on a device uses: the graphics cards, or the processor and how many of its cores may be used.

    Args:
        device: by default the graphics cards if there are any.

    """
    import torch

    kind = torch.device(device).type if device is not None else "cuda" if torch.cuda.is_available() else "cpu"
    if kind == "cuda":
        names = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
        return ", ".join(f"{names.count(name)} x {name}" for name in dict.fromkeys(names))
    if kind != "cpu":
        return f"{kind} of {_processor()}"
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return f"{cores} x {_processor()}"


def _processor() -> str:
    information = Path("/proc/cpuinfo")
    if information.is_file():
        for line in information.read_text(encoding="utf-8", errors="replace").splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name" and value.strip():
                return value.strip()
    return platform.processor() or platform.machine()


def commit(file: Path | None = None) -> str:
    """Return the commit of the code, followed by "+" if files that git knows were changed since.

    Args:
        file: a file of the code, by default this one. If git does not know it (an installed package, perhaps inside
            somebody's own repository), the answer is "none".

    """
    file = (file or Path(__file__)).resolve()
    try:
        _git(file, "ls-files", "--error-unmatch", file.name)
        head = _git(file, "rev-parse", "HEAD")
        changed = _git(file, "status", "--porcelain", "--untracked-files=no")
    except (OSError, subprocess.CalledProcessError):  # no git, no repository, or no commit
        return "none"
    return head + ("+" if changed else "")


def _git(file: Path, *arguments: str) -> str:
    command = ["git", "-C", str(file.parent), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
