"""RESULTS.md, and the table of headline scores, made of rows of results (see results.py); and tables for a terminal."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from shared.errors import DataError
from shared.files import replaced_file

Row = dict[str, Any]

#: By kind of row: heading, and the columns' headings by key. A column that no row of a table has is left out.
MEASUREMENTS = {
    "recipe": "recipe",
    "keys": "keys",
    "model": "model",
    "phase": "phase",
    "split": "split",
    "metric": "metric",
    "value": "value",
    "lines": "lines",
    "corpus": "corpus",
    "averaging": "averaging",
    "beam": "beam",
    "length_penalty": "length penalty",
    "seed": "seed",
    "minutes": "minutes",
    "hardware": "hardware",
    "commit": "commit",
}
SEEDS = {
    "recipe": "recipe",
    "keys": "keys",
    "phase": "phase",
    "split": "split",
    "metric": "metric",
    "value": "mean",
    "deviation": "deviation",
    "values": "by seed",
    "seeds": "seeds",
    "lines": "lines",
    "corpus": "corpus",
    "commit": "commit",
}
COMPARISONS = {
    "recipe": "recipe",
    "keys": "keys",
    "against": "against",
    "against_keys": "its keys",
    "phase": "phase",
    "split": "split",
    "metric": "metric",
    "value": "difference",
    "low": "95 % from",
    "high": "to",
    "p": "p",
    "verdict": "verdict",
    "seeds": "seeds",
    "lines": "lines",
    "corpus": "corpus",
    "commit": "commit",
}
KINDS = {
    None: ("", MEASUREMENTS),
    "seeds": ("### Over seeds\n\n", SEEDS),
    "comparison": ("### Comparisons\n\n", COMPARISONS),
}
FORMATS = {"value": ".2f", "deviation": ".2f", "low": ".2f", "high": ".2f", "p": ".4f", "minutes": ".1f"}
NUMERIC = {*FORMATS, "lines", "beam", "length_penalty", "seed"}


def render(rows: Iterable[Row], source: str) -> str:
    """Return RESULTS.md: a section per group of recipes (the folder they stand in), a table per kind of row.

    Args:
        rows: one of each measurement, in the order wanted.
        source: the name of the file that they come from.

    """
    groups: dict[str, dict[str | None, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        group = str(row["recipe"]).rpartition("/")[0] or "others"
        groups[group][row.get("kind")].append(row)
    parts = [f"# Results\n\nMade from `{source}` by command; do not edit.\n"]
    for group, found in sorted(groups.items()):
        every = [row for kind in KINDS for row in found[kind]]
        common = _common_keys(every)
        tables = [
            title + markdown([_without(row, common) for row in found[kind]], columns)
            for kind, (title, columns) in KINDS.items()
            if found[kind]
        ]
        parts.append(f"## {group}\n\n" + "\n\n".join(tables) + f"\n\n{_notes(every, common)}")
    return "\n".join(parts)


def _common_keys(rows: Sequence[Row]) -> dict[str, Row]:
    """Return, by recipe, the given keys that all its rows have in common: they need not stand in every row."""
    found: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        found[row["recipe"]].append(row.get("keys") or {})
        if "against" in row:
            found[row["against"]].append(row.get("against_keys") or {})
    return {
        recipe: {key: value for key, value in keys[0].items() if all(key in own and own[key] == value for own in keys)}
        for recipe, keys in found.items()
    }


def _without(row: Row, common: Mapping[str, Row]) -> Row:
    result = dict(row)
    for recipe, keys in (("recipe", "keys"), ("against", "against_keys")):
        if row.get(keys):
            result[keys] = {key: value for key, value in row[keys].items() if key not in common[row[recipe]]}
    return result


def markdown(rows: Sequence[Row], columns: dict[str, str]) -> str:
    """Return a table with the columns that some row has."""
    columns = {key: heading for key, heading in columns.items() if any(row.get(key) not in (None, {}) for row in rows)}
    lines = ["| " + " | ".join(columns.values()) + " |"]
    lines.append("|" + "|".join("---:" if key in NUMERIC else "---" for key in columns) + "|")
    lines += ["| " + " | ".join(_cell(key, row.get(key)) for key in columns) + " |" for row in rows]
    return "\n".join(lines)


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Return rows, the first of them headings, as a table for a terminal; columns of numbers are flush right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    right = [all(_is_number(cell) for cell in column[1:]) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(
            cell.rjust(width) if flush else cell.ljust(width)
            for cell, width, flush in zip(row, widths, right, strict=True)
        )
        for row in rows
    ]
    return "\n".join(line.rstrip() for line in lines)


def _is_number(cell: str) -> bool:
    try:
        float(cell or "0")
    except ValueError:
        return False
    return True


def _cell(key: str, value: Any) -> str:
    if value is None:
        return ""
    if key in FORMATS:
        return format(value, FORMATS[key])
    if key == "commit":
        value = value[:10] + ("+" if value.endswith("+") else "")
    if key == "values":
        value = ", ".join(f"{number:.2f}" for number in value)
    if isinstance(value, dict):
        value = " ".join(f"{name}={given}" for name, given in value.items())
    if isinstance(value, list):
        value = ", ".join(map(str, value))
    return str(value).replace("|", "\\|").replace("\n", " ")


def _notes(rows: Sequence[Row], common: Mapping[str, Row]) -> str:
    signatures = dict.fromkeys(f"- {row['metric']}: `{row['signature']}`\n" for row in rows)
    commands = dict.fromkeys(f"- {row['recipe']}: `{row['command']}`\n" for row in rows if row.get("command"))
    keys = [f"- {recipe}: `{_cell('keys', given)}`\n" for recipe, given in common.items() if given]
    text = "Signatures:\n\n" + "".join(signatures) + ("\nKeys:\n\n" + "".join(keys) if keys else "")
    return text + ("\nCommands:\n\n" + "".join(commands) if commands else "")


def summarise(rows: Sequence[Row], file: Path) -> None:
    """Put a table of the headline scores (BLEU, WER) between the marks ``<!-- results -->`` of a text file.

    Raises:
        DataError: if the file lacks the marks.

    """
    opening, closing = "<!-- results -->", "<!-- /results -->"
    before, mark, rest = file.read_text(encoding="utf-8").partition(opening)
    _, end, after = rest.partition(closing)
    if not (mark and end):
        raise DataError(f"{file}: has no {opening} ... {closing}")
    found = [row for row in rows if row["metric"] in ("bleu", "wer") and "kind" not in row]
    splits = list(dict.fromkeys(row["split"] for row in found))
    table: dict[tuple[str, str], Row] = {}
    for row in found:
        cells = table.setdefault((row["recipe"], row["metric"]), {})
        cells |= {row["split"]: f"{row['value']:.1f}", "minutes": f"{row.get('minutes') or 0:.0f}"}
        cells |= {"hardware": row.get("hardware", "")}
    lines = ["| recipe | score | " + " | ".join(splits) + " | minutes | hardware |"]
    lines.append("|---|---|" + "---:|" * (len(splits) + 1) + "---|")
    for (recipe, metric), cells in sorted(table.items()):
        values = " | ".join(cells.get(name, "") for name in [*splits, "minutes", "hardware"])
        lines.append(f"| {recipe} | {metric.upper()} | {values} |")
    with replaced_file(file) as temporary:
        temporary.write_text(before + opening + "\n" + "\n".join(lines) + "\n" + closing + after, encoding="utf-8")
