"""Import of fairseq's wav2vec of 2019: convolutions over sound, and causal ones above them that sum up what was heard.

The model's file is st/wav2vec.py. What is in shared imports nothing from there, so the model is described by the names
of its classes, as a model folder describes it, and built from that.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, cast

from torch import Tensor, nn

from dragoman.exchange.fairseq.fairseq_model import Settings
from dragoman.exchange.fairseq.fairseq_wav2vec2 import SAMPLE_RATE, read_convolutions
from dragoman.exchange.import_sizes import built
from dragoman.exchange.loaded import LoadReport, load_renamed
from dragoman.shared.batches.speech_field import SpeechField
from dragoman.shared.described import build
from dragoman.shared.errors import DataError, shown
from dragoman.shared.systems.encoder_system import EncoderSystem

#: The transposed convolution whose slices are the maps of the steps.
MAPS = "wav2vec_predictions.project_to_steps"
#: Settings that change what is computed in ways that there is no place for here, with the values that change nothing.
ELSEWHERE: dict[str, tuple[Any, ...]] = {
    "sample_rate": (SAMPLE_RATE,),
    "normalize": (False,),
    "activation": ("relu",),
    "skip_connections_feat": (False,),
    "non_affine_group_norm": (False,),
    "vq_type": ("none",),
    "aggregator": ("cnn",),
    "agg_zero_pad": (False,),
    "no_conv_bias": (False,),
    "project_features": ("none",),
}
#: Beginnings of names, ours and fairseq's, for the number of a convolution.
CONVOLUTIONS = {
    "frontend.convolutions.layers.{}.convolution": "feature_extractor.conv_layers.{}.0",
    "frontend.convolutions.layers.{}.norm": "feature_extractor.conv_layers.{}.2",
    "frontend.aggregator.layers.{}.convolution": "feature_aggregator.conv_layers.{}.1",
    "frontend.aggregator.layers.{}.norm": "feature_aggregator.conv_layers.{}.3",
}


def is_aggregating_model(content: Mapping[str, Any]) -> bool:
    """Tell whether a checkpoint holds such convolutions, by the names of its tensors."""
    return any(name.startswith("feature_aggregator.") for name in content["model"])


def import_aggregating_model(
    path: Path, content: Mapping[str, Any], settings: Settings, *, source_languages: list[str] | None = None
) -> tuple[EncoderSystem, LoadReport]:
    """Build the system of a checkpoint that has been read.

    Args:
        path: of the checkpoint.
        content: of it.
        settings: of it.
        source_languages: codes of what it has heard, which no checkpoint says.

    Returns:
        The system, with a FutureModel, and the report of what was loaded and what was not.

    Raises:
        DataError: naming the file, if something is missing or has no counterpart here.
    """
    tensors = {name: tensor for name, tensor in content["model"].items() if isinstance(tensor, Tensor)}
    description = described_model(tensors, settings)
    model = built(partial(_build, description, settings.path), tensors, path)
    report = load_renamed(model, with_maps(tensors), counterparts(model), settings.path)
    system = EncoderSystem(model=model, inputs={"speech": SpeechField()}, source_languages=source_languages)
    return system, report


def described_model(tensors: Mapping[str, Tensor], settings: Settings) -> dict[str, Any]:
    """Describe the model of a checkpoint as plain data.

    Raises:
        DataError: naming the setting that is missing or has no counterpart here.
    """
    path = settings.path
    settings.refuse(ELSEWHERE)
    lists = ("conv_feature_layers", "conv_aggregator_layers")
    sizes, above = (read_convolutions(settings.need(name), f"{path}: {name}") for name in lists)
    channels = sizes[-1][0] if sizes and sizes[-1] else 0
    kernels = [size[1] for size in above if len(size) == 3 and size[::2] == [channels, 1]]
    if not kernels or len(kernels) < len(above):
        text = settings.need("conv_aggregator_layers")
        raise DataError(
            f"{path}: conv_aggregator_layers = {shown(text)} has no counterpart here, only convolutions with the "
            f"{channels} channels of what enters them and stride 1"
        )
    aggregator = {
        "channels": channels,
        "kernels": kernels,
        "skip": bool(settings.get("skip_connections_agg", True)),  # what fairseq 0.12 takes where nothing is said
        "residual_scale": float(settings.get("residual_scale", 0.5)),
    }
    frontend = {
        "convolutions": _object("WaveformConvolutions", convolutions=sizes, norm_whole=True, activation="relu"),
        "aggregator": _object("Aggregator", **aggregator),
        "log_compression": bool(settings.get("log_compression", True)),
    }
    maps = tensors.get(f"{MAPS}.weight")
    steps = maps.shape[-1] if maps is not None and maps.dim() else int(settings.get("prediction_steps", 12))
    return _object("FutureModel", frontend=_object("Wav2Vec", **frontend), steps=steps)


def with_maps(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors with the maps h_k as they are here: one below the other, each with a summand of its own."""
    changed = dict(tensors)
    weight, bias = (tensors.get(f"{MAPS}.{kind}") for kind in ("weight", "bias"))
    if weight is not None and weight.dim() == 4 and weight.shape[2] == 1:  # (inputs, outputs, 1, K)
        changed[f"{MAPS}.weight"] = weight[:, :, 0].permute(2, 1, 0).flatten(0, 1)
        if bias is not None and bias.dim() == 1:
            changed[f"{MAPS}.bias"] = bias.repeat(weight.shape[3])
    return changed


def counterparts(model: nn.Module) -> dict[str, tuple[str]]:
    """Return the name there of each tensor of a model."""
    names = {}
    for name in model.state_dict():
        place, _, kind = name.rpartition(".")
        parts = place.split(".")
        number = next((part for part in parts if part.isdigit()), "")
        pattern = ".".join("{}" if part.isdigit() else part for part in parts)
        names[name] = (f"{CONVOLUTIONS.get(pattern, MAPS).format(number)}.{kind}",)
    return names


def _object(name: str, **arguments: Any) -> dict[str, Any]:
    return {"class": name, "arguments": arguments}


def _build(description: dict[str, Any], source: str) -> nn.Module:
    try:
        return cast(nn.Module, build(description))
    except (TypeError, ValueError) as error:
        raise DataError(f"{source}: its settings do not fit together ({error})") from error
