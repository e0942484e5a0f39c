"""LSTM translators that begin with two language models, and stay language models while they learn to translate.

Ramachandran, Liu and Le 2017, "Unsupervised Pretraining for Sequence to Sequence Learning", EMNLP, sections 2.1 to 2.3.
A language model of the source language lends its embedding and its only layer to the encoder, where they come first;
one of the target language lends them to the decoder, and its softmax as well. The layers above begin at random. So that
neither language is forgotten, texts without translations go on training what was lent::

    L = L_translation + L_source language model + L_target language model

The translator is a ``RecurrentTranslator`` with ``residual`` (the softmax reads the lent layer directly, whatever the
random layers above it say) and attention to "source" and "tap.1", the states of the last layer and of the first
(section 2.3).

Not established, and chosen here, since the paper could not be read and settings are those of summaries: the decoder
does not read its last context (input feeding), so that its first layer reads what a language model reads; layers begin
with zeros; all have one width, where the paper's upper ones have 1,000 states beside 1,024; schedule and batch, and how
long the language models learn.

Legend: B sentences, L tokens, E width of embeddings, D width, V vocabulary.
"""

from __future__ import annotations

from typing import Any, Literal

from torch import Tensor, nn

from dragoman.shared.batch import Batch
from dragoman.shared.errors import UsageError
from dragoman.shared.nn.embeddings import TextEmbedding
from dragoman.shared.nn.recurrent import LstmEncoder, RecurrentDecoder
from dragoman.shared.nn.recurrent_translator import RecurrentTranslator
from dragoman.shared.objectives.cross_entropy import CHUNK, IGNORED, label_smoothed_cross_entropy
from dragoman.shared.objectives.objective import Term
from dragoman.shared.objectives.parts import Encode, Part

#: The batch fields of the two sides.
SOURCE, TARGET = "source", "target"


class LmInitialisedTranslator(RecurrentTranslator):
    """A translator whose lowest layers are two language models.

    Args:
        embeddings: of the batch field "source".
        encoder: reads from left to right, as a language model does.
        target_embedding: of the target tokens.
        decoder: of as many first cells as the target's language model.
        projection: the softmax of the target's language model.
        source_projection: that of the source's, which translation does not need.

    Raises:
        ValueError: if the encoder reads from right to left as well, or anything does not fit the other parts.
    """

    decoder: RecurrentDecoder

    def __init__(
        self,
        *,
        embeddings: dict[str, nn.Module],
        encoder: LstmEncoder,
        target_embedding: TextEmbedding,
        decoder: RecurrentDecoder,
        projection: nn.Module,
        source_projection: nn.Module,
    ) -> None:
        super().__init__(
            embeddings=embeddings,
            encoder=encoder,
            target_embedding=target_embedding,
            decoder=decoder,
            projection=projection,
        )
        if encoder.bidirectional:
            raise ValueError("an encoder whose first layer is a language model reads from left to right only")
        if [*embeddings] != [SOURCE]:
            raise ValueError(f"the translator reads {SOURCE!r} alone, not {' and '.join(embeddings)}")
        self.source_projection = source_projection

    def symbol_fields(self) -> dict[str, str]:
        """See shared/nn/symbols.py."""
        return super().symbol_fields() | {"source_projection": SOURCE}

    def language_model(self, side: str) -> tuple[nn.Module, LstmEncoder | RecurrentDecoder, nn.Module]:
        """Return what the language model of a side, "source" or "target", has: embedding, layers, softmax."""
        if side == SOURCE:
            return self.embeddings[SOURCE], self.encoder, self.source_projection
        return self.target_embedding, self.decoder, self.projection


class SideLanguageModel(Part):
    """Cross entropy of each token of a text after those before it, per token, by what was lent by a language model.

    The text's first token is read, but not asked for. Terms: "lm.<side>" (nats).

    Args:
        side: "source" or "target", also the batch field with the text.
        weight: factor of the term in the loss.
    """

    def __init__(self, *, side: Literal["source", "target"], weight: float = 1.0) -> None:
        super().__init__()
        self.side = side
        self.weight = weight

    def check(self, model: Any) -> None:
        """Refuse a model that has no language models in it."""
        if not isinstance(model, LmInitialisedTranslator):
            raise UsageError(f"{type(self).__name__} needs an LmInitialisedTranslator, not a {type(model).__name__}")

    def counts(self, batch: Batch) -> dict[str, Tensor]:
        """Return the number of tokens that are asked for."""
        return {f"lm.{self.side}": (batch[self.side].lengths - 1).clamp(min=0).sum()}

    def evaluate(self, model: Any, batch: Batch, encode: Encode) -> dict[str, Term]:
        """Read the text with the language model, and compare."""
        text = batch[self.side]
        embedding, layers, softmax = model.language_model(self.side)
        states = layers.first_layer(embedding.embed(text.values[:, :-1]))
        labels = text.values[:, 1:].masked_fill(~text.mask[:, 1:], IGNORED)
        sums = label_smoothed_cross_entropy(
            states.flatten(0, 1), softmax, labels.flatten(), label_smoothing=0.0, chunk=CHUNK
        )
        return {f"lm.{self.side}": Term(sums.loss, sums.count, self.weight)}
