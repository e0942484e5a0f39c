"""The interface of searches: protocols that every search satisfies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast, runtime_checkable

from dragoman.shared.batch import Batch
from dragoman.shared.errors import UsageError
from dragoman.shared.generator import Generator, Hypothesis, Scorer
from dragoman.shared.padded import Padded
from dragoman.shared.search.bans import Ban
from dragoman.shared.search.rules import Rules


@runtime_checkable
class Search(Protocol):
    """Finds outputs of a generator, from left to right."""

    def search(
        self, generator: Generator, batch: Batch, *, prefix: Padded, end: int, padding: int
    ) -> list[list[Hypothesis]]:
        """Return for each sentence its hypotheses, without texts; see ``BeamSearch.search``.

        They stand best first; samples stand in the order in which they were drawn.
        """
        ...


@dataclass(frozen=True)
class Companion:
    """A language model that has a say in a search over the outputs of another model.

    Attributes:
        model: the language model, in eval mode; it needs nothing of a batch but its size.
        weight: of its log-probabilities.
        batch: of B sentences.
        prefix: (B, P) what its outputs begin with.
        end: the end symbol.
    """

    model: Scorer
    weight: float
    batch: Batch
    prefix: Padded
    end: int


@runtime_checkable
class CtcSearch(Protocol):
    """Finds the outputs that connectionist temporal classification stands for."""

    def decode(
        self, log_probabilities: Padded, *, blank: int, ids: Sequence[str] = (), companion: Companion | None = None
    ) -> list[list[Hypothesis]]:
        """Return for each sentence its hypotheses, best first, without texts and end symbols.

        Args:
            log_probabilities: (B, S, V), normalised over V.
            blank: the blank symbol.
            ids: of the rows, for messages.
            companion: a language model, for searches that take one.
        """
        ...


def ruled(search: Search, *, start_symbols: int, bans: Sequence[Ban]) -> Search:
    """Return a search (any that is built with ``rules``) that obeys what a system demands of every search beside.

    Raises:
        UsageError: if the system demands anything, and the search has no rules that it could be added to.
    """
    if start_symbols == 1 and not bans:
        return search
    return _with_rules(search, _rules(search).joined(start_symbols=start_symbols, bans=bans))


def continuing(search: Search) -> Search:
    """Return a search of what follows the whole prefix of each row, which does not count; raises as :func:`ruled`."""
    rules = _rules(search)
    return _with_rules(search, type(rules)(**rules.arguments | {"whole_prefix": True}))


def _rules(search: Search) -> Rules:
    rules = getattr(search, "rules", None)
    if not isinstance(rules, Rules):
        raise UsageError(f"{type(search).__name__} has no rules, to which this system's bans could be added")
    return rules


def _with_rules(search: Search, rules: Rules) -> Search:
    return type(search)(**cast(Any, search).arguments | {"rules": rules})


@runtime_checkable
class ByRows(Protocol):
    """A search that reads the rows themselves."""

    def translated(self, system: Any, batch: Batch, rows: Sequence[Mapping[str, Any]]) -> list[list[Hypothesis]]:
        """Return the hypotheses of the rows, of which the batch is made, best first; see ``System.translate_batch``."""
        ...


@runtime_checkable
class Choosing(Protocol):
    """Chooses among the hypotheses that another search finds; see shared/search/choosing.py."""

    found_by: Search | CtcSearch | ByRows

    def best(
        self, system: Any, rows: Sequence[Mapping[str, Any]], outputs: Sequence[Sequence[Hypothesis]]
    ) -> list[list[Hypothesis]]:
        """Return the best of the hypotheses of each row that the system read, best first."""
        ...


#: Any of them; which one fits is for the system to say.
AnySearch = Search | CtcSearch | Choosing | ByRows
