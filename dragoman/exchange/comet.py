"""Checkpoints of unbabel-comet 2: metrics that score a translation beside its source, with or without a reference.

A folder as Unbabel publishes it, "wmt22-comet-da" for example: ``hparams.yaml`` says which kind of model it is,
``checkpoints/model.ckpt`` holds settings and weights. The encoder's own settings and tokenizer are not in it: they are
read from the folder that ``pretrained_model`` names, seen from the checkpoint's folder (``xlm-roberta-large/``). The
pickle is read restricted; neither unbabel-comet nor transformers is needed, and nothing in the folder is run.

Legend: N texts, S segments, D model width.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import torch
from torch import Tensor, nn

from dragoman.exchange.foreign_settings import read_yaml
from dragoman.exchange.huggingface.hf_model import MaskedEncoder
from dragoman.exchange.huggingface.hf_reading import CONFIG, Config
from dragoman.exchange.huggingface.hf_text import read_texts
from dragoman.exchange.import_sizes import built, check_rows
from dragoman.exchange.loaded import LoadReport, load_renamed
from dragoman.exchange.regression import LayerMix, SegmentRegressor
from dragoman.exchange.unpickling import read_checkpoint
from dragoman.shared.batches.fields import TextField
from dragoman.shared.errors import DataError, shown
from dragoman.shared.nn.state import evaluating
from dragoman.shared.padded import Padded

SETTINGS, WEIGHTS = "hparams.yaml", Path("checkpoints") / "model.ckpt"
ENCODER, MIX, ESTIMATOR = "encoder.model.", "layerwise_attention.", "estimator.ff."
#: Kinds of models that are read, and whether they want a reference.
KINDS = {"regression_metric": True, "referenceless_regression_metric": False}
POOLING = {"avg": "mean", "cls": "first", "max": "largest"}
ACTIVATIONS = {"Tanh": "tanh", "Sigmoid": "sigmoid"}
#: Tokens that unbabel-comet leaves unused at the end of the encoder's positions, beside two that no XLM-R can use.
UNUSED = 4


class CometModel:
    """A metric of unbabel-comet with its tokenizer.

    Args:
        regressor: the model, filled.
        field: makes tokens of texts, with the symbols around them.
        longest: how many tokens a text may have, symbols included; longer ones are cut, as unbabel-comet does it.
        name: what the model is called.
        fingerprint: of its weights.

    Attributes:
        cut: how many different texts have been cut so far.
    """

    def __init__(
        self, *, regressor: SegmentRegressor, field: TextField, longest: int, name: str, fingerprint: str
    ) -> None:
        self.regressor = regressor
        self.field = field
        self.longest = longest
        self.name = name
        self.fingerprint = fingerprint
        self.cut = 0

    @property
    def with_reference(self) -> bool:
        """True if it reads references."""
        return self.regressor.with_reference

    def vectors(self, texts: Sequence[str], *, batch_size: int = 16) -> Tensor:
        """Return a vector (N, D) for each text, on the CPU; equal texts are encoded once."""
        distinct = {text: number for number, text in enumerate(dict.fromkeys(texts))}
        tokens = [self._tokens(text) for text in distinct]
        order = sorted(range(len(tokens)), key=lambda number: len(tokens[number]))
        rows: list[Tensor] = [torch.empty(0)] * len(tokens)
        device = next(self.regressor.parameters()).device
        with evaluating(self.regressor), torch.inference_mode():
            for start in range(0, len(order), batch_size):
                numbers = order[start : start + batch_size]
                batch = Padded.from_sequences([tokens[number] for number in numbers], padding=self.field.padding)
                for number, vector in zip(numbers, self.regressor.vectors(batch.to(device)).cpu(), strict=True):
                    rows[number] = vector
        return torch.stack([rows[distinct[text]] for text in texts])

    def score(self, hypotheses: Tensor, sources: Tensor, references: Tensor | None) -> Tensor:
        """Return the scores (S,) of segments whose texts have these vectors (S, D)."""
        device = next(self.regressor.parameters()).device
        moved = [None if part is None else part.to(device) for part in (hypotheses, sources, references)]
        with evaluating(self.regressor), torch.inference_mode():
            return self.regressor(*moved).cpu()

    def _tokens(self, text: str) -> Tensor:
        before, pieces, behind = self.field.parts({"id": "", "source_language": None}, text)
        room = self.longest - len(before) - len(behind)
        self.cut += len(pieces) > room
        return torch.tensor(before + pieces[:room] + behind, dtype=torch.int64)


def read_comet(folder: Path) -> CometModel:
    """Read a folder.

    Raises:
        DataError: naming the file, if something is missing, does not fit, or has no counterpart here.
    """
    path = folder / WEIGHTS
    said = read_yaml(folder / SETTINGS, f"a folder of unbabel-comet holds {SETTINGS} and {WEIGHTS}")
    with_reference = _choice(said, "class_identifier", KINDS, folder / SETTINGS)
    checkpoint = read_checkpoint(path)
    settings = said | _part(checkpoint, "hyper_parameters", path)
    if said.get("layer_transformation") == "sparsemax_patch":  # trained with softmax, whatever the checkpoint says
        settings["layer_transformation"] = "softmax"
    tensors = {
        name: value for name, value in _part(checkpoint, "state_dict", path).items() if isinstance(value, Tensor)
    }
    config, field = _encoder_files(folder, settings, path)
    check_rows(config.need("vocab_size"), tensors, config.path)
    encoder = MaskedEncoder(config, _below(ENCODER, tensors), field.tokenizer.pad)
    layers = _checked_layers(config, settings, tensors, path)
    options = _options(settings, path) | {"with_reference": with_reference}

    def build() -> SegmentRegressor:
        mixed = settings.get("layer") == "mix"
        mix = _mix(settings, layers) if mixed else None
        return SegmentRegressor(
            model=encoder.build(taps=list(range(layers + 1)) if mixed else [settings["layer"]]), mix=mix, **options
        )

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
    return CometModel(
        regressor=regressor.eval(),
        field=field,
        longest=config.need("max_position_embeddings") - UNUSED,
        name=folder.resolve().name,
        fingerprint=fingerprint,
    )


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


def _checked_layers(config: Config, settings: Mapping[str, Any], tensors: Mapping[str, Tensor], path: Path) -> int:
    """Return the number of the encoder's layers, on which all that concerns layers must agree."""
    layers: int = config.need("num_hidden_layers")
    numbers = [int(match[1]) for name in tensors if (match := _LAYER.match(name))]
    if len({*numbers}) != layers:
        raise DataError(f"{path}: holds an encoder of {len({*numbers})} layers, but {config.path} describes {layers}")
    layer = settings.get("layer")
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
    """Return what the pooling and the feed-forward net are made of."""
    hidden = settings.get("hidden_sizes")
    if not isinstance(hidden, list) or not hidden or not all(type(size) is int and size > 0 for size in hidden):
        raise DataError(f"{path}: hidden_sizes {hidden!r} are no widths of layers")
    final = settings.get("final_activation")
    return {
        "pooling": _choice(settings, "pool", POOLING, path),
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
