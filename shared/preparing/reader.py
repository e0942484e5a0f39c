"""The interface of corpus readers, which yield rows with their positions, and lines that cannot become rows."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from reprlib import repr as shown
from types import MappingProxyType
from typing import Any, Protocol

from dragoman.shared.batches.manifest import Row
from dragoman.shared.described import Recorded
from dragoman.shared.errors import DataError, check_number
from dragoman.shared.sound.audio import LATEST
from dragoman.shared.text.lines import Unusable, place_of


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


#: How many files that are not read are named.
NAMED = 3


def source(item: Row | Unusable, column: str = "") -> tuple[Path | None, int | None]:
    """Return the file and the line from which a row, or a column of it, was read; None for a row that was made."""
    if isinstance(item, SourceRow):
        return item.files.get(column, item.file), item.line
    return (item.file, item.line) if isinstance(item, Unusable) else (None, None)


def place(item: Row | Unusable, column: str = "") -> str:
    """Return "file, line n: " for a row, or a column of it, that was read from a file, and nothing for others."""
    return place_of(*source(item, column))


class Corpus(Protocol):
    """A reader. A class that inherits :class:`dragoman.shared.described.Recorded` has ``arguments`` already.

    No reader is :class:`dragoman.shared.described.Described`: a model folder must not name what opens a corpus.
    """

    name: str
    #: Subfolder of the output for this instance: "en-de", or "" for none.
    folder: str
    #: The constructor's arguments: with other ones, the corpus is prepared anew.
    arguments: dict[str, Any]

    @property
    def published(self) -> Mapping[str, Mapping[str, float]]:
        """Split -> column title ("rows", "rows (v1)", "hours", ...) -> number that the makers published."""
        ...

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


class Reader(Recorded):
    """The part that readers share: names of splits, and the count of what they pass over, for reports.

    Attributes:
        edition: goes up when a reader makes other rows of the same files, so that they are prepared anew.
        published: see :class:`Corpus`; a reader whose makers have published nothing leaves it out.
    """

    edition = 0
    published: Mapping[str, Mapping[str, float]] = MappingProxyType({})
    _splits: Collection[str]

    def splits(self) -> list[str]:
        """Return the names of the splits, training first."""
        return list(self._splits)

    def count(self, split: str) -> int | None:
        """Return None: how many rows there will be is not known before the files are read."""
        return None

    def passed_over(self, split: str) -> Counter[str]:
        """Return what :meth:`Corpus.rows` passed over in a split; with the first split, what was in no split."""
        of_folder = self._passed("") if split == self.splits()[0] else Counter[str]()
        return self._passed(split) + of_folder

    def _passed(self, split: str, *, anew: bool = False) -> Counter[str]:
        """Return the counts of a split, which its reader adds to; "" is for files that belong to none."""
        counts: dict[str, Counter[str]] = self.__dict__.setdefault("_counts", {})
        if anew:
            counts.pop(split, None)
        return counts.setdefault(split, Counter())

    def _pass_sounds(self, split: str, folder: Path, names: Collection[str]) -> None:
        """Count the sound files of a folder whose names, without their endings, are not known."""
        sounds = (path for path in folder.glob("*") if path.suffix.lower() in SOUND_ENDINGS)
        if count := sum(path.stem not in names for path in sounds):
            self._passed(split)["sound files of which no row is made"] += count

    def _pass_files(self, what: str, files: Iterable[Path]) -> None:
        """Note files that are not read."""
        paths = {*files}
        names = sorted({path.name for path in paths})[:NAMED]
        if names:
            more = f" and {len(paths) - len(names):,} more" if len(paths) > len(names) else ""
            self._passed("")[f"{what} ({', '.join(names)}{more})"] = len(paths)


def passed_over(corpus: Corpus, split: str) -> dict[str, int]:
    """Return what a reader passed over, if it counts that."""
    return dict(corpus.passed_over(split)) if isinstance(corpus, Reader) else {}


#: Endings of sound files in the order in which they are looked for where a corpus names a recording without one.
SOUND_ENDINGS = (".flac", ".wav", ".m4a", ".mp3", ".ogg", ".opus", ".oga", ".aiff", ".aif", ".au", ".caf")


def sound_file(folder: Path, stem: str, usual: str = ".flac") -> Path:
    """Return the sound file of a name without ending: with the usual one, another, or the one that should be there."""
    there = (ending for ending in (usual, *SOUND_ENDINGS) if os.path.isfile(folder / f"{stem}{ending}"))
    return folder / f"{stem}{next(there, usual)}"


def seconds(name: str, value: Any, *, least: float = 0.0) -> float:
    """Return the number of seconds that a cell of a table, or a value of JSON, is.

    Raises:
        DataError: if it is no number, or not between ``least`` and :data:`dragoman.shared.sound.audio.LATEST`.
    """
    try:
        number = float(value) if isinstance(value, str) else value
        return float(check_number(name, number, least=least, most=LATEST, error=DataError))
    except ValueError as error:
        raise DataError(f"{name} is {shown(value)}, not a number of seconds") from error


def is_training(split: str) -> bool:
    """Tell whether bad rows of a split may be left out: those of others are never touched."""
    return split.startswith("train")
