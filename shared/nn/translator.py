"""Whole models: an encoder of embedded inputs; the Translator, which adds a decoder and is a Generator for search.

Legend: B sentences, K beams, R = B x K rows, N input length, S encoder states, T target, D model width, V vocabulary.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from shared.batch import Batch
from shared.described import Described
from shared.generator import Encoding
from shared.nn.embeddings import TextEmbedding
from shared.nn.positions import LearnedPositions
from shared.nn.transformer import Decoder, Encoder, LayerCache
from shared.padded import Padded

#: The name under which decoders find the encoder's states, whatever was encoded.
MEMORY = "source"


class DecoderState:
    """What a decoder has consumed, for the K beams of each of B sentences.

    ``step`` and ``reorder`` write into the caches: after either, only the state that it returned is good.
    """

    def __init__(self, caches: list[LayerCache], sentences: int, beams: int, length: int) -> None:
        self.caches, self.sentences, self.beams, self.length = caches, sentences, beams, length

    def reorder(self, index: Tensor) -> DecoderState:
        """Keep rows ``index`` (B' x K,) int64; sentences may be left out, and keep their order.

        Memories belong to sentences, so they stay where they are unless a sentence is left out.

        Raises:
            ValueError: if the number of rows is not a multiple of K, or exceeds B x K.

        """
        sentences, rest = divmod(len(index), self.beams)
        if rest or sentences > self.sentences:
            raise ValueError(f"{len(index)} rows cannot be {self.beams} beams of at most {self.sentences} sentences")
        kept = index[:: self.beams] // self.beams if sentences < self.sentences else None
        for cache in self.caches:
            cache.reorder(index, kept)
        return DecoderState(self.caches, sentences, self.beams, self.length)


class FieldEncoder(nn.Module):
    """Encodes any inputs that have an embedding: text, speech, or both by turns.

    Attributes:
        embeddings: by batch field ("speech", "source", ...): modules from Padded input to Padded (B, S, D).
        encoder: from (B, S, D) to states (B, S, D).

    """

    embeddings: nn.ModuleDict
    encoder: Encoder

    def encode(self, batch: Batch, field: str | None = None) -> Encoding:
        """Encode one field of a batch.

        Args:
            batch: of B sentences.
            field: which; by default the first that the batch has, in the order of ``embeddings``, speech before all.

        Returns:
            The memory "source" (B, S, D), and for each tapped layer the extra "tap.<layer>" (B, S, D).

        """
        return self.encode_embedded(self.embed(batch, field))

    def embed(self, batch: Batch, field: str | None = None) -> Padded:
        """Embed one field of a batch: (B, S, D).

        Raises:
            KeyError: if the batch lacks the field, or the model an embedding for it.

        """
        if field is None:
            known = sorted(self.embeddings, key=lambda name: name != "speech")
            field = next((name for name in known if name in batch), known[0])
        if field not in self.embeddings:
            raise KeyError(f"the model has no embedding for {field!r}, only for {list(self.embeddings)}")
        return self.embeddings[field](batch[field])

    def encode_embedded(self, embedded: Padded) -> Encoding:
        """Encode what has been embedded (B, S, D)."""
        encoded, tapped = self.encoder(embedded)
        return Encoding({MEMORY: encoded}, {f"tap.{number}": states.values for number, states in tapped.items()})

    def tap(self, encoding: Encoding, layer: int) -> Padded:
        """Return the states (B, S, D) of a tapped encoder layer, with their lengths."""
        return Padded(encoding.extras[f"tap.{layer}"], encoding.memories[MEMORY].lengths)


def check_parts(embeddings: dict[str, nn.Module], encoder: Encoder, heads: dict[str, nn.Module] | None) -> None:
    """Refuse parts that do not fit together.

    Raises:
        ValueError: if there is no embedding, or a head reads a layer that is not tapped.

    """
    if not embeddings:
        raise ValueError("a model needs at least one embedding")
    for name, head in (heads or {}).items():
        tap = getattr(head, "tap", None)
        if tap is not None and tap not in encoder.taps:
            raise ValueError(f"head {name!r} reads layer {tap}, but the encoder's taps are {encoder.taps}")


class EncoderModel(Described, FieldEncoder):
    """An encoder with heads and no decoder: a masked language model, for example.

    Args:
        embeddings: by batch field ("speech", "source", ...): modules from Padded input to Padded (B, S, D).
        encoder: from (B, S, D) to states (B, S, D).
        heads: further modules by name that read encoder states, such as a MaskedTokenHead; objectives use them.

    """

    def __init__(
        self, *, embeddings: dict[str, nn.Module], encoder: Encoder, heads: dict[str, nn.Module] | None = None
    ) -> None:
        super().__init__()
        check_parts(embeddings, encoder, heads)
        self.embeddings = nn.ModuleDict(embeddings)
        self.encoder = encoder
        self.heads = nn.ModuleDict(heads or {})


class Translator(Described, FieldEncoder):
    """An encoder-decoder.

    Args:
        embeddings: by batch field ("speech", "source", ...): modules from Padded input to Padded (B, S, D).
        encoder: from (B, S, D) to the memory that the decoder attends to.
        target_embedding: of the target tokens.
        decoder: whose layers attend to the memory "source".
        projection: from the decoder's states to logits.
        heads: further modules by name that read encoder states, such as a CtcHead; objectives use them.

    """

    def __init__(
        self,
        *,
        embeddings: dict[str, nn.Module],
        encoder: Encoder,
        target_embedding: TextEmbedding,
        decoder: Decoder,
        projection: nn.Module,
        heads: dict[str, nn.Module] | None = None,
    ) -> None:
        super().__init__()
        check_parts(embeddings, encoder, heads)
        if target_embedding.width != decoder.width:
            raise ValueError(
                f"the target embedding's width {target_embedding.width} is not the decoder's {decoder.width}"
            )
        self.embeddings = nn.ModuleDict(embeddings)
        self.encoder = encoder
        self.target_embedding = target_embedding
        self.decoder = decoder
        self.projection = projection
        self.heads = nn.ModuleDict(heads or {})

    def decode(self, prefix: Padded, encoding: Encoding) -> Tensor:
        """Return the decoder's states (B, T, D) after consuming each token of prefix (B, T)."""
        return self.decoder(self.target_embedding(prefix), encoding.memories).values

    def project(self, states: Tensor) -> Tensor:
        """Return the logits (..., V) of the token that follows each state (..., D)."""
        return self.projection(states)

    # -- generating -------------------------------------------------------------------------------------------------

    @property
    def longest_output(self) -> int | None:
        """How many tokens the decoder has positions for; None if there is no end to them."""
        positions = self.target_embedding.positions
        return positions.length if isinstance(positions, LearnedPositions) else None

    @torch.no_grad()
    def start(self, encoding: Encoding, prefix: Padded | None, beams: int = 1) -> DecoderState:
        """Return the state before the first step; see shared/generator.py.

        Raises:
            ValueError: if ``beams`` is below 1.

        """
        if beams < 1:
            raise ValueError(f"beams must be at least 1, not {beams}")
        caches = self.decoder.caches(encoding.memories)
        state = DecoderState(caches, len(encoding), beams, 0)
        if prefix is not None and prefix.values.shape[1]:
            self.decoder(self.target_embedding(prefix), caches=caches)
            state.length = prefix.values.shape[1]
            rows = torch.arange(len(encoding), device=prefix.device).repeat_interleave(beams)
            for cache in caches:
                cache.reorder(rows, None)
        return state

    @torch.no_grad()
    def step(self, tokens: Tensor, state: DecoderState) -> tuple[Tensor, DecoderState]:
        """Consume one token per row (R,), and return the logits (R, V) of the next; see shared/generator.py."""
        embedded = self.target_embedding.embed(tokens[:, None], state.length)
        lengths = torch.ones_like(tokens)
        states = self.decoder(Padded(embedded, lengths), caches=state.caches).values
        logits = self.project(states[:, 0])
        return logits, DecoderState(state.caches, state.sentences, state.beams, state.length + 1)
