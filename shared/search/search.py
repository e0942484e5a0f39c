"""The interface of searches: protocols that every search satisfies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from shared.batch import Batch
from shared.generator import Generator, Hypothesis, Scorer
from shared.padded import Padded


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


#: Any of them; which one fits is for the system to say.
AnySearch = Search | CtcSearch
