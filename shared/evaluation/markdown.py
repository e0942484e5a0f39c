"""Tables of rows as Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Row = dict[str, Any]

#: How numbers are written, and the columns that are flush right.
FORMATS = dict.fromkeys(("value", "low", "high", "learning"), ".2f") | {"p": ".4f", "minutes": ".1f"}
NUMERIC = {*FORMATS, "lines", "beam", "length_penalty", "seed", "seeds"}


def markdown(rows: Sequence[Row], columns: dict[str, str]) -> str:
    """Return a table with the columns that some row has."""
    columns = {key: heading for key, heading in columns.items() if any(row.get(key) not in (None, {}) for row in rows)}
    lines = ["| " + " | ".join(columns.values()) + " |"]
    lines.append("|" + "|".join("---:" if key in NUMERIC else "---" for key in columns) + "|")
    lines += ["| " + " | ".join(cell(key, row.get(key)) for key in columns) + " |" for row in rows]
    return "\n".join(lines)


def cell(key: str, value: Any) -> str:
    """Return a cell of the column of a key as Markdown: an object as a recipe has it."""
    if value is None:
        return ""
    if key in FORMATS:
        return format(value, FORMATS[key])
    if isinstance(value, dict):
        value = " ".join(f"{name}={_written(given)}" for name, given in sorted(value.items()))
    if isinstance(value, list):
        value = ", ".join(map(str, value))
    return str(value).replace("|", "\\|").replace("\n", " ")


def _written(value: Any) -> str:
    """Return the value of a key as a recipe has it."""
    if isinstance(value, dict) and len(value) == 1 and next(iter(value)).startswith("!"):
        [(tag, argument)] = value.items()
        return f"{tag} {_written(argument)}"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name}: {_written(given)}" for name, given in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_written, value)) + "]"
    return "null" if value is None else str(value)
