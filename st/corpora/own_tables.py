"""Tables of one's own data, as tab-separated or comma-separated text or with a JSON object a line: cells by column."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from reprlib import repr as shown
from typing import Any

from dragoman.shared.errors import DataError
from dragoman.shared.text.lines import Unusable, read_header, read_lines, read_table
from dragoman.shared.text.quoting import csv_problem, dialect_of
from dragoman.st.corpora.json_lines import read_json_lines

Cells = dict[str, Any]
#: Is given the names of columns and the line that has them, and raises a DataError if they cannot be used.
Check = Callable[[list[str], int], None]
#: What csv says at the end of a file, however long ago the quote was.
_CUT = "unexpected end of data"
_BREAKS = re.compile(r"\s*[\r\n]+\s*")


def read_cells(layout: str, path: Path, check: Check) -> Iterator[tuple[int, Cells | Unusable]]:
    """Go through a table of a layout: "tsv", "csv" or "json".

    Yields:
        The number of the line where a row begins, and its cells by column, or what is wrong with it. A cell of JSON may
        be any value of it.

    Raises:
        DataError: if the file or its columns cannot be read.
    """
    if layout == "tsv":
        dialect = dialect_of(path, partial(read_lines, path, "surrogateescape"), escapes=False)
        check(read_header(path, dialect), 1)
        yield from read_table(path, (), dialect)
    elif layout == "csv":
        yield from _read_csv(path, check)
    else:
        yield from _read_json(path, check)


def _read_csv(path: Path, check: Check) -> Iterator[tuple[int, Cells | Unusable]]:
    """Go through a table as spreadsheets write it: quoted as RFC 4180 has it, divided by commas, semicolons or tabs."""
    delimiter = max(",;\t", key=next(read_lines(path), "").count)
    rows = csv.reader((f"{line}\n" for line in read_lines(path, "surrogateescape")), delimiter=delimiter, strict=True)
    try:
        header = next(rows, [])
    except csv.Error as error:
        raise DataError(f"{path}, line 1: {csv_problem(error)}") from error
    check(header, 1)
    while True:
        line = rows.line_num + 1
        try:
            cells = next(rows)
        except StopIteration:
            return
        except csv.Error as error:
            no_end = ": a quote that opens in this row is not closed" * (str(error) == _CUT)
            yield line, Unusable(f"{csv_problem(error)}{no_end}", path, line)
            continue
        if cells and len(cells) != len(header):
            reason = f"{len(cells)} cells where the header has {len(header)} ({cells[0][:60]!r}, ...)"
            yield line, Unusable(reason, path, line)
        elif cells:
            yield line, dict(zip(header, cells, strict=True))


def _read_json(path: Path, check: Check) -> Iterator[tuple[int, Cells | Unusable]]:
    """Go through objects; one under ``translation``, with a text for each language, counts as part of the whole."""
    seen: set[tuple[str, ...]] = set()
    for line, record in read_json_lines(path):
        if isinstance(record, Unusable):
            yield line, record
            continue
        texts = record.get("translation")
        if isinstance(texts, dict):
            record = {name: value for name, value in record.items() if name != "translation"} | texts
        if tuple(record) not in seen:
            try:
                check(list(record), line)
            except DataError as error:
                if not seen:
                    raise
                yield line, Unusable(str(error).partition(f"line {line}: ")[2], path, line)
                continue
            seen.add(tuple(record))
        yield line, record


def cell_text(name: str, value: Any) -> str:
    """Return the text of a cell, with spaces where it has line breaks; nothing for a null of JSON.

    Raises:
        DataError: for a list or an object of JSON.
    """
    if isinstance(value, list | dict):
        raise DataError(f"{name} is {shown(value)}, not a text")
    if isinstance(value, str):
        return _BREAKS.sub(" ", value)
    return "" if value is None else json.dumps(value)
