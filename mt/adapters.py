"""Language adapters: small layers of each direction inside a translator that stays as it is.

Bapna and Firat 2019, EMNLP, "Simple, Scalable Adaptation for Neural Machine Translation", arXiv 1909.08478, sections 2
and 2.2. After each layer of the encoder and the decoder, whose states are z, and for the direction p:

    x = z + W_up,p relu(W_down,p LN_p(z))

with an inner width that is chosen by the size of the direction's data. W_up begins with zeros, so that the first update
begins with the translator as it is. What learns is for the recipe to say (``Selected``). The adapter of each row is
that of its direction, in batches of several too, and the adapters of all directions may learn at once: they have no
parameter in common.

Differs from the paper: W_up begins with zeros, where it begins near them; all directions have one inner width. Adam's
moments also move the adapter of a direction in batches without it.

Not implemented: adaptation to domains (section 4), for which a row would have to name its own.

Legend: P directions, B sentences, K beams, R rows, L length, D width, F inner width.
"""

from __future__ import annotations

from typing import Any, Unpack, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dragoman.mt.lass import directions_of
from dragoman.shared.batch import Batch
from dragoman.shared.described import Described
from dragoman.shared.errors import UsageError
from dragoman.shared.generator import Encoding, kept_sentences
from dragoman.shared.nn.decoding import DecoderState
from dragoman.shared.nn.layer import Layer, LayerParts
from dragoman.shared.nn.translator import Translator, TranslatorParts
from dragoman.shared.padded import Padded
from dragoman.shared.ranges import PositiveFloat, PositiveInt

#: The extra of an encoding with the number of each sentence's direction, (B,) int64.
DIRECTIONS = "directions"


class Adapters(Described, nn.Module):
    """An adapter for each of P directions; ``rows`` (R,) int64 is set before each call: the direction of each row.

    Args:
        pairs: the directions, (source, target).
        width: D.
        inner: F.
        epsilon: added to the variance by which the norm divides.

    Raises:
        ValueError: without directions, or if one is there twice.
    """

    rows: Tensor

    def __init__(
        self, *, pairs: list[list[str]], width: PositiveInt, inner: PositiveInt, epsilon: PositiveFloat = 1e-5
    ) -> None:
        super().__init__()
        self.numbers = {f"{source}-{target}": number for number, (source, target) in enumerate(pairs)}
        count = len(pairs)
        if not count or len(self.numbers) < count:
            raise ValueError(f"pairs must be directions, each once, not {pairs}")
        self.epsilon = epsilon
        self.norm_weight = nn.Parameter(torch.ones(count, width))
        self.norm_bias = nn.Parameter(torch.zeros(count, width))
        self.down = nn.Parameter(torch.empty(count, width, inner))
        self.down_bias = nn.Parameter(torch.zeros(count, inner))
        self.up = nn.Parameter(torch.zeros(count, inner, width))
        self.up_bias = nn.Parameter(torch.zeros(count, width))
        for matrix in self.down:
            nn.init.xavier_uniform_(matrix)

    def forward(self, z: Tensor) -> Tensor:
        """Return z (R, L, D) and what each row's adapter adds to it."""
        normalised = F.layer_norm(z, z.shape[-1:], eps=self.epsilon)
        normalised = normalised * self._own(self.norm_weight)[:, None] + self._own(self.norm_bias)[:, None]
        h = torch.relu(torch.bmm(normalised, self._own(self.down)) + self._own(self.down_bias)[:, None])
        return z + torch.bmm(h, self._own(self.up)) + self._own(self.up_bias)[:, None]

    def _own(self, parameter: Tensor) -> Tensor:
        """Return each row's, (R, ...), of those of all directions (P, ...)."""
        return parameter.index_select(0, self.rows)


class AdaptedLayer(Layer):
    """A layer with adapters behind it.

    Args:
        adapters: of its width.
        memories: see :class:`Layer`.
        parts: see :class:`Layer`.

    Raises:
        ValueError: if the adapters have another width.
    """

    def __init__(self, *, adapters: Adapters, memories: list[str] | None = None, **parts: Unpack[LayerParts]) -> None:
        super().__init__(memories=memories, **parts)
        width = adapters.norm_weight.shape[1]
        if width != self.width:
            raise ValueError(f"the adapters have the width {width}, but the layer {self.width}")
        self.adapters = adapters

    def feed(self, x: Tensor) -> Tensor:
        """Apply the feed-forward net to x (R, L, D), then each row's adapter."""
        return self.adapters(super().feed(x))


class AdaptedState:
    """A decoder's state, and the direction of each of its sentences, (B,) int64."""

    def __init__(self, inner: DecoderState, directions: Tensor) -> None:
        self.inner = inner
        self.directions = directions

    def fork(self, beams: int) -> AdaptedState:
        """Let each sentence have K beams; see shared/generator.py."""
        return AdaptedState(self.inner.fork(beams), self.directions)

    def reorder(self, index: Tensor) -> AdaptedState:
        """Keep rows ``index``; see shared/generator.py."""
        kept = kept_sentences(index, self.inner.beams, self.inner.sentences)
        directions = self.directions if kept is None else self.directions.index_select(0, kept)
        return AdaptedState(self.inner.reorder(index), directions)


class AdaptedTranslator(Translator):
    """A Translator all of whose layers have adapters, of the same directions.

    Args:
        parts: see Translator; the layers are AdaptedLayers.

    Raises:
        ValueError: if a layer has no adapters, or those of other directions.
    """

    def __init__(self, **parts: Unpack[TranslatorParts]) -> None:
        super().__init__(**parts)
        self.numbers: dict[str, int] = {}
        for layer in (*self.encoder.layers, *self.decoder.layers):
            if not isinstance(layer, AdaptedLayer):
                raise ValueError(f"a {type(layer).__name__} has no adapters")
            self.numbers = self.numbers or layer.adapters.numbers
            if layer.adapters.numbers != self.numbers:
                raise ValueError(f"layers have adapters of {[*self.numbers]} and of {[*layer.adapters.numbers]}")

    def encode(self, batch: Batch, field: str | None = None) -> Encoding:
        """Encode one field of a batch.

        Raises:
            UsageError: if rows have no languages, or a direction without adapters.
        """
        names = directions_of(batch)
        unknown = sorted({*names} - {*self.numbers})
        if unknown:
            raise UsageError(f"the model has no adapters for {', '.join(unknown)}, only for {', '.join(self.numbers)}")
        directions = torch.tensor([self.numbers[name] for name in names], device=self.target_embedding.like.device)
        self._adapt(directions)
        encoding = super().encode(batch, field)
        return Encoding(encoding.memories, encoding.extras | {DIRECTIONS: directions})

    def decode(self, prefix: Padded, encoding: Encoding) -> Tensor:
        """Return the decoder's states (B, T, D) after consuming each token of prefix (B, T)."""
        self._adapt(cast(Tensor, encoding.extras[DIRECTIONS]))
        return super().decode(prefix, encoding)

    def start(self, encoding: Encoding, prefix: Padded | None) -> Any:
        """Return the state before the first step; see shared/generator.py."""
        directions = cast(Tensor, encoding.extras[DIRECTIONS])
        self._adapt(directions)
        return AdaptedState(super().start(encoding, prefix), directions)

    def step(self, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        """Consume one token per row (R,), and return the logits (R, V) of the next; see shared/generator.py."""
        self._adapt(state.directions.repeat_interleave(state.inner.beams))
        logits, inner = super().step(tokens, state.inner)
        return logits, AdaptedState(inner, state.directions)

    def _adapt(self, rows: Tensor) -> None:
        """Let the layers use the adapters of these directions (R,) from now on."""
        for layer in (*self.encoder.layers, *self.decoder.layers):
            cast(AdaptedLayer, layer).adapters.rows = rows
