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

import logging
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from dragoman.commands.input_files import lines
from dragoman.commands.required_terms import Required, RequiredTerms, counted_apart
from dragoman.shared.batch import Batch
from dragoman.shared.batches.fields import TextField
from dragoman.shared.errors import DataError, UsageError, shortened
from dragoman.shared.generator import Hypothesis
from dragoman.shared.search.beam import BeamSearch
from dragoman.shared.search.choosing import ChoosingSearch
from dragoman.shared.search.greedy import GreedySearch
from dragoman.shared.search.search import AnySearch
from dragoman.shared.systems.inputs import chosen_languages
from dragoman.shared.systems.system import System
from dragoman.shared.text import languages
from dragoman.shared.text.case import lower

#: Beams that a sentence is given for its terms, at most, where ``--beam`` is less.
WIDEST = 40


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
            if number == 0 and all(code in languages.LANGUAGES for code in codes):
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
            raise DataError(f"{name}: has no terms")
        return cls(list(terms.values()), pair, name)

    def over(self, other: Glossary | None) -> Glossary:
        """Return both glossaries as one; where they differ, this one is right."""
        if other is None or (self.pair and other.pair and self.pair != other.pair):
            return self
        terms = {term.source: term for term in [*other.terms, *self.terms]}
        return Glossary(list(terms.values()), self.pair or other.pair, self.name)

    def found(self, text: str, language: str) -> list[Term]:
        """Return the terms of a text in a language, in its order."""
        finder = self._finders.setdefault(language, _Finder(self.terms, language))
        return finder.found(plain(text))

    def lacking(self, source: str, output: str, language: str) -> list[str]:
        """Return the targets that an output has less often than their sources stand in a text in a language."""
        wanted = Counter(term.target for term in self.found(source, language))
        written = plain(output)
        return [
            target
            for target, times in wanted.items()
            if written.count(target) < sum(n * other.count(target) for other, n in wanted.items())
        ]


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
        if self._inside(text, place):
            return None
        for length in self._lengths.get(lower(text[place], self._language)[0], ()):
            piece = text[place : place + length]
            term = self._exact.get(piece) or self._lowered.get(lower(piece, self._language))
            if term is not None and len(piece) == length and not self._inside(text, place + length):
                return term
        return None

    def _inside(self, text: str, place: int) -> bool:
        """Tell whether a place is inside a word."""
        around = text[max(0, place - 1) : place + 1]
        ends = place == 0 or place == len(text) or not all(map(_in_word, around))
        return not ends and (self._spaced or around.isascii())


def _in_word(character: str) -> bool:
    return unicodedata.category(character)[0] in "LMN"


class GlossarySearch:
    """Beam search of outputs that have the terms of their sources (dragoman/commands/required_terms.py).

    A row without terms is searched as without a glossary. One whose terms have more tokens than there are beams is
    given a beam more than these, up to :data:`WIDEST`, so that each number of tokens has a place. A warning names each
    row whose best output lacks a term in the end: because the longest output that the search allows is too short, or a
    ban forbids the term.

    Args:
        search: beam search, or greedy search, which becomes a beam for rows with terms.
        glossary: of terms.
        system: that will translate, with our search.

    Raises:
        DataError: for a term that the model's pieces cannot write.
        UsageError: for a system or a search that cannot be held to terms, by name.
    """

    def __init__(self, *, search: AnySearch, glossary: Glossary, system: System) -> None:
        if list(system.reads) != ["source"] or not isinstance(system.inputs["source"], TextField):
            raise UsageError(f"a glossary does not apply: this model reads {', '.join(system.reads)}, not text alone")
        if system.pipeline or len(system.texts) > 1 or not system.output.of_pieces:
            raise UsageError("a glossary does not apply: this model does not write a translation alone")
        if not isinstance(search, BeamSearch | GreedySearch):
            raise UsageError(f"a glossary needs beam search: {type(search).__name__} cannot be held to terms")
        if system.generator is None:
            raise UsageError(
                f"a glossary needs our own beam search (--engine native): {type(system).__name__} has none"
            )
        self.search_of_others = search
        self.glossary = glossary
        self._system = system
        self._column = system.inputs["source"].column
        self._forms: dict[tuple[str, str], tuple[tuple[int, ...], ...]] = {}
        self._check()

    @property
    def n_best(self) -> int:
        """How many hypotheses a row has, at most."""
        return getattr(self.search_of_others, "n_best", 1)

    @cached_property
    def _arguments(self) -> dict[str, Any]:
        """The arguments of a beam search like the one given."""
        given = self.search_of_others
        return dict(given.arguments) if isinstance(given, BeamSearch) else {"beam": 1, **given.arguments}

    def _check(self) -> None:
        """Refuse terms that cannot be written, in the first language that they may be for."""
        pair, side = self.glossary.pair, self._system.output.side
        codes = self._system.output_languages
        if pair is not None and (pair[0] not in self._system.source_languages or pair[1] not in codes):
            return
        for term in self.glossary.terms:
            self._written(term, codes[0] if pair is None else pair[side == "target"])

    def terms(self, row: Mapping[str, Any]) -> list[Term]:
        """Return the terms of a row, in its order."""
        pair = row["source_language"], row[f"{self._system.output.side}_language"]
        if self.glossary.pair not in (None, pair):
            return []
        return self.glossary.found(row[self._column], pair[0])

    def lacking(self, row: Mapping[str, Any], output: str) -> list[str]:
        """Return the targets that an output of a row lacks."""
        if not self.terms(row):
            return []
        return self.glossary.lacking(row[self._column], output, row["source_language"])

    def translated(self, system: System, batch: Batch, rows: Sequence[Mapping[str, Any]]) -> list[list[Hypothesis]]:
        """Return the hypotheses of the rows of a batch, best first."""
        required = [self._required(row) for row in rows]
        groups: dict[int, list[int]] = {}
        for number, terms in enumerate(required):
            groups.setdefault(self._width(terms) if terms else 0, []).append(number)
        found: dict[int, list[Hypothesis]] = {}
        for width, numbers in sorted(groups.items()):
            search = self.search_of_others if not width else self._held([required[n] for n in numbers], width)
            some = batch if len(groups) == 1 else batch.select(numbers)
            found |= dict(zip(numbers, system.translate_batch(some, search), strict=True))
        for number, row in enumerate(rows):
            if required[number] and (lacking := self.lacking(row, found[number][0].texts[system.output_name])):
                logging.getLogger("dragoman").warning(
                    "%s: the output lacks %s of %s: the longest output is too short for it, or it is forbidden",
                    shortened(repr(row[self._column])),
                    " and ".join(map(repr, lacking)),
                    self.glossary.name,
                )
        return [found[number] for number in range(len(rows))]

    def _width(self, terms: Sequence[Required]) -> int:
        beams = int(self._arguments.get("beam", 5))
        wanted = min(1 + sum(term.times * term.length for term in terms), WIDEST)
        return max(beams, min(wanted, self._system.output.tokenizer.size))

    def _held(self, terms: Sequence[Sequence[Required]], width: int) -> BeamSearch:
        rules = self.search_of_others.rules
        bans = [*rules.bans, RequiredTerms(terms)]
        return BeamSearch(**self._arguments | {"beam": width, "rules": type(rules)(**rules.arguments | {"bans": bans})})

    def _required(self, row: Mapping[str, Any]) -> list[Required]:
        language = row[f"{self._system.output.side}_language"]
        wanted: dict[str, list[Term]] = {}
        for term in self.terms(row):
            wanted.setdefault(term.target, []).append(term)
        return counted_apart([Required(self._written(some[0], language), len(some)) for some in wanted.values()])

    def _written(self, term: Term, language: str) -> tuple[tuple[int, ...], ...]:
        """Return the ids that a term may be written with, at the beginning of a text and within it.

        Raises:
            DataError: if the model would write something else.
        """
        forms = self._forms.get((term.target, language))
        if forms is None:
            forms = self._forms[term.target, language] = self._divided(term, language)
        return forms

    def _divided(self, term: Term, language: str) -> tuple[tuple[int, ...], ...]:
        output = self._system.output
        row = {"id": term.place, output.column: term.target, output.language_column: language}
        first = output.pieces(row)
        gap = " " if languages.spaced(language) else ""
        behind = output.pieces(row | {output.column: f"{term.target}{gap}{term.target}"})
        written = plain(output.decoded(first))
        if output.tokenizer.unk in first or written != term.target:
            unknown = "unknown symbols" if output.tokenizer.unk in first else repr(written)
            raise DataError(f"{term.place}: the model's pieces write {term.target!r} as {unknown}")
        forms = {tuple(first)}
        if behind[: len(first)] == first and plain(output.decoded(behind[len(first) :])) == term.target:
            forms.add(tuple(behind[len(first) :]))
        # One that has another inside would count with it.
        return tuple(sorted(one for one in forms if not any(one != o and _inside(o, one) for o in forms)))


def _inside(short: tuple[int, ...], long: tuple[int, ...]) -> bool:
    return any(long[place : place + len(short)] == short for place in range(len(long) - len(short) + 1))


def with_glossary(
    search: AnySearch, path: Path | None, system: System, pair: tuple[str | None, str | None] = (None, None)
) -> AnySearch:
    """Return a search that is held to the terms of a file; without a file, the search itself.

    Args:
        search: beam search, or a choice among what it finds.
        path: of the glossary.
        system: that will translate.
        pair: codes of source and target, None where the system has one only.

    Raises:
        DataError: if the file cannot be read; see :class:`Glossary`.
        UsageError: if the search, the system or the direction does not fit.
    """
    if path is None:
        return search
    if isinstance(search, ChoosingSearch):
        found_by = with_glossary(search.found_by, path, system, pair)
        return ChoosingSearch(**search.arguments | {"search": found_by})
    glossary = Glossary.read(path)
    held = GlossarySearch(search=search, glossary=glossary, system=system)
    codes = chosen_languages(*pair, codes=(system.source_languages, system.output_languages), side=system.output.side)
    if glossary.pair not in (None, codes):
        raise UsageError(f"{path}: is for {'-'.join(glossary.pair or ())}, and this is {'-'.join(codes)}")
    return held
