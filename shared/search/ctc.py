"""Greedy search over the outputs of connectionist temporal classification (Graves et al. 2006, section 3.2).

Legend: B sentences, S positions, V vocabulary.
"""

from __future__ import annotations

import torch

from shared.described import Described
from shared.generator import Hypothesis
from shared.padded import Padded


class CtcGreedySearch(Described):
    """Best path decoding: the best symbol of each position, repeats collapsed, blanks dropped.

    The score of a hypothesis is the mean log-probability of its best path (a lower bound of the output's own, since
    other paths give the same output), 0 for a sentence without positions. There is no end symbol.
    """

    def __init__(self) -> None:
        """Take no arguments: there is nothing to set."""

    @torch.no_grad()
    def search(self, log_probabilities: Padded, *, blank: int) -> list[list[Hypothesis]]:
        """Return one hypothesis per sentence.

        Args:
            log_probabilities: (B, S, V), normalised over V.
            blank: the blank symbol.

        Raises:
            ValueError: if the blank is outside the vocabulary or a log-probability is not a number.

        """
        vocabulary = log_probabilities.values.shape[-1]
        if not 0 <= blank < vocabulary:
            raise ValueError(f"the blank symbol {blank} is outside the vocabulary of {vocabulary}")
        if not log_probabilities.values.shape[1]:
            return [[Hypothesis([], 0.0)] for _ in range(len(log_probabilities))]
        best, symbols = log_probabilities.values.float().max(dim=-1)
        previous = torch.nn.functional.pad(symbols, (1, 0), value=-1)[:, :-1]
        kept = (symbols != blank) & (symbols != previous) & log_probabilities.mask
        totals = best.masked_fill(log_probabilities.mask.logical_not(), 0.0).sum(1)
        means = (totals / log_probabilities.lengths.clamp(min=1)).tolist()
        wrong = [row for row, mean in enumerate(means) if mean != mean]
        if wrong:
            raise ValueError(f"log-probabilities of rows {wrong} are not numbers")
        outputs = symbols.masked_fill(kept.logical_not(), -1).tolist()
        return [
            [Hypothesis([symbol for symbol in row if symbol >= 0], mean)]
            for row, mean in zip(outputs, means, strict=True)
        ]
