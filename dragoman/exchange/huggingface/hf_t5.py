"""T5, mT5 and MADLAD-400 as modules of ours, and the names of their tensors.

Raffel et al. 2020, section 2.1; of version 1.1 on, feed-forward nets are gated and the output is not tied (Xue et al.
2021, section 3.1). Scores of attention are not scaled, and distances take the place of positions.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from dragoman.exchange.huggingface.hf_model import ACTIVATIONS
from dragoman.exchange.huggingface.hf_reading import Config
from dragoman.exchange.import_sizes import projection_of
from dragoman.exchange.loaded import LoadReport, load_renamed, without_copies
from dragoman.shared.errors import DataError, shown
from dragoman.shared.nn.embeddings import TextEmbedding
from dragoman.shared.nn.layer import Layer, Variant
from dragoman.shared.nn.positions import RelativePositions
from dragoman.shared.nn.transformer import Decoder, Encoder
from dragoman.shared.nn.translator import MEMORY, Translator

MODEL_TYPES = ("t5", "mt5")
SHARED, OUTPUT = "shared.weight", "lm_head.weight"
COPIES = re.compile(r"(en|de)coder\.embed_tokens\.weight")
#: Distances to a memory, which some files hold, and no code reads.
UNREAD = "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"
PARTS = {
    "self_attention.queries_keys_values": ("0.SelfAttention.q", "0.SelfAttention.k", "0.SelfAttention.v"),
    "self_attention.output": ("0.SelfAttention.o",),
    "self_attention_norm": ("0.layer_norm",),
    f"memory_attention.{MEMORY}.queries": ("1.EncDecAttention.q",),
    f"memory_attention.{MEMORY}.keys_values": ("1.EncDecAttention.k", "1.EncDecAttention.v"),
    f"memory_attention.{MEMORY}.output": ("1.EncDecAttention.o",),
    "memory_attention_norm": ("1.layer_norm",),
}


class T5:
    """An encoder-decoder as its files describe it.

    Args:
        config: the model's settings.
        tensors: by name, as they stand in the file.
    """

    def __init__(self, config: Config, tensors: Mapping[str, Tensor]) -> None:
        self.config = config
        self.tensors = dict(tensors)
        self.gated, self.activation = _feedforward(config)
        self.dropout = float(config.get("dropout_rate", 0.1))
        vectors = next((self.tensors[name] for name in tensors if name == SHARED or COPIES.fullmatch(name)), None)
        if vectors is None:
            raise DataError(f"{config.path}: its weights have no {SHARED}")
        self.tensors.setdefault(SHARED, vectors)
        output = self.tensors.get(OUTPUT)
        self.tied = output is None or torch.equal(output, vectors)
        # What leaves the decoder of T5 1.0 is multiplied by this. Published files of later versions say by the second
        # setting that it is not; transformers 5 writes the first one, and True for the second.
        said = config.get("scale_decoder_outputs", config.get("tie_word_embeddings", True))
        scaled = config.need("model_type") == "t5" and said
        self.scale = config.need("d_model") ** -0.5 if scaled else 1.0

    def build(self) -> Translator:
        """Build the model, with fresh parameters."""
        config = self.config
        source = self._embedding(None)
        target = self._embedding(source)
        layers = config.need("num_layers")
        return Translator(
            embeddings={"source": source},
            encoder=Encoder(
                layer=self._layer(None),
                layers=layers,
                relative=self._distances(causal=False),
                final_dropout=self.dropout,
            ),
            target_embedding=target,
            decoder=Decoder(
                layer=self._layer([MEMORY]),
                layers=config.get("num_decoder_layers", layers),
                relative=self._distances(causal=True),
                final_dropout=self.dropout,
            ),
            projection=projection_of(target, tied=self.tied),
        )

    def load(self, model: nn.Module, source: str) -> LoadReport:
        """Fill the model; copies of shared tensors must be equal, or they are unexpected."""
        copies = [name for name in self.tensors if COPIES.fullmatch(name) or (name == OUTPUT and self.tied)]
        tensors = without_copies(self.tensors, dict.fromkeys(copies, SHARED))
        elsewhere = [UNREAD] if tensors.pop(UNREAD, None) is not None else []
        last = "decoder.final_layer_norm.weight"
        if last in tensors:  # a factor of the norm is one of what it makes
            tensors[last] = tensors[last].float() * self.scale
        names = {name: self.counterparts(name) for name in model.state_dict()}
        report = load_renamed(model, tensors, names, source)
        report.elsewhere, report.factors = elsewhere, {last: self.scale}
        return report

    def counterparts(self, name: str) -> tuple[str, ...]:
        """Return the names there of the tensors that one of ours is made of."""
        whole = {
            "embeddings.source.tokens.weight": SHARED,
            "projection.weight": OUTPUT,
            "encoder.norm.weight": "encoder.final_layer_norm.weight",
            "decoder.norm.weight": "decoder.final_layer_norm.weight",
            "encoder.relative.weight": "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight",
            "decoder.relative.weight": "decoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight",
        }
        if name in whole:
            return (whole[name],)
        match = re.fullmatch(r"((?:en|de)coder)\.layers\.(\d+)\.(.+)\.weight", name)
        assert match is not None, name
        side, number, part = match.groups()
        last = 2 if side == "decoder" else 1
        dense = f"{last}.DenseReluDense"
        feedforward = {
            "inner": (f"{dense}.wi_0" if self.gated else f"{dense}.wi",),
            "gate": (f"{dense}.wi_1",),
            "outer": (f"{dense}.wo",),
            "feedforward_norm": (f"{last}.layer_norm",),
        }
        return tuple(f"{side}.block.{number}.layer.{one}.weight" for one in (PARTS | feedforward)[part])

    def _layer(self, memories: list[str] | None) -> Layer:
        config = self.config
        return Layer(
            width=config.need("d_model"),
            heads=config.need("num_heads"),
            feedforward=config.need("d_ff"),
            memories=memories,
            dropout=self.dropout,
            attention_dropout=self.dropout,
            activation_dropout=self.dropout,
            activation=self.activation,
            norm_epsilon=float(config.get("layer_norm_epsilon", 1e-6)),
            variant=Variant(norm="rms", bias=False, gated=self.gated, head_width=config.need("d_kv"), scaled=False),
        )

    def _distances(self, *, causal: bool) -> RelativePositions:
        config = self.config
        return RelativePositions(
            heads=config.need("num_heads"),
            buckets=config.get("relative_attention_num_buckets", 32),
            longest=config.get("relative_attention_max_distance", 128),
            causal=causal,
        )

    def _embedding(self, shared_with: TextEmbedding | None) -> TextEmbedding:
        config = self.config
        return TextEmbedding(
            vocabulary=config.need("vocab_size"),
            width=config.need("d_model"),
            padding=config.need("pad_token_id"),
            dropout=self.dropout,
            scaled=False,
            shared_with=shared_with,
        )


def _feedforward(config: Config) -> tuple[bool, str]:
    """Return whether the feed-forward nets are gated, and their activation."""
    said = str(config.get("feed_forward_proj", "relu" if config.need("model_type") == "t5" else "gated-gelu"))
    kind, _, name = said.rpartition("-")
    # "gated-gelu" means the tanh approximation, with which these models were trained.
    activations = ACTIVATIONS | ({"gelu": ACTIVATIONS["gelu_new"]} if kind == "gated" else {})
    if kind not in ("", "gated") or name not in activations:
        raise DataError(f"{config.path}: feed_forward_proj {shown(said)} has no counterpart here")
    return kind == "gated", activations[name]
