"""Greedy search: always the most probable token; the same as a beam of one, and cheaper.

Legend: B sentences, A sentences still searched, V vocabulary.
"""

from __future__ import annotations

import torch
from torch import Tensor

from dragoman.shared.batch import Batch
from dragoman.shared.described import Described
from dragoman.shared.generator import Generator, Hypothesis
from dragoman.shared.padded import Padded
from dragoman.shared.search.rules import Rules
from dragoman.shared.search.stepwise import generate


class GreedySearch(Described):
    """Greedy search; a hypothesis's score is ``sum of log-probabilities / length``, as in beam search.

    Args:
        rules: lengths, start symbols and bans; by default those of :class:`Rules`.
    """

    def __init__(self, *, rules: Rules | None = None) -> None:
        self.rules = rules or Rules()

    @torch.no_grad()
    def search(
        self, generator: Generator, batch: Batch, *, prefix: Padded, end: int, padding: int
    ) -> list[list[Hypothesis]]:
        """Return one hypothesis per sentence; arguments and errors are those of :meth:`BeamSearch.search`."""
        if not len(batch):
            return []
        return generate(generator, batch, _best, outputs=1, rules=self.rules, prefix=prefix, end=end, padding=padding)


def _best(scores: Tensor, sentences: Tensor, step: int) -> Tensor:
    """Return the best tokens (A, 1) of scores (A, 1, V)."""
    return scores.argmax(dim=-1)
