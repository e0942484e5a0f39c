"""Greedy search over the outputs of connectionist temporal classification (Graves et al. 2006, section 3.2).

Legend: B sentences, S positions, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from dragoman.shared.described import Described
from dragoman.shared.errors import DataError, UsageError
from dragoman.shared.generator import Hypothesis
from dragoman.shared.padded import Padded
from dragoman.shared.search.constraints import named_rows
from dragoman.shared.search.search import Companion


class CtcGreedySearch(Described):
    """Best path decoding: the best symbol of each position, repeats collapsed, blanks dropped.

    The score of a hypothesis is the mean log-probability of its best path (a lower bound of the output's own, since
    other paths give the same output), 0 for a sentence without positions. There is no end symbol.
    """

    def __init__(self) -> None:
        """Take no arguments: there is nothing to set."""

    @torch.no_grad()
    def decode(
        self, log_probabilities: Padded, *, blank: int, ids: Sequence[str] = (), companion: Companion | None = None
    ) -> list[list[Hypothesis]]:
        """Return one hypothesis per sentence; see :class:`dragoman.shared.search.search.CtcSearch`.

        Raises:
            DataError: if a log-probability is not a number.
            UsageError: if a language model is given, which the best path knows nothing of.
            ValueError: if the blank is outside the vocabulary.
        """
        check_blank(blank, log_probabilities)
        if companion is not None:
            raise UsageError("best path decoding takes no language model: search prefixes (a beam above 1)")
        if not log_probabilities.values.shape[1]:
            return [[Hypothesis([], 0.0)] for _ in range(len(log_probabilities))]
        best, symbols = log_probabilities.values.float().max(dim=-1)
        previous = torch.nn.functional.pad(symbols, (1, 0), value=-1)[:, :-1]
        kept = (symbols != blank) & (symbols != previous) & log_probabilities.mask
        totals = best.masked_fill(log_probabilities.mask.logical_not(), 0.0).sum(1)
        means = (totals / log_probabilities.lengths.clamp(min=1)).tolist()
        wrong = [row for row, mean in enumerate(means) if mean != mean]
        if wrong:
            raise DataError(f"the model's log-probabilities are not numbers for: {named_rows(wrong, ids)}")
        outputs = symbols.masked_fill(kept.logical_not(), -1).tolist()
        return [
            [Hypothesis([symbol for symbol in row if symbol >= 0], mean)]
            for row, mean in zip(outputs, means, strict=True)
        ]


def check_blank(blank: int, log_probabilities: Padded) -> None:
    """Refuse a blank outside the vocabulary, by ValueError."""
    vocabulary = log_probabilities.values.shape[-1]
    if not 0 <= blank < vocabulary:
        raise ValueError(f"the blank symbol {blank} is outside the vocabulary of {vocabulary}")
