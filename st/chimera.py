"""Chimera: speech and text meet in a shared memory of fixed size (Han et al. 2021, Findings of ACL, section 3).

Sound (through an acoustic encoder) and text go through one encoder, whose states h trained slots m read; the decoder
sees the slots alone (``dragoman.st.slots.SlotEncoder``)::

    m <- m + Attention(LN m, LN h)        m <- m + FeedForward(LN m)        three times

So a sentence has the same M vectors in both modalities, which a contrastive loss draws together slot by slot; the other
slots of the same sentence are its negatives, from speech to text only::

    L = L_ST + L_MT + L_ctr
    L_ctr = - sum_i log ( exp(cos(m_i^speech, m_i^text) / t) / sum_j exp(cos(m_i^speech, m_j^text) / t) ),  t = 0.1

L_ctr is summed over slots and sentences and divided by the number of target tokens. First the path of text is trained
on parallel text, then all on triples.

Differs from the paper: on Almanac the acoustic encoder is a recogniser's, not wav2vec 2.0, and there is a norm above
the memory's layers (``norm: False`` of the SlotEncoder).

Differs from the released code (Glaciohound/Chimera-ST): its softmax is over the slots of speech for each slot of text,
its slots attend to padding, slot 0 never learns, and it averages 7 checkpoints around the best one, where here the 7
best are.

Legend: B sentences, M slots, D model width.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from dragoman.shared.batch import Batch
from dragoman.shared.errors import UsageError
from dragoman.shared.nn.translator import MEMORY
from dragoman.shared.objectives.contrastive import contrastive
from dragoman.shared.objectives.objective import Term
from dragoman.shared.objectives.parts import Encode, Part, check_embedded
from dragoman.shared.ranges import PositiveFloat, PositiveInt
from dragoman.st.slots import SlotEncoder


class BimodalContrastive(Part):
    """Cross entropy of each slot of speech over the slots of the text, per target token.

    Reported only: "slot_accuracy", the share of a sentence's slots that are most like their own slot of the text.

    Args:
        one: the batch field whose slots are compared.
        other: the batch field with whose slots they are compared.
        target_field: the loss is divided by the number of its tokens.
        temperature: t.
        weight: factor of the term in the loss.
        grow_until: the update until which the weight grows linearly from 0; None: it is the same throughout.
    """

    def __init__(
        self,
        *,
        one: str = "speech",
        other: str = "source",
        target_field: str = "target",
        temperature: PositiveFloat = 0.1,
        weight: float = 1.0,
        grow_until: PositiveInt | None = None,
    ) -> None:
        super().__init__()
        self.one = one
        self.other = other
        self.target_field = target_field
        self.temperature = temperature
        self.weight = weight
        self.grow_until = grow_until
        self.share = 1.0

    def check(self, model: Any) -> None:
        """Insist on a memory whose slots can be compared, and on a model that reads both sides."""
        encoder = getattr(model, "encoder", None)
        if not isinstance(encoder, SlotEncoder):
            raise UsageError(
                f"BimodalContrastive compares the slots of a memory: the model's encoder must be a SlotEncoder, not "
                f"{type(encoder).__name__}"
            )
        for field in (self.one, self.other):
            check_embedded(model, self, field)

    def at(self, update: int) -> None:
        """Let the weight grow."""
        self.share = 1.0 if self.grow_until is None else min(1.0, update / self.grow_until)

    def counts(self, batch: Batch) -> dict[str, Tensor]:
        """Return the number of target tokens, and of sentences.

        Raises:
            UsageError: if the batch lacks one of the two fields.
        """
        for name in (self.one, self.other):
            if name not in batch:
                raise UsageError(
                    f"BimodalContrastive compares {self.one!r} and {self.other!r}, but stream {batch.stream!r} has no "
                    f"{name!r}"
                )
        lengths = batch[self.target_field].lengths
        return {"contrastive": (lengths - 1).clamp(min=0).sum(), "slot_accuracy": torch.ones_like(lengths).sum()}

    def evaluate(self, model: Any, batch: Batch, encode: Encode) -> dict[str, Term]:
        """Compare the slots (B, M, D) of both fields, sentence by sentence."""
        counts = self.counts(batch)
        one, other = (encode(name).memories[MEMORY].values for name in (self.one, self.other))
        sums = contrastive(one, other, temperature=self.temperature)
        return {
            "contrastive": Term(sums.loss, counts["contrastive"], self.weight * self.share),
            "slot_accuracy": Term(sums.correct / one.shape[1], counts["slot_accuracy"], 0.0),
        }
