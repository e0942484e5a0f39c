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

Each line is a model with weights that its own library made (random ones, unless it says trained), imported here
(the LSTM translator's are copied in: it cannot be imported). First the largest absolute differences in single
precision (gradients of speech models and T5 divided by the largest one of their tensor, where that is above 1;
scores of fairseq-generate are printed with four decimals), then how many outputs were compared, all of which are
the same: lists of symbols, hypotheses of beam search (beam 5), texts. Where something differs, no table is made.

"""


def main(reports: list[str]) -> None:
    """Write the table."""
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
    columns = [f"largest {what}" for what in NUMBERS] + [f"equal {what}" for what in OUTPUTS]
    columns = [column for column in columns if any(column in row for row in rows.values())]
    lines = ["| model | library | " + " | ".join(column.split()[1] for column in columns) + " |"]
    lines.append("|---|---|" + "---:|" * len(columns))
    for (library, model), row in sorted(rows.items()):
        cells = [shown(column, row.get(column)) for column in columns]
        lines.append(f"| {model} | {library} | " + " | ".join(cells) + " |")
    OUT.write_text(HEAD + "\n".join(lines) + "\n", encoding="utf-8")
    print(f"{OUT}: {len(rows)} models")


def shown(column: str, value: float | None) -> str:
    """Return a cell: differences with one digit, counts as they are."""
    if value is None:
        return ""
    return f"{value:.0f}" if column.startswith("equal") else f"{value:.0e}"


if __name__ == "__main__":
    main(sys.argv[1:])
