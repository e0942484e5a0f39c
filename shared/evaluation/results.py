"""Results: one JSON line per measured number in results.jsonl, and the RESULTS.md that is made of them (tables.py).

A row says everything that is needed to trust or repeat its number:

- what was run: ``recipe`` and ``keys`` (those given other values), or ``model`` where no recipe is known; ``phase``,
  ``seed``, ``command``, ``commit``;
- on what: ``split``, ``corpus`` (the manifest's fingerprint), ``language`` and ``outputs`` (the table of hypotheses,
  seen from the run's folder);
- how: ``averaging``, ``beam``, ``length_penalty``, ``search`` with all its settings;
- what of: ``text``, the name of the text that was scored, where a system writes several; ``reads`` and ``writes`` where
  it was given another task than its own;
- what came out: ``metric``, ``value``, ``signature``, ``lines``; ``without_speech`` (how many recordings hold none);
- on which ``hardware``, in how many ``minutes`` up to the evaluation, and ``evaluation_minutes``.

Rows of the ``kind`` "seeds" are means over ``seeds``, with their standard ``deviation`` and ``values``, the ``data``
that the runs have learned from, the ``minutes`` of all their training and, where a part was tuned, the millions of
parameters ``learning``; those of the kind "comparison" are differences of such means ``against`` another recipe, with
``low`` and ``high``, ``p`` and ``verdict`` (see significance.py). Nothing is typed by hand.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NotRequired

from shared.errors import DataError
from shared.evaluation.tables import render
from shared.machine.files import names_when_full, replaced_file
from shared.machine.processor import processor
from shared.machine.records import check_record, parse_record
from shared.machine.workspace import PhaseRecord

if TYPE_CHECKING:
    import torch

#: What every row has to say, and what is read of those that say more.
ROW: dict[str, Any] = {
    "recipe": str,
    "split": str,
    "metric": str,
    "value": float,
    "signature": str,
    "lines": int,
    "kind": NotRequired[str],
    "keys": NotRequired[dict[str, Any] | None],
    "phase": NotRequired[str | None],
    "text": NotRequired[str | None],
    "corpus": NotRequired[str | None],
    "outputs": NotRequired[str],
    "language": NotRequired[str | None],
    "minutes": NotRequired[float | None],
    "data": NotRequired[str],
    "learning": NotRequired[float],
    "hardware": NotRequired[str | None],
    "command": NotRequired[str | None],
    "commit": NotRequired[str | None],
    "deviation": NotRequired[float | None],
    "values": NotRequired[list[float]],
    "against": NotRequired[str],
    "against_keys": NotRequired[dict[str, Any] | None],
    "low": NotRequired[float],
    "high": NotRequired[float],
    "p": NotRequired[float],
}

#: Rows that agree in these are the same measurement: the last one counts.
IDENTITY = (
    *("kind", "recipe", "keys", "model", "against", "against_keys", "phase", "split", "metric", "corpus"),
    *("averaging", "beam", "search", "seed", "seeds", "hardware", "text", "reads", "writes"),
    *("ensemble", "language_model", "lm_weight", "ctc_weight"),
)


def record(path: Path, row: dict[str, Any]) -> None:
    """Append a row; several processes may do so at once, and a kill leaves a whole file behind.

    Args:
        path: results.jsonl; made if missing.
        row: plain data with at least the keys of :data:`ROW`.

    Raises:
        DataError: if a key is missing or the value is not a finite number.

    """
    check_record(row, str(path), ROW, "a result")
    _check_value(row, str(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        size = os.fstat(descriptor).st_size
        if size and os.pread(descriptor, 1, size - 1) != b"\n":
            raise DataError(f"{path}: the last line is cut off; remove it or complete it")
        data = _line(row).encode("utf-8")
        with names_when_full(path):
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
    try:
        text = path.read_text(encoding="utf-8").removesuffix("\n")
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not results ({error})") from error
    for number, line in enumerate(text.split("\n") if text else [], 1):
        where = f"{path}, line {number}"
        row = parse_record(line, where, ROW, "a result")
        _check_value(row, where)
        rows.append(row)
    return rows


def collect(runs: Sequence[Path], into: Path, further: Sequence[dict[str, Any]] = ()) -> Path:
    """Bring ``into/results.jsonl`` up to date with the results of runs, and write ``into/RESULTS.md`` from it.

    Rows that are there already are not added again, so that collecting twice changes nothing.

    Args:
        runs: output folders of runs, each with a results.jsonl.
        into: the folder of the table; made if missing.
        further: rows that are in no run's folder.

    Returns:
        The path of RESULTS.md.

    Raises:
        DataError: if a run has no results, or a line is not a row.

    """
    path = into / "results.jsonl"
    more = list(further)
    rows = read(path) if path.is_file() else []
    known = {_line(row) for row in rows}
    for run in runs:
        own = run / "results.jsonl"
        if not own.is_file():
            raise DataError(f"{own}: no results there; was the run finished?")
        more += read(own)
    for row in more:
        if _line(row) not in known:
            known.add(_line(row))
            rows.append(row)
    with replaced_file(path) as temporary:
        temporary.write_text("".join(map(_line, rows)), encoding="utf-8")
    table = into / "RESULTS.md"
    with replaced_file(table) as temporary:
        temporary.write_text(render(latest(rows), path.name), encoding="utf-8")
    return table


def latest(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the last row of each measurement, oldest first."""
    found: dict[tuple[str, ...], dict[str, Any]] = {}
    for row in rows:
        identity = tuple(json.dumps(_or_none(row.get(name)), sort_keys=True) for name in IDENTITY)
        found.pop(identity, None)
        found[identity] = row
    return list(found.values())


def _or_none(value: Any) -> Any:
    """Return the value; what is empty is as good as not there."""
    return None if value in ("", [], {}) else value


def _line(row: dict[str, Any]) -> str:
    return json.dumps(row, ensure_ascii=False, sort_keys=True) + "\n"


def _check_value(row: dict[str, Any], where: str) -> None:
    if not math.isfinite(row["value"]):
        raise DataError(f"{where}: the value {row['value']!r} of {row['metric']} is not a finite number")


def split_name(manifest: Path) -> str:
    """Return how results call a test set: "en-de/tst-COMMON"."""
    return f"{manifest.parent.name}/{manifest.stem}"


def minutes_so_far(output: Path) -> float:
    """Return the minutes that the phases of a run have taken so far, but for the start of the one now running."""
    seconds = 0.0
    for file in (output / "state").glob("*.json"):
        seconds += PhaseRecord(output, file.stem).read().get("seconds", 0.0)
    return seconds / 60


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
        return f"{kind} of {processor()}"
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return f"{cores} x {processor()}"


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
