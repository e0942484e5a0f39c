"""Whole models: an encoder of embedded inputs; a decoder alone; the Translator, which is both.

Legend: B sentences, N input length, S encoder states, D model width.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NotRequired, TypedDict

import torch
from torch import nn

from dragoman.shared.batch import Batch, naming_longest
from dragoman.shared.described import Described
from dragoman.shared.errors import UsageError
from dragoman.shared.generator import Encoding
from dragoman.shared.nn.decoding import TokenDecoder
from dragoman.shared.nn.embeddings import TextEmbedding
from dragoman.shared.nn.recurrent import LstmEncoder
from dragoman.shared.nn.transformer import Decoder, Encoder
from dragoman.shared.padded import Padded

#: The name under which decoders find the encoder's states, whatever was encoded.
MEMORY = "source"
#: The batch field of waveforms, which is read before all others.
SPEECH = "speech"


class FieldEncoder(nn.Module):
    """Encodes any inputs that have an embedding: text, speech, or both by turns.

    Attributes:
        embeddings: by batch field ("speech", "source", ...): modules from Padded input to Padded (B, S, D).
        encoder: from (B, S, D) to states (B, S, D).
    """

    embeddings: nn.ModuleDict
    encoder: Encoder | LstmEncoder

    def symbol_fields(self) -> dict[str, str]:
        """See shared/nn/symbols.py; a head says itself whose symbols it scores."""
        heads = getattr(self, "heads", {})
        fields = {f"heads.{name}": head.symbols_of for name, head in heads.items() if hasattr(head, "symbols_of")}
        return {f"embeddings.{name}": name for name in self.embeddings} | fields

    def encode(self, batch: Batch, field: str | None = None) -> Encoding:
        """Encode one field of a batch of B sentences, by default :meth:`default_field`.

        Returns:
            The memory "source" (B, S, D), and for each of :attr:`taps` the extra "tap.<name>" (B, S, D).
        """
        field = field or self.default_field(batch)
        if self._one_at_a_time(batch, field):
            return Encoding.joined([self.encode_embedded(self.embed(one, field)) for one in batch.singly()])
        return self.encode_embedded(self.embed(batch, field))

    def default_field(self, batch: Batch) -> str | None:
        """Return the first field that the batch has, in the order of ``embeddings``, speech before all; None: none."""
        return next((name for name in self._preferred() if name in batch), None)

    def embed(self, batch: Batch, field: str | None = None) -> Padded:
        """Embed one field of a batch: (B, S, D); if it has ``<field>.types``, with the vectors of its tokens' types.

        Raises:
            DataError: if a row is longer than the model has positions, naming it.
            UsageError: if the batch lacks the field, or the model an embedding for it.
        """
        field = field or self.default_field(batch) or self._preferred()[0]
        if field not in self.embeddings:
            raise UsageError(f"the model has no embedding for {field!r}, only for {list(self.embeddings)}")
        types = {}
        if f"{field}.types" in batch:
            types["types"] = batch[f"{field}.types"].values.masked_fill(~batch[field].mask, 0)
        with naming_longest(batch, field):
            return self.embeddings[field](batch[field], **types)

    def encode_embedded(self, embedded: Padded, memories: Mapping[str, Padded] | None = None) -> Encoding:
        """Encode what has been embedded (B, S, D); ``memories`` are for an encoder that attends to any."""
        encoded, tapped = self.encoder(embedded, memories=memories)
        return Encoding({MEMORY: encoded}, {f"tap.{number}": states for number, states in tapped.items()})

    @property
    def taps(self) -> list[int | str]:
        """The states that heads can read: the encoder's tapped layers by number; subclasses add others by name."""
        return list(self.encoder.taps)

    def tap(self, encoding: Encoding, name: int | str) -> Padded:
        """Return the states (B, S, D) of a tap; they may be longer or shorter than the memory."""
        states = encoding.extras[f"tap.{name}"]
        assert isinstance(states, Padded)
        return states

    def _one_at_a_time(self, batch: Batch, field: str | None) -> bool:
        """Tell whether rows are encoded one after the other.

        A window of sound is enough work for a CPU, and what it takes inside the layers is free for the next one.
        """
        if field is None or field not in self.embeddings or len(batch) < 2 or torch.is_grad_enabled():
            return False
        return getattr(self.embeddings[field], "window", None) is not None and batch[field].device.type == "cpu"

    def _preferred(self) -> list[str]:
        return sorted(self.embeddings, key=lambda name: name != SPEECH)

    def _set_encoder(
        self, embeddings: dict[str, nn.Module], encoder: Encoder | LstmEncoder, heads: dict[str, nn.Module] | None
    ) -> None:
        """Make the parts submodules.

        Raises:
            ValueError: if there is no embedding, or a head reads a tap that the model lacks.
        """
        if not embeddings:
            raise ValueError("a model needs at least one embedding")
        self.embeddings = nn.ModuleDict(embeddings)
        self.encoder = encoder
        for name, head in (heads or {}).items():
            tap = getattr(head, "tap", None)
            if tap is not None and tap not in self.taps:
                raise ValueError(f"head {name!r} reads the states of {tap!r}, but the model's taps are {self.taps}")


def check_widths(target_embedding: TextEmbedding, decoder: Decoder) -> None:
    """Refuse an embedding that does not fit the decoder, by ValueError."""
    if target_embedding.width != decoder.width:
        raise ValueError(f"the target embedding's width {target_embedding.width} is not the decoder's {decoder.width}")


class EncoderModel(Described, FieldEncoder):
    """An encoder with heads and no decoder: a masked language model, for example.

    Args:
        embeddings: by batch field ("speech", "source", ...): modules from Padded input to Padded (B, S, D).
        encoder: from (B, S, D) to states (B, S, D).
        heads: further modules by name that read encoder states, such as a MaskedTokenHead; objectives use them.
    """

    encoder: Encoder

    def __init__(
        self, *, embeddings: dict[str, nn.Module], encoder: Encoder, heads: dict[str, nn.Module] | None = None
    ) -> None:
        super().__init__()
        self._set_encoder(embeddings, encoder, heads)
        self.heads = nn.ModuleDict(heads or {})

    def without_heads(self) -> EncoderModel:
        """Return the same encoder of the same embeddings, as other models read it."""
        return EncoderModel(embeddings=dict(self.embeddings.items()), encoder=self.encoder)

    def check_read(self, field: str) -> None:
        """Refuse, by ValueError, to be a part of another model unless ``field`` is all that is read, without heads."""
        if [*self.embeddings] != [field]:
            raise ValueError(f"the reader must read {field!r} alone, not {' and '.join(self.embeddings)}")
        if len(self.heads):
            raise ValueError(f"the reader has heads that nobody reads: {' and '.join(self.heads)}")


class SidesParts(TypedDict):
    """The arguments that translators with heads of their own hand on to :class:`Translator`."""

    embeddings: dict[str, nn.Module]
    encoder: Encoder
    target_embedding: TextEmbedding
    decoder: Decoder
    projection: nn.Module


class TranslatorParts(SidesParts):
    """The arguments of :class:`Translator`."""

    heads: NotRequired[dict[str, nn.Module] | None]


class Translator(Described, FieldEncoder, TokenDecoder):
    """An encoder-decoder.

    Args:
        embeddings: by batch field ("speech", "source", ...): modules from Padded input to Padded (B, S, D).
        encoder: from (B, S, D) to the memory that the decoder attends to.
        target_embedding: of the target tokens.
        decoder: whose layers attend to the memory "source".
        projection: from the decoder's states to logits.
        heads: further modules by name that read encoder states, such as a CtcHead; objectives use them.
    """

    encoder: Encoder

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
        check_widths(target_embedding, decoder)
        self._set_encoder(embeddings, encoder, heads)
        self.target_embedding = target_embedding
        self.decoder = decoder
        self.projection = projection
        self.heads = nn.ModuleDict(heads or {})

    def symbol_fields(self) -> dict[str, str]:
        """See shared/nn/symbols.py."""
        return FieldEncoder.symbol_fields(self) | TokenDecoder.symbol_fields(self)

    def read_bytes(self, batch: Batch, outputs: int) -> int:
        """Return about how many bytes the decoder's keys and values of what a batch of B sentences is read from take.

        All outputs of a sentence attend to the same ones. Each memory is taken to have a state for each vector of the
        input; an encoder may shorten it.
        """
        field = self.default_field(batch)
        if field is None:
            return 0
        states = batch[field].lengths
        embedding: Any = self.embeddings[field]
        if field == SPEECH:
            states = embedding.lengths(states.clamp(min=getattr(embedding, "window", None) or 0))
        return len(batch) * int(states.max()) * self.decoder.memory_width * self.target_embedding.like.element_size()


class LanguageModel(Described, TokenDecoder):
    """A decoder that attends to nothing but what it has written.

    To searches and objectives it is a generator whose sentences have no source.

    Args:
        target_embedding: of the tokens.
        decoder: whose layers attend to no memory.
        projection: from the decoder's states to logits.
    """

    def __init__(self, *, target_embedding: TextEmbedding, decoder: Decoder, projection: nn.Module) -> None:
        super().__init__()
        if decoder.memories:
            raise ValueError(f"a language model has no memories, but its decoder attends to {decoder.memories}")
        check_widths(target_embedding, decoder)
        self.target_embedding = target_embedding
        self.decoder = decoder
        self.projection = projection

    def encode(self, batch: Batch, field: str | None = None) -> Encoding:
        """Return the encoding of B sentences without memories, whatever the batch holds."""
        return without_source(batch, self.target_embedding.weight.device)


def without_source(batch: Batch, device: torch.device) -> Encoding:
    """Return the encoding of the sentences of a batch for a language model, which has no memories."""
    return Encoding({}, {"sentences": torch.zeros(len(batch), device=device)})
