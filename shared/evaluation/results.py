"""Results: a JSON line for each run and test set in results.jsonl.

In memory a row is one measured number, a *measurement*; it says everything that is needed to trust or repeat it:

- what was run: ``recipe``, its ``arm`` and ``keys`` (those given other values), or ``model`` where no recipe is known;
  ``phase``, ``seed``, ``command``, ``commit``;
- on what: ``split``, ``corpus`` (the manifest's fingerprint), ``language`` and ``outputs`` (the table of hypotheses,
  seen from the run's folder);
- how: ``averaging``, ``search`` with all its settings;
- what of: ``text``, the name of the text that was scored, where a system writes several; ``reads`` and ``writes`` where
  it was given another task than its own;
- what came out: ``metric``, ``value``, ``signature``, ``lines``; ``without_speech`` (how many recordings hold none);
- on which ``hardware``, in how many ``minutes`` up to the evaluation, and ``evaluation_minutes``.

In a file the measurements of one run on one test set are one line: the values stand by metric under ``scores``, and
``lines`` is one number unless the metrics differ in it. ``signed`` is a short name of their ``signatures``, by metric,
which stand in the first line that has them; lines below with the same ones bear the name alone.

Collected (dragoman/reporting/collecting.py), a run's rows leave out what its recipe and arm say at that commit, and
tell the ``data`` that it learned from, the ``minutes`` of all its training and, where a part was tuned, the millions of
parameters ``learning``. Rows of the ``kind`` "comparison" are differences of means over ``seeds`` ``against`` another
recipe, with ``low``, ``high`` and ``p`` (dragoman/reporting/significance.py), and those of the kind "comparison of
means" likewise of means over directions. Means and verdicts are computed from these rows wherever they are shown.
Nothing is typed by hand.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import math
import os
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NotRequired

from dragoman.shared.errors import DataError
from dragoman.shared.machine.files import names_when_full, replaced_file
from dragoman.shared.machine.processor import processor
from dragoman.shared.machine.records import check_record, parse_record
from dragoman.shared.machine.workspace import PhaseRecord

if TYPE_CHECKING:
    import torch

#: What every measurement has to say, and what is read of those that say more.
ROW: dict[str, Any] = {
    "recipe": str,
    "split": str,
    "metric": str,
    "value": float,
    "signature": str,
    "lines": int,
    "kind": NotRequired[str],
    "arm": NotRequired[str],
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
    "seed": NotRequired[int | None],
    "seeds": NotRequired[list[int]],
    "against": NotRequired[str],
    "against_arm": NotRequired[str],
    "against_keys": NotRequired[dict[str, Any] | None],
    "low": NotRequired[float],
    "high": NotRequired[float],
    "p": NotRequired[float],
}

#: In which the metrics of one test set differ, and how a line of a file calls it: an object by metric.
BY_METRIC = {
    **{"value": "scores", "signature": "signatures", "lines": "lines"},
    **{"low": "low", "high": "high", "p": "p"},
}
#: What every line of a file has to say, and the name of its signatures, which those of earlier versions lack.
LINE: dict[str, Any] = {"scores": dict[str, float], "signed": NotRequired[str]}
#: Rows that agree in these are the same measurement: the last one counts.
IDENTITY = (
    *("kind", "recipe", "arm", "keys", "model", "against", "against_arm", "against_keys"),
    *("phase", "split", "metric", "corpus", "seed"),
    *("text", "reads", "writes", "ensemble", "language_model", "lm_weight", "ctc_weight"),
)
#: Known when runs are collected by ``dragoman seeds``, and kept when they are collected again.
OF_TRAINING = ("data", "minutes", "learning")


def record(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """Append measurements (plain data with the keys of :data:`ROW`) whole, though several processes do so at once.

    Raises:
        DataError: if a key is missing or the value is not a finite number.
    """
    for row in rows:
        _check(row, str(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        size = os.fstat(descriptor).st_size
        if size and os.pread(descriptor, 1, size - 1) != b"\n":
            raise DataError(f"{path}: the last line is cut off; remove it or complete it")
        data = _text(rows).encode("utf-8")
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
    write(path, kept)


def write(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    """Replace a file by these measurements."""
    with replaced_file(path) as temporary:
        temporary.write_text(_text(rows), encoding="utf-8")


def read(path: Path) -> list[dict[str, Any]]:
    """Return all measurements, oldest first.

    Raises:
        DataError: naming the line that is not a row.
    """
    rows = []
    said: dict[str, Any] = {}
    try:
        text = path.read_text(encoding="utf-8").removesuffix("\n")
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not results ({error})") from error
    for number, line in enumerate(text.split("\n") if text else [], 1):
        where = f"{path}, line {number}"
        for row in _measurements(_with_signatures(parse_record(line, where, LINE, "a result"), said, where)):
            _check(row, where)
            rows.append(row)
    return rows


def of_run(run: Path) -> list[dict[str, Any]]:
    """Return the measurements of a run, by its output folder.

    Raises:
        DataError: if it has no results, or a line is not a row.
    """
    path = run / "results.jsonl"
    if not path.is_file():
        raise DataError(f"{run}: has no results.jsonl; was it run to its end?")
    return read(path)


def latest(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the last row of each measurement, oldest first."""
    last: dict[tuple[str, ...], dict[str, Any]] = {}
    for row in rows:
        identity = tuple(json.dumps(or_none(row.get(name)), sort_keys=True) for name in IDENTITY)
        earlier = last.pop(identity, {})
        if "data" in earlier and "data" not in row:
            row = row | {name: earlier[name] for name in OF_TRAINING if name in earlier}
        last[identity] = row
    return list(last.values())


def or_none(value: Any) -> Any:
    """Return the value of a row; what is empty is as good as not there."""
    return None if value in ("", [], {}) else value


def _with_signatures(line: dict[str, Any], said: dict[str, Any], where: str) -> dict[str, Any]:
    """Return a line with its signatures in full; ``said`` are those of the lines above, by name, and is extended."""
    name = line.pop("signed", None)
    if name is None:
        return line
    if "signatures" in line:
        said[name] = line["signatures"]
    elif name not in said:
        raise DataError(f"{where}: no line above says the signatures that are called {name!r}")
    return line | {"signatures": said[name]}


def _measurements(line: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the rows that a line of a file holds."""
    common = {name: value for name, value in line.items() if name not in BY_METRIC.values()}
    for metric in line["scores"]:
        nested_values = {name: line[nested] for name, nested in BY_METRIC.items() if nested in line}
        nested_values = {
            name: value.get(metric) if isinstance(value, dict) else value for name, value in nested_values.items()
        }
        yield common | {"metric": metric} | nested_values


def _text(rows: Iterable[dict[str, Any]]) -> str:
    """Return rows as lines of a file: those that differ in nothing but their metrics are one."""
    lines: dict[str, dict[str, dict[str, Any]]] = {}
    for row in rows:
        common = {name: row[name] for name in sorted(row) if name not in ("metric", *BY_METRIC)}
        by_name = lines.setdefault(_json(common), {})
        for name in BY_METRIC:
            if name in row:
                by_name.setdefault(name, {})[row["metric"]] = row[name]
    said: dict[str, Any] = {}
    return "".join(
        f"{_json(json.loads(common) | _signed(_nested(by_name), said))}\n" for common, by_name in lines.items()
    )


def _nested(by_name: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return what differs by metric, but once where the metrics agree; scores are by metric always."""
    nested = {BY_METRIC[name]: by_metric for name, by_metric in by_name.items()}
    alike = {name: values for name, values in nested.items() if name != "scores" and len({*values.values()}) == 1}
    return nested | {name: next(iter(values.values())) for name, values in alike.items()}


def _signed(nested: dict[str, Any], said: dict[str, Any]) -> dict[str, Any]:
    """Return what differs by metric with the name of the signatures, and these only where no line has ``said`` them."""
    signatures = nested.pop("signatures")
    name = hashlib.blake2b(_json(signatures).encode(), digest_size=4).hexdigest()
    first = {} if said.get(name) == signatures else {"signatures": signatures}
    said[name] = signatures
    return nested | {"signed": name} | first


def _json(row: dict[str, Any]) -> str:
    return json.dumps(row, ensure_ascii=False, separators=(",", ":"))


def _check(row: dict[str, Any], where: str) -> None:
    check_record(row, where, ROW, "a result")
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
