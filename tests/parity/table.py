"""Make docs/parity.md of what the tests of this folder measured: ``python tests/parity/table.py REPORT.xml [...]``.

The report is that of ``pytest tests/parity --junitxml REPORT.xml -o junit_family=xunit1``; ``make parity`` runs both.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path
from xml.etree import ElementTree

OUT = Path(__file__).parents[2] / "docs" / "parity.md"
NUMBERS = ["states", "logits", "loss", "gradients", "scores"]
OUTPUTS = ["symbols", "hypotheses", "texts"]
HEAD = """# Parity

Made of what the tests of tests/parity measured; do not edit: `make parity`, on checkpoints that fairseq makes anew.

Each line is a model with random weights of its own library (or trained ones, where it says so), imported here; the
LSTM translator's weights are copied in. First come the largest absolute differences in single precision (gradients of
speech models and T5 relative to the largest one of their tensor, where that is above 1), then how many outputs were
compared, all of them equal: lists of symbols, hypotheses (beam 5), texts. If anything differs, no page is made."""


def main(reports: list[str]) -> None:
    """Write the page."""
    rows: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
    for report in reports:
        for case in ElementTree.parse(report).iter("testcase"):
            if case.find("failure") is not None or case.find("error") is not None:
                sys.exit(f"{report}: {case.get('classname')}.{case.get('name')} failed: no table is made")
            noted = {item.get("name", ""): item.get("value", "") for item in case.iter("property")}
            row = rows[noted.pop("library", ""), noted.pop("model", "")]
            for what, value in noted.items():
                row[what] = max(row.get(what, 0.0), float(value))
    rows.pop(("", ""), None)
    OUT.write_text(page(rows), encoding="utf-8")
    print(f"{OUT}: {len(rows)} models")


def page(rows: dict[tuple[str, str], dict[str, float]]) -> str:
    """Return the page: a table for each library, with the columns that its models have."""
    parts = [HEAD]
    for library in sorted({library for library, _ in rows}):
        models = {model: row for (name, model), row in sorted(rows.items()) if name == library}
        columns = [f"largest {what}" for what in NUMBERS] + [f"equal {what}" for what in OUTPUTS]
        columns = [column for column in columns if any(column in row for row in models.values())]
        lines = ["| model | " + " | ".join(column.split()[1] for column in columns) + " |"]
        lines.append("|---|" + "---:|" * len(columns))
        for model, row in models.items():
            lines.append(f"| {model} | " + " | ".join(shown(column, row.get(column)) for column in columns) + " |")
        parts += [f"## {library}", "\n".join(lines)]
    return "\n\n".join(parts) + "\n"


def shown(column: str, value: float | None) -> str:
    """Return a cell: differences with one digit, counts as they are."""
    if value is None:
        return ""
    return f"{value:.0f}" if column.startswith("equal") else f"{value:.0e}"


if __name__ == "__main__":
    main(sys.argv[1:])
