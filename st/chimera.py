"""Chimera: speech and text meet in a shared memory of fixed size (Han et al. 2021, Findings of ACL, section 3).

Sound (through an acoustic encoder) and text go through one encoder, whose states h trained slots m read; the decoder
sees the slots alone (``SlotEncoder``)::

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

Legend: B sentences, S encoder states, M slots, D model width.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from dragoman.shared.batch import Batch
from dragoman.shared.described import Described
from dragoman.shared.errors import UsageError
from dragoman.shared.nn.attention import MemoryAttention, Prompts
from dragoman.shared.nn.dropout import dropout
from dragoman.shared.nn.layer import Depth, EncoderLayer, layer_norm
from dragoman.shared.nn.linear import Linear
from dragoman.shared.nn.transformer import Encoder, fresh
from dragoman.shared.nn.translator import MEMORY
from dragoman.shared.objectives.contrastive import contrastive
from dragoman.shared.objectives.objective import Term
from dragoman.shared.objectives.parts import Encode, Part, check_embedded
from dragoman.shared.padded import Padded
from dragoman.shared.ranges import PositiveFloat, PositiveInt, ShareBelowOne


class MemoryLayer(Described, nn.Module):
    """Lets slots read states, then transforms them: ``m + Attention(norm(m), norm(h))``, ``m + FeedForward(norm(m))``.

    Both sides of the attention go through the same norm. Slots do not see each other, and states do not change; it is
    a layer of self-attention over ``[h; m]`` in which only states may be seen, and of which only slots are kept.

    Args:
        width: D.
        heads: which divide D.
        feedforward: the width inside the feed-forward net.
        dropout: of what each sub-layer adds.
        attention_dropout: of attention weights.
        activation_dropout: inside the feed-forward net.
        norm_epsilon: added to the variance by which norms divide.
    """

    def __init__(
        self,
        *,
        width: int,
        heads: int,
        feedforward: PositiveInt,
        dropout: ShareBelowOne = 0.1,
        attention_dropout: float = 0.0,
        activation_dropout: ShareBelowOne = 0.0,
        norm_epsilon: float = 1e-5,
    ) -> None:
        super().__init__()
        self.width = width
        self.norm_epsilon = norm_epsilon
        self.dropout = dropout
        self.activation_dropout = activation_dropout
        self.attention = MemoryAttention(width=width, heads=heads, memory_width=width, dropout=attention_dropout)
        self.attention_norm = layer_norm(width, norm_epsilon)
        self.inner = Linear(width, feedforward)
        self.outer = Linear(feedforward, width)
        self.feedforward_norm = layer_norm(width, norm_epsilon)

    def forward(self, slots: Tensor, states: Padded) -> Tensor:
        """Return new slots (B, M, D) of slots (B, M, D) and states (B, S, D), of which each row has at least one."""
        read = self.attention.remember(states.map(self.attention_norm))
        slots = slots + dropout(self.attention(self.attention_norm(slots), read), self.dropout, self.training)
        inner = torch.relu(self.inner(self.feedforward_norm(slots)))
        inner = dropout(inner, self.activation_dropout, self.training)
        return slots + dropout(self.outer(inner), self.dropout, self.training)


class SlotEncoder(Encoder):
    """An encoder that gives M states, however long its input: slots read its output through layers of their own.

    What comes after it sees the slots alone (Han et al. 2021, section 3.2, call them a shared semantic memory).

    Args:
        layer: of the encoder.
        layers: how many of it.
        memory_layer: the first layer of the slots; the others are built as it was.
        memory_layers: how many.
        slots: M.
        norm: a norm above the layers of the slots.
        taps: layers of the encoder whose states are given as well, in full length.
        layer_drop: probability with which a layer of the encoder is left out in training.
        recompute: compute the encoder's activations again in the backward pass.

    Raises:
        ValueError: if widths differ.
    """

    def __init__(
        self,
        *,
        layer: EncoderLayer,
        layers: int,
        memory_layer: MemoryLayer,
        memory_layers: Depth = 3,
        slots: PositiveInt = 64,
        norm: bool = True,
        taps: list[int] | None = None,
        layer_drop: float = 0.0,
        recompute: bool = False,
    ) -> None:
        super().__init__(layer=layer, layers=layers, taps=taps, layer_drop=layer_drop, recompute=recompute)
        if memory_layer.width != self.width:
            raise ValueError(f"the memory's width {memory_layer.width} is not the encoder's {self.width}")
        self.slots = nn.Parameter(torch.empty(slots, self.width))
        nn.init.normal_(self.slots, std=self.width**-0.5)
        self.memory_layers = nn.ModuleList([memory_layer, *(fresh(memory_layer) for _ in range(memory_layers - 1))])
        self.memory_norm = layer_norm(self.width, memory_layer.norm_epsilon) if norm else nn.Identity()

    def forward(
        self,
        x: Padded,
        *,
        memories: Mapping[str, Padded] | None = None,
        prompts: Sequence[Prompts] | None = None,
    ) -> tuple[Padded, dict[int, Padded]]:
        """Encode x (B, S, D): the slots (B, M, D), all real, and the states of tapped layers (B, S, D)."""
        encoded, tapped = super().forward(x, memories=memories, prompts=prompts)
        states = Padded(encoded.values, encoded.lengths.clamp(min=1))
        slots = self.slots.to(encoded.values.dtype).expand(len(encoded), -1, -1)
        for layer in self.memory_layers:
            slots = layer(slots, states)
        return Padded(self.memory_norm(slots), torch.full_like(encoded.lengths, slots.shape[1])), tapped


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
