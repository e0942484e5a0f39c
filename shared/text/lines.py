r"""Reading text files line by line, so that a mistake is named with its file and line.

Only ``\n`` ends a line (and a ``\r`` before it goes with it): Python's universal newlines and ``str.splitlines`` also
break at U+2028, U+0085 or a lone ``\r``, which real corpora contain, and then two sides no longer agree.
"""

from __future__ import annotations

import csv
import glob
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from reprlib import repr as shown
from typing import Any

from dragoman.shared.errors import DataError
from dragoman.shared.text.compressed import beside, opened, plain_name
from dragoman.shared.text.quoting import PLAIN, Dialect, csv_problem

#: Bytes; a longer line is no text (that of a manifest has far less), and would fill the memory.
LONGEST_LINE = 1 << 26

_BLOCK = 1 << 20


@dataclass(frozen=True)
class Unusable:
    """The result of a reader for a line that is not a valid row.

    Attributes:
        reason: what is wrong, with the value.
        file: the table or text.
        line: its number there, from 1; None where rows are no lines.
        id: of the row, if it has one.
    """

    reason: str
    file: Path | None = None
    line: int | None = None
    id: str = ""

    def __str__(self) -> str:
        """Return place and reason."""
        return f"{place_of(self.file, self.line)}{self.reason}"


def place_of(file: Path | None, line: int | None) -> str:
    """Return "file, line n: ", "file: " for what stands in no line, and nothing without a file."""
    if file is None or line is None:
        return "" if file is None else f"{file}: "
    return f"{file}, {'row' if file.suffix in ('.arrow', '.parquet') else 'line'} {line}: "


def read_lines(path: Path, errors: str = "strict") -> Iterator[str]:
    """Go through the lines of a UTF-8 file, without their ends (and without a byte-order mark).

    Args:
        path: the file; if its name ends in .gz, .bz2 or .xz, what is in it is read.
        errors: as in Python's ``open``. With "surrogateescape" a line that is not UTF-8 comes too, its broken bytes as
            lone surrogates, so that one bad line does not end the reading (``findings.row_errors`` finds them).

    Raises:
        DataError: if the file is missing or damaged, or a line is not UTF-8 or longer than ``LONGEST_LINE``.
    """
    with opened(path) as file:
        for number, raw in enumerate(iter(partial(file.readline, LONGEST_LINE + 1), b""), 1):
            if len(raw) > LONGEST_LINE:
                raise DataError(
                    f"{path}, line {number}: longer than {LONGEST_LINE:,} bytes, which no line of a text is"
                )
            try:
                line = raw.decode("utf-8", errors)
            except UnicodeDecodeError as error:
                raise DataError(
                    f"{path}, line {number}: not UTF-8 (byte 0x{raw[error.start]:02x} at position {error.start})"
                ) from error
            line = line.removesuffix("\n").removesuffix("\r")
            yield line.removeprefix("\ufeff") if number == 1 else line


def count_lines(path: Path) -> int:
    """Return the number of lines that :func:`read_lines` gives; the last one need not have an end."""
    count, last = 0, b"\n"
    with opened(path) as file:
        while block := file.read(_BLOCK):
            count += block.count(b"\n")
            last = block[-1:]
    return count + (last != b"\n")


def read_table(
    path: Path, columns: Sequence[str], dialect: Dialect = PLAIN
) -> Iterator[tuple[int, dict[str, str] | Unusable]]:
    """Go through a tab-separated file with a header; blank lines are passed over.

    Bytes that are not UTF-8 come as lone surrogates (see :func:`read_lines`).

    Args:
        path: the file.
        columns: those that the header must have.
        dialect: how it was written; by default, quotes and backslashes are ordinary characters.

    Yields:
        The line number (1 is the header) and the cells by column, or what is wrong with the line.

    Raises:
        DataError: if the file is missing, or the header lacks a column or has one twice.
    """
    lines = read_lines(path, "surrogateescape")
    reader: Any = dialect.rows(lines)
    header = _header(path, reader)
    for column in columns:
        if column not in header:
            names = ", ".join(header) or "none"
            raise DataError(f"{path}, line 1: column {column!r} is missing (it has {ascii(names)[1:-1]:.500})")
    if len(set(header)) < len(header):
        twice = next(column for column in header if header.count(column) > 1)
        raise DataError(f"{path}, line 1: column {shown(twice)} is named twice")
    while True:
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            yield reader.line_num, Unusable(csv_problem(error), path, reader.line_num)
            continue
        if cells and len(cells) != len(header):
            reason = f"{len(cells)} cells where the header has {len(header)} ({cells[0][:60]!r}, ...)"
            yield reader.line_num, Unusable(reason, path, reader.line_num)
        elif cells:
            yield reader.line_num, dict(zip(header, cells, strict=True))


def read_header(path: Path, dialect: Dialect = PLAIN) -> list[str]:
    """Return the names of the columns of a table.

    Raises:
        DataError: if the first line cannot be read.
    """
    return _header(path, dialect.rows(read_lines(path)))


def _header(path: Path, rows: Iterator[list[str]]) -> list[str]:
    try:
        return next(rows, [])
    except csv.Error as error:
        raise DataError(f"{path}, line 1: {csv_problem(error)}") from error


def further_references(target: Path) -> list[Path]:
    """Return ``test.de.1``, ``test.de.2`` ... beside ``test.de``; any of them may be compressed.

    Raises:
        DataError: if one is missing before another.
    """
    paths: list[Path] = []
    name = plain_name(target)
    while (path := beside(target.with_name(f"{name}.{len(paths) + 1}"))) is not None:
        paths.append(path)
    numbers = [
        path for path in target.parent.glob(f"{glob.escape(name)}.*") if plain_name(path)[len(name) + 1 :].isdecimal()
    ]
    for path in numbers:
        if path not in paths:
            raise DataError(f"{path}: a further reference, but {name}.{len(paths) + 1} is missing")
    return paths
