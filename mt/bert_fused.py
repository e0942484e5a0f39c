"""BERT-fused translation: layers of encoder and decoder also attend to a frozen language model's states of the source.

Zhu et al. 2020, ICLR, "Incorporating BERT into Neural Machine Translation", arXiv 2002.06823, section 4. H_B are the
last states of the language model, which reads its own pieces. A layer of the encoder computes

    x <- x + r0 Attention(x, x, x) + r1 Attention(x, H_B, H_B), and then the feed-forward net;

one of the decoder attends to itself, adds r0 Attention(s, H_E, H_E) + r1 Attention(s, H_B, H_B), then feeds forward. In
training, drop-net takes one of the two branches, each with a probability of p_net / 2, and otherwise the mean of both;
a draw holds for a layer and a batch. In inference it is always the mean. A plain translator is trained first. Either
side may have plain layers instead (section 6, table 6).

Differs from the released code: the language model's own dropout is off. Its pieces count in a batch's tokens, as there,
and here for the longest text and for the ratio of lengths, too: a text of more than 250 of them is left out of
training.

Legend: B sentences, S source tokens, U tokens of the language model, D width, W width of the language model.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self, Unpack, cast

import torch
from torch import Tensor

from dragoman.mt.frozen import HoldsFrozen, frozen
from dragoman.shared.batch import Batch, naming_longest
from dragoman.shared.errors import UsageError
from dragoman.shared.generator import Encoding
from dragoman.shared.nn.attention import MemoryAttention
from dragoman.shared.nn.layer import Layer, LayerCache, LayerParts
from dragoman.shared.nn.translator import MEMORY, EncoderModel, Translator, TranslatorParts
from dragoman.shared.padded import Padded
from dragoman.shared.ranges import Share

#: The batch field that the language model reads, and the memory of its states.
BERT = "bert"


class FusedLayer(Layer):
    """A decoder's layer that attends to the encoder's states and to the language model's, with drop-net.

    Args:
        memories: the widths of the memories, ``{source: D, bert: W}``.
        drop_net: p_net, in training the probability that one branch alone is taken.
        parts: see :class:`Layer`; ``dropout`` is of what each branch and each sub-layer adds.

    Raises:
        UsageError: if the memories are others.
    """

    #: The names of the memories.
    ATTENDED: tuple[str, ...] = (MEMORY, BERT)

    def __init__(self, *, memories: dict[str, int], drop_net: Share = 1.0, **parts: Unpack[LayerParts]) -> None:
        if {*memories} != {*self.ATTENDED}:
            raise UsageError(f"memories must be {' and '.join(self.ATTENDED)}, not {' and '.join(memories)}")
        super().__init__(memories=memories, **parts)
        if MEMORY not in memories:
            del self.memory_attention_norm  # in an encoder, both branches read what the self-attention's norm gives
        self.drop_net = drop_net

    def after_memories(self, x: Tensor, attended: dict[str, Tensor]) -> Tensor:
        """Add what attending to the two memories has given, both (R, L, D)."""
        return self.finish(x + self.fused(attended[MEMORY], attended[BERT]), self.memory_attention_norm)

    def fused(self, self_states: Tensor, bert_states: Tensor) -> Tensor:
        """Return the sum of two branches, each dropped out by itself and weighted by drop-net."""
        self_states, bert_states = self.drop(self_states), self.drop(bert_states)
        if not (self.training and self.drop_net):
            return (self_states + bert_states) / 2
        drawn = torch.rand((), device=self_states.device)
        one, half = torch.ones_like(drawn), torch.full_like(drawn, 0.5)
        share = torch.where(drawn < self.drop_net / 2, one, torch.where(drawn < self.drop_net, 1 - one, half))
        return share * self_states + (1 - share) * bert_states


class FusedEncoderLayer(FusedLayer):
    """An encoder's layer that attends to itself and, beside that, to the language model's states.

    Arguments and errors are those of :class:`FusedLayer`; its one memory is ``{bert: W}``.
    """

    ATTENDED = (BERT,)

    def forward(
        self,
        x: Tensor,
        *,
        memories: Mapping[str, Padded] | None = None,
        cache: LayerCache | None = None,
        seen: Mapping[str, Tensor] | None = None,
        **given: Any,
    ) -> Tensor:
        """Apply the layer; see :class:`Layer`. Anything else that is given is for the self-attention.

        Raises:
            KeyError: if the language model's states are not given, or another memory is.
        """
        h = self.before(x, self.self_attention_norm)
        self_states = self.self_attention(h, past=cache.past if cache else None, **given)
        bert_states = self.memory_attention[BERT](h, self.remember(memories or {}, cache)[BERT], (seen or {}).get(BERT))
        return self.feed(self.finish(x + self.fused(self_states, bert_states), self.self_attention_norm))


class FusedTranslator(Translator, HoldsFrozen):
    """A translator whose layers are fused; the language model learns nothing and drops nothing out, unless told to.

    Args:
        reader: the language model, without heads; its embedding "source" reads the batch field "bert".
        reader_learns: let it learn, and drop out, with the rest (a row of table 6).
        parts: see :class:`Translator`; the encoder is of FusedEncoderLayers and the decoder of FusedLayers, or one of
            them of plain layers.

    Raises:
        ValueError: if neither side attends to the language model's states, layers attend to something else, or the
            reader reads something else, has another width or has heads.
    """

    def __init__(self, *, reader: EncoderModel, reader_learns: bool = False, **parts: Unpack[TranslatorParts]) -> None:
        super().__init__(**parts)
        encoder, decoder = self.encoder, self.decoder
        reader.check_read(MEMORY)
        attending = [stack for stack in (encoder, decoder) if BERT in stack.memories]
        if not attending or {*encoder.memories} - {BERT} or {*decoder.memories} - {BERT} != {MEMORY}:
            raise ValueError(
                f"the decoder must attend to {MEMORY!r}, and one side or both to {BERT!r}, "
                f"not the encoder to {encoder.memories} and the decoder to {decoder.memories}"
            )
        for stack in attending:
            read = cast(MemoryAttention, cast(Layer, stack.layers[0]).memory_attention[BERT]).keys_values.in_features
            if read != reader.encoder.width:
                raise ValueError(
                    f"the layers read states of width {read}, but the reader's have {reader.encoder.width}"
                )
        self.reader_learns = reader_learns
        self.reader = reader if reader_learns else frozen(reader)

    def train(self, mode: bool = True) -> Self:
        """Set the mode of all that learns."""
        super().train(mode)
        self.reader.train(mode and self.reader_learns)
        return self

    def symbol_fields(self) -> dict[str, str]:
        """See shared/nn/symbols.py."""
        return super().symbol_fields() | {f"reader.embeddings.{MEMORY}": BERT}

    def encode(self, batch: Batch, field: str | None = None) -> Encoding:
        """Encode a field of a batch, with what the language model makes of "bert".

        Returns:
            The memories "source" (B, S, D) and, if the decoder attends to it, "bert" (B, U, W).

        Raises:
            DataError: if a row is longer than either model has positions, naming it.
            UsageError: if the batch lacks a field.
        """
        learns = self.reader_learns and torch.is_grad_enabled()
        with torch.set_grad_enabled(learns), naming_longest(batch, BERT):
            memory = self.reader.encode_embedded(self.reader.embeddings[MEMORY](batch[BERT])).memories[MEMORY]
        memories = {BERT: memory}
        encoding = self.encode_embedded(self.embed(batch, field), memories if self.encoder.memories else None)
        shown = memories if BERT in self.decoder.memories else {}
        return Encoding({**encoding.memories, **shown}, encoding.extras)
