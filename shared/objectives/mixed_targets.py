"""Cross entropy whose target is a mixture of the right token and a distribution that somebody teaches.

    L = - sum_t sum_v [(1 - share) gold(v) + share taught(v | t)] log p(v | y_<t, x)

``gold`` is the label-smoothed right token (Hinton et al. 2015, arXiv 1503.02531; Kim and Rush 2016, section 3.1).

Legend: B rows, T tokens, N = B x (T - 1), D width, K symbols.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import Any, Unpack

import torch
from torch import Tensor

from dragoman.shared.batch import Batch
from dragoman.shared.objectives.cross_entropy import (
    IGNORED,
    CrossEntropy,
    CrossEntropyParts,
    CrossEntropySums,
    label_smoothed_cross_entropy,
)
from dragoman.shared.ranges import Share

#: The name of the term that reports how much the teacher hesitates.
ENTROPY = "teacher_entropy"


class MixedTargets(CrossEntropy):
    """Cross entropy with a mixture of the right token and a taught distribution; terms as those of CrossEntropy.

    "nll" and "accuracy" are of the right tokens. Reported as well: "teacher_entropy", that of the distribution which is
    learned from the teacher, per token in nats. Where it is near 0, the teacher says no more than a token does.

    Args:
        share: of the teacher in the target; 0 is CrossEntropy itself.
        parts: see :class:`CrossEntropy`; ``label_smoothing`` is of the right token.
    """

    def __init__(self, *, share: Share, **parts: Unpack[CrossEntropyParts]) -> None:
        super().__init__(**parts)
        self.share = share

    def taught(self, batch: Batch) -> bool:
        """Tell whether there is a distribution to learn for a batch."""
        return self.share > 0

    @abstractmethod
    def best(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return symbols (N, K) int64 and their probabilities (N, K), which add up to 1."""

    def counts(self, batch: Batch) -> dict[str, Tensor]:
        """Return the number of labels, which is the count of each term."""
        counts = super().counts(batch)
        entropy = {f"{self.prefix}{ENTROPY}": counts[f"{self.prefix}nll"]} if self.taught(batch) else {}
        return counts | entropy

    def compare(self, model: Any, batch: Batch, states: Tensor, labels: Tensor) -> CrossEntropySums:
        """Return the sums for states (N, D) and right labels (N,)."""
        if not self.taught(batch):
            return super().compare(model, batch, states, labels)
        symbols, probabilities = self.best(batch)
        of_gold = torch.full_like(probabilities[:, :1], 1 - self.share)
        sums = label_smoothed_cross_entropy(
            states,
            model.projection,
            torch.cat([labels[:, None], symbols], dim=1),
            weights=torch.cat([of_gold, self.share * probabilities], dim=1),
            label_smoothing=self.label_smoothing,
            chunk=self.chunk,
        )
        entropies = torch.special.entr(probabilities).sum(-1)
        return replace(sums, reported={ENTROPY: entropies.masked_fill(labels == IGNORED, 0).sum()})
