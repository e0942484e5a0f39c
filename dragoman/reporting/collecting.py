"""Rows of runs and comparisons in one results.jsonl, and the RESULTS.md that is made of it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from dragoman.reporting.tables import render
from dragoman.shared.evaluation.results import latest, or_none, read, write
from dragoman.shared.machine.files import replaced_file

#: Known from the recipe, its arm and the commit, or of use in the run's folder only.
OF_THE_RUN = ("command", "outputs", "language", "averaging", "search", "beam", "length_penalty", "evaluation_minutes")
#: The phase that needs not be named.
EVALUATION = "evaluate"


def collect(rows: Iterable[dict[str, Any]], into: Path) -> Path:
    """Bring ``into/results.jsonl`` up to date with measurements, and write ``into/RESULTS.md`` from it.

    Of a measurement made again, the last one is kept, so that collecting twice changes nothing.

    Args:
        rows: of runs, and comparisons of them.
        into: the folder of the table; made if missing.

    Returns:
        The path of RESULTS.md.

    Raises:
        DataError: if a line that is there is not a row.
    """
    path = into / "results.jsonl"
    rows = latest([*(read(path) if path.is_file() else []), *map(_collected, rows)])
    write(path, rows)
    table = into / "RESULTS.md"
    with replaced_file(table) as temporary:
        temporary.write_text(render(rows, path.name), encoding="utf-8")
    return table


def _collected(row: dict[str, Any]) -> dict[str, Any]:
    """Return what is collected of a row: nothing that is empty or that its recipe knows."""
    left_out = OF_THE_RUN if row["recipe"] else ()
    kept = {name: value for name, value in row.items() if name not in left_out and or_none(value) is not None}
    if kept.get("phase") == EVALUATION:
        del kept["phase"]
    if "commit" in kept:
        kept["commit"] = kept["commit"][:10] + "+" * kept["commit"].endswith("+")
    return {"recipe": row["recipe"]} | kept
