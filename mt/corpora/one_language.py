"""Readers of one language, or of one direction, of a corpus whose splits have files of their own."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Generic, TypeVar

from dragoman.shared.errors import DataError
from dragoman.shared.preparing.reader import Reader, SourceRow
from dragoman.shared.preparing.split_files import chosen_splits
from dragoman.shared.text import languages
from dragoman.shared.text.lines import Unusable

#: What a split is read from.
Place = TypeVar("Place")


class SplitPlaces(Reader, Generic[Place]):
    """Base class of both."""

    name = ""
    folder: str

    def _open(self, root: str | Path, splits: list[str] | None) -> None:
        """Look for the files; the languages are known.

        Raises:
            DataError: if nothing of them is there, or a split is not.
        """
        self._places = self._found(Path(root).absolute())
        if not self._places:
            raise DataError(f"{root}: no files of {self.name} in {self.folder}")
        self._splits = chosen_splits(root, self._places, splits)

    @abstractmethod
    def _found(self, root: Path) -> dict[str, Place]:
        """Return what there is, by split."""

    @abstractmethod
    def inputs(self, split: str) -> list[Path]:
        """Return the files."""

    @abstractmethod
    def rows(self, split: str) -> Iterator[SourceRow | Unusable]:
        """Go through the rows."""


class OneLanguage(SplitPlaces[Place]):
    """Base class of readers of one language."""

    def __init__(self, *, root: str | Path, language: str, splits: list[str] | None = None) -> None:
        """Look for the files.

        Args:
            root: the corpus's folder.
            language: a code.
            splits: some of train, dev and test; None means all that are there.

        Raises:
            DataError: if nothing of the language is there, or a split is not.
        """
        self.language = self.folder = languages.check(language)
        self._open(root, splits)


class OneDirection(SplitPlaces[Place]):
    """Base class of readers of texts with texts that are made of them, in their language or in another."""

    def __init__(
        self, *, root: str | Path, source_language: str, target_language: str, splits: list[str] | None = None
    ) -> None:
        """Look for the files.

        Args:
            root: the corpus's folder.
            source_language: a code.
            target_language: a code, which may be the same.
            splits: some of train, dev and test; None means all that are there.

        Raises:
            DataError: if nothing of the languages is there, or a split is not.
        """
        self.codes = languages.check(source_language), languages.check(target_language)
        self.folder = "-".join(self.codes)
        self._open(root, splits)
