"""APT: what the layers of a pre-trained model know of a text is fused into the layers of a translator.

Weng et al. 2020, AAAI, "Acquiring Knowledge from Pre-trained Model to Neural Machine Translation", arXiv 1912.01774,
section 3.1. The pre-trained model, a masked language model or a language model, reads the translator's own tokens and
never learns. With p_l,i the state of token i that leaves its l-th layer, and r_n,i the one that leaves the translator's
n-th layer:

    t_l,i     = MLP_l(p_l,i)                                             the adapters, equation 7
    alpha_n,l = softmax_l FFN_n(mean_i t_l,i * mean_i r_n,i)             how much of each layer, 8 and 9
    c_n,i     = sum_l alpha_n,l t_l,i
    r_n,i    <- r_n,i + sigmoid(FFN'_n(r_n,i * c_n,i)) c_n,i             how much for each token, 10 and 11

Training with a language model as teacher (section 3.2) is in mt/apt_distillation.py.

Not established, and chosen here: "*" is the product of elements, and an FFN two linear maps with a ReLU between them;
in a decoder a mean is over the tokens so far, so that no token depends on a later one; updates, the number of GPUs and
the sizes of the pre-trained models; forms and weights (0.1 and 0.01) of the distillations.

Legend: B sentences, K beams, R = B x K rows, L tokens, D width, W width of the pre-trained model, P layers of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack, cast

import torch
from torch import Tensor, nn

from dragoman.mt.apt_layers import ADAPTED, MEANS, FusingDecoder, FusionLayer, RunningSum, feed_forward
from dragoman.mt.frozen import HoldsFrozen, frozen
from dragoman.shared.batch import Batch, naming_longest
from dragoman.shared.described import Described
from dragoman.shared.generator import Encoding
from dragoman.shared.nn.decoding import DecoderState
from dragoman.shared.nn.embeddings import TextEmbedding
from dragoman.shared.nn.layer import Layer, LayerCache
from dragoman.shared.nn.positions import LearnedPositions
from dragoman.shared.nn.symbols import OUTPUT
from dragoman.shared.nn.transformer import Decoder, Encoder, Stack
from dragoman.shared.nn.translator import MEMORY, EncoderModel, LanguageModel, Translator, TranslatorParts
from dragoman.shared.padded import Padded


class AdaptedReader(Described, HoldsFrozen):
    """A pre-trained model whose layers' states are adapted to a translator; only the adapters learn (equation 7).

    The model is always in the mode of inference. The states of its last layer are normalised if the model does so.

    Args:
        model: a masked language model without heads that reads "source", or a language model.
        width: D, of the translator.
        inner: width inside of the adapters; D if None.
        layers: which of the model's layers are read, 1 for the first; all if None.

    Raises:
        ValueError: if the model attends to memories or reads something else, or there is no such layer.
    """

    FROZEN = "model"

    def __init__(
        self,
        *,
        model: EncoderModel | LanguageModel,
        width: int,
        inner: int | None = None,
        layers: list[int] | None = None,
    ) -> None:
        super().__init__()
        if isinstance(model, EncoderModel):
            model.check_read(MEMORY)
        self.model = frozen(model)
        depth = len(self.stack.layers)
        if depth < self.stack.depth or not all(
            isinstance(one, Layer) and not one.memories for one in self.stack.layers
        ):
            raise ValueError("the reader's layers must be plain ones that attend to nothing but their own text")
        self.layers = list(range(1, depth + 1)) if layers is None else sorted({*layers})
        if not self.layers or not 1 <= self.layers[0] <= self.layers[-1] <= depth:
            raise ValueError(f"layers must be from 1 to {depth}, at least one, not {layers}")
        adapters = (feed_forward(self.stack.width, inner or width, width) for _ in self.layers)
        self.adapters = nn.ModuleList(adapters)
        self.width = width

    @property
    def embedding(self) -> TextEmbedding:
        """The model's embedding of the tokens."""
        model = self.model
        read = model.embeddings[MEMORY] if isinstance(model, EncoderModel) else model.target_embedding
        return cast(TextEmbedding, read)

    @property
    def stack(self) -> Encoder | Decoder:
        """The model's layers."""
        return self.model.encoder if isinstance(self.model, EncoderModel) else self.model.decoder

    def symbol_fields(self, name: str, field: str) -> dict[str, str]:
        """Return the parts of a model that has this reader as ``name``, and what their symbols are of."""
        return {f"{name}.model.{part}": field for part in self.model.symbol_fields()}

    @property
    def longest(self) -> int | None:
        """The number of tokens that the model has positions for; None if it is unlimited."""
        positions = self.embedding.positions
        return positions.length if isinstance(positions, LearnedPositions) else None

    def caches(self) -> list[LayerCache]:
        """Return caches for a search: one with the sum of adapted states, then one a layer of a language model."""
        caches = [LayerCache() for _ in range(1 + len(self.stack.layers))]
        caches[0].past = RunningSum()
        return caches

    def forward(self, tokens: Padded, *, start: int = 0, caches: Sequence[LayerCache] | None = None) -> Padded:
        """Read tokens (B, L), the first of which is number ``start``: adapted states (B, L, P, D).

        Args:
            tokens: int64.
            start: how many tokens the caches hold.
            caches: one a layer of a language model; the tokens continue what they hold.
        """
        causal = isinstance(self.stack, Decoder)
        layers: list[Tensor] = []
        with torch.no_grad():
            states = self.embedding.embed(tokens.values, start)
            mask = None if causal else Padded(tokens.values, tokens.lengths.clamp(min=1)).mask
            for number, layer in enumerate(self.stack.layers):
                states = layer(states, mask=mask, causal=causal, cache=caches[number] if caches else None)
                layers.append(states)
            layers[-1] = self.stack.norm(states)
        adapted = [adapter(layers[layer - 1]) for layer, adapter in zip(self.layers, self.adapters, strict=True)]
        return Padded(torch.stack(adapted, 2), tokens.lengths)


def check_reader(side: str, reader: AdaptedReader | None, stack: Stack, embedding: TextEmbedding) -> None:
    """Refuse layers of one side of a translator that do not fit its reader, by ValueError."""
    fuses = isinstance(stack.layers[0], FusionLayer)
    if fuses != (reader is not None):
        raise ValueError(
            f"{side}: " + ("the layers fuse, but there is no reader" if fuses else "no layer fuses the reader")
        )
    if reader is None:
        return
    for name, value, other in (
        ("width", stack.width, reader.width),
        ("vocabulary", embedding.vocabulary, reader.embedding.vocabulary),
    ):
        if value != other:
            raise ValueError(f"{side}: the reader's {name} is {other}, the translator's {value}")


class AptTranslator(Translator):
    """A translator into whose encoder, decoder or both a pre-trained model is fused.

    Args:
        source_reader: of the source tokens, or None; the encoder is of FusionLayers if there is one.
        target_reader: of the target tokens, a language model, or None; the decoder is a FusingDecoder if there is one.
        parts: as of :class:`Translator`, which reads "source" alone.

    Raises:
        ValueError: if layers fuse without a reader or the other way round, a width or vocabulary differs, or the target
            reader sees what comes later.
    """

    def __init__(
        self,
        *,
        source_reader: AdaptedReader | None = None,
        target_reader: AdaptedReader | None = None,
        **parts: Unpack[TranslatorParts],
    ) -> None:
        super().__init__(**parts)
        embeddings, decoder = parts["embeddings"], self.decoder
        if [*embeddings] != [MEMORY]:
            raise ValueError(f"the translator must read {MEMORY!r} alone, not {' and '.join(embeddings)}")
        if target_reader is not None and not isinstance(target_reader.stack, Decoder):
            raise ValueError("the target reader must be a language model: an encoder sees what is not written yet")
        if target_reader is not None and not isinstance(decoder, FusingDecoder):
            raise ValueError(f"the decoder must be a FusingDecoder to read with, not a {type(decoder).__name__}")
        for side, reader, stack, embedding in (
            ("source", source_reader, self.encoder, embeddings[MEMORY]),
            ("target", target_reader, decoder, self.target_embedding),
        ):
            check_reader(side, reader, stack, cast(TextEmbedding, embedding))
        self.source_reader = source_reader
        self.target_reader = target_reader

    def symbol_fields(self) -> dict[str, str]:
        """See shared/nn/symbols.py."""
        fields = super().symbol_fields()
        for name, reader, field in (
            ("source_reader", self.source_reader, MEMORY),
            ("target_reader", self.target_reader, OUTPUT),
        ):
            fields |= {} if reader is None else reader.symbol_fields(name, field)
        return fields

    @property
    def longest_output(self) -> int | None:
        """The number of tokens that decoder and target reader have positions for; None if it is unlimited."""
        limits = [super().longest_output, None if self.target_reader is None else self.target_reader.longest]
        return min((limit for limit in limits if limit is not None), default=None)

    def state_bytes(self, length: int) -> int:
        """Return how many bytes the keys and values of an output of `length` tokens take, the target reader's too."""
        decoder_bytes = super().state_bytes(length)
        if self.target_reader is None:
            return decoder_bytes
        stack = self.target_reader.stack
        return decoder_bytes + decoder_bytes * stack.depth * stack.state_width // (
            self.decoder.depth * self.decoder.state_width
        )

    def encode(self, batch: Batch, field: str | None = None) -> Encoding:
        """Encode the source of a batch, with what the source reader knows of it.

        Raises:
            DataError: if a row is longer than either model has positions, naming it.
            UsageError: if the batch has no source, or another field is asked for.
        """
        embedded = self.embed(batch, field)
        if self.source_reader is None:
            return self.encode_embedded(embedded)
        with naming_longest(batch, MEMORY):
            adapted = self.source_reader(batch[MEMORY])
        means = Padded(adapted.mean()[:, None], torch.ones_like(adapted.lengths))
        return self.encode_embedded(embedded, {ADAPTED: adapted, MEANS: means})

    def decode(self, prefix: Padded, encoding: Encoding) -> Tensor:
        """Return the decoder's states (B, T, D) after consuming each token of prefix (B, T)."""
        if self.target_reader is None:
            return super().decode(prefix, encoding)
        adapted = self.target_reader(prefix)
        memories = {ADAPTED: adapted, MEANS: adapted.map(RunningSum().means)}
        return self.decoder(self.target_embedding(prefix), encoding.memories | memories).values

    @torch.no_grad()
    def start(self, encoding: Encoding, prefix: Padded | None) -> DecoderState:
        """Return the state before the first step; see shared/generator.py."""
        if self.target_reader is None:
            return super().start(encoding, prefix)
        caches = [*self.target_reader.caches(), *self.decoder.caches(encoding.memories)]
        state = DecoderState(caches, len(encoding), 1, 0)
        return state if prefix is None or not prefix.values.shape[1] else self._consume(prefix, state)[1]

    @torch.no_grad()
    def step(self, tokens: Tensor, state: DecoderState) -> tuple[Tensor, DecoderState]:
        """Consume one token per row (R,), and return the logits (R, V) of the next; see shared/generator.py."""
        if self.target_reader is None:
            return super().step(tokens, state)
        states, state = self._consume(Padded(tokens[:, None], torch.ones_like(tokens)), state)
        return self.project(states[:, 0]), state

    def _consume(self, tokens: Padded, state: DecoderState) -> tuple[Tensor, DecoderState]:
        """Return the states (R, L, D) after tokens (R, L) that continue what a state holds, and its successor."""
        reader = cast(AdaptedReader, self.target_reader)
        count = len(state.caches) - len(self.decoder.layers)
        (total, *sums), caches = state.caches[:count], state.caches[count:]
        adapted = reader(tokens, start=state.length, caches=sums)
        means = adapted.map(cast(RunningSum, total.past).means)
        embedded = tokens.map(lambda values: self.target_embedding.embed(values, state.length))
        states = self.decoder(embedded, {ADAPTED: adapted, MEANS: means}, caches=caches).values
        length = state.length + tokens.values.shape[1]
        return states, DecoderState(state.caches, state.sentences, state.beams, length)
