"""Import of wav2vec 2.0, XLSR, XLS-R and HuBERT in Hugging Face's layout, pre-trained or fine-tuned with CTC."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from torch import Tensor

from dragoman.exchange.huggingface.hf_model import ACTIVATIONS
from dragoman.exchange.huggingface.hf_reading import CONFIG, Config, read_json, read_tensors
from dragoman.exchange.import_sizes import built
from dragoman.exchange.loaded import LoadReport, load_renamed
from dragoman.exchange.vocabularies.letters import Letters, Recased
from dragoman.exchange.vocabularies.vocabulary import VocabularyTokenizer, read_vocabulary
from dragoman.exchange.wav2vec2_model import (
    QUANTISER,
    SPEECH,
    WaveformPlan,
    counterparts,
    pretraining_head,
    system_around,
)
from dragoman.shared.errors import DataError
from dragoman.shared.nn.heads import CtcHead
from dragoman.shared.nn.quantiser import ContrastiveHead
from dragoman.shared.systems.reading_model import ReadingModel

MODEL_TYPE, PREFIX, HEAD, VECTOR = "wav2vec2", "wav2vec2.", "lm_head", "masked_spec_embed"
#: HuBERT (Hsu et al. 2021) is the same encoder, trained otherwise.
MODEL_TYPES = {MODEL_TYPE: PREFIX, "hubert": "hubert."}
#: What only pre-training needs; in a model without all of it, or with a head for CTC, it is left where it is.
PRE_TRAINING = re.compile(r"(quantizer|project_hid|project_q)\..+")
#: Settings that change what is computed in ways that there is no place for here, with the values that change nothing.
ELSEWHERE: dict[str, tuple[Any, ...]] = {
    "add_adapter": (False,),
    "adapter_attn_dim": (None,),
    "conv_pos_batch_norm": (False,),
    "feat_extract_activation": ("gelu",),
    "feat_proj_layer_norm": (True,),
}
PARTS = {
    "self_attention.queries_keys_values": ("attention.q_proj", "attention.k_proj", "attention.v_proj"),
    "self_attention.output": ("attention.out_proj",),
    "self_attention_norm": ("layer_norm",),
    "inner": ("feed_forward.intermediate_dense",),
    "outer": ("feed_forward.output_dense",),
    "feedforward_norm": ("final_layer_norm",),
}
WHOLE = {
    f"{SPEECH}.frame_norm": "feature_projection.layer_norm",
    f"{SPEECH}.projection": "feature_projection.projection",
    f"{SPEECH}.masking.vector": VECTOR,
    f"{SPEECH}.positions.convolution": "encoder.pos_conv_embed.conv",
    f"{SPEECH}.norm": "encoder.layer_norm",
    "encoder.norm": "encoder.layer_norm",
    "heads.ctc.projection": HEAD,
    f"{QUANTISER}.logits": "quantizer.weight_proj",
    f"{QUANTISER}.codes": "quantizer.codevectors",
    "heads.contrastive.states": "project_hid",
    "heads.contrastive.targets": "project_q",
}
#: The names of weight normalisation before torch 2.1, and now.
RENAMED = {
    "encoder.pos_conv_embed.conv.weight_g": "encoder.pos_conv_embed.conv.parametrizations.weight.original0",
    "encoder.pos_conv_embed.conv.weight_v": "encoder.pos_conv_embed.conv.parametrizations.weight.original1",
}


def import_hf_waveform(folder: Path, *, source_languages: list[str] | None = None) -> tuple[ReadingModel, LoadReport]:
    """Read a folder.

    Args:
        folder: with config.json and weights; and with vocab.json, if it was fine-tuned with CTC.
        source_languages: codes; needed if it was fine-tuned.

    Returns:
        A CtcSystem, or an EncoderSystem; and the report of what was loaded and what was not.

    Raises:
        DataError: naming the file, if something is missing or has no counterpart here.
    """
    config = Config(folder / CONFIG)
    config.refuse(ELSEWHERE)
    tensors, weights = read_tensors(folder)
    bare = {RENAMED.get(_bare(name), _bare(name)): tensor for name, tensor in tensors.items()}
    plan = plan_of(config, bare, _normalised(folder))
    whole = names_of(plan)
    tokenizer, heads = None, dict[str, CtcHead | ContrastiveHead]()
    if f"{HEAD}.weight" in bare:
        tokenizer, heads["ctc"] = fine_tuned(folder, config, bare, plan.layers)
    else:
        groups = int(config.get("num_codevector_groups", 2))
        heads |= pretraining_head(bare, whole, groups, float(config.get("feat_quantizer_dropout", 0.0)))
    model = built(partial(plan.build, str(config.path), heads), tensors, config.path)
    names = {name: counterparts(name, whole, PARTS) for name in model.state_dict()}
    wanted = {theirs for parts in names.values() for theirs in parts}
    used = {name: tensor for name, tensor in bare.items() if name in wanted or not PRE_TRAINING.fullmatch(name)}
    report = load_renamed(model, used, names, str(weights))
    report.elsewhere = [name for name in tensors if RENAMED.get(_bare(name), _bare(name)) not in used]
    return system_around(model, tokenizer, source_languages, str(folder)), report


def fine_tuned(
    folder: Path, config: Config, tensors: Mapping[str, Tensor], layers: int
) -> tuple[VocabularyTokenizer, CtcHead]:
    """Return the tokenizer of a model that was fine-tuned with CTC, and its head above the last of its layers."""
    rows, width = tensors[f"{HEAD}.weight"].shape
    tokenizer = letters_of(folder, rows)
    dropout = float(config.get("final_dropout", 0.0))
    return tokenizer, CtcHead(tap=layers, width=width, vocabulary=rows, blank=tokenizer.blank, dropout=dropout)


def plan_of(config: Config, tensors: Mapping[str, Tensor], normalised: bool) -> WaveformPlan:
    """Return what there is to build."""
    sizes = [config.get("conv_dim", [512] * 7), config.get("conv_kernel", [10, 3, 3, 3, 3, 2, 2])]
    sizes.append(config.get("conv_stride", [5, 2, 2, 2, 2, 2, 2]))
    if len({len(size) for size in sizes}) != 1:
        raise DataError(f"{config.path}: conv_dim, conv_kernel and conv_stride have different lengths")
    masked = bool(config.get("apply_spec_augment", True))
    return WaveformPlan(
        convolutions=[list(size) for size in zip(*sizes, strict=True)],
        bias=bool(config.get("conv_bias", False)),
        norm_each=config.choose("feat_extract_norm", {"group": False, "layer": True}, "group"),
        projected=True,
        layer={
            "width": config.get("hidden_size", 768),
            "heads": config.get("num_attention_heads", 12),
            "feedforward": config.get("intermediate_size", 3072),
            "dropout": float(config.get("hidden_dropout", 0.1)),
            "attention_dropout": float(config.get("attention_dropout", 0.1)),
            "activation_dropout": float(config.get("activation_dropout", 0.1)),
            "activation": config.choose("hidden_act", ACTIVATIONS, "gelu"),
            "pre_norm": bool(config.get("do_stable_layer_norm", False)),
            "norm_epsilon": float(config.get("layer_norm_eps", 1e-5)),
        },
        layers=config.get("num_hidden_layers", 12),
        kernel=config.get("num_conv_pos_embeddings", 128),
        groups=config.get("num_conv_pos_embedding_groups", 16),
        normalisation=1e-7 if normalised else None,
        masking={
            "probability": float(config.get("mask_time_prob", 0.05)) if masked else 0.0,
            "span": config.get("mask_time_length", 10),
            "least": config.get("mask_time_min_masks", 2),
            "channel_probability": float(config.get("mask_feature_prob", 0.0)) if masked else 0.0,
            "channel_span": config.get("mask_feature_length", 10),
        }
        if VECTOR in tensors
        else None,
        frame_dropout=float(config.get("feat_proj_dropout", 0.0)),
        layer_drop=float(config.get("layerdrop", 0.0)),
    )


def names_of(plan: WaveformPlan) -> dict[str, str]:
    """Return beginnings of names, ours and theirs, of all but the layers."""
    return WHOLE | convolution_names(len(plan.convolutions))


def convolution_names(count: int) -> dict[str, str]:
    """Return beginnings of the names of `count` convolutions, theirs by ours."""
    names: dict[str, str] = {}
    for number in range(count):
        place, theirs = f"{SPEECH}.convolutions.layers.{number}", f"feature_extractor.conv_layers.{number}"
        names |= {f"{place}.convolution": f"{theirs}.conv", f"{place}.norm": f"{theirs}.layer_norm"}
    return names


def letters_of(folder: Path, rows: int) -> VocabularyTokenizer:
    """Return the tokenizer of a fine-tuned model, whose blank is its padding symbol.

    Raises:
        DataError: if a file is missing, or has other symbols than the head.
    """
    vocabulary = folder / "vocab.json"
    if vocabulary.is_file() and any(isinstance(value, dict) for value in read_json(vocabulary).values()):
        raise DataError(f"{vocabulary}: has a vocabulary for each language, which has no counterpart here")
    listed = read_vocabulary(vocabulary)
    settings = {name: _symbol(value) for name, value in _tokenizer_settings(folder).items()}
    added_file = folder / "added_tokens.json"
    added = read_json(added_file) if added_file.is_file() else {}
    inside = {*listed}
    behind = [symbol for symbol in sorted(added, key=added.__getitem__) if symbol not in inside]
    missing = rows - len(listed) - len(behind)
    if missing < 0:
        raise DataError(f"{vocabulary}: has {len(listed) + len(behind)} symbols, but the head {rows} rows")
    behind += [f"(nothing at {rows - missing + number})" for number in range(missing)]
    padding = settings.get("pad_token") or "<pad>"
    symbols = {"<pad>": padding, "<blank>": padding, "<unk>": settings.get("unk_token") or "<unk>"}
    end, start = settings.get("eos_token") or "</s>", settings.get("bos_token") or "<s>"
    symbols["</s>"] = end if end in (*listed, *behind) else padding
    symbols |= {"<s>": start} if start in (*listed, *behind) else {}
    segmenter: Any = Letters(space=settings.get("word_delimiter_token") or "|")
    if settings.get("do_lower_case"):
        segmenter = Recased(segmenter=segmenter, lower_output=True)
    return VocabularyTokenizer(segmenter=segmenter, vocabulary=str(vocabulary), added=behind or None, symbols=symbols)


def _tokenizer_settings(folder: Path) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    for name in ("special_tokens_map.json", "tokenizer_config.json"):
        if (folder / name).is_file():
            settings |= Config(folder / name).values
    return settings


def _symbol(value: Any) -> Any:
    """Return a special token's text, which is written as it is or with its properties."""
    return value.get("content") if isinstance(value, dict) else value


def _normalised(folder: Path) -> bool:
    """Tell whether the model takes normalised waveforms; the library's default is that it does."""
    path = folder / "preprocessor_config.json"
    if not path.is_file():
        raise DataError(f"{path}: no such file; it says whether waveforms are normalised")
    config = Config(path)
    config.refuse({"sampling_rate": (16000,)}, told=True)
    return bool(config.get("do_normalize", True))


def _bare(name: str) -> str:
    for prefix in MODEL_TYPES.values():
        name = name.removeprefix(prefix)
    return name
