"""Texts of LibreOffice's help with their titles, in the language of the text or in another: a task of generation.

The layout is that of libreoffice.py, and so are dev and test. A row is a page: its text, and its first heading as the
target. With ``--sections true``, each heading is a row, with the text up to the next heading: four times as many.
Headings are joined by page and id. Left out are titles of more than ten pages ("Syntax", "Options"), which say
nothing about a text, titles and texts that are not translated, and from training the texts of dev or test.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from dragoman.mt.corpora.help_pages import HelpPages, blocks, folder_of, page_path, read_page
from dragoman.mt.corpora.one_language import OneDirection
from dragoman.shared.machine.extras import require
from dragoman.shared.preparing.held_out import folded
from dragoman.shared.preparing.line_pairs import pair_row
from dragoman.shared.preparing.reader import SourceRow, is_training

#: A title that more pages have is none of a text in particular.
MOST_PAGES = 10


class Section(NamedTuple):
    """A heading with the text below it, which may be empty.

    Attributes:
        key: the heading's id.
        title: the heading.
        text: in a line.
        line: of the heading in its file.
    """

    key: str
    title: str
    text: str
    line: int


class HelpTitles(OneDirection[list[str]]):
    """Reads texts in one language with titles in the same or another."""

    name = "help_titles"

    def __init__(
        self,
        *,
        root: str | Path,
        source_language: str,
        target_language: str,
        splits: list[str] | None = None,
        sections: bool = False,
    ) -> None:
        """Look for the pages.

        Args:
            root: the folder into which the packages were unpacked.
            source_language: a code; en is en-US.
            target_language: a code, which may be the same.
            splits: some of train, dev and test; None means all.
            sections: each heading of a page is a row, not only the first.

        Raises:
            DataError: if a language or English is not there.
            UsageError: if the library that reads them is not installed.
        """
        require("lxml", "memories", f"the reader {self.name}")
        self._all_headings = sections
        super().__init__(root=root, source_language=source_language, target_language=target_language, splits=splits)

    def _found(self, root: Path) -> dict[str, list[str]]:
        self._help = HelpPages(root)
        self._source, self._target = (folder_of(code, self._help.folder) for code in self.codes)
        return self._help.pages

    def inputs(self, split: str) -> list[Path]:
        """Return all English pages, since a title may stand on many, and those of both languages."""
        every = [page_path(self._help.english, name) for names in self._help.pages.values() for name in names]
        pages = [page_path(folder, name) for folder in (self._source, self._target) for name in self._help.pages[split]]
        return [*dict.fromkeys(path for path in every + pages if path.is_file())]

    def rows(self, split: str) -> Iterator[SourceRow]:
        """Go through the texts.

        Raises:
            DataError: if a page is broken.
        """
        passed = self._passed(split, anew=True)
        training, seen = is_training(split), set()
        for name in self._help.pages[split]:
            originals = {section.key: section for section in self._english[name]}
            titles = read_page(page_path(self._target, name))
            path = page_path(self._source, name)
            for section in self._sections(path):
                original = originals.get(section.key)
                title = titles.get(section.key, ("", 0))[0]
                pair = section.text, title
                if original is None or not all((*pair, original.text)):
                    passed["titles without a text, or not in both languages"] += 1
                elif self._pages_with[folded(original.title)] > MOST_PAGES:
                    passed["titles of many pages"] += 1
                elif self._is_english(self._source, section.text, original.text):
                    passed["texts that are the English itself"] += 1
                elif self._is_english(self._target, title, original.title):
                    passed["titles that are the English itself"] += 1
                elif training and folded(original.text) in self._held_out:
                    passed["texts of dev or test"] += 1
                elif training and pair in seen:
                    passed["repeated pairs"] += 1
                else:
                    seen.add(pair)
                    row = pair_row(f"{name}#{section.key}", pair, self.codes, document=name)
                    yield SourceRow(row, file=path, line=section.line)

    def _is_english(self, folder: Path, text: str, original: str) -> bool:
        return folder != self._help.english and text == original

    def _sections(self, path: Path) -> list[Section]:
        """Return the headings of a page, or its first one, with what stands below; what is before it is left out."""
        found: list[Section] = []
        for block in blocks(path):
            if block.heading and (self._all_headings or not found):
                found.append(Section(block.key, block.text, "", block.line))
            elif found:
                found[-1] = found[-1]._replace(text=f"{found[-1].text} {block.text}".strip())
        return found

    @cached_property
    def _english(self) -> dict[str, list[Section]]:
        """The sections of all English pages."""
        names = (name for names in self._help.pages.values() for name in names)
        return {name: self._sections(page_path(self._help.english, name)) for name in names}

    @cached_property
    def _pages_with(self) -> Counter[str]:
        """The number of English pages with each title, however it is spelled."""
        return Counter(title for page in self._english.values() for title in {folded(one.title) for one in page})

    @cached_property
    def _held_out(self) -> set[str]:
        return {folded(section.text) for name in self._help.held_out for section in self._english[name]}
