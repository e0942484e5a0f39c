"""An encoder-decoder that reads the same text on both sides, as BART and mBART label texts.

The text goes into the encoder, and into the decoder, which begins with the text's last symbol; labels are read off the
decoder's states, that of a text off its last one, which has seen all of it (Lewis et al. 2020, arXiv 1910.13461,
section 3.1).

Legend: B texts, L tokens, D width.
"""

from __future__ import annotations

import torch
from torch import nn

from dragoman.shared.batch import Batch, naming_longest
from dragoman.shared.batches.fields import TextField
from dragoman.shared.described import Described
from dragoman.shared.errors import UsageError
from dragoman.shared.generator import Encoding
from dragoman.shared.nn.embeddings import TextEmbedding
from dragoman.shared.nn.transformer import Decoder, Encoder
from dragoman.shared.nn.translator import MEMORY, FieldEncoder, check_widths
from dragoman.shared.padded import Padded
from dragoman.shared.systems.pretrained import text_translator
from dragoman.shared.systems.system import System


class BothSides(Described, FieldEncoder):
    """An encoder and a decoder of one text, whose states are the decoder's.

    Args:
        embeddings: of the encoder's tokens, by the batch field.
        encoder: from (B, L, D) to the memory that the decoder attends to.
        target_embedding: of the decoder's tokens, those of the same text.
        decoder: whose layers attend to the memory "source".
        heads: modules by name that read the decoder's states.

    Raises:
        ValueError: if there are several texts, or the embedding does not fit the decoder.
    """

    encoder: Encoder

    def __init__(
        self,
        *,
        embeddings: dict[str, nn.Module],
        encoder: Encoder,
        target_embedding: TextEmbedding,
        decoder: Decoder,
        heads: dict[str, nn.Module] | None = None,
    ) -> None:
        super().__init__()
        check_widths(target_embedding, decoder)
        if len(embeddings) != 1:
            raise ValueError(f"one text is read on both sides, not {' and '.join(embeddings) or 'none'}")
        self._set_encoder(embeddings, encoder, heads)
        self.target_embedding = target_embedding
        self.decoder = decoder
        self.heads = nn.ModuleDict(heads or {})

    def symbol_fields(self) -> dict[str, str]:
        """See shared/nn/symbols.py."""
        [field] = self.embeddings
        return super().symbol_fields() | {"target_embedding": field}

    def encode(self, batch: Batch, field: str | None = None) -> Encoding:
        """Encode a text on one side and read it on the other: the memory "source" is the decoder's states (B, L, D)."""
        [only] = self.embeddings
        encoding = super().encode(batch, field or only)
        with naming_longest(batch, field or only):
            embedded = self.target_embedding(_last_first(batch[field or only]))
        return Encoding({MEMORY: self.decoder(embedded, encoding.memories)})


def _last_first(tokens: Padded) -> Padded:
    """Return tokens (B, L) with the last of each row before the others."""
    last = tokens.values.gather(1, (tokens.lengths - 1).clamp(min=0)[:, None])
    return tokens.map(lambda values: torch.cat([last, values[:, :-1]], dim=1))


def read_on_both_sides(*, system: System, heads: dict[str, nn.Module] | None = None) -> BothSides:
    """Return the encoder and the decoder of a translator of text, for what labels its texts.

    Args:
        system: with the translator.
        heads: new ones, by name.

    Raises:
        UsageError: if it is no translator of text, or its two texts have different tokenizers.
    """
    model, source = text_translator(system=system), system.inputs.get("source")
    if not isinstance(source, TextField) or source.tokenizer.fingerprint != system.output.tokenizer.fingerprint:
        raise UsageError("a text can be read on both sides only if they have one tokenizer")
    return BothSides(
        embeddings={"source": model.embeddings["source"]},
        encoder=model.encoder,
        target_embedding=model.target_embedding,
        decoder=model.decoder,
        heads=heads,
    )
