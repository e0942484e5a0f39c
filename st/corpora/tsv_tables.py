"""Tab-separated tables with a header, each a split; a line that cannot be used is named with what is wrong with it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from dragoman.shared.batches.manifest import Row
from dragoman.shared.errors import DataError
from dragoman.shared.preparing.reader import Reader, SourceRow
from dragoman.shared.preparing.split_files import chosen_splits, other_files, split_files
from dragoman.shared.text.lines import Unusable, count_lines, read_header, read_lines, read_table
from dragoman.shared.text.quoting import dialect_of


class TsvTables(Reader, ABC):
    """The part that readers of tables share: each file is a split."""

    #: The columns without which a table is refused; "id" is one of them.
    columns: tuple[str, ...] = ("id",)
    #: Whether a backslash may be the escape character of whoever wrote a table.
    escapes = False
    edition = 1

    def _find_tables(self, root: str | Path, splits: list[str] | None) -> None:
        """Look for ``{split}.tsv``, perhaps compressed; ``root`` may be one such file."""
        self._tables = split_files(Path(root).absolute(), (".tsv",))
        self._pass_files("files that are not read", other_files(Path(root).absolute(), self._tables))
        self._splits = chosen_splits(root, self._tables, splits)

    def inputs(self, split: str) -> list[Path]:
        """Return the table."""
        return [self._tables[split]]

    def count(self, split: str) -> int:
        """Return the number of lines below the header."""
        return count_lines(self._tables[split]) - 1

    def rows(self, split: str) -> Iterator[SourceRow | Unusable]:
        """Go through the table; a line with a number that is none, say, comes as what is wrong with it.

        Raises:
            DataError: if a column is missing or misnamed, or the table was written in two ways at once.
        """
        path = self._tables[split]
        dialect = dialect_of(path, partial(read_lines, path, "surrogateescape"), escapes=self.escapes)
        self._check_header(path, read_header(path, dialect))
        for line, cells in read_table(path, self.columns, dialect):
            if isinstance(cells, Unusable):
                yield cells
                continue
            try:
                yield SourceRow(self._row(cells, path), file=path, line=line)
            except DataError as error:
                yield Unusable(str(error), path, line, cells["id"])

    def _check_header(self, path: Path, header: list[str]) -> None:
        """Raise a DataError if a table has columns that cannot be used."""

    @abstractmethod
    def _row(self, cells: dict[str, str], path: Path) -> Row:
        """Return the row of a line of a table; raise a DataError if it cannot be used."""
