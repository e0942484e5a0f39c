"""Paragraphs of LibreOffice's help with the program that each is about: a task of labelling texts, in one language.

The layout is that of libreoffice.py, and so are dev and test. The label is the first folder of a page: swriter, scalc,
simpress, sdraw, smath, sdatabase, schart, sbasic, or shared. Paragraphs whose English text is in the help of several
programs are left out, as are those that are not translated, and from training what is in dev or test.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

from dragoman.mt.corpora.help_pages import HelpPages, folder_of, page_path, read_page
from dragoman.shared.machine.extras import require
from dragoman.shared.preparing.held_out import DEV, TEST, TRAIN, folded
from dragoman.shared.preparing.reader import Reader, SourceRow, is_training
from dragoman.shared.preparing.split_files import chosen_splits
from dragoman.shared.text import languages


class HelpPrograms(Reader):
    """Reads the paragraphs of one language, each with its program."""

    name = "help_programs"

    def __init__(self, *, root: str | Path, language: str, splits: list[str] | None = None) -> None:
        """Look for the pages.

        Args:
            root: the folder into which the packages were unpacked.
            language: a code; en is en-US.
            splits: some of train, dev and test; None means all.

        Raises:
            DataError: if the language or English is not there.
            UsageError: if the library that reads them is not installed.
        """
        require("lxml", "memories", f"the reader {self.name}")
        self.language = self.folder = languages.check(language)
        self._help = HelpPages(Path(root).absolute())
        self._texts = folder_of(language, self._help.folder)
        self._splits = chosen_splits(root, [TRAIN, DEV, TEST], splits)

    def inputs(self, split: str) -> list[Path]:
        """Return all English pages, since a text may stand in several programs' help, and those of the language."""
        files = [page_path(self._texts, name) for name in self._help.pages[split]]
        every = [page_path(self._help.english, name) for names in self._help.pages.values() for name in names]
        return [*dict.fromkeys(path for path in every + files if path.is_file())]

    def rows(self, split: str) -> Iterator[SourceRow]:
        """Go through the paragraphs.

        Raises:
            DataError: if a page is broken.
        """
        passed = self._passed(split, anew=True)
        training, seen = is_training(split), set()
        for name in self._help.pages[split]:
            originals = read_page(page_path(self._help.english, name))
            path = page_path(self._texts, name)
            for key, (text, line) in read_page(path).items():
                original = originals.get(key, ("", 0))[0]
                if not original or (self._texts != self._help.english and text == original):
                    passed["texts that are the English itself"] += 1
                elif len(self._programs[folded(original)]) > 1:
                    passed["texts of several programs"] += 1
                elif training and folded(original) in self._held_out:
                    passed["texts of dev or test"] += 1
                elif training and text in seen:
                    passed["repeated texts"] += 1
                else:
                    seen.add(text)
                    row = {"id": f"{name}#{key}", "source_text": text, "source_language": self.language}
                    row |= {"document": name, "label": _program(name)}
                    yield SourceRow(row, file=path, line=line)

    @cached_property
    def _programs(self) -> dict[str, set[str]]:
        """The programs of each English text, however it is spelled."""
        found: dict[str, set[str]] = {}
        for name in (name for names in self._help.pages.values() for name in names):
            for text, _ in read_page(page_path(self._help.english, name)).values():
                found.setdefault(folded(text), set()).add(_program(name))
        return found

    @cached_property
    def _held_out(self) -> set[str]:
        pages = (read_page(page_path(self._help.english, name)) for name in self._help.held_out)
        return {folded(text) for page in pages for text, _ in page.values()}


def _program(page: str) -> str:
    return page.partition("/")[0]
