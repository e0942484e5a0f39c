r"""A translator of speech learns from a translator of its transcripts, token by token.

Liu et al. 2019, Interspeech, "End-to-End Speech Translation with Knowledge Distillation", arXiv 1904.08075, section 3.
The teacher reads the transcript x of the speech s; both have seen the right beginning of the translation:

    L = - sum_t sum_v [(1 - share) gold(v) + share p_teacher(v | y_<t, x)] log p(v | y_<t, s)

``gold`` is the label-smoothed right token. Of the teacher's distribution the ``top`` best symbols are used, and their
probabilities are made to add up to 1.

At the level of sequences (Kim and Rush 2016), the teacher's translations replace the right ones: that is a phase, see
recipes/base/kd_sequence.yaml. With both, the teacher is asked about what it has written.

Not established, and chosen here: the share (0.8) and how many symbols (8).

Legend: B rows, T tokens, N = B x (T - 1), D width, K best symbols.
"""

from __future__ import annotations

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
from dragoman.shared.objectives.teacher import Teacher
from dragoman.shared.ranges import PositiveFloat, PositiveInt, Share

#: The name of the term that reports how much the teacher hesitates.
ENTROPY = "teacher_entropy"


class Distilled(CrossEntropy):
    """Cross entropy with a mixture of the right token and a teacher's distribution; terms as those of CrossEntropy.

    "nll" and "accuracy" are of the right tokens. Reported as well: "teacher_entropy", that of the distribution which is
    learned from the teacher, per token in nats. Where it is near 0, the teacher says no more than a token does.

    Args:
        teacher: see shared/objectives/teacher.py.
        share: of the teacher in the target; 0 is CrossEntropy itself.
        top: K, the number of its symbols that are used.
        temperature: by which its logits are divided.
        parts: see :class:`CrossEntropy`; ``label_smoothing`` is of the right token.
    """

    def __init__(
        self,
        *,
        teacher: Teacher,
        share: Share = 0.8,
        top: PositiveInt = 8,
        temperature: PositiveFloat = 1.0,
        **parts: Unpack[CrossEntropyParts],
    ) -> None:
        super().__init__(**parts)
        self.teacher = teacher
        self.share = share
        self.top = top
        self.temperature = temperature

    def counts(self, batch: Batch) -> dict[str, Tensor]:
        """Return the number of labels, which is the count of each term."""
        counts = super().counts(batch)
        entropy = {f"{self.prefix}{ENTROPY}": counts[f"{self.prefix}nll"]} if self.share else {}
        return counts | entropy

    def compare(self, model: Any, batch: Batch, states: Tensor, labels: Tensor) -> CrossEntropySums:
        """Return the sums for states (N, D) and right labels (N,)."""
        if not self.share:
            return super().compare(model, batch, states, labels)
        symbols, probabilities = self.teacher.best(
            batch, self.beginnings(batch), top=self.top, temperature=self.temperature
        )
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
