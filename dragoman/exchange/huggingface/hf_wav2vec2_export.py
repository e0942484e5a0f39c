"""Export of encoders of waveforms to Hugging Face's layout: with a quantiser for pre-training, else the bare model."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from torch import Tensor, nn

from dragoman.exchange.huggingface.hf_model import THEIR_ACTIVATIONS
from dragoman.exchange.huggingface.hf_reading import CONFIG
from dragoman.exchange.huggingface.hf_wav2vec2 import MODEL_TYPE, PARTS, PRE_TRAINING, PREFIX, WHOLE, convolution_names
from dragoman.exchange.huggingface.hf_writing import exported, write_json, write_weights, written_folder
from dragoman.exchange.wav2vec2_model import QUANTISER, counterparts
from dragoman.shared.errors import UsageError
from dragoman.shared.nn.layer import Layer
from dragoman.shared.nn.quantiser import ContrastiveHead
from dragoman.shared.nn.transformer import plain_layer
from dragoman.shared.nn.translator import EncoderModel
from dragoman.shared.nn.waveform import Convolution, ConvolutionalPositions, WaveformEmbedding
from dragoman.shared.systems.model_folder import WEIGHTS
from dragoman.shared.systems.reading_model import ReadingModel


def encoder_of(system: ReadingModel) -> EncoderModel | None:
    """Return the model of a system if it is an encoder of waveforms without a head for text."""
    model = system.model
    if not isinstance(model, EncoderModel) or list(model.embeddings) != ["speech"]:
        return None
    plain = isinstance(model.embeddings["speech"], WaveformEmbedding) and {*model.heads} <= {"contrastive"}
    return model if plain else None


def export_encoder(model: EncoderModel, out: Path) -> list[str]:
    """Write an encoder of waveforms.

    Args:
        model: from :func:`encoder_of`.
        out: the folder to write; an earlier export is replaced once the new one is complete.

    Returns:
        The class that loads it.

    Raises:
        DataError: if it cannot be written.
        UsageError: for a model that transformers has no equal of, naming the part.
    """
    settings = _settings(model)
    embedding = cast(WaveformEmbedding, model.embeddings["speech"])
    features = {
        "feature_extractor_type": "Wav2Vec2FeatureExtractor",
        "do_normalize": embedding.normalisation is not None,
        "feature_size": 1,
        "padding_side": "right",
        "padding_value": 0.0,
        "return_attention_mask": settings["feat_extract_norm"] == "layer",
        "sampling_rate": 16000,
    }
    with written_folder(out) as temporary:
        write_json(temporary / CONFIG, settings)
        write_json(temporary / "preprocessor_config.json", features)
        write_weights(temporary / WEIGHTS, _tensors(model), CONFIG)
    return [f"{settings['architectures'][0]} ({MODEL_TYPE})"]


def _settings(model: EncoderModel) -> dict[str, Any]:
    """Return the settings of an encoder; what transformers cannot compute is refused by name."""
    embedding = cast(WaveformEmbedding, model.embeddings["speech"])
    layer, encoder = cast(Layer, model.encoder.layers[0]), model.encoder
    convolutions = [cast(Convolution, one) for one in embedding.convolutions.layers]
    norm_each = len(convolutions) > 1 and convolutions[1].norm is not None
    positions, masking = embedding.positions, embedding.masking
    refused = {
        f"{type(encoder).__name__} of {type(layer).__name__}s that are not the usual ones": plain_layer(encoder)
        is None,
        "frames that are not projected": isinstance(embedding.projection, nn.Identity),
        f"positions by {type(positions).__name__}": type(positions) is not ConvolutionalPositions,
        "a norm of the embedding with layers that normalise what enters them": layer.pre_norm
        == isinstance(embedding.norm, nn.LayerNorm),
    }
    for part, holds in refused.items():
        if holds:
            raise UsageError(f"transformers has no native class for an encoder of waveforms with {part}")
    weights = [one.convolution for one in convolutions]
    settings: dict[str, Any] = {
        "architectures": ["Wav2Vec2ForPreTraining" if model.heads else "Wav2Vec2Model"],
        "model_type": MODEL_TYPE,
        "hidden_size": layer.width,
        "num_hidden_layers": len(encoder.layers),
        "num_attention_heads": layer.self_attention.heads,
        "intermediate_size": layer.inner.out_features,
        "hidden_act": THEIR_ACTIVATIONS[str(layer.arguments.get("activation", "relu"))],
        "hidden_dropout": layer.dropout,
        "attention_dropout": layer.self_attention.dropout,
        "activation_dropout": layer.activation_dropout,
        "feat_proj_dropout": embedding.frame_dropout,
        "layerdrop": encoder.layer_drop,
        "layer_norm_eps": layer.norm_epsilon,
        "do_stable_layer_norm": layer.pre_norm,
        "feat_extract_norm": "layer" if norm_each else "group",
        "feat_extract_activation": "gelu",
        "conv_bias": weights[0].bias is not None,
        "conv_dim": [one.out_channels for one in weights],
        "conv_kernel": [one.kernel_size[0] for one in weights],
        "conv_stride": [one.stride[0] for one in weights],
        "num_feat_extract_layers": len(weights),
        "num_conv_pos_embeddings": positions.arguments.get("kernel", 128),
        "num_conv_pos_embedding_groups": positions.arguments.get("groups", 16),
        "apply_spec_augment": masking is not None,
        "mask_time_prob": 0.0 if masking is None else masking.probability,
        "mask_feature_prob": 0.0 if masking is None else masking.channel_probability,
        "dtype": "float32",
    }
    if masking is not None:
        settings |= {"mask_time_length": masking.span, "mask_feature_length": masking.channel_span}
        settings["mask_time_min_masks"] = masking.least
    if model.heads:
        head = cast(ContrastiveHead, model.heads["contrastive"])
        quantiser = head.quantiser
        settings |= {
            "codevector_dim": quantiser.width,
            "num_codevector_groups": quantiser.groups,
            "num_codevectors_per_group": quantiser.entries,
            "proj_codevector_dim": head.states.out_features,
            "feat_quantizer_dropout": quantiser.dropout,
        }
    return settings


def _tensors(model: EncoderModel) -> dict[str, Tensor]:
    """Return the tensors by their names there."""
    embedding = cast(WaveformEmbedding, model.embeddings["speech"])
    names = WHOLE | convolution_names(len(embedding.convolutions.layers))
    tensors: dict[str, Tensor] = {}
    for name, value in model.state_dict().items():
        value = value.reshape(1, -1, value.shape[-1]) if name == f"{QUANTISER}.codes" else value
        theirs = counterparts(name, names, PARTS)
        for one, part in zip(theirs, value.chunk(len(theirs)), strict=True):
            prefix = PREFIX if model.heads and not PRE_TRAINING.fullmatch(one) else ""
            tensors[prefix + one] = exported(part)
    return tensors
