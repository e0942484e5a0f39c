"""A memory of fixed size: trained vectors that read an encoder's states, of whatever length, and stand in their place.

Legend: B sentences, S encoder states, M slots, D model width.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from dragoman.shared.described import Described
from dragoman.shared.nn.attention import MemoryAttention, Prompts
from dragoman.shared.nn.dropout import dropout
from dragoman.shared.nn.layer import Depth, EncoderLayer, layer_norm
from dragoman.shared.nn.linear import Linear
from dragoman.shared.nn.transformer import Encoder, fresh
from dragoman.shared.padded import Padded
from dragoman.shared.ranges import PositiveInt, ShareBelowOne


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
        states = encoded.never_empty()
        slots = self.slots.to(encoded.values.dtype).expand(len(encoded), -1, -1)
        for layer in self.memory_layers:
            slots = layer(slots, states)
        return Padded(self.memory_norm(slots), torch.full_like(encoded.lengths, slots.shape[1]), full=True), tapped
