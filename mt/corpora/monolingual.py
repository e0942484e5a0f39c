r"""Monolingual text as plain files, a text a line: ``{root}/{split}.{language}``, for example ``train.en``.

A line may be a sentence, a paragraph or a document. Blank lines, which divide documents in CC-100 and others, are no
texts. Only ``\n`` ends a line. A file may be compressed (``train.en.gz``, .bz2, .xz).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from dragoman.mt.corpora.splits import chosen_splits
from dragoman.shared.errors import DataError
from dragoman.shared.preparing.reader import Reader, SourceRow
from dragoman.shared.ranges import NonNegativeInt
from dragoman.shared.text import languages
from dragoman.shared.text.compressed import plain_name, plain_or_packed
from dragoman.shared.text.lines import count_lines, read_lines
from dragoman.shared.text.surrogates import find_surrogate
from dragoman.shared.text.units import is_inside, joined


class Monolingual(Reader):
    """Reads the text files of one language."""

    name = "monolingual"

    def __init__(
        self, *, root: str | Path, language: str, splits: list[str] | None = None, characters: NonNegativeInt = 0
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
        """
        self.characters = characters
        self.language = self.folder = languages.check(language)
        root = Path(root).absolute()
        files = {plain_name(path).removesuffix(f".{language}"): path for path in plain_or_packed(root, f"*.{language}")}
        if not files:
            raise DataError(f"{root}: no files ending in .{language}")
        self._splits: dict[str, list[Path]] = {
            split: [files[name] for name in names] for split, names in chosen_splits(splits, files, root=root).items()
        }

    def inputs(self, split: str) -> list[Path]:
        """Return the files."""
        return list(self._splits[split])

    def count(self, split: str) -> int | None:
        """Return the number of lines, blank ones too; None if they are joined."""
        return None if self.characters else sum(map(count_lines, self._splits[split]))

    def rows(self, split: str) -> Iterator[SourceRow]:
        """Go through the texts; one of several lines is named after its first."""
        passed = self._passed(split, anew=True)
        for file in self._splits[split]:
            stem = plain_name(file).removesuffix(f".{self.language}")
            before, part = 0, 1
            for number, text in self._texts(file, passed):
                part = part + 1 if number == before else 1
                before = number
                id = f"{stem}_{number}" + (f".{part}" if part > 1 else "")
                row = {"id": id, "source_text": text, "source_language": self.language}
                yield SourceRow(row, file=file, line=number)

    def _texts(self, file: Path, passed: Counter[str]) -> Iterator[tuple[int, str]]:
        """Yield the texts of a file, each with the number of its first line."""
        first, text = 0, ""
        for number, line in enumerate(read_lines(file, "surrogateescape"), 1):
            line = line.strip()
            if not line:
                passed["blank lines"] += 1
            alone = find_surrogate(line) is not None  # so that a broken line is named, and no other lost with it
            together = joined([text, line], self.language) if text and line and not alone else ""
            if 0 < len(together) <= self.characters:
                text = together
                continue
            if text:
                yield first, text
            *whole, text = (
                [line] if alone or not self.characters else _cut(line, self.characters, languages.spaced(self.language))
            )
            yield from ((number, part) for part in whole)
            first = number
            if alone:
                yield number, text
                text = ""
        if text:
            yield first, text


def _cut(line: str, characters: int, spaced: bool) -> list[str]:
    """Return parts of at most `characters` code points that end at a space, or at a near one where they are rare."""
    parts = []
    begin = 0
    while len(line) - begin > characters:
        near = range(begin + characters, begin + (0 if spaced else characters // 2), -1)
        whole = (place for place in range(begin + characters, begin, -1) if not is_inside(line, place))
        end = next((place for place in near if line[place].isspace()), None) or next(whole, begin + characters)
        parts.append(line[begin:end].rstrip())
        begin = end
        while begin < len(line) and line[begin].isspace():
            begin += 1
    return [*parts, line[begin:]]
