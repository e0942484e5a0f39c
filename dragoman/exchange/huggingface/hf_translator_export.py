"""Translators of text in transformers' classes: which computes the same, its settings, and its weights by their names.

Legend: V vocabulary, D model width.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn

from dragoman.exchange.huggingface.hf_model import (
    BIAS,
    OUTPUT,
    PROJECTION,
    SHARED,
    THEIR_ACTIVATIONS,
    TOKENS,
    counterparts_of,
)
from dragoman.exchange.huggingface.hf_writing import exported
from dragoman.shared.batches.separated import SeparatedText
from dragoman.shared.errors import UsageError
from dragoman.shared.nn.embeddings import TextEmbedding
from dragoman.shared.nn.heads import OutputProjection, TiedProjection
from dragoman.shared.nn.layer import Layer
from dragoman.shared.nn.positions import LearnedPositions, SinusoidalPositions
from dragoman.shared.nn.symbols import tensors_below
from dragoman.shared.nn.transformer import plain_layer
from dragoman.shared.nn.translator import MEMORY, Translator
from dragoman.shared.systems.system import System

LONGEST = 1024  # positions that settings name where there is no end to them


@dataclass(frozen=True)
class Kind:
    """A model type of transformers, and what it computes.

    Attributes:
        name: the model type.
        architecture: the class.
        pre_norm: layers normalise what enters them, and stacks what leaves the last.
        embedding_norm: what is embedded is normalised.
        positions: "learned", "behind padding" or "from zero".
        bias: logits may have a bias.
    """

    name: str
    architecture: str
    pre_norm: bool
    embedding_norm: bool
    positions: str
    bias: bool


KINDS = (
    Kind("m2m_100", "M2M100ForConditionalGeneration", True, False, "behind padding", False),
    Kind("mbart", "MBartForConditionalGeneration", True, True, "learned", True),
    Kind("bart", "BartForConditionalGeneration", False, True, "learned", True),
    Kind("marian", "MarianMTModel", False, False, "from zero", True),
    Kind("fsmt", "FSMTForConditionalGeneration", False, False, "behind padding", False),
)


def plain_translator(system: System) -> Translator:
    """Return the system's model.

    Raises:
        UsageError: naming what transformers has no place for.
    """
    model, inputs = system.model, list(system.inputs)
    if type(system) is not System or type(model) is not Translator or inputs != ["source"]:
        raise refused(f"the system ({type(system).__name__} of a {type(model).__name__} that reads {inputs})")
    if isinstance(system.output, SeparatedText):
        raise refused("a symbol between the sentences of a document")
    check_plain(model)
    return model


def check_plain(model: Translator) -> None:
    """Raise UsageError for a translator that transformers has no place for, naming the part."""
    if len(model.heads):
        raise refused(f"the heads {', '.join(model.heads)}")
    for stack, embedding in ((model.encoder, model.embeddings["source"]), (model.decoder, model.target_embedding)):
        layer = plain_layer(stack)
        if layer is None:
            raise refused(f"{type(stack).__name__} of {type(stack.layers[0]).__name__}s that are not the usual ones")
        if type(embedding) is not TextEmbedding:
            raise refused(f"a {type(embedding).__name__} as embedding")
        if embedding.type_vector is not None:
            raise refused("an embedding with a type vector")
        memories = [MEMORY] if stack is model.decoder else []
        if list(layer.memory_attention) != memories:
            raise refused(f"{type(stack).__name__} that attends to {list(layer.memory_attention)}")
        if layer.norm_epsilon != 1e-5 or getattr(embedding.norm, "eps", 1e-5) != 1e-5:
            raise refused(f"norms with an epsilon of {layer.norm_epsilon}")
    if model.encoder.width != model.decoder.width:
        raise refused(f"an encoder of width {model.encoder.width} with a decoder of width {model.decoder.width}")
    if type(model.projection) not in (OutputProjection, TiedProjection):
        raise refused(type(model.projection).__name__)


def kind_of(model: Translator, padding: int) -> Kind:
    """Return the first model type that computes what the model does.

    Args:
        model: a plain translator.
        padding: the number that the padding symbol will have.

    Raises:
        UsageError: if there is none, saying what the model is.
    """
    stacks = (model.encoder, model.decoder)
    embeddings = (cast(TextEmbedding, model.embeddings["source"]), model.target_embedding)
    layers = [cast(Layer, stack.layers[0]) for stack in stacks]
    pre_norm = {layer.pre_norm for layer in layers} | {isinstance(stack.norm, nn.LayerNorm) for stack in stacks}
    forms = (
        pre_norm.pop() if len(pre_norm) == 1 else "mixed norms",
        _one({isinstance(embedding.norm, nn.LayerNorm) for embedding in embeddings}),
        _one({_positions(embedding, padding) for embedding in embeddings}),
    )
    bias = model.projection.bias is not None
    same = {(_activation(layer), layer.dropout) for layer in layers}, {e.scale for e in embeddings}
    for kind in KINDS:
        if forms == (kind.pre_norm, kind.embedding_norm, kind.positions) and bias <= kind.bias:
            if any(len(values) > 1 for values in same):
                raise refused("an encoder and a decoder with different activations, dropouts or scales")
            return kind
    raise refused(
        f"a translator with pre_norm and final norms {forms[0]}, norm of embeddings {forms[1]}, positions {forms[2]}"
        f"{', and a bias of its logits' if bias else ''}"
    )


def _activation(layer: Layer) -> str:
    return str(layer.arguments.get("activation", "relu"))


def _one(values: set[Any]) -> Any:
    return next(iter(values)) if len(values) == 1 else f"of both kinds ({', '.join(sorted(map(str, values)))})"


def _positions(embedding: TextEmbedding, padding: int) -> str:
    positions = embedding.positions
    if isinstance(positions, LearnedPositions):
        return "learned" if positions.offset == 2 else f"learned from row {positions.offset}"
    if isinstance(positions, SinusoidalPositions):
        if not positions.endpoint and positions.offset == 0 and positions.width % 2 == 0:
            return "from zero"
        if positions.endpoint and positions.offset == padding + 1:
            return "behind padding"
        return f"sinusoidal from {positions.offset} (padding has number {padding})"
    return "none" if positions is None else type(positions).__name__


def refused(part: str) -> UsageError:
    """Return the error to raise for what transformers has no place for."""
    return UsageError(
        f"transformers has no native class for {part}: only plain text translators can be exported to it, and what was "
        "imported from its layout with --like"
    )


def settings_of(model: Translator, kind: Kind) -> dict[str, Any]:
    """Return the settings of a model, without those that follow from its tokenizer."""
    embedding = cast(TextEmbedding, model.embeddings["source"])
    layers = {side: cast(Layer, getattr(model, side).layers[0]) for side in ("encoder", "decoder")}
    settings: dict[str, Any] = {
        "architectures": [kind.architecture],
        "model_type": kind.name,
        "is_encoder_decoder": True,
        "d_model": embedding.width,
        "activation_function": THEIR_ACTIVATIONS[_activation(layers["encoder"])],
        "dropout": layers["encoder"].dropout,
        "attention_dropout": layers["encoder"].self_attention.dropout,
        "activation_dropout": layers["encoder"].activation_dropout,
        "encoder_layerdrop": 0.0,
        "decoder_layerdrop": 0.0,
        "scale_embedding": embedding.scale != 1.0,
        "max_position_embeddings": getattr(embedding.positions, "length", LONGEST),
        "tie_word_embeddings": _tied(model) and kind.name != "fsmt",
        "dtype": "float32",
    }
    for side, layer in layers.items():
        settings[f"{side}_layers"] = len(getattr(model, side).layers)
        settings[f"{side}_attention_heads"] = layer.self_attention.heads
        settings[f"{side}_ffn_dim"] = layer.inner.out_features
    if kind.name == "fsmt":
        settings |= {"src_vocab_size": embedding.vocabulary, "tgt_vocab_size": model.target_embedding.vocabulary}
    else:
        settings["vocab_size"] = embedding.vocabulary
    if kind.name == "marian":
        settings |= {"share_encoder_decoder_embeddings": _tied(model)}
        settings |= {"decoder_vocab_size": model.target_embedding.vocabulary}
    return settings


def _tied(model: Translator) -> bool:
    """Tell whether one matrix serves the source, the target and the output, as settings there mean it."""
    source, target = model.embeddings["source"].weight, model.target_embedding.weight
    return source is target and model.projection.weight is target


def tensors_of(model: Translator, kind: Kind, order: Tensor) -> dict[str, Tensor]:
    """Return the tensors by their names there, with the rows of symbols in the order (V,) of their numbers there."""
    owners = (model.embeddings["source"], model.target_embedding, model.projection)
    source, target, output = (cast(Tensor, owner.weight)[order] for owner in owners)
    tensors: dict[str, Tensor] = {}
    if kind.name == "fsmt":
        tensors |= {TOKENS["encoder"]: source, TOKENS["decoder"]: target}
        tensors[PROJECTION] = output
    elif _tied(model):
        tensors[SHARED] = source
    else:
        tensors |= {SHARED: source, TOKENS["encoder"]: source, TOKENS["decoder"]: target, OUTPUT: output}
    if kind.bias:
        bias = model.projection.bias
        tensors[BIAS] = (torch.zeros(len(order)) if bias is None else cast(Tensor, bias)[order])[None]
    with_rows = {name for part in model.symbol_fields() for name in tensors_below(model, part)}
    for name, value in model.state_dict().items():
        if name in with_rows:
            continue
        parts = counterparts_of(name)
        tensors |= dict(zip(parts, value.chunk(len(parts)), strict=True))
    return {name: exported(value) for name, value in tensors.items()}
