"""Import of w2v-BERT 2.0 in Hugging Face's layout, pre-trained or fine-tuned with CTC.

Barrault et al. 2023, "Seamless", arXiv 2312.05187: a Conformer on pairs of log-mel frames, whose
convolutions are causal and whose attention has a trained vector for each distance (Shaw et al. 2018).
"""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

from torch import nn

from dragoman.exchange.huggingface.hf_reading import CONFIG, Config, read_tensors
from dragoman.exchange.huggingface.hf_wav2vec2 import HEAD, VECTOR, fine_tuned
from dragoman.exchange.import_sizes import built
from dragoman.exchange.loaded import LoadReport, load_renamed
from dragoman.exchange.wav2vec2_model import SPEECH, system_around
from dragoman.shared.errors import DataError
from dragoman.shared.nn.conformer import ConformerLayer
from dragoman.shared.nn.fbank import Fbank, UtteranceNorm
from dragoman.shared.nn.speech import SpeechEmbedding
from dragoman.shared.nn.subsampler import StackedFrames
from dragoman.shared.nn.transformer import Encoder
from dragoman.shared.nn.translator import EncoderModel
from dragoman.shared.systems.reading_model import ReadingModel

MODEL_TYPE, PREFIX = "wav2vec2-bert", "wav2vec2_bert."
PREPROCESSOR = "preprocessor_config.json"
#: Settings that change what is computed in ways that there is no place for here, with the value that there is.
FIXED = {
    "position_embeddings_type": ("relative_key",),
    "add_adapter": (False,),
    "use_intermediate_ffn_before_adapter": (False,),
}
#: What preprocessor_config.json may say; features are computed so.
FEATURES = {"num_mel_bins": 80, "sampling_rate": 16000, "feature_size": 80, "stride": 2}
PARTS = {
    "first.norm": ("ffn1_layer_norm",),
    "first.inner": ("ffn1.intermediate_dense",),
    "first.outer": ("ffn1.output_dense",),
    "self_attention_norm": ("self_attn_layer_norm",),
    "self_attention.queries_keys_values": ("self_attn.linear_q", "self_attn.linear_k", "self_attn.linear_v"),
    "self_attention.output": ("self_attn.linear_out",),
    "convolution.norm": ("conv_module.layer_norm",),
    "convolution.gated": ("conv_module.pointwise_conv1",),
    "convolution.depthwise": ("conv_module.depthwise_conv",),
    "convolution.depthwise_norm": ("conv_module.depthwise_layer_norm",),
    "convolution.output": ("conv_module.pointwise_conv2",),
    "second.norm": ("ffn2_layer_norm",),
    "second.inner": ("ffn2.intermediate_dense",),
    "second.outer": ("ffn2.output_dense",),
    "norm": ("final_layer_norm",),
}
WHOLE = {
    f"{SPEECH}.subsampler.norm": "feature_projection.layer_norm",
    f"{SPEECH}.subsampler.projection": "feature_projection.projection",
    "heads.ctc.projection": HEAD,
}
POINTWISE = re.compile(r".*\.pointwise_conv[12]\.weight")


def import_hf_conformer(folder: Path, *, source_languages: list[str] | None = None) -> tuple[ReadingModel, LoadReport]:
    """Read a folder; see :func:`dragoman.exchange.huggingface.hf_wav2vec2.import_hf_waveform`."""
    config = Config(folder / CONFIG)
    config.refuse(FIXED, told=True)
    if (folder / PREPROCESSOR).is_file():
        Config(folder / PREPROCESSOR).refuse({name: (value,) for name, value in FEATURES.items()}, told=True)
    tensors, weights = read_tensors(folder)
    # Convolutions over one frame are linear maps.
    bare = {
        name.removeprefix(PREFIX): tensor.squeeze(-1) if POINTWISE.fullmatch(name) else tensor
        for name, tensor in tensors.items()
    }
    tokenizer, heads = None, dict[str, nn.Module]()
    if f"{HEAD}.weight" in bare:
        tokenizer, heads["ctc"] = fine_tuned(folder, config, bare, config.get("num_hidden_layers", 24))
    model = built(partial(_build, config, heads), tensors, config.path)
    names = {name: counterparts(name) for name in model.state_dict()}
    vector = bare.pop(VECTOR, None)
    report = load_renamed(model, bare, names, str(weights))
    # The vector of masked frames: here, SpecAugment masks features.
    report.elsewhere = [] if vector is None else [name for name in tensors if name.endswith(VECTOR)]
    return system_around(model, tokenizer, source_languages, str(folder)), report


def counterparts(name: str) -> tuple[str, ...]:
    """Return the names there of the tensors that one of ours is made of."""
    part, _, kind = name.rpartition(".")
    if part in WHOLE:
        return (f"{WHOLE[part]}.{kind}",)
    match = re.fullmatch(r"encoder\.layers\.(\d+)\.(.+)", name)
    assert match is not None, name
    number, inside = match.groups()
    if inside == "self_attention.distance_keys":
        return (f"encoder.layers.{number}.self_attn.distance_embedding.weight",)
    part, _, kind = inside.rpartition(".")
    return tuple(f"encoder.layers.{number}.{theirs}.{kind}" for theirs in PARTS[part])


def _build(config: Config, heads: dict[str, nn.Module]) -> EncoderModel:
    get = config.get
    width, epsilon, layers = get("hidden_size", 1024), float(get("layer_norm_eps", 1e-5)), get("num_hidden_layers", 24)
    inputs = get("feature_projection_input_dim", 160)
    if inputs != FEATURES["num_mel_bins"] * FEATURES["stride"]:
        raise DataError(f"{config.path}: feature_projection_input_dim {inputs} is not that of two frames of 80 bins")
    layer = ConformerLayer(
        width=width,
        heads=get("num_attention_heads", 16),
        feedforward=get("intermediate_size", 4096),
        kernel=get("conv_depthwise_kernel_size", 31),
        dropout=float(get("hidden_dropout", 0.0)),
        attention_dropout=float(get("attention_dropout", 0.0)),
        activation_dropout=float(get("activation_dropout", 0.0)),
        activation=config.choose("hidden_act", {"swish": "swish", "silu": "swish"}, "swish"),
        norm_epsilon=epsilon,
        distances=[get("left_max_position_embeddings", 64), get("right_max_position_embeddings", 8)],
        causal=True,
    )
    embedding = SpeechEmbedding(
        frontend=Fbank(),
        normalisation=UtteranceNorm(correction=1, epsilon=1e-7),
        subsampler=StackedFrames(width=width, stride=FEATURES["stride"], norm_epsilon=epsilon),
        dropout=float(get("feat_proj_dropout", 0.0)),
        scaled=False,
    )
    encoder = Encoder(
        layer=layer, layers=layers, taps=[layers] if heads else None, layer_drop=float(get("layerdrop", 0.0))
    )
    return EncoderModel(embeddings={"speech": embedding}, encoder=encoder, heads=heads)
