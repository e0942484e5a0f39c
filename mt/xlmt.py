"""XLM-T: a multilingual translator whose encoder and decoder begin as one multilingual masked language model.

Ma et al. 2020, "XLM-T: Scaling up Multilingual Machine Translation with Pretrained Cross-lingual Transformer Encoders",
arXiv 2012.15547. The encoder is that of XLM-R; the decoder's layers begin as layers of it, too, and both sides and the
output have one table of token vectors. Nothing is frozen, and the loss is cross entropy over all directions. A symbol
before the source names the language to write. So ``Initialise`` does nearly all of it: recipes/base/xlmt.yaml.

A masked language model has no attention to another text. Here it begins with random parameters, or, with
:class:`CrossFromSelf`, as the self-attention of its layer,

    W_q <- W_q^self, [W_k; W_v] <- [W_k^self; W_v^self], W_o <- W_o^self, and likewise the biases.

Differs from the paper: on Almanac positions are sinusoids, and decoder and encoder have equally many layers; the
control on WMT-10 has the same size, where the paper's there is a big Transformer.

Not established, and chosen here: the decoder has six layers, which begin as the encoder's first ones
(``decoder_from``), and its attention to the encoder begins at random; it reads <s> first; symbols of languages begin at
random; the number of updates. Second-hand are the symbol before the source and the temperature, which rises from 1 to
5, and is 5 from the beginning here.

Legend: D width.
"""

from __future__ import annotations

from typing import cast

import torch

from dragoman.shared.errors import UsageError
from dragoman.shared.nn.attention import MemoryAttention
from dragoman.shared.nn.layer import Layer
from dragoman.shared.nn.transformer import Decoder
from dragoman.shared.systems.reading_model import ReadingModel


class CrossFromSelf:
    """Let a decoder's attention to each memory begin as the self-attention of the same layer; an Initialiser.

    It comes behind what initialises the self-attention. The norm around the attention stays as it is.

    Args:
        decoder: name of the decoder in the system; with None, its attention stays random, and the report says so.
    """

    def __init__(self, *, decoder: str | None = "model.decoder") -> None:
        self.decoder = decoder

    def apply(self, system: ReadingModel) -> list[str]:
        """Copy the projections of each layer; return a line that reports it, which is kept in ``origin``, too.

        Raises:
            UsageError: if the system has no such decoder, it attends to nothing, or to a memory of another width.
        """
        if self.decoder is None:
            return ["attention to the encoder begins with random parameters, no decoder is given"]
        decoder = dict(system.named_modules()).get(self.decoder)
        if not isinstance(decoder, Decoder):
            raise UsageError(f"initialise: the system has no decoder {self.decoder!r}")
        if not decoder.memories:
            raise UsageError(f"initialise: {self.decoder} attends to no memory")
        for layer in decoder.layers:
            for name, attention in cast(Layer, layer).memory_attention.items():
                self._copy(cast(Layer, layer), name, cast(MemoryAttention, attention))
        line = (
            f"{self.decoder}: attention to {' and '.join(decoder.memories)} begins as the self-attention of its layer"
        )
        system.origin.append(line)
        return [line]

    def _copy(self, layer: Layer, name: str, attention: MemoryAttention) -> None:
        width, theirs = layer.width, attention.keys_values.in_features
        if theirs != width:
            raise UsageError(
                f"initialise: {self.decoder} attends to states of width {theirs} ({name}), where its own have {width}"
            )
        projection = layer.self_attention.queries_keys_values
        size = layer.self_attention.inner
        with torch.no_grad():
            for kind, rows in projection.named_parameters():  # (3 H d, D) and (3 H d,): queries, keys, values
                getattr(attention.queries, kind).copy_(rows[:size])
                getattr(attention.keys_values, kind).copy_(rows[size:])
        attention.output.load_state_dict(layer.self_attention.output.state_dict())
