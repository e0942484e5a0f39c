"""A glossary: terms that stand in the translation wherever their sources stand in the text.

A file has a line for each term, its source and its target with a tab between them. A first line of two language codes
says which direction they are for. Of a line of text

- the longest term that begins at a place is taken, and the next one begins behind it; as often as it stands there, so
  often must its target be in the output;
- a term is found as whole words: no letter or digit stands directly before or behind it. In languages that are written
  without spaces, this holds between letters of ASCII only;
- its case is that of the file; a source that is all in lower case is also found in capitals, where no entry has them.

Spaces of any kind and number are one space, and composed characters equal decomposed ones.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from dragoman.commands.input_files import lines
from dragoman.shared.errors import DataError, shortened
from dragoman.shared.text import languages
from dragoman.shared.text.case import lower


def plain(text: str) -> str:
    """Return a text as terms are compared: composed, with single spaces."""
    return " ".join(unicodedata.normalize("NFC", text).split())


@dataclass(frozen=True)
class Term:
    """An entry of a glossary.

    Attributes:
        source: as it is searched for.
        target: as it is to be written.
        place: where the entry stands, for messages: "terms.tsv: line 3".
    """

    source: str
    target: str
    place: str


@dataclass(frozen=True)
class Glossary:
    """Terms of a direction.

    Attributes:
        terms: with different sources.
        pair: the codes of source and target language, None if the terms are for any.
        name: of the file, for messages.
    """

    terms: list[Term]
    pair: tuple[str, str] | None = None
    name: str = "glossary"
    _finders: dict[str, _Finder] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def read(cls, path: Path) -> Glossary:
        """Read a file of tab-separated values.

        Raises:
            DataError: naming file, line and value, where a line has not two terms, one is empty, or a source has two
                different targets; for a file without terms.
        """
        rows = ((f"{path}: line {number}", line) for number, line in enumerate(lines([path]), start=1))
        pair, pairs = None, list[tuple[str, str, str]]()
        for number, (place, line) in enumerate(rows):
            if not line.strip():
                continue
            cells = line.split("\t")
            if len(cells) != 2:
                said = "no tab" if len(cells) == 1 else f"{len(cells) - 1} tabs"
                raise DataError(f"{place}: {said} between source and target: {shortened(line)!r}")
            codes = tuple(cell.strip() for cell in cells)
            if number == 0 and codes[0] != codes[1] and all(code in languages.LANGUAGES for code in codes):
                pair = codes[0], codes[1]
            else:
                pairs.append((place, cells[0], cells[1]))
        return cls.of(pairs, pair=pair, name=str(path))

    @classmethod
    def of(
        cls, pairs: Iterable[tuple[str, str, str]], *, pair: tuple[str, str] | None = None, name: str = "glossary"
    ) -> Glossary:
        """Return a glossary of places, sources and targets; see :meth:`read`."""
        terms: dict[str, Term] = {}
        for place, *sides in pairs:
            source, target = map(plain, sides)
            if not source or not target:
                side = "target" if source else "source"
                raise DataError(f"{place}: the {side} is empty: {shortened(' -> '.join(sides))!r}")
            known = terms.setdefault(source, Term(source, target, place))
            if known.target != target:
                raise DataError(f"{place}: {source!r} is {target!r} here, and {known.target!r} at {known.place}")
        if not terms:
            below = f" below its first line, which says that they are for {'-'.join(pair)}" if pair else ""
            raise DataError(f"{name}: has no terms{below}")
        return cls(list(terms.values()), pair, name)

    def over(self, other: Glossary) -> Glossary:
        """Return the terms of both glossaries, whatever their pairs; where they differ, this one is right."""
        terms = {term.source: term for term in [*other.terms, *self.terms]}
        return Glossary(list(terms.values()), name=self.name)

    def found(self, text: str, language: str) -> list[Term]:
        """Return the terms of a text in a language, in its order."""
        finder = self._finders.setdefault(language, _Finder(self.terms, language))
        return finder.found(plain(text))

    def lacking(self, source: str, output: str, language: str, into: str) -> list[str]:
        """Return the targets that an output in a language has less often than their sources stand in a text.

        Args:
            source: the text.
            output: its translation.
            language: code of the text.
            into: code of the translation.
        """
        wanted = Counter(term.target for term in self.found(source, language))
        written = plain(output)
        return [
            target
            for target in wanted
            if standing(target, written, into) < sum(n * standing(target, one, into) for one, n in wanted.items())
        ]


def inside_word(text: str, place: int, *, spaced: bool) -> bool:
    """Tell whether a place is between two letters or digits of a word; without spaces, of ASCII."""
    around = text[max(0, place - 1) : place + 1]
    return len(around) == 2 and place > 0 and all(map(in_word, around)) and (spaced or around.isascii())


def standing(term: str, text: str, language: str) -> int:
    """Return how often a term stands in a text in a language as whole words, without overlap."""
    spaced, count, place = languages.spaced(language), 0, text.find(term)
    while place >= 0:
        end = place + len(term)
        whole = not any(inside_word(text, edge, spaced=spaced) for edge in (place, end))
        count += whole
        place = text.find(term, end if whole else place + 1)
    return count


class _Finder:
    """Finds terms in texts of a language."""

    def __init__(self, terms: Sequence[Term], language: str) -> None:
        self._language = language
        self._spaced = languages.spaced(language)
        self._exact = {term.source: term for term in terms}
        self._lowered = {term.source: term for term in terms if lower(term.source, language) == term.source}
        self._lengths: dict[str, list[int]] = {}
        for length in sorted({len(term.source) for term in terms}, reverse=True):
            for first in {lower(term.source, language)[0] for term in terms if len(term.source) == length}:
                self._lengths.setdefault(first, []).append(length)

    def found(self, text: str) -> list[Term]:
        """Return the terms of a text, which is in the form of :func:`plain`."""
        terms, place = [], 0
        while place < len(text):
            term = self._at(text, place)
            if term is not None:
                terms.append(term)
            place += 1 if term is None else len(term.source)
        return terms

    def _at(self, text: str, place: int) -> Term | None:
        if inside_word(text, place, spaced=self._spaced):
            return None
        for length in self._lengths.get(lower(text[place], self._language)[0], ()):
            piece = text[place : place + length]
            term = self._exact.get(piece) or self._lowered.get(lower(piece, self._language))
            whole = len(piece) == length and not inside_word(text, place + length, spaced=self._spaced)
            if term is not None and whole:
                return term
        return None


def in_word(character: str) -> bool:
    """Tell whether a character is a letter, a mark or a digit."""
    return unicodedata.category(character)[0] in "LMN"
