r"""APT: what a pre-trained model of the target language teaches a decoder, beside the right translation.

Weng et al. 2020, AAAI, "Acquiring Knowledge from Pre-trained Model to Neural Machine Translation", arXiv 1912.01774,
section 3.2. A language model has read the right beginning, as the decoder; it does not know the source:

    L = L_NMT + a sum_j KL(q_LM(. | y_<j) || p(. | y_<j, x)) + b sum_j |h_LM,j - s_j|^2

per target token: at the level of words its distribution q_LM, at that of sentences its last states h_LM, which those
of the decoder, s, are drawn to. A masked language model can teach states alone; its h_j has read the whole target. No
teacher is needed afterwards. Forms and weights of both terms are not established, and chosen here: the first is that of
Kim and Rush 2016 (arXiv 1606.07947, section 3.1), the second that of CTNMT's distillation (mt/ctnmt.py).

Legend: B rows, T target, N = B x (T - 1), D width.
"""

from __future__ import annotations

from typing import Any, Unpack

from torch import Tensor

from dragoman.mt.divergence import divergence
from dragoman.shared.batch import Batch
from dragoman.shared.errors import UsageError
from dragoman.shared.objectives.cross_entropy import CrossEntropy, CrossEntropyParts
from dragoman.shared.objectives.objective import Term
from dragoman.shared.objectives.teacher import Teacher
from dragoman.shared.ranges import NonNegativeFloat


class Taught(CrossEntropy):
    """Cross entropy, and what a teacher of the target language adds; one pass through the decoder serves all.

    Terms: those of CrossEntropy, "words" (KL, in nats) and "states" (the sum over D), each per target token, as far
    as they have a weight.

    Args:
        teacher: a language model (its ``field`` is None), or an encoder that reads the target field.
        words: weight of the divergence from the teacher's distributions; 0 leaves it out.
        states: weight of the squared distance from the teacher's states; 0 leaves it out.
        parts: see :class:`CrossEntropy`; ``label_smoothing`` is of the right token, ``weight`` of the cross entropy.

    Raises:
        UsageError: if an encoder is to teach words.
    """

    def __init__(
        self,
        *,
        teacher: Teacher,
        words: NonNegativeFloat = 0.1,
        states: NonNegativeFloat = 0.01,
        **parts: Unpack[CrossEntropyParts],
    ) -> None:
        super().__init__(**parts)
        if words and teacher.field is not None:
            raise UsageError(f"words: a teacher that reads {teacher.field!r} has no distributions over what follows")
        if teacher.field not in (None, self.target_field):
            raise UsageError(f"the teacher must read {self.target_field!r}, not {teacher.field!r}")
        self.teacher = teacher
        self.words = words
        self.states = states

    def counts(self, batch: Batch) -> dict[str, Tensor]:
        """Return the number of labels, which is the count of each term."""
        units = super().counts(batch)
        taught = {"words": self.words, "states": self.states}
        count = self.beginnings(batch).lengths.sum()
        return units | {f"{self.prefix}{name}": count for name, weight in taught.items() if weight}

    def terms_of(self, model: Any, batch: Batch, states: Tensor) -> dict[str, Term]:
        """Compare the decoder's states (B, T - 1, D) with the right tokens, and with the teacher.

        Raises:
            UsageError: if the teacher's states have another width.
        """
        terms = super().terms_of(model, batch, states)
        if not self.words and not self.states:
            return terms
        counted = self.known(batch)
        mask = self.beginnings(batch).mask
        count = self.beginnings(batch).lengths.sum()
        if self.words:
            rows = counted.flatten(0, 1)
            total = divergence(
                states.flatten(0, 1), model.projection, lambda part: self.teacher.project(rows[part]), mask.flatten()
            )
            terms[f"{self.prefix}words"] = Term(total, count, self.words)
        if self.states:
            if states.shape != counted.shape:
                raise UsageError(
                    f"the decoder's states have the width {states.shape[-1]}, those of the teacher "
                    f"{self.teacher.folder} {counted.shape[-1]}: they must be equally wide, or states: 0"
                )
            distances = (states - counted).float().square().sum(-1)
            terms[f"{self.prefix}states"] = Term(distances.masked_fill(~mask, 0).sum(), count, self.states)
        return terms

    def known(self, batch: Batch) -> Tensor:
        """Return the teacher's states (B, T - 1, D') for the labels: before each of them; an encoder's at each."""
        if self.teacher.field is None:
            return self.teacher.decoded(batch, self.beginnings(batch))
        return self.teacher.states(batch).values[:, 1:]
