r"""Reading text files line by line, so that a mistake is named with its file and line.

Only ``\n`` ends a line (and a ``\r`` before it goes with it): Python's universal newlines and ``str.splitlines`` also
break at U+2028, U+0085 or a lone ``\r``, which real corpora contain, and then two sides no longer agree.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path

from shared.errors import DataError

_BLOCK = 1 << 20


def read_lines(path: Path) -> Iterator[str]:
    """Go through the lines of a UTF-8 file, without their ends (and without a byte-order mark).

    Raises:
        DataError: if the file is missing, or a line is not UTF-8.

    """
    _check_file(path)
    with open(path, "rb") as file:
        for number, raw in enumerate(file, 1):
            try:
                line = raw.decode("utf-8")
            except UnicodeDecodeError as error:
                raise DataError(
                    f"{path}, line {number}: not UTF-8 (byte 0x{raw[error.start]:02x} at position {error.start})"
                ) from error
            line = line.removesuffix("\n").removesuffix("\r")
            yield line.removeprefix("\ufeff") if number == 1 else line


def count_lines(path: Path) -> int:
    """Return the number of lines that :func:`read_lines` gives; the last one need not have an end."""
    _check_file(path)
    count, last = 0, b"\n"
    with open(path, "rb") as file:
        while block := file.read(_BLOCK):
            count += block.count(b"\n")
            last = block[-1:]
    return count + (last != b"\n")


def read_table(path: Path, columns: Sequence[str], escape: str | None = None) -> Iterator[tuple[int, dict[str, str]]]:
    """Go through a tab-separated file with a header; quotes are ordinary characters, blank lines are passed over.

    Args:
        path: the file.
        columns: those that the header must have.
        escape: a character that takes from the next one its special meaning (a backslash in CoVoST 2), or None.

    Yields:
        The line number (1 is the header) and the cells by column.

    Raises:
        DataError: if the header lacks a column, or a line has more or fewer cells than the header.

    """
    reader = csv.reader(read_lines(path), delimiter="\t", quoting=csv.QUOTE_NONE, escapechar=escape)
    try:
        header = next(reader, [])
        for column in columns:
            if column not in header:
                raise DataError(f"{path}, line 1: column {column!r} is missing (it has {', '.join(header) or 'none'})")
        if len(set(header)) < len(header):
            twice = next(column for column in header if header.count(column) > 1)
            raise DataError(f"{path}, line 1: column {twice!r} stands there twice")
        for cells in reader:
            if not cells:
                continue
            if len(cells) != len(header):
                raise DataError(
                    f"{path}, line {reader.line_num}: {len(cells)} cells where the header has {len(header)} "
                    f"({cells[0]!r}, ...)"
                )
            yield reader.line_num, dict(zip(header, cells, strict=True))
    except csv.Error as error:
        raise DataError(f"{path}, line {reader.line_num}: {error}") from error


def _check_file(path: Path) -> None:
    if not path.is_file():
        raise DataError(f"{path}: there is no such file")
