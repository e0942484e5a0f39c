r"""A translator of speech learns from a translator of its transcripts, token by token.

Liu et al. 2019, Interspeech, "End-to-End Speech Translation with Knowledge Distillation", arXiv 1904.08075, section 3.
The teacher reads the transcript x of the speech s; both have seen the right beginning of the translation:

    L = - sum_t sum_v [(1 - share) gold(v) + share p_teacher(v | y_<t, x)] log p(v | y_<t, s)

``gold`` is the label-smoothed right token. Of the teacher's distribution the ``top`` best symbols are used, and their
probabilities are made to add up to 1. Which share and how many symbols the paper's systems had is not established.

At the level of sequences (Kim and Rush 2016), the teacher's translations replace the right ones: that is a phase, see
recipes/almanac/kd_sequence.yaml.

Legend: B rows, T tokens, N = B x (T - 1), D width, K best symbols.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from shared.batch import Batch
from shared.errors import UsageError, check_share
from shared.objectives.cross_entropy import IGNORED, CrossEntropy, CrossEntropySums, label_smoothed_cross_entropy
from shared.objectives.teacher import Teacher

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
        smoothing: of the right token.
        target_field: see :class:`CrossEntropy`, as the rest.
        weight: factor of the term in the loss.
        prefix: put before the names of the terms.
        source: the batch field whose encoding the decoder reads.

    Raises:
        UsageError: for an argument out of its range.

    """

    def __init__(
        self,
        *,
        teacher: Teacher,
        share: float = 0.8,
        top: int = 8,
        temperature: float = 1.0,
        smoothing: float = 0.1,
        target_field: str = "target",
        weight: float = 1.0,
        prefix: str = "",
        source: str | None = None,
    ) -> None:
        super().__init__(smoothing=smoothing, target_field=target_field, weight=weight, prefix=prefix, source=source)
        check_share("share", share)
        if top < 1 or not temperature > 0:
            raise UsageError(f"need top >= 1 and a positive temperature, not {top} and {temperature}")
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
            smoothing=self.smoothing,
            chunk=self.chunk,
        )
        entropies = torch.special.entr(probabilities).sum(-1)
        return replace(sums, reported={ENTROPY: entropies.masked_fill(labels == IGNORED, 0).sum()})
