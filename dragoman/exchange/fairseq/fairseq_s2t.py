"""Import of fairseq's S2T Transformers: filterbanks, convolutions that subsample, a Transformer for speech to text."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from dragoman.exchange.codes import tags_by_code, warn_of_unnamed
from dragoman.exchange.fairseq.fairseq_model import OFFSET, Parts, Settings
from dragoman.exchange.fairseq.fairseq_names import counterparts, upgraded
from dragoman.exchange.fairseq.fairseq_text import LANGUAGE, find_segmenter
from dragoman.exchange.foreign_settings import read_yaml
from dragoman.exchange.import_sizes import built, projection_of
from dragoman.exchange.loaded import LoadReport, load_renamed, without_copies
from dragoman.exchange.vocabularies.segmenters import Segmenter
from dragoman.exchange.vocabularies.vocabulary import FIRST, VocabularyTokenizer, read_vocabulary
from dragoman.shared.batches.fields import TextField
from dragoman.shared.batches.speech_field import SpeechField
from dragoman.shared.errors import DataError, shown
from dragoman.shared.nn.fbank import Fbank, GlobalNorm, UtteranceNorm
from dragoman.shared.nn.heads import TiedProjection
from dragoman.shared.nn.positions import SinusoidalPositions
from dragoman.shared.nn.specaugment import SpecAugment
from dragoman.shared.nn.speech import SpeechEmbedding
from dragoman.shared.nn.subsampler import Conv1dSubsampler
from dragoman.shared.nn.transformer import Decoder, Encoder
from dragoman.shared.nn.translator import MEMORY, Translator
from dragoman.shared.systems.system import System

TASK = "speech_to_text"
TAG = re.compile(r"<lang:.+>")
#: Settings of config.yaml that change what is computed in ways that there is no place for here.
ELSEWHERE: dict[str, tuple[Any, ...]] = {
    "input_channels": (1,),
    "sample_rate": (16000,),
    "use_audio_input": (False,),
    "prepend_bos_and_append_tgt_lang_tag": (False,),
}


class DataConfig:
    """``config.yaml``: how a model's features and texts are made.

    Args:
        path: of the file.

    Raises:
        DataError: if it cannot be read, or says what has no counterpart here.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.values = read_yaml(path, "it says how features and texts are made")
        for name, harmless in ELSEWHERE.items():
            if self.values.get(name, harmless[0]) not in harmless:
                raise DataError(f"{path}: {name}: {shown(self.values[name])} has no counterpart here")

    def group(self, name: str) -> dict[str, Any]:
        """Return a group of settings, empty if it is not there."""
        value = self.values.get(name)
        return value if isinstance(value, dict) else {}

    def file(self, name: str) -> Path:
        """Return a file that settings name, which lies beside them, whatever folder it was made in."""
        given = Path(str(name))
        return given if given.is_file() and given.is_absolute() else self.path.parent / given.name

    def transforms(self, *splits: str) -> list[str]:
        """Return the transforms of features for the first of these splits that has its own."""
        given = self.group("transforms")
        return next((list(given[split] or []) for split in (*splits, "*") if split in given), [])

    def normalisation(self) -> nn.Module | None:
        """Build the normalisation of features, filled with its statistics.

        Raises:
            DataError: if the transforms are others than one normalisation, or statistics cannot be read.
        """
        names = self.transforms("_eval")
        if not names:
            return None
        if names == ["utterance_cmvn"]:
            options = self.group("utterance_cmvn")
            return UtteranceNorm(
                means=bool(options.get("norm_means", True)), variances=bool(options.get("norm_vars", True))
            )
        if names == ["global_cmvn"]:
            return self._global_norm(self.file(self.group("global_cmvn").get("stats_npz_path", "gcmvn.npz")))
        raise DataError(f"{self.path}: the transforms {', '.join(map(str, names))} have no counterpart here")

    def augmentation(self) -> SpecAugment | None:
        """Build what hides features in training."""
        if "specaugment" not in self.transforms("_train"):
            return None
        options = self.group("specaugment")
        return SpecAugment(
            frequency_masks=int(options.get("freq_mask_N", 0)),
            frequency_width=int(options.get("freq_mask_F", 0)),
            time_masks=int(options.get("time_mask_N", 0)),
            time_width=int(options.get("time_mask_T", 0)),
            time_share=float(options.get("time_mask_p", 0.0)),
        )

    def segmenter(self, pieces: Path | None) -> Segmenter:
        """Return what cuts texts into pieces.

        Raises:
            DataError: if it is of a kind that is unknown here, or its file is not there.
        """
        if pieces is None and self.group("pre_tokenizer").get("tokenizer"):
            raise DataError(f"{self.path}: pre_tokenizer {self.group('pre_tokenizer')} has no counterpart here")
        options = self.group("bpe_tokenizer")
        kind = options.get("bpe")
        if pieces is None and kind == "sentencepiece":
            pieces = self.file(options.get("sentencepiece_model", ""))
        elif pieces is None and kind is None:
            pieces = Path("words")
        elif pieces is None:
            raise DataError(f"{self.path}: bpe_tokenizer {shown(kind)} has no counterpart here; --pieces names another")
        return find_segmenter(self.path.parent, pieces)

    def _global_norm(self, path: Path) -> GlobalNorm:
        try:
            with np.load(path, allow_pickle=False) as statistics:
                mean, deviation = (torch.from_numpy(statistics[name]).float() for name in ("mean", "std"))
        except (OSError, KeyError, ValueError, TypeError) as error:
            raise DataError(
                f"{path}: no statistics of features (mean and std) can be read from it ({error})"
            ) from error
        norm = GlobalNorm(bins=len(mean))
        if mean.shape != norm.mean.shape or deviation.shape != norm.mean.shape or not (deviation > 0).all():
            raise DataError(f"{path}: mean and std must be as many numbers, and the latter positive")
        norm.mean.copy_(mean)
        norm.deviation.copy_(deviation)
        return norm


def is_speech_model(settings: Settings) -> bool:
    """Tell whether a checkpoint's task is speech to text."""
    return str(settings.get("task", "")) == TASK or str(settings.get("arch", "")).startswith("s2t_")


def import_speech_model(
    path: Path,
    content: Mapping[str, Any],
    settings: Settings,
    *,
    dictionary: Path | None = None,
    pieces: Path | None = None,
    source_languages: list[str] | None = None,
    target_languages: list[str] | None = None,
) -> tuple[System, LoadReport]:
    """Build the system of a checkpoint that has been read.

    Args:
        path: of the checkpoint; config.yaml and what it names lie beside it.
        content: of it.
        settings: of it.
        dictionary: by default what config.yaml names.
        pieces: what cuts text into pieces; by default what config.yaml names.
        source_languages: codes, which no checkpoint says.
        target_languages: codes; by default the tags that the model begins its output with, or the source languages.

    Returns:
        The system and the report of what was loaded and what was not.

    Raises:
        DataError: naming the file, if something is missing or has no counterpart here.
    """
    arch, task = str(settings.get("arch", "")), str(settings.get("task", TASK))
    if task != TASK or not arch.startswith("s2t_transformer"):
        raise DataError(
            f"{path}: the task {shown(task)} has no counterpart here with the architecture {arch!r}, "
            f"only {TASK} with s2t_transformer"
        )
    config = DataConfig(path.parent / Path(str(settings.get("config_yaml", "config.yaml"))).name)
    symbols = dictionary or config.file(config.values.get("vocab_filename", "dict.txt"))
    rows = read_vocabulary(symbols)
    renamed = {name.replace("encoder.transformer_layers.", "encoder.layers."): name for name in content["model"]}
    tensors = upgraded({name: content["model"][theirs] for name, theirs in renamed.items()})
    model = built(partial(build_speech_model, tensors, settings, config), tensors, path)
    if model.target_embedding.vocabulary != len(rows):
        raise DataError(
            f"{symbols}: has {len(rows)} symbols with the {len(FIRST)} first ones, "
            f"but the model {model.target_embedding.vocabulary} vectors: it is another model's"
        )
    tags = language_tags(rows, symbols) if config.values.get("prepend_tgt_lang_tag", False) else {}
    tokenizer = VocabularyTokenizer(
        segmenter=config.segmenter(pieces),
        vocabulary=str(symbols),
        symbols={symbol: symbol for symbol in FIRST} | {f"<{code}>": tag for code, tag in tags.items()},
    )
    report = load_speech_model(model, tensors, str(path))
    return speech_system(model, tokenizer, tags, source_languages, target_languages, str(path)), report


def build_speech_model(tensors: Mapping[str, Tensor], settings: Settings, config: DataConfig) -> Translator:
    """Build the model that a checkpoint describes, with fresh parameters."""
    parts = Parts(tensors, settings)
    scaled = not settings.get("no_scale_embedding", False)
    first = parts.shape("encoder.subsample.conv_layers.0.weight")
    bins = int(config.values.get("input_feat_per_channel", 80))
    if bins != first[1]:
        raise DataError(f"{config.path}: input_feat_per_channel: {bins}, but the checkpoint's features are {first[1]}")
    kernels = [int(kernel) for kernel in str(settings.get("conv_kernel_sizes", "5,5")).split(",")]
    feedforward, width = parts.shape("encoder.layers.0.fc1.weight")
    target = parts.embedding("decoder", scaled=scaled)
    sides = {side: bool(settings.need(f"{side}_normalize_before")) for side in ("encoder", "decoder")}
    speech = SpeechEmbedding(
        frontend=Fbank(bins=bins),
        normalisation=config.normalisation(),
        augmentation=config.augmentation(),
        subsampler=Conv1dSubsampler(inputs=bins, channels=first[0], width=width, kernels=kernels),
        positions=SinusoidalPositions(width=width, offset=OFFSET),
        dropout=float(settings.get("dropout", 0.0)),
        scaled=scaled,
    )
    return Translator(
        embeddings={"speech": speech},
        encoder=Encoder(**parts.stack("encoder", pre_norm=sides["encoder"])),
        target_embedding=target,
        decoder=Decoder(**parts.stack("decoder", memories={MEMORY: width}, pre_norm=sides["decoder"])),
        projection=projection_of(target, tied=settings.get("share_decoder_input_output_embed", False)),
    )


def load_speech_model(model: Translator, tensors: Mapping[str, Tensor], source: str) -> LoadReport:
    """Fill a model; a copy of a shared matrix must be equal, or it is unexpected."""
    tied = isinstance(model.projection, TiedProjection)
    rest = without_copies(tensors, {"decoder.output_projection.weight": "decoder.embed_tokens.weight"} if tied else {})
    elsewhere = [name for name in rest if name.startswith("encoder.ctc_proj.")]
    statistics = "embeddings.speech.normalisation."  # they are not in the checkpoint
    names = {
        name: subsampler_counterparts(name) or counterparts(name)
        for name in model.state_dict()
        if not name.startswith(statistics)
    }
    used = {name: tensor for name, tensor in rest.items() if name not in elsewhere}
    report = load_renamed(model, used, names, source)
    report.missing = [name for name in report.missing if not name.startswith(statistics)]
    report.elsewhere = elsewhere
    return report


def subsampler_counterparts(name: str) -> tuple[str, ...]:
    """Return the name there of a tensor of the subsampler, or nothing."""
    ours = "embeddings.speech.subsampler.convolutions."
    return (f"encoder.subsample.conv_layers.{name.removeprefix(ours)}",) if name.startswith(ours) else ()


def speech_system(
    model: Translator,
    tokenizer: VocabularyTokenizer,
    tags: Mapping[str, str],
    source_languages: list[str] | None,
    target_languages: list[str] | None,
    source: str,
) -> System:
    """Put what a system needs around a model of speech.

    Args:
        model: with an embedding of speech.
        tokenizer: of the output.
        tags: symbols that the output begins with, by language; empty if it begins with none.
        source_languages: codes.
        target_languages: codes; by default those of the tags, or the source languages: a recogniser.
        source: the checkpoint, for messages.

    Raises:
        DataError: if languages are not named, or have no tag.
    """
    if not source_languages:
        raise DataError(f"{source}: does not say which language it hears: name it with --source-languages")
    targets = target_languages or list(tags) or source_languages
    unknown = [code for code in targets if tags and code not in tags]
    if unknown:
        raise DataError(f"{source}: has no symbol for {', '.join(unknown)}, only for {', '.join(tags)}")
    recogniser = not tags and targets == source_languages
    return System(
        model=model,
        inputs={"speech": SpeechField()},
        output=TextField(
            column="source_text" if recogniser else "target_text",
            tokenizer=tokenizer,
            prefix=["</s>", *([LANGUAGE] if tags else [])],
            suffix=["</s>"],
        ),
        output_name="transcript" if recogniser else "translation",
        source_languages=source_languages,
        target_languages=targets,
    )


def language_tags(rows: list[str], source: Path) -> dict[str, str]:
    """Return the symbols of languages by our codes; a warning names those of languages without a code here."""
    tags = [row for row in rows if TAG.fullmatch(row)]
    by_code = tags_by_code(tags)
    warn_of_unnamed(tags, by_code.values(), source)
    return by_code
