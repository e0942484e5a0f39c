"""The outputs of a system on a test set, on disk: a table that scores, comparisons and people read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dragoman.shared.errors import DataError
from dragoman.shared.machine.files import replaced_file
from dragoman.shared.text.lines import Unusable, read_table

ONE_LINE = str.maketrans("\t\n\r", "   ")


@dataclass(frozen=True)
class Outputs:
    """The best hypothesis of every row of a test set, in its order.

    Attributes:
        ids: of the rows.
        hypotheses: as many.
        references: sets of as many reference texts; in all but the first, None where a row has fewer than others.
        sources: the source texts ("" where a row has none).
    """

    ids: list[str]
    hypotheses: list[str]
    references: list[list[str | None]]
    sources: list[str]

    def write(self, path: Path) -> None:
        """Write a table (TSV): id, hypothesis, reference, reference_1 ... and source.

        Tabs and line ends in texts become spaces, and a missing reference an empty cell.
        """
        names = ["id", "hypothesis", *map(reference_name, range(len(self.references))), "source"]
        with replaced_file(path) as temporary, open(temporary, "w", encoding="utf-8", newline="\n") as file:
            file.write("\t".join(names) + "\n")
            for row in zip(self.ids, self.hypotheses, *self.references, self.sources, strict=True):
                file.write("\t".join((text or "").translate(ONE_LINE) for text in row) + "\n")

    @staticmethod
    def read(path: Path) -> Outputs:
        """Read such a table.

        Raises:
            DataError: naming file and line, if it is none.
        """
        rows: list[dict[str, str]] = []
        for line, cells in read_table(path, ("id", "hypothesis", "reference", "source")):
            if isinstance(cells, Unusable):
                raise DataError(str(cells))
            try:
                "".join(cells.values()).encode("utf-8")
            except UnicodeEncodeError as error:
                raise DataError(f"{path}, line {line}: is not UTF-8") from error
            rows.append(cells)
        if not rows:
            raise DataError(f"{path}: holds no outputs")
        further = [name for name in rows[0] if name.startswith("reference_")]
        references: list[list[str | None]] = [[row["reference"] for row in rows]]
        references += [[row[name] or None for row in rows] for name in further]
        return Outputs(_column(rows, "id"), _column(rows, "hypothesis"), references, _column(rows, "source"))


def reference_name(number: int) -> str:
    """Return the name of a set of references: "reference", "reference_1", ..."""
    return f"reference_{number}" if number else "reference"


def _column(rows: Sequence[dict[str, str]], name: str) -> list[str]:
    return [row[name] for row in rows]
