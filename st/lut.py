"""LUT: a speech translator whose semantic encoder is taught what a language model makes of the transcript.

Dong et al. 2021, AAAI, "Listen, Understand and Translate: Triple Supervision Decouples End-to-end Speech-to-text
Translation", section 3. The acoustic encoder learns the transcript z by CTC, the semantic one above it to come near a
frozen language model's states of it, and the decoder to translate. The model is a ``TandemTranslator``; the loss::

    L = a L_CTC + b L_distance + (1 - a - b) L_CE
    L_distance = MSE(Attention(H_BERT, H_semantic, H_semantic), H_BERT)

The states of the language model are the queries, so that the speech's have to hold what they ask for. Teacher and
attention are left behind after training.

Differs from the release: convolutions instead of stacked frames; CTC per label, over the translator's own pieces, not
BERT's; padding has no distance; no dropout and no linear map between the encoders, though positions, as there; streams
of translated and of transcribed recordings alternate.

Not established: a and b (0.5 and 0.05 are those of the released template, dqqcasia/st), the number of updates.

What the two encoders know of speakers and of words is measured by linear probes (st/layer_probes.py).

Legend: B sentences, S states, L tokens of the transcript, D width, W width of the language model.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from dragoman.shared.batch import Batch
from dragoman.shared.errors import UsageError
from dragoman.shared.generator import Encoding
from dragoman.shared.nn.attention import MemoryAttention
from dragoman.shared.nn.translator import MEMORY
from dragoman.shared.objectives.objective import Term
from dragoman.shared.objectives.parts import Part
from dragoman.shared.objectives.teacher import Teacher
from dragoman.shared.padded import Padded


class SemanticDistance(Part):
    """Squared distance between a language model's states and what they find in the encoder's, per token.

    Term: "distance", for each token the mean over the W dimensions.

    Args:
        teacher: the language model; its ``field`` is the transcript in its pieces.
        width: D, of the encoder's states.
        teacher_width: W, which ``heads`` divides.
        heads: of the attention.
        weight: factor of the term in the loss.
        prefix: put before the name of the term.
        source: the batch field whose encoding is compared; by default the objective's own.

    Raises:
        ValueError: if ``heads`` does not divide ``teacher_width``.
    """

    def __init__(
        self,
        *,
        teacher: Teacher,
        width: int,
        teacher_width: int,
        heads: int = 4,
        weight: float = 0.05,
        prefix: str = "",
        source: str | None = None,
    ) -> None:
        super().__init__(source=source)
        self.teacher = teacher
        self.weight = weight
        self.prefix = prefix
        self.attention = MemoryAttention(width=teacher_width, heads=heads, memory_width=width)

    def counts(self, batch: Batch) -> dict[str, Tensor]:
        """Return the number of the transcripts' tokens."""
        return {f"{self.prefix}distance": self.teacher.read(batch).lengths.sum()}

    def terms(self, model: Any, batch: Batch, encoding: Encoding) -> dict[str, Term]:
        """Let the language model's states attend to the encoder's, and compare what they find with themselves.

        Raises:
            UsageError: if the language model has another width.
        """
        wanted = self.teacher.states(batch)
        if wanted.values.shape[-1] != self.attention.width:
            raise UsageError(
                f"teacher_width is {self.attention.width}, but the states of {self.teacher.folder} have "
                f"{wanted.values.shape[-1]} dimensions"
            )
        states = encoding.memories[MEMORY]
        heard = self.attention.remember(Padded(states.values, states.lengths.clamp(min=1)))
        distances = (self.attention(wanted.values, heard) - wanted.values).float().square().mean(-1)
        total = distances.masked_fill(~wanted.mask, 0).sum()
        return {f"{self.prefix}distance": Term(total, self.teacher.read(batch).lengths.sum(), self.weight)}
