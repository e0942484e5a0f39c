"""One encoder that reads several fields at once: a sentence and its translation, a recording and its transcript.

Translation language modelling (XLM: Conneau and Lample 2019, "Cross-lingual Language Model Pretraining", section 3.4)
joins a sentence and its translation, so that what is masked in one can be found in the other. FAT-MLM joins speech to
them (st/fat.py).

Legend: B rows, S positions of a field, L joined positions, D width.
"""

from __future__ import annotations

from collections.abc import Mapping

from torch import nn

from dragoman.shared.batch import Batch
from dragoman.shared.errors import UsageError
from dragoman.shared.generator import Encoding
from dragoman.shared.nn.transformer import Encoder
from dragoman.shared.nn.translator import EncoderModel
from dragoman.shared.padded import Padded


class JoinedEncoder(EncoderModel):
    """One encoder of all that a batch has of its embeddings' fields, joined in order without padding between them.

    Each embedding counts positions from its own beginning, and may have a type vector: in XLM, the language's.

    Args:
        embeddings: by batch field.
        encoder: of the joined embeddings (B, L, D).
        heads: by name, such as a MaskedTokenHead for each text.

    Raises:
        ValueError: if layers of the encoder are tapped.
    """

    def __init__(
        self, *, embeddings: dict[str, nn.Module], encoder: Encoder, heads: dict[str, nn.Module] | None = None
    ) -> None:
        super().__init__(embeddings=embeddings, encoder=encoder, heads=heads)
        if encoder.taps:
            raise ValueError(f"layers {encoder.taps} cannot be tapped: their states would belong to no field")

    def encode(self, batch: Batch, field: str | None = None) -> Encoding:
        """Encode what a batch has of all fields, or one field alone.

        Returns:
            A memory for each field, by its name: (B, S, D), the states of its elements.

        Raises:
            UsageError: if the batch has none of the fields.
        """
        names = [name for name in self.embeddings if name in batch] if field is None else [field]
        if not names:
            raise UsageError(f"stream {batch.stream!r} has none of the fields {list(self.embeddings)}")
        return Encoding(encode_joined(self.encoder, {name: self.embed(batch, name) for name in names}))

    def default_field(self, batch: Batch) -> None:
        """Return None: by default all fields of the batch are encoded together."""


def encode_joined(encoder: Encoder, embedded: Mapping[str, Padded]) -> dict[str, Padded]:
    """Encode what has been embedded, each (B, S, D), as one sequence (B, L, D); return the states (B, S, D) of each."""
    joined, segments = Padded.concatenate([*embedded.values()])
    states = encoder(joined)[0].split(segments, [one.lengths for one in embedded.values()])
    return dict(zip(embedded, states, strict=True))
