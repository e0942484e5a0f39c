r"""The ways in which a tab-separated table is written: with quotes, with backslashes before them, or as it stands.

Three writers are told apart by what they never write:

- with QUOTE_NONE and no escapes, cells are texts as they stand;
- pandas and Python's csv by default put quotes around a cell that has quotes, and double those: ``"He said ""no""."``;
- the same with QUOTE_NONE and a backslash as escape character, as fairseq's tables: ``He said \"no\".``

A text may stand in quotes by itself (``"No."``): quotes around cells are taken for a writer's only if a cell has
doubled ones inside, or the names of all columns have them too. A table that fits none of them is refused.
"""

from __future__ import annotations

import csv
import logging
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from dragoman.shared.errors import DataError, shortened

_QUOTED = re.compile(r'"(?:[^"]|"")*"')
_ESCAPE = re.compile(r'\\[\\"\t]')


class Dialect(NamedTuple):
    """A way of writing a table, as csv has to know it: quotes around cells, and what is escaped, "" for all."""

    quoted: bool = False
    escape: str | None = None
    escaped: str = ""

    def rows(self, lines: Iterable[str]) -> Iterator[list[str]]:
        """Return csv's reader of the cells of lines."""
        if self.escape and self.escaped:  # csv would take away every backslash: one that is none is escaped itself
            other = re.compile(rf"\\[{re.escape(self.escaped)}]|\\")
            lines = (other.sub(lambda match: match[0] if len(match[0]) == 2 else r"\\", line) for line in lines)
        quoting: Any = csv.QUOTE_MINIMAL if self.quoted else csv.QUOTE_NONE
        return csv.reader(lines, delimiter="\t", quoting=quoting, escapechar=self.escape)


PLAIN = Dialect()


def csv_problem(error: csv.Error) -> str:
    """Return what csv refuses; of a carriage return, what a user can do about it, and not what a programmer can."""
    if "new-line character" in str(error):
        return "a carriage return (\\r) within a line: end lines with \\n or \\r\\n, not as old Macs did"
    return str(error)


def dialect_of(path: Path, lines: Callable[[], Iterator[str]], *, escapes: bool) -> Dialect:
    """Return how a table was written, whose lines begin with a header; escapes: a backslash may be one, else none is.

    Raises:
        DataError: if it was written in two ways at once.
    """
    if escapes and (dialect := _escaped(path, lines())) is not None:
        return dialect
    doubled = whole = bare = None  # the first line with such a cell
    header = next(lines(), "").split("\t")
    for number, line in enumerate(lines(), 1):
        for cell in line.split("\t") if '"' in line else ():
            if '"' not in cell:
                continue
            if not _QUOTED.fullmatch(cell):
                bare = bare or (number, cell)
            elif '"' in cell[1:-1]:
                doubled = doubled or (number, cell)
            else:
                whole = whole or (number, cell)
    everywhere = all(_QUOTED.fullmatch(cell) for cell in header) and header != [""]
    quoted = doubled or ((1, header[0]) if everywhere else None)
    if quoted and bare:
        raise DataError(
            f"{path}, line {bare[0]}: {shortened(bare[1])!r} has a quote as a character, or does not end in its line, "
            f"and line {quoted[0]} quotes cells as pandas does: {shortened(quoted[1])!r}. Write the table in one way, "
            "each row in one line"
        )
    if quoted:
        return Dialect(quoted=True)
    if whole:
        logging.getLogger("dragoman").warning(
            "%s, line %d: %r stands in quotes, which are taken for a part of the text", path, whole[0], whole[1][:60]
        )
    return PLAIN


def _escaped(path: Path, lines: Iterator[str]) -> Dialect | None:
    r"""Return the dialect of a table with escapes, None for another one.

    Older versions of csv write a backslash as it stands.
    """
    bare = quote = None
    any_escape = False
    backslashes = True
    for number, line in enumerate(lines, 1):
        rest = _ESCAPE.sub("", line)
        any_escape |= len(rest) < len(line)
        backslashes &= "\\" not in rest
        quote = quote or ((number, line) if '\\"' in _ESCAPE.findall(line) else None)
        bare = bare or ((number, line) if '"' in rest else None)
    if bare and quote:
        raise DataError(
            f"{path}, line {bare[0]}: a quote without a backslash, and line {quote[0]} has one with: "
            f"{shortened(quote[1])!r}. Write the table in one way"
        )
    if bare or not any_escape:
        return None
    return Dialect(False, "\\", '"\t\\' if backslashes else '"\t')
