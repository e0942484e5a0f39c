"""Files with a JSON object a line, plain or compressed; a mistake is named with its file and line."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from reprlib import repr as shown
from typing import Any

from dragoman.shared.batches.manifest import Row
from dragoman.shared.errors import DataError, one_line, shortened
from dragoman.shared.machine.nesting import from_json
from dragoman.shared.preparing.reader import Reader, SourceRow, seconds
from dragoman.shared.preparing.split_files import chosen_splits, other_files, split_files
from dragoman.shared.sound.channels import LAST_CHANNEL
from dragoman.shared.text.compressed import opened
from dragoman.shared.text.lines import LONGEST_LINE, Unusable

Record = dict[str, Any]


class JsonLines(Reader, ABC):
    """The part that readers of files with a JSON object a line share: each file is a split."""

    edition = 1

    def _find_files(
        self, root: str | Path, endings: tuple[str, ...], splits: list[str] | None, prefix: str = ""
    ) -> None:
        """Look for the files; ``prefix`` at the beginning of a name is not part of the split's."""
        self._files = split_files(Path(root).absolute(), endings, prefix)
        self._pass_files("files that are not read", other_files(Path(root).absolute(), self._files))
        self._splits = chosen_splits(root, self._files, splits)

    def inputs(self, split: str) -> list[Path]:
        """Return the file."""
        return [self._files[split]]

    def rows(self, split: str) -> Iterator[SourceRow | Unusable]:
        """Go through the lines of a file."""
        path = self._files[split]
        for line, record in read_json_lines(path):
            if isinstance(record, Unusable):
                yield record
                continue
            try:
                for row in self._rows_of(record, path, line):
                    yield SourceRow(row, file=path, line=line)
            except DataError as error:
                yield Unusable(str(error), path, line, str(record.get("id") or ""))

    @abstractmethod
    def _rows_of(self, record: Record, path: Path, line: int) -> list[Row]:
        """Return the rows of an object; raise a DataError if it has none that could be read."""


def read_json_lines(path: Path) -> Iterator[tuple[int, Record | Unusable]]:
    """Yield the number of each line that is not blank, from 1, and its object, or what is wrong with it.

    Raises:
        DataError: if the file is missing, damaged, or has a line of more than ``LONGEST_LINE`` bytes.
    """
    with opened(path) as file:
        for number, raw in enumerate(iter(partial(file.readline, LONGEST_LINE + 1), b""), 1):
            if len(raw) > LONGEST_LINE:
                raise DataError(f"{path}, line {number}: longer than {LONGEST_LINE:,} bytes")
            if raw.strip():
                yield number, _object(raw, path, number)


def _object(raw: bytes, path: Path, number: int) -> Record | Unusable:
    try:
        value = from_json(raw.decode("utf-8-sig" if number == 1 else "utf-8"))
    except ValueError as error:  # not UTF-8, too
        return Unusable(f"not JSON ({shortened(one_line(error), 100)})", path, number)
    if not isinstance(value, dict):
        return Unusable(f"an object is expected, not {shown(value)}", path, number)
    return value


def text_in(record: Record, key: str) -> str | None:
    """Return a text of an object, None if it has none.

    Raises:
        DataError: if the value is no text.
    """
    value = record.get(key)
    if value is None or isinstance(value, str):
        return None if value is None else value.strip()
    raise DataError(f"{key} is {shown(value)}, not a text")


def seconds_in(record: Record, key: str, least: float = 0.0) -> float | None:
    """Return a number of seconds of an object, at least ``least``, None if it has none.

    Raises:
        DataError: if the value is no number, or less.
    """
    value = record.get(key)
    if value is None:
        return None
    if isinstance(value, str):
        raise DataError(f"{key} is {shown(value)}, not a number of seconds")
    return seconds(key, value, least=least)


def channel_in(record: Record, key: str) -> int | None:
    """Return the number of a channel of an object, None if it has none.

    Raises:
        DataError: if the value is no such number.
    """
    value = record.get(key)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= LAST_CHANNEL:
        raise DataError(f"{key} is {shown(value)}, not the number of a channel (from 0)")
    return value
