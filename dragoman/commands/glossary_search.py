"""Beam search held to a glossary: which rows have which terms, and the pieces that write them."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from dragoman.commands.glossary import Glossary, Term, in_word, plain
from dragoman.commands.required_terms import BEGINNING, Required, RequiredTerms, counted_apart
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

#: What pieces begin with that begin a word, in SentencePiece's files and in byte-level ones.
_SPACES = ("\u2581", "\u0120")
#: Beams that a sentence is given for its terms, at most, where ``--beam`` is less.
WIDEST = 40


#: What :func:`continuing` has returned.
_continuing_tokens: WeakKeyDictionary[System, Tensor] = WeakKeyDictionary()


def continuing(system: System) -> Tensor:
    """Return which tokens continue the word before them, (V,) bool: those whose text stands directly behind "a"."""
    output = system.output
    word = output.pieces({"id": "a", output.column: "a", output.language_column: system.output_languages[0]})
    alone, found = output.decoded(word), torch.zeros(output.tokenizer.size, dtype=torch.bool)
    for token in range(output.tokenizer.size):
        if not output.tokenizer.symbol(token).startswith(_SPACES):
            text = output.decoded([*word, token])
            found[token] = text.startswith(alone) and in_word((text[len(alone) :] or " ")[0])
    return found


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
        self.usual = search
        self.glossary = glossary
        self._system = system
        self._column = system.inputs["source"].column
        self._forms: dict[tuple[str, str], tuple[tuple[int, ...], ...]] = {}
        self._check()

    @property
    def n_best(self) -> int:
        """The number of hypotheses that a row has, at most."""
        return getattr(self.usual, "n_best", 1)

    @cached_property
    def _arguments(self) -> dict[str, Any]:
        """The arguments of a beam search like the one given."""
        given = self.usual
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
        pair = row["source_language"], self._into(row)
        if self.glossary.pair not in (None, pair):
            return []
        return self.glossary.found(row[self._column], pair[0])

    def _into(self, row: Mapping[str, Any]) -> str:
        language: str = row[self._system.output.language_column]
        return language

    def lacking(self, row: Mapping[str, Any], output: str) -> list[str]:
        """Return the targets that an output of a row lacks."""
        if not self.terms(row):
            return []
        return self.glossary.lacking(row[self._column], output, row["source_language"], self._into(row))

    def translated(self, system: System, batch: Batch, rows: Sequence[Mapping[str, Any]]) -> list[list[Hypothesis]]:
        """Return the hypotheses of the rows of a batch, best first."""
        required = [self._required(row) for row in rows]
        groups: dict[tuple[int, bool], list[int]] = {}
        for number, (row, terms) in enumerate(zip(rows, required, strict=True)):
            kind = (self._width(terms), languages.spaced(self._into(row))) if terms else (0, False)
            groups.setdefault(kind, []).append(number)
        found: dict[int, list[Hypothesis]] = {}
        for (width, spaced), numbers in sorted(groups.items()):
            held = self._held([required[number] for number in numbers], width, spaced) if width else self.usual
            some = batch if len(groups) == 1 else batch.select(numbers)
            found |= dict(zip(numbers, system.translate_batch(some, held), strict=True))
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

    def _held(self, terms: Sequence[Sequence[Required]], width: int, spaced: bool) -> BeamSearch:
        """Return a search with so many beams that is held to the terms of rows."""
        rules = self.usual.rules
        bans = [*rules.bans, RequiredTerms(terms, self._continuing if spaced else None)]
        return BeamSearch(**self._arguments | {"beam": width, "rules": type(rules)(**rules.arguments | {"bans": bans})})

    def _required(self, row: Mapping[str, Any]) -> list[Required]:
        language = self._into(row)
        wanted: dict[str, list[Term]] = {}
        for term in self.terms(row):
            wanted.setdefault(term.target, []).append(term)
        if not wanted:
            return []
        ids = self._continuing_ids if languages.spaced(language) else frozenset()
        terms = [Required(self._written(some[0], language), len(some)) for some in wanted.values()]
        return counted_apart(terms, ids)

    @property
    def _continuing(self) -> Tensor:
        if self._system not in _continuing_tokens:
            _continuing_tokens[self._system] = continuing(self._system)
        return _continuing_tokens[self._system]

    @cached_property
    def _continuing_ids(self) -> frozenset[int]:
        return frozenset(self._continuing.nonzero().flatten().tolist())

    def _written(self, term: Term, language: str) -> tuple[tuple[int, ...], ...]:
        """Return the ids that a term may be written with.

        Raises:
            DataError: if the model would write something else.
        """
        forms = self._forms.get((term.target, language))
        if forms is None:
            forms = self._forms[term.target, language] = self._divided(term, language)
        return forms

    def _divided(self, term: Term, language: str) -> tuple[tuple[int, ...], ...]:
        output, spaced = self._system.output, languages.spaced(language)
        row = {"id": term.place, output.column: term.target, output.language_column: language}
        first = output.pieces(row)
        written = plain(output.decoded(first))
        if written != term.target:  # unknown symbols have no text
            raise DataError(f"{term.place}: the model's pieces write {term.target!r} as {written!r}")
        twice = output.pieces(row | {output.column: f"{term.target}{' ' * spaced}{term.target}"})
        within = twice[len(first) :] if twice[: len(first)] == first else first
        if plain(output.decoded(within)) != term.target or within == first:
            return (tuple(first),)
        if spaced:
            return tuple(within), (BEGINNING, *first)
        # A form that has the other inside would count with it.
        return (tuple(within),) if _inside(tuple(within), tuple(first)) else (tuple(within), tuple(first))


def _inside(short: tuple[int, ...], long: tuple[int, ...]) -> bool:
    return any(long[place : place + len(short)] == short for place in range(len(long) - len(short) + 1))


def with_glossary(
    search: AnySearch, path: Path | None, system: System, pair: tuple[str | None, str | None] | None
) -> AnySearch:
    """Return a search that is held to the terms of a file; without a file, the search itself.

    Args:
        search: beam search, or a choice among what it finds.
        path: of the glossary.
        system: that will translate.
        pair: codes of source and target, None where the system has one only; None if each row has its own.

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
    if pair is None:
        return held
    codes = chosen_languages(*pair, codes=(system.source_languages, system.output_languages), side=system.output.side)
    if glossary.pair not in (None, codes):
        said = "-".join(glossary.pair or ())
        raise UsageError(f"{path}: is for {said}, as its first line says, and this is {'-'.join(codes)}")
    return held
