"""Translators and language models of LSTM layers.

Legend: B sentences, K beams, R = B x K rows, S encoder states, E width of embeddings, D width, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from dragoman.shared.batch import Batch
from dragoman.shared.described import Described
from dragoman.shared.generator import Encoding
from dragoman.shared.nn.decoding import TokenWriter
from dragoman.shared.nn.embeddings import TextEmbedding
from dragoman.shared.nn.recurrent import LstmEncoder, RecurrentDecoder, RecurrentState, StateDecoder
from dragoman.shared.nn.translator import MEMORY, FieldEncoder, without_source
from dragoman.shared.padded import Padded


class RecurrentWriter(TokenWriter):
    """Decodes with a state of one size: all positions in one call for training, or step by step for search."""

    decoder: StateDecoder

    def state_bytes(self, length: int) -> int:
        """Return how many bytes the state of a row takes, the old one and the new; they do not grow with the output."""
        return 2 * self.decoder.state_size * self.target_embedding.like.element_size()

    @torch.no_grad()
    def start(self, encoding: Encoding, prefix: Padded | None) -> RecurrentState:
        """Return the state before the first step; see shared/generator.py."""
        state = self.decoder.start(encoding.memories, len(encoding), self.target_embedding.like)
        if prefix is not None and prefix.values.shape[1]:
            _, state = self.decoder.read(self.target_embedding(prefix).values, state)
        return state

    @torch.no_grad()
    def step(self, tokens: Tensor, state: RecurrentState) -> tuple[Tensor, RecurrentState]:
        """Consume one token per row (R,), and return the logits (R, V) of the next; see shared/generator.py."""
        states, state = self.decoder.read(self.target_embedding.embed(tokens[:, None], state.length), state)
        return self.project(states[:, 0]), state


class RecurrentTranslator(Described, FieldEncoder, RecurrentWriter):
    """An encoder and a decoder of LSTM layers with attention.

    Args:
        embeddings: by batch field ("speech", "source", ...): modules from Padded input to Padded (B, S, E).
        encoder: from embedded inputs to states (B, S, D).
        target_embedding: of the target tokens.
        decoder: which attends to the memory "source", the encoder's states, and to ``tap.<number>`` for others.
        projection: from the decoder's states to logits.
        heads: further modules by name that read encoder states, such as a CtcHead; objectives use them.

    Raises:
        ValueError: if widths do not fit, or the decoder attends to what the encoder does not give.
    """

    encoder: LstmEncoder

    def __init__(
        self,
        *,
        embeddings: dict[str, nn.Module],
        encoder: LstmEncoder,
        target_embedding: TextEmbedding,
        decoder: StateDecoder,
        projection: nn.Module,
        heads: dict[str, nn.Module] | None = None,
    ) -> None:
        super().__init__()
        check_inputs(target_embedding, decoder)
        if encoder.width != decoder.width:
            raise ValueError(f"states of width {decoder.width} cannot be compared with an encoder's of {encoder.width}")
        given = [MEMORY, *(f"tap.{tap}" for tap in encoder.taps)]
        if not decoder.memories or not {*decoder.memories} <= {*given}:
            raise ValueError(f"the decoder attends to {decoder.memories or 'nothing'}, but the encoder gives {given}")
        self._set_encoder(embeddings, encoder, heads)
        self.target_embedding = target_embedding
        self.decoder = decoder
        self.projection = projection
        self.heads = nn.ModuleDict(heads or {})

    def symbol_fields(self) -> dict[str, str]:
        """See shared/nn/symbols.py."""
        return FieldEncoder.symbol_fields(self) | RecurrentWriter.symbol_fields(self)

    def encode_embedded(self, embedded: Padded, memories: Mapping[str, Padded] | None = None) -> Encoding:
        """Encode what has been embedded (B, S, E); taps that the decoder attends to are memories as well."""
        encoding = super().encode_embedded(embedded, memories)
        tapped = {
            name: self.tap(encoding, name.removeprefix("tap.")) for name in self.decoder.memories if name != MEMORY
        }
        return Encoding(encoding.memories | tapped, encoding.extras)


class RecurrentLanguageModel(Described, RecurrentWriter):
    """A language model of LSTM layers (Jozefowicz et al. 2016, "Exploring the Limits of Language Modeling").

    To searches and objectives it is a generator whose sentences have no source.

    Args:
        target_embedding: of the tokens.
        decoder: which attends to nothing.
        projection: from the decoder's states to logits.

    Raises:
        ValueError: if widths do not fit, or the decoder attends to a memory.
    """

    def __init__(self, *, target_embedding: TextEmbedding, decoder: RecurrentDecoder, projection: nn.Module) -> None:
        super().__init__()
        if decoder.memories:
            raise ValueError(f"a language model has no memories, but its decoder attends to {decoder.memories}")
        check_inputs(target_embedding, decoder)
        self.target_embedding = target_embedding
        self.decoder = decoder
        self.projection = projection

    def encode(self, batch: Batch, field: str | None = None) -> Encoding:
        """Return the encoding of B sentences without memories, whatever the batch holds."""
        return without_source(batch, self.target_embedding.weight.device)


def check_inputs(target_embedding: TextEmbedding, decoder: StateDecoder) -> None:
    """Refuse, by ValueError, an embedding whose width is not what the decoder reads."""
    if target_embedding.width != decoder.inputs:
        raise ValueError(
            f"the decoder reads width {decoder.inputs}, but the target embedding has {target_embedding.width}"
        )
