"""Import of Speech2Text in Hugging Face's layout: fairseq's S2T Transformers under other names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from dragoman.exchange.fairseq.fairseq_s2t import language_tags, speech_system, subsampler_counterparts
from dragoman.exchange.huggingface.hf_layout import started_field
from dragoman.exchange.huggingface.hf_model import OUTPUT, counterparts_of, layer_of
from dragoman.exchange.huggingface.hf_reading import CONFIG, Config, read_tensors
from dragoman.exchange.huggingface.hf_text_files import TextFiles
from dragoman.exchange.import_sizes import built, projection_of
from dragoman.exchange.loaded import LoadReport, load_renamed, without_copies
from dragoman.exchange.vocabularies.letters import Recased
from dragoman.exchange.vocabularies.segmenters import SentencePieces
from dragoman.exchange.vocabularies.vocabulary import VocabularyTokenizer, read_vocabulary
from dragoman.shared.errors import DataError
from dragoman.shared.nn.embeddings import TextEmbedding
from dragoman.shared.nn.fbank import Fbank, UtteranceNorm
from dragoman.shared.nn.heads import TiedProjection
from dragoman.shared.nn.positions import SinusoidalPositions
from dragoman.shared.nn.speech import SpeechEmbedding
from dragoman.shared.nn.subsampler import Conv1dSubsampler
from dragoman.shared.nn.transformer import Decoder, Encoder
from dragoman.shared.nn.translator import MEMORY, Translator
from dragoman.shared.systems.system import System

MODEL_TYPE = "speech_to_text"
TOKENS = "model.decoder.embed_tokens.weight"
#: Sinusoids, which are computed anew; older versions of the library saved them.
COMPUTED = re.compile(r"model\.(en|de)coder\.embed_positions\.weights?")


def import_hf_speech(
    folder: Path, *, source_languages: list[str] | None = None, target_languages: list[str] | None = None
) -> tuple[System, LoadReport]:
    """Read a folder.

    Args:
        folder: with config.json, weights, vocab.json, a SentencePiece model and the settings of features.
        source_languages: codes, which no checkpoint says.
        target_languages: codes; by default those of the symbols that output begins with, or the source languages.

    Returns:
        The system, and the report of what was loaded and what was not.

    Raises:
        DataError: naming the file, if something is missing or has no counterpart here.
    """
    config = Config(folder / CONFIG)
    tensors, weights = read_tensors(folder)
    settings = Config(folder / "tokenizer_config.json") if (folder / "tokenizer_config.json").is_file() else None
    vocabulary = folder / "vocab.json"
    tagged = settings is not None and settings.get("lang_codes")
    tags = language_tags(read_vocabulary(vocabulary), vocabulary) if tagged else {}
    tokenizer = _tokenizer(folder, settings, tags)
    if tokenizer.size != config.need("vocab_size"):
        raise DataError(
            f"{folder / 'vocab.json'}: has {tokenizer.size} symbols, but the model {config.need('vocab_size')} vectors"
        )
    model = built(partial(build_speech_model, config, folder), tensors, config.path)
    tensors = {name: tensor for name, tensor in tensors.items() if not COMPUTED.fullmatch(name)}
    tensors = without_copies(tensors, {OUTPUT: TOKENS} if isinstance(model.projection, TiedProjection) else {})
    names = {name: _counterparts(name) for name in model.state_dict()}
    report = load_renamed(model, tensors, names, str(weights))
    system = speech_system(model, tokenizer, tags, source_languages, target_languages, str(folder))
    output = started_field(system.output, TextFiles(folder, config, folder))
    return System(**system.arguments | {"output": output}), report


def build_speech_model(config: Config, folder: Path) -> Translator:
    """Build the model that a folder describes, with fresh parameters."""
    width, padding = config.need("d_model"), config.need("pad_token_id")
    scaled, dropout = bool(config.get("scale_embedding", True)), float(config.get("dropout", 0.0))
    config.refuse({"input_channels": (1,)})
    bins = config.get("input_feat_per_channel", 80)
    speech = SpeechEmbedding(
        frontend=Fbank(bins=bins),
        normalisation=_normalisation(folder, bins),
        subsampler=Conv1dSubsampler(
            inputs=bins,
            channels=config.get("conv_channels", 1024),
            width=width,
            kernels=config.get("conv_kernel_sizes", [5, 5]),
        ),
        positions=SinusoidalPositions(width=width, offset=padding + 1),
        dropout=dropout,
        scaled=scaled,
    )
    target = TextEmbedding(
        vocabulary=config.need("vocab_size"),
        width=width,
        padding=padding,
        positions=SinusoidalPositions(width=width, offset=padding + 1),
        dropout=dropout,
        scaled=scaled,
    )
    layer_drop = {side: float(config.get(f"{side}_layerdrop", 0.0)) for side in ("encoder", "decoder")}
    layer = partial(layer_of, config, pre_norm=True, activation="relu")
    return Translator(
        embeddings={"speech": speech},
        encoder=Encoder(
            layer=layer("encoder", None),
            layers=config.need("encoder_layers"),
            layer_drop=layer_drop["encoder"],
        ),
        target_embedding=target,
        decoder=Decoder(
            layer=layer("decoder", [MEMORY]),
            layers=config.need("decoder_layers"),
            layer_drop=layer_drop["decoder"],
        ),
        projection=projection_of(target, tied=config.get("tie_word_embeddings", True)),
    )


def _normalisation(folder: Path, bins: int) -> UtteranceNorm | None:
    config = Config(folder / "preprocessor_config.json")
    config.refuse({"sampling_rate": (16000,), "num_mel_bins": (bins,), "dither": (0.0,)}, told=True)
    if not config.get("do_ceptral_normalize", True):  # spelt so there
        return None
    return UtteranceNorm(
        means=bool(config.get("normalize_means", True)), variances=bool(config.get("normalize_vars", True))
    )


def _tokenizer(folder: Path, settings: Config | None, tags: Mapping[str, str]) -> VocabularyTokenizer:
    segmenter: Any = SentencePieces(model=str(folder / "sentencepiece.bpe.model"))
    lower, upper = (bool(settings and settings.get(f"do_{case}_case")) for case in ("lower", "upper"))
    if lower or upper:
        segmenter = Recased(segmenter=segmenter, lower=lower, upper_output=upper)
    symbols = {symbol: symbol for symbol in ("<s>", "<pad>", "</s>", "<unk>")}
    return VocabularyTokenizer(
        segmenter=segmenter,
        vocabulary=str(folder / "vocab.json"),
        symbols=symbols | {f"<{code}>": tag for code, tag in tags.items()},
    )


def _counterparts(name: str) -> tuple[str, ...]:
    subsampler = subsampler_counterparts(name)
    if subsampler:
        return tuple(f"model.{theirs.replace('.subsample.', '.conv.')}" for theirs in subsampler)
    return counterparts_of(name)
