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

from typing import Unpack

from torch import Tensor

from dragoman.shared.batch import Batch
from dragoman.shared.objectives.cross_entropy import CrossEntropyParts
from dragoman.shared.objectives.mixed_targets import MixedTargets
from dragoman.shared.objectives.teacher import Teacher
from dragoman.shared.ranges import PositiveFloat, PositiveInt, Share


class Distilled(MixedTargets):
    """Cross entropy with a mixture of the right token and what a teacher says of the batch; see :class:`MixedTargets`.

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
        super().__init__(share=share, **parts)
        self.teacher = teacher
        self.top = top
        self.temperature = temperature

    def best(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Ask the teacher: symbols (N, K) and their probabilities among themselves (N, K)."""
        return self.teacher.best(batch, self.beginnings(batch), top=self.top, temperature=self.temperature)
