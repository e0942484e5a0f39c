"""Transformers of the library of that name as modules of ours, and the names of their tensors.

Encoder-decoders of one family (BART, mBART, M2M-100 and NLLB, Marian) differ in where they normalise and in their
positions; encoders (BERT, RoBERTa, XLM-R) in their positions and names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

from dragoman.exchange.fairseq.fairseq_names import counterparts
from dragoman.exchange.huggingface.hf_reading import Config
from dragoman.exchange.import_sizes import projection_of
from dragoman.exchange.loaded import LoadReport, load_renamed, without_copies
from dragoman.shared.errors import DataError
from dragoman.shared.nn.embeddings import TextEmbedding, TypeVectors
from dragoman.shared.nn.heads import MaskedTokenHead, TiedProjection
from dragoman.shared.nn.layer import Layer
from dragoman.shared.nn.positions import LearnedPositions, SinusoidalPositions
from dragoman.shared.nn.transformer import Decoder, Encoder
from dragoman.shared.nn.translator import MEMORY, EncoderModel, Translator

ACTIVATIONS = {
    "relu": "relu", "gelu": "gelu", "gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh",
    "swish": "swish", "silu": "swish",
}  # fmt: skip
#: Their names by ours, the first of each.
THEIR_ACTIVATIONS = {ours: theirs for theirs, ours in reversed(ACTIVATIONS.items())}
HEAD = "masked_tokens"


# -- encoder-decoders -------------------------------------------------------------------------------------------------


def learned(config: Config) -> nn.Module:
    """Build BART's positions, which leave two rows unused."""
    return LearnedPositions(width=config.need("d_model"), length=config.need("max_position_embeddings"), offset=2)


def behind_padding(config: Config) -> nn.Module:
    """Build fairseq's sinusoids, counted from behind the padding symbol's number."""
    return SinusoidalPositions(width=config.need("d_model"), offset=config.need("pad_token_id") + 1)


def from_zero(config: Config) -> nn.Module:
    """Build Marian's sinusoids.

    Raises:
        DataError: for an odd width, at which they have one more sine than cosines.
    """
    if config.need("d_model") % 2:
        raise DataError(
            f"{config.path}: positions of an odd width (d_model {config.need('d_model')}) are not known here"
        )
    return SinusoidalPositions(width=config.need("d_model"), offset=0, endpoint=False)


@dataclass(frozen=True)
class Family:
    """Facts that follow from a model's type and are not in its settings."""

    pre_norm: bool
    embedding_norm: bool
    positions: Callable[[Config], nn.Module]


FAMILIES = {
    "bart": Family(False, True, learned),
    "mbart": Family(True, True, learned),
    "m2m_100": Family(True, False, behind_padding),
    "marian": Family(False, False, from_zero),
    "fsmt": Family(False, False, behind_padding),
}
OUTPUT, BIAS = "lm_head.weight", "final_logits_bias"
#: What FSMT calls its output.
PROJECTION = "model.decoder.output_projection.weight"
SHARED = "model.shared.weight"
TOKENS = {"encoder": "model.encoder.embed_tokens.weight", "decoder": "model.decoder.embed_tokens.weight"}


class EncoderDecoder:
    """An encoder-decoder as its files describe it.

    Args:
        config: the model's settings.
        tensors: by name, as they stand in the file.
    """

    def __init__(self, config: Config, tensors: Mapping[str, Tensor]) -> None:
        self.config = config
        self.family = FAMILIES[config.need("model_type")]
        prefix = "" if any(name.startswith("model.") for name in tensors) else "model."
        self.tensors = {f"{prefix}{name}" if name not in (OUTPUT, BIAS) else name: t for name, t in tensors.items()}
        if PROJECTION in self.tensors:
            self.tensors[OUTPUT] = self.tensors.pop(PROJECTION)
        self.owners = {side: name if name in self.tensors else SHARED for side, name in TOKENS.items()}
        self.shared = self._same(*self.owners.values())
        self.tied = bool(config.get("tie_word_embeddings", True)) or self._same(OUTPUT, self.owners["decoder"])
        bias = self.tensors.pop(BIAS, torch.zeros(1))
        if bias.any():  # those that are zero, as most are, are left out
            self.tensors[BIAS] = bias.flatten()

    def build(self) -> Translator:
        """Build the model, with fresh parameters."""
        config = self.config
        rows = config.need("vocab_size")
        source = self._embedding(rows, None)
        if self.shared:
            target = self._embedding(rows, source)
        else:
            target = self._embedding(config.get("decoder_vocab_size", rows), None)
        pre_norm = self.family.pre_norm
        layer = partial(layer_of, config, pre_norm=pre_norm, activation=None)
        return Translator(
            embeddings={"source": source},
            encoder=Encoder(layer=layer("encoder", None), layers=config.need("encoder_layers"), final_norm=pre_norm),
            target_embedding=target,
            decoder=Decoder(
                layer=layer("decoder", [MEMORY]), layers=config.need("decoder_layers"), final_norm=pre_norm
            ),
            projection=projection_of(target, tied=self.tied, bias=BIAS in self.tensors),
        )

    def load(self, model: nn.Module, source: str) -> LoadReport:
        """Fill the model; copies of shared tensors must be equal, or they are unexpected."""
        copies = {SHARED: self.owners["encoder"]}
        if self.shared:
            copies[self.owners["decoder"]] = self.owners["encoder"]
        if self.tied:
            copies[OUTPUT] = self.owners["decoder"]
        tensors = without_copies(self.tensors, copies)
        tensors = {name: tensor for name, tensor in tensors.items() if not self._computed(name)}
        names = {name: self.counterparts(name) for name in model.state_dict()}
        names["embeddings.source.tokens.weight"] = (self.owners["encoder"],)
        names["target_embedding.tokens.weight"] = (self.owners["decoder"],)
        unused = tensors.pop(SHARED, None) if SHARED not in self.owners.values() else None
        report = load_renamed(model, tensors, names, source)
        report.elsewhere = [] if unused is None else [SHARED]  # both sides have vectors of their own
        return report

    def counterparts(self, name: str) -> tuple[str, ...]:
        """Return the names there of the tensors that one of ours is made of."""
        return counterparts_of(name)

    def _computed(self, name: str) -> bool:
        """Tell whether a name is that of sinusoids, which are computed anew."""
        there = re.fullmatch(r"model\.(en|de)coder\.embed_positions\.weights?", name)
        return there is not None and self.family.positions is not learned

    def _same(self, one: str, other: str) -> bool:
        pair = [self.tensors.get(name) for name in (one, other)]
        return one == other or (pair[0] is not None and pair[1] is not None and torch.equal(pair[0], pair[1]))

    def _embedding(self, rows: int, shared_with: TextEmbedding | None) -> TextEmbedding:
        config = self.config
        return TextEmbedding(
            vocabulary=rows,
            width=config.need("d_model"),
            padding=config.need("pad_token_id"),
            positions=self.family.positions(config),
            dropout=float(config.get("dropout", 0.0)),
            scaled=bool(config.get("scale_embedding", False)),
            norm=self.family.embedding_norm,
            shared_with=shared_with,
        )


def layer_of(config: Config, side: str, memories: list[str] | None, *, pre_norm: bool, activation: str | None) -> Layer:
    """Return a layer of the encoder or decoder, as ``side`` says; ``activation`` holds where the settings have none."""
    return Layer(
        width=config.need("d_model"),
        heads=config.need(f"{side}_attention_heads"),
        feedforward=config.need(f"{side}_ffn_dim"),
        memories=memories,
        dropout=float(config.get("dropout", 0.0)),
        attention_dropout=float(config.get("attention_dropout", 0.0)),
        activation_dropout=float(config.get("activation_dropout", 0.0)),
        activation=config.choose("activation_function", ACTIVATIONS, activation),
        pre_norm=pre_norm,
    )


def counterparts_of(name: str) -> tuple[str, ...]:
    """Return the names there of what a tensor of an encoder-decoder here is made of: fairseq's, but for the output."""
    heads = {"projection.weight": OUTPUT, "projection.bias": BIAS}
    return (heads[name],) if name in heads else tuple(f"model.{theirs}" for theirs in counterparts(name))


# -- encoders ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class EncoderFamily:
    """Facts that follow from a model's type and are not in its settings: names, and how positions are counted."""

    prefix: str
    dense: str
    norm: str
    bias: str
    output: str
    behind_padding: bool


_ROBERTA = EncoderFamily("roberta.", "lm_head.dense", "lm_head.layer_norm", "lm_head.bias", "lm_head.decoder", True)
ENCODERS = {
    "bert": EncoderFamily(
        "bert.",
        "cls.predictions.transform.dense",
        "cls.predictions.transform.LayerNorm",
        "cls.predictions.bias",
        "cls.predictions.decoder",
        False,
    ),
    "roberta": _ROBERTA,
    "xlm-roberta": _ROBERTA,
}
ENCODER_PARTS = {
    "self_attention.queries_keys_values": ("attention.self.query", "attention.self.key", "attention.self.value"),
    "self_attention.output": ("attention.output.dense",),
    "self_attention_norm": ("attention.output.LayerNorm",),
    "inner": ("intermediate.dense",),
    "outer": ("output.dense",),
    "feedforward_norm": ("output.LayerNorm",),
}
ENCODER_WHOLE = {
    "embeddings.source.tokens": "embeddings.word_embeddings",
    "embeddings.source.positions": "embeddings.position_embeddings",
    "embeddings.source.type_vector": "embeddings.token_type_embeddings",
    "embeddings.source.norm": "embeddings.LayerNorm",
}
#: What serves other purposes than ours: classification of pairs, and positions that are only counted.
ELSEWHERE = re.compile(r"(.*\.)?(pooler\.dense\.(weight|bias)|cls\.seq_relationship\.(weight|bias))")
COUNTED = re.compile(r"(.*\.)?embeddings\.(position_ids|token_type_ids)")


class MaskedEncoder:
    """An encoder as its files describe it, with its head for masked tokens if it has one.

    Args:
        config: the model's settings.
        tensors: by name, as they stand in the file.
        padding: the tokenizer's symbol; that of the settings is another one where BERT has XLM-R's pieces (E5).

    Raises:
        DataError: for positions or attention of another kind.
    """

    def __init__(self, config: Config, tensors: Mapping[str, Tensor], padding: int | None = None) -> None:
        self.config = config
        self.padding = config.need("pad_token_id") if padding is None else padding
        self.family = ENCODERS[config.need("model_type")]
        config.refuse({"position_embedding_type": ("absolute",), "is_decoder": (False,)})
        self.tensors: dict[str, Tensor] = {}
        for name, tensor in tensors.items():
            name = re.sub(r"LayerNorm\.(gamma|beta)$", lambda m: f"LayerNorm.{_NEWER[m[1]]}", name)
            if name.startswith(("embeddings.", "encoder.", "pooler.")):  # saved without what stands around the encoder
                name = self.family.prefix + name
            self.tensors[name] = tensor
        self.head = f"{self.family.dense}.weight" in self.tensors

    def build(self, taps: list[int] | None = None) -> EncoderModel:
        """Build the model, with fresh parameters; ``taps`` are the encoder's."""
        config = self.config
        width = config.need("hidden_size")
        epsilon, activation = config.get("layer_norm_eps", 1e-12), config.choose("hidden_act", ACTIVATIONS)
        dropout = float(config.get("hidden_dropout_prob", 0.0))
        offset = config.need("pad_token_id") + 1 if self.family.behind_padding else 0
        embedding = TextEmbedding(
            vocabulary=config.need("vocab_size"),
            width=width,
            padding=self.padding,
            positions=LearnedPositions(
                width=width, length=config.need("max_position_embeddings") - offset, offset=offset
            ),
            type_vector=TypeVectors(width=width, types=config.need("type_vocab_size")),
            dropout=dropout,
            scaled=False,
            norm=True,
            norm_epsilon=epsilon,
        )
        layer = Layer(
            width=width,
            heads=config.need("num_attention_heads"),
            feedforward=config.need("intermediate_size"),
            dropout=dropout,
            attention_dropout=float(config.get("attention_probs_dropout_prob", 0.0)),
            activation=activation,
            pre_norm=False,
            norm_epsilon=epsilon,
        )
        head = MaskedTokenHead(
            width=width,
            projection=TiedProjection(embedding=embedding, bias=True),
            activation=activation if self.family.behind_padding is False else "gelu",
            norm_epsilon=epsilon,
        )
        return EncoderModel(
            embeddings={"source": embedding},
            encoder=Encoder(layer=layer, layers=config.need("num_hidden_layers"), taps=taps),
            heads={HEAD: head} if self.head else None,
        )

    def load(self, model: nn.Module, source: str) -> LoadReport:
        """Fill the model; copies of shared tensors must be equal, or they are unexpected."""
        family = self.family
        owner = f"{family.prefix}embeddings.word_embeddings.weight"
        copies = {f"{family.output}.weight": owner, f"{family.output}.bias": family.bias}
        names = {name: self.counterparts(name) for name in model.state_dict()}
        known = {theirs for each in names.values() for theirs in each}
        rest = without_copies(self.tensors, copies)
        elsewhere = [name for name in rest if ELSEWHERE.fullmatch(name) and name not in known]
        rest = {name: tensor for name, tensor in rest.items() if name not in elsewhere and not COUNTED.fullmatch(name)}
        report = load_renamed(model, rest, names, source)
        report.elsewhere = elsewhere
        return report

    def counterparts(self, name: str) -> tuple[str, ...]:
        """Return the names there of the tensors that one of ours is made of."""
        return encoder_counterparts(name, self.family)


def encoder_counterparts(name: str, family: EncoderFamily) -> tuple[str, ...]:
    """Return the names in a family of the tensors that one of ours is made of."""
    layer = re.fullmatch(r"encoder\.layers\.(\d+)\.(.+)\.(weight|bias)", name)
    if layer:
        number, part, kind = layer.groups()
        return tuple(f"{family.prefix}encoder.layer.{number}.{theirs}.{kind}" for theirs in ENCODER_PARTS[part])
    head = f"heads.{HEAD}."
    heads = {f"{head}projection.bias": family.bias}
    for part, theirs in ((f"{head}dense", family.dense), (f"{head}norm", family.norm)):
        heads |= {f"{part}.{kind}": f"{theirs}.{kind}" for kind in ("weight", "bias")}
    if name in heads:
        return (heads[name],)
    part, _, kind = name.rpartition(".")
    return (f"{family.prefix}{ENCODER_WHOLE[part]}.{kind}",)


_NEWER = {"gamma": "weight", "beta": "bias"}
