"""Checkpoints of unbabel-comet 2: metrics that score a translation beside its source, with or without a reference.

A folder as Unbabel publishes it, "wmt22-comet-da" for example: ``hparams.yaml`` says which kind of model it is,
``checkpoints/model.ckpt`` holds settings and weights. The encoder's own settings and tokenizer are not in it: they are
read from the folder that ``pretrained_model`` names, seen from the checkpoint's folder (``xlm-roberta-large/``). The
pickle is read restricted; neither unbabel-comet nor transformers is needed, and nothing in the folder is run.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

from torch import Tensor, nn

from dragoman.exchange.comet_models import JointComet, SegmentComet
from dragoman.exchange.foreign_settings import read_yaml
from dragoman.exchange.huggingface.hf_model import MaskedEncoder
from dragoman.exchange.huggingface.hf_reading import CONFIG, Config
from dragoman.exchange.huggingface.hf_text import read_texts
from dragoman.exchange.import_sizes import built, check_rows
from dragoman.exchange.loaded import LoadReport, load_renamed
from dragoman.exchange.regression import JointRegressor, LayerMix, SegmentRegressor
from dragoman.exchange.unpickling import read_checkpoint
from dragoman.shared.batches.fields import TextField
from dragoman.shared.errors import DataError, shown

SETTINGS, WEIGHTS = "hparams.yaml", Path("checkpoints") / "model.ckpt"
ENCODER, MIX, ESTIMATOR = "encoder.model.", "layerwise_attention.", "estimator.ff."
#: Kinds of models that are read, and what makes them of a regressor's options.
KINDS: dict[str, Callable[..., SegmentRegressor | JointRegressor]] = {
    "regression_metric": partial(SegmentRegressor, with_reference=True),
    "referenceless_regression_metric": partial(SegmentRegressor, with_reference=False),
    "unified_metric": JointRegressor,
}
#: What a unified model may read beside the hypothesis.
SEGMENTS = (["src"], ["ref"], ["src", "ref"])
POOLING = {"avg": "mean", "cls": "first", "max": "largest"}
ACTIVATIONS = {"Tanh": "tanh", "Sigmoid": "sigmoid"}
#: Tokens that unbabel-comet leaves unused at the end of the encoder's positions, beside two that no XLM-R can use.
UNUSED = 4


def read_comet(folder: Path) -> SegmentComet | JointComet:
    """Read a folder.

    Raises:
        DataError: naming the file, if something is missing, does not fit, or has no counterpart here.
    """
    path = folder / WEIGHTS
    said = read_yaml(folder / SETTINGS, f"a folder of unbabel-comet holds {SETTINGS} and {WEIGHTS}")
    kind = _choice(said, "class_identifier", KINDS, folder / SETTINGS)
    checkpoint = read_checkpoint(path)
    settings = said | _part(checkpoint, "hyper_parameters", path)
    if said.get("layer_transformation") == "sparsemax_patch":  # trained with softmax, whatever the checkpoint says
        settings["layer_transformation"] = "softmax"
    joint = kind is JointRegressor
    reads = _segments(settings, path) if joint else []
    tensors = {
        name: value for name, value in _part(checkpoint, "state_dict", path).items() if isinstance(value, Tensor)
    }
    config, field = _encoder_files(folder, settings, path)
    check_rows(config.need("vocab_size"), tensors, config.path)
    encoder = MaskedEncoder(config, _below(ENCODER, tensors), field.tokenizer.pad)
    layer: Any = settings.get("sent_layer" if joint else "layer")
    layers = _checked_layers(config, layer, tensors, path)
    options = _options(settings, path)
    if not joint:
        options["pooling"] = _choice(settings, "pool", POOLING, path)

    def build() -> SegmentRegressor | JointRegressor:
        mix = _mix(settings, layers) if layer == "mix" else None
        return kind(model=encoder.build(taps=[layer] if mix is None else list(range(layers + 1))), mix=mix, **options)

    regressor = built(build, tensors, path)
    reports = [encoder.load(regressor.model, str(path)), _load_estimator(regressor.estimator, tensors, path)]
    if regressor.mix is not None:
        names = [f"scalar_parameters.{number}" for number in range(layers + 1)]
        weights = {name: value for name, value in _below(MIX, tensors).items() if not name.startswith("dropout_")}
        reports.append(load_renamed(regressor.mix, weights, {"scores": names, "gamma": ["gamma"]}, str(path)))
    for report in reports:
        report.check(remedy="")
    with open(path, "rb") as file:
        fingerprint = hashlib.file_digest(file, "sha256").hexdigest()[:16]
    of_model = {
        "field": field,
        "longest": config.need("max_position_embeddings") - UNUSED,
        "name": folder.resolve().name,
        "fingerprint": fingerprint,
    }
    if isinstance(regressor, JointRegressor):
        return JointComet(reads=reads, regressor=regressor.eval(), **of_model)
    return SegmentComet(regressor=regressor.eval(), **of_model)


def _segments(settings: Mapping[str, Any], path: Path) -> list[str]:
    """Return what a unified model reads beside the hypothesis."""
    if settings.get("word_level_training"):
        raise DataError(f"{path}: word_level_training: models that mark words as errors (XCOMET) are not read")
    segments = settings.get("input_segments")
    if not isinstance(segments, list) or segments[:1] != ["mt"] or segments[1:] not in SEGMENTS:
        raise DataError(f"{path}: input_segments {shown(segments)} are not 'mt' with 'src', 'ref' or both behind it")
    return segments[1:]


def _part(checkpoint: dict[str, Any], name: str, path: Path) -> dict[str, Any]:
    """Return one of the dictionaries in a checkpoint."""
    part = checkpoint.get(name)
    if not isinstance(part, dict):
        raise DataError(f"{path}: has no {name}, so it is no checkpoint of unbabel-comet")
    return part


def _choice(settings: Mapping[str, Any], name: str, choices: Mapping[str, Any], path: Path) -> Any:
    """Return what a setting stands for here."""
    value = settings.get(name)
    if not isinstance(value, str) or value not in choices:
        raise DataError(f"{path}: {name} {shown(value)} has no counterpart here, only {', '.join(choices)}")
    return choices[value]


def _encoder_files(folder: Path, settings: Mapping[str, Any], path: Path) -> tuple[Config, TextField]:
    """Return the encoder's settings, and what makes its tokens of texts."""
    _choice(settings, "encoder_model", {"XLM-RoBERTa": True}, path)
    name = str(settings.get("pretrained_model"))
    place = folder / name
    if not (place / CONFIG).is_file():
        raise DataError(
            f"{place}: has no {CONFIG}: the settings and the tokenizer of {name} belong there; "
            f"hf download {name} {CONFIG} tokenizer.json --local-dir '{place}' fetches them"
        )
    config = Config(place / CONFIG)
    config.choose("model_type", {"xlm-roberta": True})
    with TemporaryDirectory() as scratch:  # only BERT's tokenizers are put together there
        return config, read_texts(place, config, Path(scratch)).source


def _checked_layers(config: Config, layer: Any, tensors: Mapping[str, Tensor], path: Path) -> int:
    """Return the number of the encoder's layers, on which all that concerns layers must agree."""
    layers: int = config.need("num_hidden_layers")
    numbers = [int(match[1]) for name in tensors if (match := _LAYER.match(name))]
    if len({*numbers}) != layers:
        raise DataError(f"{path}: holds an encoder of {len({*numbers})} layers, but {config.path} describes {layers}")
    if layer == "mix":
        mixed = sum(name.startswith(f"{MIX}scalar_parameters.") for name in tensors)
        if mixed != layers + 1:
            raise DataError(f"{path}: mixes {mixed} layers, but the encoder has {layers + 1} with its embedding")
    elif isinstance(layer, bool) or not isinstance(layer, int) or not 0 <= layer <= layers:
        raise DataError(f"{path}: layer {layer!r} is neither 'mix' nor a number from 0 to {layers}")
    return layers


_LAYER = re.compile(re.escape(ENCODER) + r"encoder\.layer\.(\d+)\.")


def _mix(settings: Mapping[str, Any], layers: int) -> LayerMix:
    # unbabel-comet takes whatever is not sparsemax for softmax.
    kind: Literal["softmax", "sparsemax"] = (
        "sparsemax" if settings.get("layer_transformation") == "sparsemax" else "softmax"
    )
    return LayerMix(layers=layers + 1, transformation=kind, normalised=bool(settings.get("layer_norm", True)))


def _options(settings: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """Return what the feed-forward net is made of."""
    hidden = settings.get("hidden_sizes")
    if not isinstance(hidden, list) or not hidden or not all(type(size) is int and size > 0 for size in hidden):
        raise DataError(f"{path}: hidden_sizes {hidden!r} are no widths of layers")
    final = settings.get("final_activation")
    return {
        "hidden": hidden,
        "activation": _choice(settings, "activations", ACTIVATIONS, path),
        "final_activation": None if final is None else _choice(settings, "final_activation", ACTIVATIONS, path),
    }


def _load_estimator(estimator: nn.Module, tensors: Mapping[str, Tensor], path: Path) -> LoadReport:
    """Fill the feed-forward net, between whose layers stands dropout there."""
    names = {}
    for name in estimator.state_dict():
        number, _, kind = name.partition(".")
        names[name] = [f"{int(number) // 2 * 3}.{kind}"]
    return load_renamed(estimator, _below(ESTIMATOR, tensors), names, str(path))


def _below(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors whose names begin so, by the rest of their names."""
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}
