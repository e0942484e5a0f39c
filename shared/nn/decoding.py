"""Writing tokens from left to right: what a translator and a language model have in common.

Legend: B sentences, K beams, R = B x K rows, T target, D model width, V vocabulary.
"""

from __future__ import annotations

import math
from typing import cast

import torch
from torch import Tensor, nn

from dragoman.shared.errors import UsageError
from dragoman.shared.generator import Encoding, check_fork, kept_sentences
from dragoman.shared.nn.attention import KeysValues, MemoryAttention, Past
from dragoman.shared.nn.embeddings import TextEmbedding
from dragoman.shared.nn.layer import Layer, LayerCache
from dragoman.shared.nn.positions import LearnedPositions
from dragoman.shared.nn.symbols import OUTPUT
from dragoman.shared.nn.transformer import Decoder
from dragoman.shared.padded import Padded


class DecoderState:
    """The state of a decoder after the tokens it has read, for the K beams of each of B sentences.

    ``step`` and ``reorder`` write into the caches: after either, only the state that it returned is good.

    Args:
        caches: of the layers.
        sentences: B.
        beams: K.
        length: tokens that have been read.
        hidden: (R,) how many of them are padding in front of shorter rows; None: none of any row.
    """

    def __init__(
        self, caches: list[LayerCache], sentences: int, beams: int, length: int, hidden: Tensor | None = None
    ) -> None:
        self.caches = caches
        self.sentences = sentences
        self.beams = beams
        self.length = length
        self.hidden = hidden

    @property
    def start(self) -> int | Tensor:
        """The place of the next token in its row, or in each of R rows."""
        return self.length if self.hidden is None else self.length - self.hidden

    def fork(self, beams: int) -> DecoderState:
        """Let each sentence have K beams, equal to the one that it has; several are a ValueError."""
        check_fork(self.beams, beams)
        for cache in self.caches:
            cache.past.repeat(beams)
        hidden = None if self.hidden is None else self.hidden.repeat_interleave(beams)
        return DecoderState(self.caches, self.sentences, beams, self.length, hidden)

    def reorder(self, index: Tensor) -> DecoderState:
        """Keep rows ``index`` (B' x K,) int64; sentences may be left out, and keep their order.

        Memories belong to sentences, so they stay where they are unless a sentence is left out.

        Raises:
            ValueError: if the number of rows is not a multiple of K, or exceeds B x K.
        """
        kept = kept_sentences(index, self.beams, self.sentences)
        for cache in self.caches:
            cache.reorder(index, kept)
        hidden = None if self.hidden is None else self.hidden.index_select(0, index)
        return DecoderState(self.caches, len(index) // self.beams, self.beams, self.length, hidden)


class TokenWriter(nn.Module):
    """The common part of all decoders of tokens; subclasses say how they write step by step."""

    target_embedding: TextEmbedding
    decoder: nn.Module
    projection: nn.Module

    def symbol_fields(self) -> dict[str, str]:
        """See shared/nn/symbols.py."""
        return dict.fromkeys(("target_embedding", "projection"), OUTPUT)

    def decode(self, prefix: Padded, encoding: Encoding) -> Tensor:
        """Return the decoder's states (B, T, D) after consuming each token of prefix (B, T)."""
        return self.decoder(self.target_embedding(prefix), encoding.memories).values

    def project(self, states: Tensor) -> Tensor:
        """Return the logits (..., V) of the token that follows each state (..., D)."""
        return self.projection(states)

    @property
    def longest_output(self) -> int | None:
        """The number of tokens that the decoder has positions for, start symbols included; None if it is unlimited."""
        positions = self.target_embedding.positions
        return positions.length if isinstance(positions, LearnedPositions) else None

    def log_probabilities(self, prefix: Padded, encoding: Encoding) -> Tensor:
        """Return log-probabilities (B, T, V) in float32 of the token after each token of prefix (B, T)."""
        return torch.log_softmax(self.project(self.decode(prefix, encoding)).float(), dim=-1)


class TokenDecoder(TokenWriter):
    """Decodes with a Transformer: all positions at once for training, or step by step for search."""

    decoder: Decoder

    @property
    def ragged(self) -> bool:
        """Return whether prefixes of different lengths may start a search together, as plain layers let them."""
        own = type(self).start is TokenDecoder.start and type(self).step is TokenDecoder.step
        plain = type(self.decoder) is Decoder and all(type(layer) is Layer for layer in self.decoder.layers)
        return own and plain and type(self.target_embedding) is TextEmbedding

    def state_bytes(self, length: int) -> int:
        """Return how many bytes the keys and values of an output of `length` tokens take, in both of their buffers."""
        positions = -(-length // Past.STEP) * Past.STEP
        return 4 * self.decoder.depth * positions * self.decoder.state_width * self.target_embedding.like.element_size()

    @torch.no_grad()
    def start(self, encoding: Encoding, prefix: Padded | None) -> DecoderState:
        """Return the state before the first step; see shared/generator.py."""
        caches = self.decoder.caches(encoding.memories)
        if prefix is None or not (length := prefix.values.shape[1]):
            return DecoderState(caches, len(encoding), 1, 0)
        self.decoder(self.target_embedding(prefix), caches=caches)
        if bool((prefix.lengths == length).all()):
            return DecoderState(caches, len(encoding), 1, length)
        for cache in caches:
            cache.past.move_to_end(prefix.lengths)
        return DecoderState(caches, len(encoding), 1, length, length - prefix.lengths)

    @torch.no_grad()
    def step(self, tokens: Tensor, state: DecoderState) -> tuple[Tensor, DecoderState]:
        """Consume one token per row (R,), and return the logits (R, V) of the next; see shared/generator.py."""
        embedded = self.target_embedding.embed(tokens[:, None], state.start)
        lengths = torch.ones_like(tokens)
        states = self.decoder(Padded(embedded, lengths), caches=state.caches).values
        logits = self.project(states[:, 0])
        return logits, DecoderState(state.caches, state.sentences, state.beams, state.length + 1, state.hidden)

    @torch.no_grad()
    def attention(
        self, prefix: Padded, encoding: Encoding, *, layer: int | None = None, memory: str = "source"
    ) -> Tensor:
        """Return how much a layer attends to a memory (B, S, D) after each token of prefix (B, T): (B, H, T, S).

        Args:
            prefix: tokens.
            encoding: of B sentences.
            layer: the number of the layer, 1 for the first; None: the one at two thirds of the depth.
            memory: the memory's name.

        Raises:
            UsageError: if there is no such layer, or it does not attend to the memory.
        """
        number = math.ceil(2 / 3 * self.decoder.depth) if layer is None else layer
        if not 1 <= number <= len(self.decoder.layers):
            raise UsageError(f"the decoder has layers 1 to {len(self.decoder.layers)}, not {number}")
        attention = getattr(self.decoder.layers[number - 1], "memory_attention", {})
        if memory not in attention:
            raise UsageError(f"layer {number} of the decoder does not attend to {memory!r}")
        weights: list[Tensor] = []

        def look(module: nn.Module, given: tuple[Tensor, KeysValues]) -> None:
            weights.append(cast(MemoryAttention, module).weights(*given))

        with attention[memory].register_forward_pre_hook(look):
            self.decode(prefix, encoding)
        return weights[0]
