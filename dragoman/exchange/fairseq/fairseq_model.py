"""fairseq's Transformers as modules of ours: sizes come from the tensors, what they do from the settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from dragoman.exchange.fairseq.fairseq_names import counterparts, layers_of
from dragoman.exchange.foreign_settings import FAIRSEQ, ForeignSettings, check_settings
from dragoman.exchange.import_sizes import projection_of
from dragoman.exchange.loaded import LoadReport, load_renamed, without_copies
from dragoman.shared.errors import DataError, shown
from dragoman.shared.nn.embeddings import TextEmbedding
from dragoman.shared.nn.heads import MaskedTokenHead, TiedProjection
from dragoman.shared.nn.layer import Layer
from dragoman.shared.nn.positions import LearnedPositions, SinusoidalPositions
from dragoman.shared.nn.transformer import Decoder, Encoder
from dragoman.shared.nn.translator import MEMORY, EncoderModel, Translator

PADDING = 1
#: fairseq's positions are counted from behind the padding symbol's number.
OFFSET = PADDING + 1
ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "gelu_fast": "gelu_tanh", "gelu_accurate": "gelu_tanh", "swish": "swish"}
#: Settings that change what is computed in ways that there is no place for here, with the values that change nothing.
ELSEWHERE: dict[str, tuple[Any, ...]] = {
    "adaptive_input": (None, False),
    "adaptive_softmax_cutoff": (None, ""),
    "base_layers": (None, 0),
    "char_inputs": (None, False),
    "cross_self_attention": (None, False),
    "no_cross_attention": (None, False),
    "no_decoder_input_output_embed": (None, False),
    "untie_weights_roberta": (None, False),
}


class Settings(ForeignSettings):
    """The settings of a checkpoint, whether it holds ``args`` (fairseq 0.10 and older) or ``cfg``.

    Args:
        content: of the checkpoint, as plain data.
        path: of it, for messages.

    Raises:
        DataError: if it has neither.
    """

    path: str

    def __init__(self, content: Mapping[str, Any], path: str) -> None:
        self.path = path
        args, cfg = content.get("args"), content.get("cfg")
        if not (isinstance(args, dict) or isinstance(cfg, dict)):
            raise DataError(f"{path}: not a checkpoint of fairseq (it has neither args nor cfg)")
        self.values: dict[str, Any] = dict(args) if isinstance(args, dict) else {}
        if not self.values and isinstance(cfg, dict):
            task, model = (cfg.get(name) or {} for name in ("task", "model"))
            self.values = {"task": task.get("_name"), "arch": model.get("_name")} | task | model
            for side in ("encoder", "decoder"):  # the newest form has a group for each side
                if isinstance(model.get(side), dict):
                    self.values |= {f"{side}_{name}": value for name, value in model[side].items()}
        check_settings(self.values, path, FAIRSEQ)

    def need(self, name: str) -> Any:
        """Return a setting.

        Raises:
            DataError: if the checkpoint does not say.
        """
        if self.get(name) is None:
            raise DataError(f"{self.path}: its settings do not say {name}")
        return self.values[name]

    def check(self) -> None:
        """Refuse what is computed elsewhere but not here.

        Raises:
            DataError: naming the setting.
        """
        self.refuse(ELSEWHERE)
        for name in ("decoder_input_dim", "decoder_output_dim"):
            if self.get(name) not in (None, self.get("decoder_embed_dim")):
                raise DataError(
                    f"{self.path}: {name} = {self.values[name]} differs from the width, which is not supported here"
                )


class Parts:
    """Builds the parts of a model from tensors and settings.

    Args:
        tensors: the checkpoint's, with names of fairseq 0.12.
        settings: the checkpoint's.
    """

    def __init__(self, tensors: Mapping[str, Tensor], settings: Settings) -> None:
        self.tensors = tensors
        self.settings = settings

    def shape(self, name: str) -> torch.Size:
        """Return a tensor's shape.

        Raises:
            DataError: if there is none.
        """
        if name not in self.tensors:
            raise DataError(f"{self.settings.path}: has no {name}")
        return self.tensors[name].shape

    def embedding(self, side: str, *, scaled: bool, shared_with: TextEmbedding | None = None) -> TextEmbedding:
        """Build the embedding of one side."""
        vocabulary, width = (
            self.shape(f"{side}.embed_tokens.weight") if shared_with is None else shared_with.weight.shape
        )
        return TextEmbedding(
            vocabulary=vocabulary,
            width=width,
            padding=PADDING,
            positions=self.positions(side, width),
            dropout=float(self.settings.get("dropout", 0.0)),
            scaled=scaled,
            norm=f"{side}.layernorm_embedding.weight" in self.tensors,
            shared_with=shared_with,
        )

    def positions(self, side: str, width: int) -> LearnedPositions | SinusoidalPositions | None:
        """Build the positions of one side: learned if the checkpoint has a table of them."""
        name = f"{side}.embed_positions.weight"
        if name in self.tensors:
            return LearnedPositions(width=width, length=self.shape(name)[0] - OFFSET, offset=OFFSET)
        if self.settings.get("no_token_positional_embeddings", False):
            return None
        if self.settings.get(f"{side}_learned_pos", False):
            raise DataError(f"{self.settings.path}: positions are learned, but there is no {name}")
        return SinusoidalPositions(width=width, offset=OFFSET)

    def stack(self, side: str, *, memories: dict[str, int] | None = None, pre_norm: bool) -> dict[str, Any]:
        """Return the arguments of an Encoder or Decoder."""
        settings = self.settings
        feedforward, width = self.shape(f"{side}.layers.0.fc1.weight")
        activation = settings.get("activation_fn", "relu")
        if activation not in ACTIVATIONS:
            raise DataError(f"{settings.path}: activation_fn = {shown(activation)} has no counterpart here")
        layer = Layer(
            width=width,
            heads=int(settings.need(f"{side}_attention_heads")),
            feedforward=feedforward,
            memories=memories,
            dropout=float(settings.get("dropout", 0.0)),
            attention_dropout=float(settings.get("attention_dropout", 0.0)),
            activation_dropout=float(settings.get("activation_dropout", 0.0) or settings.get("relu_dropout", 0.0)),
            activation=ACTIVATIONS[activation],
            pre_norm=pre_norm,
        )
        norm = f"{side}.layer_norm.weight" in self.tensors
        return {"layer": layer, "layers": layers_of(self.tensors, side), "final_norm": norm}


def build_translator(tensors: Mapping[str, Tensor], settings: Settings) -> Translator:
    """Build the encoder-decoder that a checkpoint describes, with fresh parameters."""
    parts, scaled = Parts(tensors, settings), not settings.get("no_scale_embedding", False)
    source = parts.embedding("encoder", scaled=scaled)
    shared = bool(settings.get("share_all_embeddings", False))
    target = parts.embedding("decoder", scaled=scaled, shared_with=source if shared else None)
    tied = shared or settings.get("share_decoder_input_output_embed", False)
    memory = parts.shape("decoder.layers.0.encoder_attn.k_proj.weight")[1]
    sides = {side: bool(settings.need(f"{side}_normalize_before")) for side in ("encoder", "decoder")}
    return Translator(
        embeddings={"source": source},
        encoder=Encoder(**parts.stack("encoder", pre_norm=sides["encoder"])),
        target_embedding=target,
        decoder=Decoder(**parts.stack("decoder", memories={MEMORY: memory}, pre_norm=sides["decoder"])),
        projection=projection_of(target, tied=tied),
    )


def build_encoder(tensors: Mapping[str, Tensor], settings: Settings) -> EncoderModel:
    """Build the encoder of a masked language model with its head, with fresh parameters."""
    parts = Parts(tensors, settings)
    embedding = parts.embedding("encoder", scaled=not settings.get("no_scale_embedding", True))
    head = MaskedTokenHead(
        width=embedding.width,
        projection=TiedProjection(embedding=embedding, bias=True),
        activation=ACTIVATIONS[settings.get("activation_fn", "gelu")],
    )
    # Older encoders of this kind are post-norm, and mean the norm of the embedding by encoder_normalize_before.
    older = "encoder.layer_norm.weight" not in tensors
    return EncoderModel(
        embeddings={"source": embedding},
        encoder=Encoder(**parts.stack("encoder", pre_norm=not older)),
        heads={"masked_tokens": head},
    )


def load(model: Translator | EncoderModel, tensors: Mapping[str, Tensor], source: str) -> LoadReport:
    """Fill a model with a checkpoint's tensors; copies of shared ones must be equal, or they are unexpected."""
    copies = {"encoder.lm_head.weight": "encoder.embed_tokens.weight"}
    if isinstance(model, Translator):
        if "target_embedding.tokens.weight" not in model.state_dict():
            copies["decoder.embed_tokens.weight"] = "encoder.embed_tokens.weight"
        if isinstance(model.projection, TiedProjection):
            owner = copies.get("decoder.embed_tokens.weight", "decoder.embed_tokens.weight")
            copies["decoder.output_projection.weight"] = owner
    names = {name: counterparts(name) for name in model.state_dict()}
    return load_renamed(model, without_copies(tensors, copies), names, source)
