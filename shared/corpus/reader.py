"""The interface of corpus readers, which yield rows with their positions, and lines that cannot become rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from shared.corpus.manifest import Row


class SourceRow(Row):
    """A row, and where it was read: it equals a plain dictionary of the same values.

    Attributes:
        file: the table, or the text of which it is a line.
        line: its number there, from 1.
        files: of columns that stand in the same line of another file.

    """

    def __init__(
        self, values: Mapping[str, Any], *, file: Path, line: int, files: Mapping[str, Path] | None = None
    ) -> None:
        super().__init__(values)
        self.file = file
        self.line = line
        self.files = files or {}


@dataclass(frozen=True)
class Unusable:
    """The result of a reader for a line that is not a valid row.

    Attributes:
        reason: what is wrong, with the value.
        file: the table or text.
        line: its number there, from 1.
        id: of the row, if it has one.

    """

    reason: str
    file: Path | None = None
    line: int | None = None
    id: str = ""

    def __str__(self) -> str:
        """Return place and reason."""
        return f"{place(self)}{self.reason}"


def source(item: Row | Unusable, column: str = "") -> tuple[Path | None, int | None]:
    """Return the file and the line from which a row, or a column of it, was read; None for a row that was made."""
    if isinstance(item, SourceRow):
        return item.files.get(column, item.file), item.line
    return (item.file, item.line) if isinstance(item, Unusable) else (None, None)


def place(item: Row | Unusable, column: str = "") -> str:
    """Return "file, line n: " for a row, or a column of it, that was read from a file, and nothing for others."""
    file, line = source(item, column)
    return "" if file is None else f"{file}, {'row' if file.suffix in ('.arrow', '.parquet') else 'line'} {line}: "


class Corpus(Protocol):
    """A reader. A class that inherits :class:`shared.described.Recorded` has ``arguments`` already.

    No reader is :class:`shared.described.Described`: a model folder must not name what opens files of a corpus.
    """

    name: str
    #: Subfolder of the output for this instance: "en-de", or "" for none.
    folder: str
    #: The constructor's arguments: with other ones, the corpus is prepared anew.
    arguments: dict[str, Any]
    #: Split -> column title ("rows", "rows (v1)", "hours", ...) -> number that the makers published.
    published: dict[str, dict[str, float]]

    def splits(self) -> list[str]:
        """Return the names of the splits; those that begin with "train" are for training."""
        ...

    def inputs(self, split: str) -> list[Path]:
        """Return the text files that the rows are made from: when one changes, the split is prepared anew."""
        ...

    def count(self, split: str) -> int | None:
        """Return how many rows are to be expected, if that is quickly known, for a progress bar."""
        ...

    def rows(self, split: str) -> Iterator[Row | Unusable]:
        """Go through the rows, best as :class:`SourceRow`; a ``duration`` of None is up to the file's end."""
        ...


def is_training(split: str) -> bool:
    """Tell whether bad rows of a split may be left out: those of others are never touched."""
    return split.startswith("train")
