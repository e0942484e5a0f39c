"""Import of fairseq's wav2vec 2.0, XLSR and XLS-R: pre-trained encoders, and those that were fine-tuned with CTC."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from torch import Tensor

from dragoman.exchange.fairseq.fairseq_model import ACTIVATIONS
from dragoman.exchange.fairseq.fairseq_names import PARTS, layers_of
from dragoman.exchange.foreign_settings import FAIRSEQ, ForeignSettings, check_settings
from dragoman.exchange.import_sizes import built
from dragoman.exchange.loaded import LoadReport, load_renamed
from dragoman.exchange.vocabularies.letters import Letters
from dragoman.exchange.vocabularies.vocabulary import FIRST, VocabularyTokenizer, read_vocabulary
from dragoman.exchange.wav2vec2_model import (
    QUANTISER,
    SPEECH,
    WaveformPlan,
    counterparts,
    pretraining_head,
    system_around,
)
from dragoman.shared.errors import DataError, shown
from dragoman.shared.nn.heads import CtcHead
from dragoman.shared.nn.quantiser import ContrastiveHead
from dragoman.shared.systems.reading_model import ReadingModel

#: What a fine-tuned checkpoint puts before the names of the encoder.
FINE_TUNED = "w2v_encoder.w2v_model."
HEAD = "w2v_encoder.proj"
#: What only pre-training needs, much of which is left where it is.
PRE_TRAINING = re.compile(r"(quantizer|project_q|final_proj|target_glu|_ema)(\..+)?")
#: Settings that change what is computed in ways that there is no place for here, with the values that change nothing.
ELSEWHERE: dict[str, tuple[Any, ...]] = {
    "layer_type": ("transformer",),
    "quantize_input": (False,),
    "pos_conv_depth": (1,),
    "crop_seq_to_multiple": (1,),
    "mask_selection": ("static",),
    "mask_channel_selection": ("static",),
    "no_mask_overlap": (False,),
    "blank_weight": (0,),
}
#: What counts outside, where a fine-tuned checkpoint has settings inside settings.
OF_FINE_TUNING = set(
    """
    apply_mask mask_prob mask_length mask_selection no_mask_overlap mask_channel_prob mask_channel_length
    mask_channel_selection dropout attention_dropout activation_dropout dropout_input final_dropout layerdrop
    feature_grad_mult blank_weight
    """.split()
)
MOST_CONVOLUTIONS = 100
SAMPLE_RATE = 16000
CONVOLUTIONS = "[(512, 10, 5)] + [(512, 3, 2)] * 4 + [(512,2,2)] + [(512,2,2)]"


def is_waveform_model(content: Mapping[str, Any]) -> bool:
    """Tell whether a checkpoint holds an encoder of waveforms, by the names of its tensors."""
    return any(re.search(r"(^|\.)feature_extractor\.conv_layers\.", name) for name in content.get("model", {}))


class WaveformSettings(ForeignSettings):
    """The settings of a checkpoint, in all forms that fairseq gave them.

    Args:
        content: of the checkpoint, as plain data.
        path: of it, for messages.

    Raises:
        DataError: if it has none, or one has no counterpart here.
    """

    def __init__(self, content: Mapping[str, Any], path: str) -> None:
        self.path = path
        flat, self.normalised = _flattened(content, path)
        rate = _sample_rate(content)
        if rate != SAMPLE_RATE:
            raise DataError(f"{path}: sample_rate = {shown(rate)} has no counterpart here, only {SAMPLE_RATE}")
        inner = flat.get("w2v_args")
        # A fine-tuned checkpoint says inside what the encoder is, and outside how it was trained.
        self.values = dict(_flattened({"cfg" if "model" in inner else "args": inner}, path)[0] if inner else flat)
        self.fine_tuned = bool(inner) or "w2v_path" in flat
        if self.fine_tuned:
            self.values |= {name: value for name, value in flat.items() if name in OF_FINE_TUNING}
        check_settings(self.values, path, FAIRSEQ)
        self.refuse(ELSEWHERE)

    def convolutions(self) -> list[list[int]]:
        """Return channels, kernel and stride of each convolution; see :func:`read_convolutions`."""
        return read_convolutions(self.get("conv_feature_layers", CONVOLUTIONS), f"{self.path}: conv_feature_layers")

    def plan(self, tensors: Mapping[str, Tensor]) -> WaveformPlan:
        """Return what there is to build.

        Raises:
            DataError: naming the tensor or the setting that is missing or unknown.
        """
        try:
            feedforward, width = tensors["encoder.layers.0.fc1.weight"].shape
        except (KeyError, ValueError) as error:
            raise DataError(f"{self.path}: has no encoder.layers.0.fc1.weight of two dimensions") from error
        activation = self.get("activation_fn", "gelu")
        if activation not in ACTIVATIONS:
            raise DataError(f"{self.path}: activation_fn = {shown(activation)} has no counterpart here")
        masked = bool(self.get("apply_mask", not self.fine_tuned))
        return WaveformPlan(
            convolutions=self.convolutions(),
            bias=bool(self.get("conv_bias", False)),
            norm_each=self.get("extractor_mode", "default") == "layer_norm",
            projected="post_extract_proj.weight" in tensors,
            layer={
                "width": width,
                "heads": int(self.get("encoder_attention_heads", 12)),
                "feedforward": feedforward,
                "dropout": float(self.get("dropout", 0.1)),
                "attention_dropout": float(self.get("attention_dropout", 0.1)),
                "activation_dropout": float(self.get("activation_dropout", 0.0)),
                "activation": ACTIVATIONS[activation],
                "pre_norm": bool(self.get("layer_norm_first", False)),
            },
            layers=layers_of(tensors, "encoder"),
            kernel=int(self.get("conv_pos", 128)),
            groups=int(self.get("conv_pos_groups", 16)),
            normalisation=1e-5 if self.normalised else None,
            masking={
                "probability": float(self.get("mask_prob", 0.65)) if masked else 0.0,
                "span": int(self.get("mask_length", 10)),
                "channel_probability": float(self.get("mask_channel_prob", 0.0)) if masked else 0.0,
                "channel_span": int(self.get("mask_channel_length", 10)),
            },
            frame_dropout=float(self.get("dropout_input", 0.0)),
            layer_drop=float(self.get("layerdrop" if self.fine_tuned else "encoder_layerdrop", 0.0)),
            gradient_scale=float(self.get("feature_grad_mult", 0.0 if self.fine_tuned else 1.0)),
        )


def import_waveform_model(
    path: Path,
    content: Mapping[str, Any],
    *,
    dictionary: Path | None = None,
    source_languages: list[str] | None = None,
) -> tuple[ReadingModel, LoadReport]:
    """Build the system of a checkpoint that has been read.

    Args:
        path: of the checkpoint.
        content: of it.
        dictionary: ``dict.ltr.txt`` of a fine-tuned one, or a folder with it; by default beside the checkpoint.
        source_languages: codes; needed for a fine-tuned one.

    Returns:
        A CtcSystem, or an EncoderSystem; and the report of what was loaded and what was not.

    Raises:
        DataError: naming the file, if something is missing or has no counterpart here.
    """
    settings = WaveformSettings(content, str(path))
    tensors = {name: tensor for name, tensor in content["model"].items() if isinstance(tensor, Tensor)}
    fine_tuned = f"{HEAD}.weight" in tensors
    if not fine_tuned and any(".w2v_model." in name for name in tensors):
        raise DataError(
            f"{path}: an encoder that was fine-tuned without CTC (it has no {HEAD}) has no counterpart here"
        )
    bare = {name.removeprefix(FINE_TUNED): tensor for name, tensor in tensors.items()}
    plan = settings.plan(bare)
    whole = names_of(plan)
    tokenizer, heads = None, dict[str, CtcHead | ContrastiveHead]()
    if fine_tuned:
        rows, width = bare[f"{HEAD}.weight"].shape
        language = source_languages[0] if source_languages and len(source_languages) == 1 else None
        tokenizer = letters_of(_dictionary(dictionary, path.parent), rows, language)
        heads["ctc"] = CtcHead(
            tap=plan.layers,
            width=width,
            vocabulary=rows,
            blank=tokenizer.blank,
            dropout=float(settings.get("final_dropout", 0.0)),
        )
    else:
        dropout = float(settings.get("dropout_features", 0.0))
        heads |= pretraining_head(bare, whole, int(settings.get("latent_groups", 2)), dropout)
    model = built(partial(plan.build, str(path), heads), tensors, path)
    wanted = {theirs for name in model.state_dict() for theirs in counterparts(name, whole, dict(PARTS))}
    used = {name: tensor for name, tensor in bare.items() if name in wanted or not PRE_TRAINING.fullmatch(name)}
    names = {name: counterparts(name, whole, dict(PARTS)) for name in model.state_dict()}
    report = load_renamed(model, used, names, str(path))
    report.elsewhere = [name for name in tensors if name.removeprefix(FINE_TUNED) not in used]
    return system_around(model, tokenizer, source_languages, str(path)), report


def names_of(plan: WaveformPlan) -> dict[str, str]:
    """Return beginnings of names, ours and fairseq's, of all but the layers."""
    weight = f"{SPEECH}.positions.convolution.parametrizations.weight.original"
    names = {
        f"{weight}0": "encoder.pos_conv.0.weight_g",
        f"{weight}1": "encoder.pos_conv.0.weight_v",
        f"{SPEECH}.positions.convolution": "encoder.pos_conv.0",
        f"{SPEECH}.frame_norm": "layer_norm",
        f"{SPEECH}.projection": "post_extract_proj",
        f"{SPEECH}.masking.vector": "mask_emb",
        f"{SPEECH}.norm": "encoder.layer_norm",
        "encoder.norm": "encoder.layer_norm",
        "heads.ctc.projection": HEAD,
        f"{QUANTISER}.logits": "quantizer.weight_proj",
        f"{QUANTISER}.codes": "quantizer.vars",
        "heads.contrastive.states": "final_proj",
        "heads.contrastive.targets": "project_q",
    }
    for number in range(len(plan.convolutions)):
        place = f"feature_extractor.conv_layers.{number}"
        names[f"{SPEECH}.convolutions.layers.{number}.convolution"] = f"{place}.0"
        names[f"{SPEECH}.convolutions.layers.{number}.norm"] = f"{place}.2.1" if plan.norm_each else f"{place}.2"
    return names


def letters_of(dictionary: Path, rows: int, language: str | None) -> VocabularyTokenizer:
    """Return the tokenizer of a fine-tuned checkpoint, whose blank is fairseq's first symbol.

    Its case, if it has one, is that of the language.

    Raises:
        DataError: if the dictionary does not have as many symbols as the head.
    """
    listed = read_vocabulary(dictionary)
    if rows != len(listed):
        raise DataError(
            f"{dictionary}: has {len(listed)} symbols with the {len(FIRST)} first ones, "
            f"but the head {rows} rows: it is another model's"
        )
    symbols = {symbol: symbol for symbol in FIRST} | {"<blank>": FIRST[0]}
    upper, lower = (_one_case(listed, is_case) for is_case in (str.isupper, str.islower))
    segmenter = Letters(closing=True, upper=upper, lower=lower, language=language)
    return VocabularyTokenizer(segmenter=segmenter, vocabulary=str(dictionary), symbols=symbols)


def _one_case(symbols: list[str], is_case: Any) -> bool:
    cased = [symbol for symbol in symbols if len(symbol) == 1 and symbol.lower() != symbol.upper()]
    return bool(cased) and all(is_case(symbol) for symbol in cased)


def _dictionary(given: Path | None, folder: Path) -> Path:
    place = given or folder
    path = place / "dict.ltr.txt" if place.is_dir() else place
    if not path.is_file():
        raise DataError(f"{path}: no such dictionary; --dictionary says where dict.ltr.txt is")
    return path


def _flattened(content: Mapping[str, Any], path: str) -> tuple[dict[str, Any], bool]:
    """Return the settings of a model, and whether it takes normalised waveforms."""
    args, cfg = content.get("args"), content.get("cfg")
    if isinstance(args, dict):
        return args, bool(args.get("normalize"))
    if isinstance(cfg, dict) and isinstance(cfg.get("model"), dict):
        groups = [group for group in (cfg.get("task"), cfg["model"]) if isinstance(group, dict)]
        said = [group["normalize"] for group in groups if isinstance(group.get("normalize"), bool)]
        return cfg["model"], bool(said and said[0])
    raise DataError(f"{path}: not a checkpoint of fairseq (it has neither args nor cfg)")


def _sample_rate(content: Mapping[str, Any]) -> Any:
    """Return the rate of the waveforms that a checkpoint was trained on; it is a setting of the task."""
    task = (content.get("cfg") or {}).get("task")
    settings = content.get("args") or (task if isinstance(task, dict) else {})
    rate = settings.get("sample_rate")
    return SAMPLE_RATE if rate is None else rate


def read_convolutions(text: Any, place: str) -> list[list[int]]:
    """Return channels, kernel and stride of each convolution, from an expression such as ``[(512, 10, 5)] * 2``.

    Args:
        text: the expression, which is read and not evaluated.
        place: the file and the setting, for the message.

    Raises:
        DataError: if it is none.
    """
    try:
        return [[int(number) for number in size] for size in _listed(ast.parse(str(text), mode="eval").body)]
    except (SyntaxError, ValueError, TypeError) as error:
        raise DataError(f"{place} {str(text)!r} is not a list of convolutions") from error


def _listed(node: ast.expr) -> list[Any]:
    """Evaluate lists of plain numbers that are added up and multiplied, and nothing else."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _listed(node.left) + _listed(node.right)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        return _listed(node.left) * min(int(ast.literal_eval(node.right)), MOST_CONVOLUTIONS)
    return list(ast.literal_eval(node))
