"""What a left-to-right search is, for those who are given one."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from shared.batch import Batch
from shared.generator import Generator, Hypothesis
from shared.padded import Padded


@runtime_checkable
class Search(Protocol):
    """Finds outputs of a generator."""

    def search(
        self, generator: Generator, batch: Batch, *, prefix: Padded, end: int, padding: int
    ) -> list[list[Hypothesis]]:
        """Return for each sentence its hypotheses, best first, without texts; see ``BeamSearch.search``."""
        ...
