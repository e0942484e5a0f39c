r"""Monolingual text as plain files, a text a line: ``{root}/{split}.{language}``, for example ``train.en``.

A line may be a sentence, a paragraph or a document. Blank lines, which divide documents in CC-100 and others, are no
texts. Only ``\n`` ends a line.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from mt.corpora.splits import chosen_splits
from shared.corpus.lines import count_lines, read_lines
from shared.corpus.reader import SourceRow
from shared.described import Recorded
from shared.errors import DataError, UsageError
from shared.text import languages
from shared.text.surrogates import find_surrogate


class Monolingual(Recorded):
    """Reads the text files of one language."""

    name = "monolingual"

    def __init__(
        self, *, root: str | Path, language: str, splits: list[str] | None = None, characters: int = 0
    ) -> None:
        """Look for the files.

        Args:
            root: the folder with the files.
            language: their ending, and the code of what they hold.
            splits: each the name of a file without its ending, or ``name=file+file+...`` for several joined under a new
                name; None means all files, each a split.
            characters: the longest text: lines of a document that follow each other are joined up to this length, and
                longer lines are cut, at a space if there is one; 0 leaves each line a text of its own.

        Raises:
            DataError: if there is no file, or a split has none.
            UsageError: if characters is negative.

        """
        if characters < 0:
            raise UsageError(f"characters must not be negative, not {characters}")
        self.characters = characters
        self.language = self.folder = languages.check(language)
        self.published: dict[str, dict[str, float]] = {}
        root = Path(root).absolute()
        files = {
            path.name.removesuffix(f".{language}"): path
            for path in sorted(root.glob(f"*.{language}"))
            if path.is_file()
        }
        if not files:
            raise DataError(f"{root}: no files ending in .{language}")
        self._splits = {
            split: [files[name] for name in names] for split, names in chosen_splits(splits, files, root=root).items()
        }

    def splits(self) -> list[str]:
        """Return the names of the splits, training first."""
        return list(self._splits)

    def inputs(self, split: str) -> list[Path]:
        """Return the files."""
        return list(self._splits[split])

    def count(self, split: str) -> int | None:
        """Return the number of lines, blank ones too; None if they are joined."""
        return None if self.characters else sum(map(count_lines, self._splits[split]))

    def rows(self, split: str) -> Iterator[SourceRow]:
        """Go through the texts; one of several lines is named after its first."""
        for file in self._splits[split]:
            stem = file.name.removesuffix(f".{self.language}")
            before, part = 0, 1
            for number, text in self._texts(file):
                part = part + 1 if number == before else 1
                before = number
                id = f"{stem}_{number}" + (f".{part}" if part > 1 else "")
                row = {"id": id, "source_text": text, "source_language": self.language}
                yield SourceRow(row, file=file, line=number)

    def _texts(self, file: Path) -> Iterator[tuple[int, str]]:
        """Yield the texts of a file, each with the number of its first line."""
        space = " " if languages.spaced(self.language) else ""
        first, text = 0, ""
        for number, line in enumerate(read_lines(file, "surrogateescape"), 1):
            line = line.strip()
            alone = find_surrogate(line) is not None  # so that a broken line is named, and no other lost with it
            if text and line and not alone and len(text) + len(space) + len(line) <= self.characters:
                text += space + line
                continue
            if text:
                yield first, text
            *whole, text = [line] if alone or not self.characters else _cut(line, self.characters, bool(space))
            yield from ((number, part) for part in whole)
            first = number
            if alone:
                yield number, text
                text = ""
        if text:
            yield first, text


def _cut(line: str, characters: int, spaced: bool) -> list[str]:
    """Return parts of at most `characters` characters that end at a space, or at a near one where they are rare."""
    parts = []
    begin = 0
    while len(line) - begin > characters:
        near = range(begin + characters, begin + (0 if spaced else characters // 2), -1)
        end = next((place for place in near if line[place].isspace()), begin + characters)
        parts.append(line[begin:end].rstrip())
        begin = end
        while begin < len(line) and line[begin].isspace():
            begin += 1
    return [*parts, line[begin:]]
