"""Layers of a translator that take in what a pre-trained model's layers know (APT: Weng et al. 2020, AAAI).

The equations are in mt/apt.py. These layers do not know the pre-trained model: they are given its adapted states and
means of them beside their memories.

Legend: B sentences, K beams, R = B x K rows, L tokens, D width, P layers of the pre-trained model.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Unpack, cast

import torch
from torch import Tensor, nn

from dragoman.shared.described import Described
from dragoman.shared.nn.attention import Past
from dragoman.shared.nn.layer import Layer, LayerCache, LayerParts
from dragoman.shared.nn.linear import Linear
from dragoman.shared.nn.transformer import Decoder
from dragoman.shared.padded import Padded

#: What layers are given beside their memories: adapted states (B, L, P, D), and means of them (B, 1 or L, P, D).
ADAPTED, MEANS = "adapted", "means"


def feed_forward(inputs: int, inner: int, outputs: int) -> nn.Sequential:
    """Build two linear maps with a ReLU between them."""
    if inner < 1:
        raise ValueError(f"inner must be at least 1, not {inner}")
    return nn.Sequential(Linear(inputs, inner), nn.ReLU(inplace=True), Linear(inner, outputs))


class LayerFusion(Described, nn.Module):
    """Adds what a translator's layer takes of a pre-trained model's layers to its states (equations 8 to 11).

    Args:
        width: D.
        inner: width inside of both FFNs; D if None.
        attention: weigh the pre-trained model's layers; without it, their mean is taken.
        gate: weigh what is added to each token; without it, all is added.
    """

    def __init__(self, *, width: int, inner: int | None = None, attention: bool = True, gate: bool = True) -> None:
        super().__init__()
        self.width = width
        self.scores = feed_forward(width, inner or width, 1) if attention else None
        self.gate = feed_forward(width, inner or width, 1) if gate else None

    def forward(self, states: Tensor, adapted: Tensor, of_states: Tensor, of_adapted: Tensor) -> Tensor:
        """Fuse.

        Args:
            states: (B, L, D).
            adapted: (B, L, P, D).
            of_states: means of the states, (B, 1, D) of the whole text or (B, L, D) of what is before.
            of_adapted: means of the adapted states, (B, 1, P, D) or (B, L, P, D).

        Returns:
            (B, L, D).
        """
        if self.scores is None:
            context = adapted.mean(2)
        else:
            shares = self.scores((of_adapted * of_states[:, :, None]).to(states.dtype)).softmax(2)
            context = (shares * adapted).sum(2)
        if self.gate is not None:
            context = torch.sigmoid(self.gate(states * context)) * context
        return states + context


class RunningSum(Past):
    """A past that also holds the sum of what was before, for means over the tokens so far."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0
        self.total: Tensor | None = None  # (R, ...)

    def means(self, values: Tensor) -> Tensor:
        """Return, for each of L new values (R, L, ...), the mean of it and all before it, in single precision."""
        sums = values.float().cumsum(1)
        if self.total is not None:
            sums = sums + self.total[:, None]
        counts = torch.arange(self.count + 1, self.count + values.shape[1] + 1, device=values.device)
        self.count += values.shape[1]
        self.total = sums[:, -1]
        return sums / counts.reshape(-1, *[1] * (values.dim() - 2))

    def repeat(self, times: int) -> None:
        """Repeat each row the given number of times, in adjacent rows."""
        super().repeat(times)
        if self.total is not None:
            self.total = self.total.repeat_interleave(times, 0)

    def reorder(self, index: Tensor) -> None:
        """Keep rows (R',) int64, with repetition if asked."""
        super().reorder(index)
        if self.total is not None:
            self.total = self.total.index_select(0, index)


class FusionLayer(Layer):
    """A layer that fuses a pre-trained model's adapted states into what leaves it.

    Args:
        fusion: how.
        memories: see :class:`Layer`.
        parts: see :class:`Layer`.

    Raises:
        ValueError: if the fusion has another width.
    """

    def __init__(self, *, fusion: LayerFusion, memories: list[str] | None = None, **parts: Unpack[LayerParts]) -> None:
        super().__init__(memories=memories, **parts)
        if fusion.width != self.width:
            raise ValueError(f"the fusion has the width {fusion.width}, but the layer {self.width}")
        self.fusion = fusion

    @property
    def memories(self) -> list[str]:
        """The names of the memories that the layer attends to, and of what it fuses."""
        return [*super().memories, ADAPTED, MEANS]

    def forward(
        self,
        x: Tensor,
        *,
        memories: Mapping[str, Padded] | None = None,
        causal: bool = False,
        cache: LayerCache | None = None,
        **given: Any,
    ) -> Tensor:
        """Apply the layer; see :class:`Layer`.

        Raises:
            KeyError: if the adapted states of x, or their means, are not among the memories.
        """
        attended = dict(memories or {})
        adapted, means = attended.pop(ADAPTED), attended.pop(MEANS)
        states = super().forward(x, memories=attended, causal=causal, cache=cache, **given)
        if causal:
            of_states = (cast(RunningSum, cache.past) if cache else RunningSum()).means(states)
        else:
            of_states = Padded(states, adapted.lengths).mean()[:, None]
        return self.fusion(states, adapted.values, of_states, means.values)


class FusingDecoder(Decoder):
    """A decoder of FusionLayers, which are given adapted states at every step of a search, and memories before it.

    Arguments are those of :class:`Decoder`.
    """

    @property
    def memories(self) -> list[str]:
        """The names of the memories that the layers attend to."""
        return [name for name in super().memories if name not in (ADAPTED, MEANS)]

    def check(self, memories: Mapping[str, Padded]) -> dict[str, Padded]:
        """Return memories fit to be attended, with the adapted states as they are; see :class:`Stack`."""
        adapted = {name: memory for name, memory in memories.items() if name in (ADAPTED, MEANS)}
        return super().check({name: memory for name, memory in memories.items() if name not in adapted}) | adapted

    def caches(self, memories: Mapping[str, Padded]) -> list[LayerCache]:
        """Return caches, one a layer; see :class:`Decoder`."""
        caches = super().caches(memories)
        for cache in caches:
            cache.past = RunningSum()
        return caches
