"""Export of models with a head to Hugging Face's layout: the class for texts, words, or spans that computes the same.

An encoder becomes BERT or XLM-R; an encoder and a decoder of the same text BART or mBART, which have none for words.

Legend: V vocabulary.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import torch
from tokenizers import processors
from torch import Tensor, nn

from dragoman.exchange.huggingface.hf_heads import BEGINNINGS, CLASSES, SPANS, TEXTS, WORDS, head_names
from dragoman.exchange.huggingface.hf_model import BIAS, ENCODERS, OUTPUT, THEIR_ACTIVATIONS, encoder_counterparts
from dragoman.exchange.huggingface.hf_reading import CONFIG
from dragoman.exchange.huggingface.hf_tokenizer import JSON, NAMES, SETTINGS, content_of, order_of
from dragoman.exchange.huggingface.hf_translator_export import check_plain, kind_of, settings_of, tensors_of
from dragoman.exchange.huggingface.hf_writing import exported, write_json, write_weights, written_folder
from dragoman.shared.batches.fields import TextField
from dragoman.shared.described import named
from dragoman.shared.errors import UsageError
from dragoman.shared.nn.embeddings import TextEmbedding, TypeVector, TypeVectors
from dragoman.shared.nn.heads import TiedProjection
from dragoman.shared.nn.positions import LearnedPositions
from dragoman.shared.nn.symbols import tensors_below
from dragoman.shared.nn.transformer import plain_layer
from dragoman.shared.nn.translator import EncoderModel, Translator
from dragoman.shared.systems.model_folder import WEIGHTS
from dragoman.shared.systems.saved_model import SavedModel
from dragoman.shared.systems.system import System
from dragoman.shared.text.normalise import effective

TYPES = "embeddings.source.type_vector"


def headed_system(system: SavedModel) -> Any:
    """Return the system if its head labels texts or words, or finds spans; else None."""
    kinds: Any = (EncoderModel, named("BothSides"))
    headed = isinstance(system, System) and system.pipeline in CLASSES and isinstance(system.model, kinds)
    return system if headed else None


def export_headed(system: Any, out: Path) -> list[str]:
    """Write a model with a head.

    Args:
        system: from :func:`headed_system`.
        out: the folder to write; an earlier export is replaced once the new one is complete.

    Returns:
        The class that loads it.

    Raises:
        DataError: if it cannot be written.
        UsageError: for a model that transformers has no equal of, naming the part.
    """
    [field] = system.inputs.values()
    assert isinstance(field, TextField)
    order = order_of(field.tokenizer)
    written = _encoder if isinstance(system.model, EncoderModel) else _both_sides
    settings, tensors = written(system, field, order)
    for name, ours in (("pad_token_id", "<pad>"), ("bos_token_id", "<s>"), ("eos_token_id", "</s>")):
        if ours in field.tokenizer.symbols:
            settings[name] = order.index(field.tokenizer.id(ours))
    if system.pipeline != SPANS:
        labels = [system.output.tokenizer.symbol(number) for number in range(system.output.tokenizer.size)]
        settings |= {"id2label": {str(number): label for number, label in enumerate(labels)}}
        settings |= {"label2id": {label: number for number, label in enumerate(labels)}}
        settings |= {"classifier_dropout": system.model.heads[system.head].dropout}
        settings |= {"problem_type": "single_label_classification"}
    kind = settings["model_type"]
    with written_folder(out) as temporary:
        _write_tokenizer(system, field, order, settings, temporary)
        write_json(temporary / CONFIG, settings)
        write_weights(temporary / WEIGHTS, tensors, CONFIG)
    return [f"{settings['architectures'][0]} ({kind})"]


def _kind(system: Any, padding: int) -> str:
    """Return the model type that computes what the model does.

    Args:
        system: with an encoder and a head.
        padding: the number that the padding symbol will have.

    Raises:
        UsageError: naming what none has.
    """
    model = cast(EncoderModel, system.model)
    embedding, layer = model.embeddings["source"] if "source" in model.embeddings else None, plain_layer(model.encoder)
    head = model.heads[system.head]
    if len(model.embeddings) > 1 or type(embedding) is not TextEmbedding:
        raise _refused(f"embeddings of {' and '.join(model.embeddings)} ({type(embedding).__name__})")
    positions, vectors = embedding.positions, embedding.type_vector
    offset = positions.offset if isinstance(positions, LearnedPositions) else None
    usual = {
        f"the heads {', '.join(model.heads)}": len(model.heads) == 1,
        f"layers of {type(model.encoder.layers[0]).__name__}s that are not the usual ones": layer is not None,
        "layers that normalise what enters them": layer is None or not layer.pre_norm,
        "a norm behind the last layer": not isinstance(model.encoder.norm, nn.LayerNorm),
        "an embedding without a norm, or with scaled vectors": isinstance(embedding.norm, nn.LayerNorm)
        and embedding.scale == 1.0,
        "norms of two kinds": layer is None or getattr(embedding.norm, "eps", None) == layer.norm_epsilon,
        f"positions by {type(positions).__name__}": offset in (0, padding + 1),
        f"a {type(vectors).__name__}": vectors is None or type(vectors) in (TypeVector, TypeVectors),
        "a head without a dense layer, or of another state than the first": system.pipeline != TEXTS
        or (head.dense is not None and head.pooling == "first"),
    }
    for part, holds in usual.items():
        if not holds:
            raise _refused(part)
    return "bert" if offset == 0 else "xlm-roberta"


def _refused(part: str) -> UsageError:
    return UsageError(f"transformers has no native class for a model with {part}")


def _encoder(system: Any, field: TextField, order: list[int]) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return the settings of an encoder with a head, and its tensors.

    Raises:
        UsageError: naming what no model type has.
    """
    kind = _kind(system, order.index(field.tokenizer.pad))
    model: Any = system.model
    embedding, layer = model.embeddings["source"], model.encoder.layers[0]
    settings = {
        "architectures": [f"{BEGINNINGS[kind]}{CLASSES[system.pipeline]}"],
        "model_type": kind,
        "vocab_size": field.tokenizer.size,
        "hidden_size": embedding.width,
        "num_hidden_layers": len(model.encoder.layers),
        "num_attention_heads": layer.self_attention.heads,
        "intermediate_size": layer.inner.out_features,
        "hidden_act": THEIR_ACTIVATIONS[str(layer.arguments.get("activation", "relu"))],
        "hidden_dropout_prob": layer.dropout,
        "attention_probs_dropout_prob": layer.self_attention.dropout,
        "max_position_embeddings": len(embedding.positions.weight),
        "type_vocab_size": len(_types(model, kind)),
        "layer_norm_eps": layer.norm_epsilon,
        "dtype": "float32",
    }
    return settings, _tensors(system, kind, torch.tensor(order))


def _both_sides(system: Any, field: TextField, order: list[int]) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return the settings of an encoder and a decoder of one text with a head, and their tensors.

    There the decoder begins with a symbol of the settings (BART) or with the text's last one (mBART), and a text's
    vector is the state at its last ``</s>``.

    Raises:
        UsageError: naming what no model type has.
    """
    model, head = system.model, system.model.heads[system.head]
    if list(model.embeddings) != ["source"] or len(model.heads) > 1:
        raise _refused(f"an input {' and '.join(model.embeddings)} and the heads {', '.join(model.heads)}")
    below = Translator(
        embeddings=dict(model.embeddings.items()),
        encoder=model.encoder,
        target_embedding=model.target_embedding,
        decoder=model.decoder,
        projection=TiedProjection(embedding=model.target_embedding),
    )
    check_plain(below)
    kind = kind_of(below, order.index(field.tokenizer.pad))
    if kind.name not in BEGINNINGS or system.pipeline == WORDS:
        raise _refused(f"a text on both sides, as {kind.name}, with a head for {system.pipeline}")
    framed = field.framed([], system.source_languages[0])
    place = {"last": -1, "before_last": -2}.get(getattr(head, "pooling", ""), 0)
    if system.pipeline == TEXTS and (
        head.dense is None
        or not place
        or framed[place:][:1] != [field.tokenizer.eos]
        or field.tokenizer.eos in framed[place:][1:]
    ):
        raise _refused("a head without a dense layer, or of another state than that of the text's </s>")
    if getattr(field, "types", False):
        raise _refused("types of texts")
    settings = settings_of(below, kind) | {"architectures": [f"{BEGINNINGS[kind.name]}{CLASSES[system.pipeline]}"]}
    settings["decoder_start_token_id"] = order.index(framed[-1])
    tensors = tensors_of(below, kind, torch.tensor(order))
    names = head_names(system.pipeline, kind.name)
    for name, value in head.state_dict().items():
        part, _, parameter = name.partition(".")
        tensors[f"{names[part]}.{parameter}"] = exported(value)
    return settings, {name: value for name, value in tensors.items() if name not in (OUTPUT, BIAS)}


def _types(model: Any, kind: str) -> Tensor:
    """Return the vectors of types; BERT has two."""
    embedding = model.embeddings["source"]
    vectors = embedding.type_vector
    if vectors is None:
        rows = torch.zeros(1, embedding.width)
    else:
        rows = vectors.vector[None] if isinstance(vectors, TypeVector) else vectors.weight
    return rows.repeat(2, 1) if kind == "bert" and len(rows) == 1 else rows


def _tensors(system: Any, kind: str, order: Tensor) -> dict[str, Tensor]:
    """Return the tensors by their names there, with the rows of symbols in the order (V,) of their numbers there."""
    model, family = cast(EncoderModel, system.model), ENCODERS[kind]
    with_rows = {name for part in model.symbol_fields() for name in tensors_below(model, part)}
    head, names = f"heads.{system.head}.", head_names(system.pipeline, kind)
    tensors = {f"{family.prefix}embeddings.token_type_embeddings.weight": _types(model, kind)}
    for name, value in model.state_dict().items():
        if name.startswith(head):
            part, _, parameter = name.removeprefix(head).partition(".")
            theirs: tuple[str, ...] = (f"{names[part]}.{parameter}",)
        elif name.startswith(f"{TYPES}."):
            continue
        else:
            theirs = encoder_counterparts(name, family)
        rows = value[order] if name in with_rows else value
        tensors |= dict(zip(theirs, rows.chunk(len(theirs)), strict=True))
    return {name: exported(value) for name, value in tensors.items()}


def _write_tokenizer(
    system: System, field: TextField, order: list[int], settings: dict[str, Any], folder: Path
) -> None:
    """Write ``tokenizer.json`` with the symbols around a text, and around two.

    Raises:
        UsageError: for changes to the text, or symbols that depend on its language.
    """
    changes = [type(change).__name__ for change in effective(field.normalizers)]
    if changes:
        raise UsageError(f"transformers has no place for {', '.join(changes)} before the tokenizer")
    tokenizer = field.tokenizer
    before = {tuple(field.framed([], code)) for code in system.source_languages}
    if len(before) > 1:
        raise UsageError("transformers has no place for symbols that depend on the language of a text")
    around = [tokenizer.symbol(id) for id in before.pop()]
    first, last = around[: len(field.prefix)], around[len(field.prefix) :]
    between = [tokenizer.symbol(tokenizer.id(symbol)) for symbol in getattr(field, "between", field.suffix)]
    second = int(getattr(field, "types", False))
    content = content_of(tokenizer, [tokenizer.symbol(id) for id in order])
    content.post_processor = processors.TemplateProcessing(
        single=[*first, "$A", *last],
        pair=[*first, "$A", *between, f"$B:{second}", *(f"{symbol}:{second}" for symbol in last)],
        special_tokens=[
            (symbol, next(number for number, id in enumerate(order) if tokenizer.symbol(id) == symbol))
            for symbol in dict.fromkeys([*around, *between])
        ],
    )
    (folder / JSON).write_text(content.to_str(pretty=True), encoding="utf-8")
    names = {name: ours for name, ours in NAMES.items() if ours in tokenizer.symbols}
    said: dict[str, Any] = {name: tokenizer.symbol(tokenizer.id(ours)) for name, ours in names.items()}
    offset = settings["pad_token_id"] + 1 if settings["model_type"] == "xlm-roberta" else 0
    said |= {"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False}
    said |= {"model_max_length": settings["max_position_embeddings"] - offset}
    said |= {"model_input_names": ["input_ids", *(["token_type_ids"] if second else []), "attention_mask"]}
    write_json(folder / SETTINGS, said)
