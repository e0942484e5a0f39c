"""Grafting: new layers between a frozen masked language model and a frozen language model make a translator.

Sun et al. 2021, Findings of EMNLP, "Multilingual Translation via Grafting Pre-trained Language Models", arXiv
2109.05256; equations and what is frozen are those of the authors' code (Graformer, BridgeTransformer). Both language
models are multilingual, have pre-norm layers, and are trained on texts alone. The encoder is the layers of the first
and new layers above them; the decoder is the layers of the second, which attend to nothing but the output so far, and
new layers above them, which attend to the encoder as well. With h the states that leave the language model's last
layer, not normalised, and x those that leave the last new one,

    logits = W x + E LN(h),

where E is the language model's matrix of token vectors, LN its last norm, and W is new. Logits are added, not
probabilities. What is taken from the two, and what learns, is in recipes/base/graft.yaml: W, LN and the new layers do,
all but the norm at the entrance of the first ones, which is the last norm of the language model below.

Differs from the released code: the masked language model has a dense layer before its projection, as BERT has, and a
symbol of its own for masked tokens, not <s>; pieces are SentencePiece's. As there, dropout in frozen layers is on in
training, and the norm before the language model's logits learns.

Not established, and chosen here: numbers of pieces, positions, updates and GPUs, the average of checkpoints, the text
of the language models; whether the paper adds logits, as its code does, or states.

Not implemented: language models with norms behind the sub-layers.

Legend: B sentences, K beams, R = B x K rows, L length, D width, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar, Unpack

import torch
from torch import Tensor, nn

from dragoman.shared.described import Described
from dragoman.shared.nn.attention import Prompts
from dragoman.shared.nn.embeddings import TextEmbedding
from dragoman.shared.nn.heads import OutputProjection, TiedProjection
from dragoman.shared.nn.layer import Layer, LayerCache
from dragoman.shared.nn.transformer import Decoder, Encoder, EncoderParts, Stack, StackParts
from dragoman.shared.nn.translator import Translator
from dragoman.shared.padded import Padded

Item = TypeVar("Item")


def check_below(below: Stack, width: int) -> None:
    """Refuse layers on which no others of ``width`` can be grafted.

    Raises:
        ValueError: if they attend to memories, are of another width, or normalise what leaves them.
    """
    if below.memories:
        raise ValueError(f"the layers below must attend to no memory, not to {below.memories}")
    if below.width != width:
        raise ValueError(f"the layers below have the width {below.width}, but those above them {width}")
    if not isinstance(below.norm, nn.Identity):
        raise ValueError("the layers below must not normalise what leaves them: give them final_norm: False")


class GraftedEncoder(Encoder):
    """An encoder on top of another one, whose states it reads as they leave its last layer.

    Args:
        below: the layers of the masked language model, without their last norm.
        layer: the first new layer.
        parts: of the new layers, see :class:`Encoder`; the tap 0 is what ``below`` gives.

    Raises:
        ValueError: if ``below`` attends to memories, has another width or a last norm, or is tapped itself.
    """

    def __init__(self, *, below: Encoder, layer: Layer, **parts: Unpack[EncoderParts]) -> None:
        super().__init__(layer=layer, **parts)
        check_below(below, self.width)
        if below.taps:
            raise ValueError(f"nobody reads what the layers below are tapped for: {below.taps}")
        self.below = below

    @property
    def depth(self) -> int:
        """The number of all layers, those below included."""
        return self.below.depth + super().depth

    def forward(
        self,
        x: Padded,
        *,
        memories: Mapping[str, Padded] | None = None,
        prompts: Sequence[Prompts] | None = None,
    ) -> tuple[Padded, dict[int, Padded]]:
        """Encode x (B, L, D); see :class:`Encoder`. Memories are for the new layers, prompts for all, from below."""
        first, rest = _parted(prompts, self.below.depth)
        states, _ = self.below(x, prompts=first)
        return super().forward(states, memories=memories, prompts=rest)


class GraftedDecoder(Decoder):
    """A decoder on top of a language model's.

    Args:
        below: the layers of the language model, without their last norm; they attend to nothing else.
        layer: the first new layer.
        fusion: return the language model's states as well, for a :class:`FusedProjection`.
        parts: of the new layers, see :class:`Stack`.

    Raises:
        ValueError: if ``below`` attends to memories, or has another width or a last norm.
    """

    def __init__(self, *, below: Decoder, layer: Layer, fusion: bool = True, **parts: Unpack[StackParts]) -> None:
        super().__init__(layer=layer, **parts)
        check_below(below, self.width)
        self.below = below
        self.language_norm = layer.new_norm() if fusion else None

    @property
    def depth(self) -> int:
        """The number of all layers, those below included."""
        return self.below.depth + super().depth

    @property
    def output_width(self) -> int:
        """The width of what it returns: 2D with the language model's states, otherwise D."""
        return self.width if self.language_norm is None else 2 * self.width

    def caches(self, memories: Mapping[str, Padded]) -> list[LayerCache]:
        """Return caches, one a layer from below; see :class:`Decoder`."""
        return [*self.below.caches({}), *super().caches(memories)]

    def forward(
        self,
        x: Padded,
        memories: Mapping[str, Padded] | None = None,
        *,
        caches: Sequence[LayerCache] | None = None,
        prompts: Sequence[Prompts] | None = None,
    ) -> Padded:
        """Decode x (R, L, D); see :class:`Decoder`.

        Returns:
            (R, L, D), the last layer's states; with fusion (R, L, 2D), beside them the language model's, normalised.
        """
        first_caches, caches = _parted(caches, self.below.depth)
        first_prompts, prompts = _parted(prompts, self.below.depth)
        below = self.below(x, caches=first_caches, prompts=first_prompts)
        states = super().forward(below, memories, caches=caches, prompts=prompts)
        if self.language_norm is None:
            return states
        return Padded(torch.cat([states.values, self.language_norm(below.values)], -1), x.lengths)


class FusedProjection(Described, nn.Module):
    """States of a grafted decoder to the sum of two logits: W x + E y for states [x; y].

    Args:
        own: W, of the new layers' states.
        language: E, of the language model's states: the token vectors that its output is tied to.

    Raises:
        ValueError: if the two differ in their vocabulary, or one has a bias.
    """

    def __init__(self, *, own: OutputProjection, language: TiedProjection) -> None:
        super().__init__()
        if len(own.weight) != len(language.weight):
            raise ValueError(
                f"logits over vocabularies of {len(own.weight)} and {len(language.weight)} cannot be added"
            )
        if own.bias is not None or language.bias is not None:
            raise ValueError("the projections of a grafted decoder must have no bias")
        self.own = own
        self.language = language

    @property
    def weight(self) -> Tensor:
        """The matrix (V, 2D), made of both: losses read it."""
        return torch.cat([self.own.weight, self.language.weight], 1)

    @property
    def bias(self) -> None:
        """There is none."""
        return None

    def symbol_tensors(self) -> list[str]:
        """See shared/nn/symbols.py; E belongs to the embedding."""
        return [f"own.{name}" for name in self.own.symbol_tensors()]

    def forward(self, states: Tensor) -> Tensor:
        """Project states (..., 2D) to logits (..., V)."""
        width = self.own.weight.shape[1]
        return self.own(states[..., :width]) + self.language(states[..., width:])


class GraftedTranslator(Translator):
    """A translator whose encoder and decoder have been grafted on language models.

    Args:
        embeddings: by batch field; see :class:`Translator`.
        encoder: on top of the masked language model.
        target_embedding: the language model's.
        decoder: on top of the language model.
        projection: a FusedProjection; or another one, if the decoder has no fusion.
        heads: see :class:`Translator`.

    Raises:
        ValueError: if the projection reads states of another width than the decoder's.
    """

    def __init__(
        self,
        *,
        embeddings: dict[str, nn.Module],
        encoder: GraftedEncoder,
        target_embedding: TextEmbedding,
        decoder: GraftedDecoder,
        projection: FusedProjection | OutputProjection | TiedProjection,
        heads: dict[str, nn.Module] | None = None,
    ) -> None:
        super().__init__(
            embeddings=embeddings,
            encoder=encoder,
            target_embedding=target_embedding,
            decoder=decoder,
            projection=projection,
            heads=heads,
        )
        read, made = projection.weight.shape[1], decoder.output_width
        if read != made:
            raise ValueError(f"the projection reads states of width {read}, but the decoder's have {made}")


def _parted(items: Sequence[Item] | None, count: int) -> tuple[Sequence[Item] | None, Sequence[Item] | None]:
    """Return the first ``count`` of some items and the rest; None and None of none."""
    return (items[:count], items[count:]) if items else (None, None)
