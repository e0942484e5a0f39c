"""The report on a prepared split, as data and as a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from reprlib import repr as shown
from typing import Any

#: How many rows a report or an error message names.
NAMED = 5


@dataclass
class SplitReport:
    """The counts of one prepared split.

    Attributes:
        split: its name.
        path: the manifest.
        rows: rows in the manifest.
        seconds: of audio in it.
        source_words: words of the source texts (characters in languages that do not divide words by spaces).
        target_words: the same of the target texts.
        speakers: different speakers named.
        clipped: segments that ran past the end of their file, by no more than was allowed, and were cut there.
        empty: training rows left out because a text is empty.
        unusable: training rows left out because they cannot be used (only if that was allowed).
        passed_over: what the reader counted that became no row, by what it is.
        examples: the first few rows left out, with the reason.
        published: what the corpus' makers published of this split, by column title.
    """

    split: str
    path: str
    rows: int = 0
    seconds: float = 0.0
    source_words: int = 0
    target_words: int = 0
    speakers: int = 0
    clipped: int = 0
    empty: int = 0
    unusable: int = 0
    passed_over: dict[str, int] = field(default_factory=dict)
    examples: list[str] = field(default_factory=list)
    published: dict[str, float] = field(default_factory=dict)

    @property
    def hours(self) -> float:
        """Hours of audio."""
        return self.seconds / 3600

    @property
    def left_out(self) -> int:
        """Rows that are not in the manifest."""
        return self.empty + self.unusable

    @property
    def total(self) -> int:
        """Rows of the corpus: those in the manifest and those left out."""
        return self.rows + self.left_out

    def to_json(self) -> dict[str, Any]:
        """Return it as plain data; :meth:`from_json` makes it again."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> SplitReport:
        """Return the report of which :meth:`to_json` gave the data.

        Raises:
            TypeError: if a key or the type of a value is another.
        """
        report = cls(**data)
        for name, usual in asdict(cls(split="", path="")).items():
            value = getattr(report, name)
            if not isinstance(value, (int, float) if isinstance(usual, float) else type(usual)):
                raise TypeError(f"{name} is {shown(value)}")
        return report


def render(reports: Sequence[SplitReport]) -> str:
    """Return a table with a line per split and, below it, the rows that were left out. Columns of zeros go."""
    columns: dict[str, list[str]] = {"split": [report.split for report in reports]}
    counts: dict[str, Sequence[float]] = {
        "rows": [report.rows for report in reports],
        "hours": [report.hours for report in reports],
        "source words": [report.source_words for report in reports],
        "target words": [report.target_words for report in reports],
        "speakers": [report.speakers for report in reports],
        "cut at the end": [report.clipped for report in reports],
        "left out": [report.left_out for report in reports],
    }
    for title, values in counts.items():
        if title == "rows" or any(values):
            columns[title] = [f"{value:,.2f}" if title == "hours" else f"{value:,}" for value in values]
    for title in dict.fromkeys(title for report in reports for title in report.published):
        columns[f"published {title}"] = [
            _number(report.published[title]) if title in report.published else "-" for report in reports
        ]
    widths = {title: max(map(len, [title, *cells])) for title, cells in columns.items()}
    first = next(iter(columns))
    lines = [
        [title for title in columns],
        ["-" * width for width in widths.values()],
        *zip(*columns.values(), strict=True),
    ]
    table = [
        "  ".join(
            cell.ljust(widths[title]) if title == first else cell.rjust(widths[title])
            for title, cell in zip(columns, line, strict=True)
        ).rstrip()
        for line in lines
    ]
    for report in reports:
        if report.left_out:
            rest = report.left_out - len(report.examples)
            more = f"; and {rest} more" if rest > 0 else ""
            table.append(f"{report.split}: left out {report.left_out:,}: {'; '.join(report.examples)}{more}")
        if report.passed_over:
            counts_of = "; ".join(f"{what}: {count:,}" for what, count in report.passed_over.items())
            table.append(f"{report.split}: passed over: {counts_of}")
    return "\n".join(table)


def _number(value: float) -> str:
    return f"{value:,.2f}" if isinstance(value, float) and not value.is_integer() else f"{int(value):,}"
