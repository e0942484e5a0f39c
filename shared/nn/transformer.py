"""Stacks of Transformer layers (Vaswani et al. 2017): the encoder and the decoder.

Legend: B sentences, K beams, R = B x K rows, L length, D model width.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NotRequired, TypedDict, Unpack, cast

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from dragoman.shared.described import Described
from dragoman.shared.machine.memory import refuse_over
from dragoman.shared.nn import kernels
from dragoman.shared.nn.attention import Prompts
from dragoman.shared.nn.dropout import dropout
from dragoman.shared.nn.layer import Depth, EncoderLayer, Layer, LayerCache
from dragoman.shared.nn.positions import RelativePositions
from dragoman.shared.nn.weights import size_of
from dragoman.shared.padded import Padded
from dragoman.shared.ranges import ShareBelowOne

#: Bytes that the objects of a layer take beside its parameters, at least.
OVERHEAD = 20_000


def fresh(template: Any) -> Any:
    """Build a described object again from its arguments, sharing nothing with it, with parameters of its own."""
    if isinstance(template, Described):
        return type(template)(**{name: fresh(value) for name, value in template.arguments.items()})
    if isinstance(template, list):
        return [fresh(item) for item in template]
    if isinstance(template, dict):
        return {name: fresh(item) for name, item in template.items()}
    return template


class Stack(Described, nn.Module):
    """Equal layers on top of each other.

    Args:
        layer: the first layer, of this or a derived class; the others are built as it was.
        layers: how many.
        final_norm: normalise what leaves the last layer; by default, if the layers normalise what enters them.
        layer_drop: the probability with which each layer is left out in training (Fan et al. 2020).
        recompute: keep only what enters each layer, and compute the rest again in the backward pass (activation
            checkpointing): a third more time for a fraction of the memory.
        relative: scores that the self-attention of all layers adds for the distance of two elements; None: none.
        final_dropout: of what leaves the stack.
    """

    #: Whether an element sees what is before it only.
    CAUSAL = False

    def __init__(
        self,
        *,
        layer: EncoderLayer,
        layers: Depth,
        final_norm: bool | None = None,
        layer_drop: ShareBelowOne = 0.0,
        recompute: bool = False,
        relative: RelativePositions | None = None,
        final_dropout: ShareBelowOne = 0.0,
    ) -> None:
        super().__init__()
        self.check_layer(layer)
        planned = any(parameter.is_meta for parameter in layer.parameters())
        refuse_over(layers * (OVERHEAD + (0 if planned else size_of(layer))), f"layers {layers}")
        self.width = layer.width
        self.layer_drop = layer_drop
        self.recompute = recompute
        self.layers = nn.ModuleList([layer, *(fresh(layer) for _ in range(layers - 1))])
        normalised = layer.pre_norm if final_norm is None else final_norm
        self.norm = layer.new_norm() if normalised else nn.Identity()
        if relative is not None:
            self.check_relative(layer, relative)
        self.relative = relative
        self.final_dropout = final_dropout

    def check_layer(self, layer: EncoderLayer) -> None:
        """Refuse a layer that the stack cannot be made of, by ValueError."""

    def check_relative(self, layer: EncoderLayer, relative: RelativePositions) -> None:
        """Refuse relative positions that do not fit, by ValueError."""
        heads, scored = layer.self_attention.heads if isinstance(layer, Layer) else None, relative.weight.shape[1]
        if scored != heads:
            raise ValueError(f"relative positions of {scored} heads do not fit {type(layer).__name__}s of {heads}")
        if relative.causal != self.CAUSAL:
            sees, must = ("what is before only", "must") if self.CAUSAL else ("what comes later", "must not")
            raise ValueError(f"{type(self).__name__} sees {sees}: its relative positions {must} be causal")

    @property
    def depth(self) -> int:
        """The number of layers; a subclass counts those that it has elsewhere, too."""
        return len(self.layers)

    @property
    def state_width(self) -> int:
        """The length of the keys of an element in a layer, those of all heads together, and of its values."""
        return cast(Layer, self.layers[0]).self_attention.inner

    @property
    def memory_width(self) -> int:
        """The length of all keys and values that all layers have of a state of each memory."""
        layers = (getattr(layer, "memory_attention", {}) for layer in self.layers)
        return sum(2 * attention.inner for of_layer in layers for attention in of_layer.values())

    @property
    def memories(self) -> list[str]:
        """The names of the memories that the layers attend to."""
        return cast(EncoderLayer, self.layers[0]).memories

    def through(self, layer: nn.Module, states: Tensor, **given: Any) -> Tensor:
        """Apply a layer to states (B, L, D), or in training leave it out."""
        if self.training and self.layer_drop and float(torch.rand((), device="cpu")) < self.layer_drop:
            return states
        call = kernels.choosing(layer, states, given.get("memories") or {}) if self.training else layer
        if self.recompute and torch.is_grad_enabled():
            return cast(Tensor, checkpoint(call, states, use_reentrant=False, **given))
        return call(states, **given)

    def leave(self, states: Tensor) -> Tensor:
        """Return what leaves the stack, of the last layer's states (B, L, D)."""
        return dropout(self.norm(states), self.final_dropout, self.training)

    def check(self, memories: Mapping[str, Padded]) -> dict[str, Padded]:
        """Return memories fit to be attended.

        A row without elements is given one (of whatever its padding holds), so that a softmax has something to sum.

        Raises:
            ValueError: if some but not all of the memories that the layers were built for are there.
        """
        if memories and set(memories) != set(self.memories):
            raise ValueError(f"the layers attend to {self.memories}, but the memories are {list(memories)}")
        checked = {name: memory.never_empty() for name, memory in memories.items()}
        for memory in checked.values():
            if not memory.needs_no_mask:
                _ = memory.mask  # made here once for all layers, outside of what may be compiled
        return checked


class StackParts(TypedDict):
    """The arguments that stacks of other kinds hand on to :class:`Stack`."""

    layers: int
    final_norm: NotRequired[bool | None]
    layer_drop: NotRequired[float]
    recompute: NotRequired[bool]


class AllStackParts(StackParts):
    """All arguments of :class:`Stack`."""

    layer: EncoderLayer
    relative: NotRequired[RelativePositions | None]
    final_dropout: NotRequired[float]


class EncoderParts(StackParts):
    """The arguments that other encoders hand on to :class:`Encoder`."""

    taps: NotRequired[list[int] | None]


def checked_taps(taps: list[int] | None, layers: int) -> list[int]:
    """Return the layers of a stack that are tapped, or refuse one that it does not have, by ValueError."""
    for tap in taps or []:
        if not 0 <= tap <= layers:
            raise ValueError(f"an encoder of {layers} layers cannot be tapped after layer {tap}")
    return list(taps or [])


class Encoder(Stack):
    """Layers that see the whole sequence.

    Args:
        taps: the layers whose states others want as well: 1 for the first layer's, ``layers`` for the encoder's output
            (normalised, as the inner ones are not), 0 for its input.
        parts: see :class:`Stack`.
    """

    def __init__(self, *, taps: list[int] | None = None, **parts: Unpack[AllStackParts]) -> None:
        super().__init__(**parts)
        self.taps = checked_taps(taps, len(self.layers))

    def forward(
        self, x: Padded, *, memories: Mapping[str, Padded] | None = None, prompts: Sequence[Prompts] | None = None
    ) -> tuple[Padded, dict[int, Padded]]:
        """Encode x (B, L, D), embedded; ``memories`` are all that the layers were built with, or none.

        Returns:
            The states (B, L, D) and those of the tapped layers.
        """
        checked = self.check(memories or {})
        mask = self.mask(x.never_empty())
        states, tapped = x.values, {}
        length = states.shape[1]
        distances = {} if self.relative is None else {"relative": self.relative(length, length)}
        for number, layer in enumerate(self.layers):
            if number in self.taps:
                tapped[number] = Padded(states, x.lengths, full=x.full)
            given = prompts[number] if prompts else None
            states = self.through(layer, states, mask=mask, memories=checked, prompts=given, **distances)
        encoded = Padded(self.leave(states), x.lengths, full=x.full)
        if len(self.layers) in self.taps:
            tapped[len(self.layers)] = encoded
        return encoded, tapped

    def mask(self, x: Padded) -> Tensor | None:
        """Return what the elements of x (B, L, D), at least one a row, see: (B, L) the real ones, or (B, L, L) bool.

        None if all see all.
        """
        return None if x.needs_no_mask else x.mask


class CausalEncoder(Encoder):
    """An encoder each element of which sees itself and what is before it: a language model from left to right.

    Its layers have the names of an encoder's, and may become those of a translator's encoder or decoder.
    """

    CAUSAL = True

    def check_layer(self, layer: EncoderLayer) -> None:
        """Refuse a layer that sees what comes later in another way than by attention, by ValueError."""
        if type(layer) is not Layer:
            raise ValueError(f"a {type(layer).__name__} may see what comes later: it is for other encoders")

    def mask(self, x: Padded) -> Tensor:
        """Return what the elements of x (B, L, D) see: (B, L, L) bool; padding stands behind what is real."""
        rows, length = x.values.shape[:2]
        return torch.ones(length, length, dtype=torch.bool, device=x.device).tril().expand(rows, -1, -1)


class Decoder(Stack):
    """Layers that see what is before, and memories. Arguments are those of :class:`Stack`.

    Raises:
        ValueError: if the layer sees what comes later, as those that are made for encoders only, or positions do.
    """

    CAUSAL = True

    def check_layer(self, layer: EncoderLayer) -> None:
        """Refuse a layer that sees what comes later."""
        if not isinstance(layer, Layer):
            raise ValueError(f"a {type(layer).__name__} sees what comes later: it is for encoders only")

    def caches(self, memories: Mapping[str, Padded]) -> list[LayerCache]:
        """Return caches, one a layer, that hold the memories of B sentences (projected) and no past."""
        checked, caches = self.check(memories), [LayerCache() for _ in self.layers]
        for layer, cache in zip(self.layers, caches, strict=True):
            for name, memory in cast(Layer, layer).remember(checked).items():
                cache.memories[name] = memory.for_many_calls()
        return caches

    def forward(
        self,
        x: Padded,
        memories: Mapping[str, Padded] | None = None,
        *,
        caches: Sequence[LayerCache] | None = None,
        prompts: Sequence[Prompts] | None = None,
    ) -> Padded:
        """Decode.

        Args:
            x: (R, L, D), embedded.
            memories: of B sentences, all that the layers were built with; none at all makes it a language model.
            caches: from :meth:`caches`: ``x`` continues what they hold. Then ``memories`` is not needed.
            prompts: one pair of extra keys and values a layer.

        Returns:
            (R, L, D), the last layer's states.
        """
        checked = self.check(memories or {})
        states = x.values
        seen = self.seen(x, checked, caches)
        shown: dict[str, Any] = {"seen": seen} if seen else {}  # which not every layer can do
        if self.relative is not None:
            start, length = caches[0].past.length if caches else 0, states.shape[1]
            shown["relative"] = self.relative(length, start + length, start)
        for number, layer in enumerate(self.layers):
            states = self.through(
                layer,
                states,
                memories=checked,
                causal=True,
                prompts=prompts[number] if prompts else None,
                cache=caches[number] if caches else None,
                **shown,
            )
        return Padded(self.leave(states), x.lengths)

    def seen(
        self, x: Padded, memories: Mapping[str, Padded], caches: Sequence[LayerCache] | None
    ) -> Mapping[str, Tensor] | None:
        """Return by memory, (B or 1, L, S) bool, which of its states each element of x may attend to; None: all.

        The arguments are those of :meth:`forward`.
        """
        return None


def plain_layer(stack: nn.Module) -> Layer | None:
    """Return the first layer of an encoder or a decoder that is as Vaswani et al.'s; None of one that is not."""
    if type(stack) not in (Encoder, Decoder):
        return None
    layer, relative = cast(Stack, stack).layers[0], cast(Stack, stack).relative
    return layer if type(layer) is Layer and layer.variant.plain and relative is None else None
