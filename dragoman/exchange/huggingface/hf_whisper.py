"""Import of Whisper in Hugging Face's layout (Radford et al. 2022), which hears speech in windows of fixed length.

It writes what it hears, in the same language or in English. The decoder is told what to do by the symbols that its
output begins with: the language that is heard, the task, and, unless it is to write times (whisper_times.py), that none
are wanted. A model of English alone is told the last only.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import tokenizers
import torch
from tokenizers import AddedToken, decoders, models, pre_tokenizers
from torch import Tensor, nn

from dragoman.exchange.codes import languages_of_side, tags_by_code, warn_of_unnamed
from dragoman.exchange.fairseq.fairseq_names import counterparts
from dragoman.exchange.huggingface.hf_model import layer_of
from dragoman.exchange.huggingface.hf_reading import CONFIG, Config, read_json, read_tensors
from dragoman.exchange.huggingface.hf_text import JSON, SETTINGS
from dragoman.exchange.huggingface.log_mel import FOURIER, HOP, RATE, LogMel
from dragoman.exchange.huggingface.whisper_times import with_times
from dragoman.exchange.import_sizes import built, check_rows, projection_of
from dragoman.exchange.loaded import LoadReport, load_renamed, without_copies
from dragoman.exchange.vocabularies.json_file import JsonTokenizer
from dragoman.shared.batches.fields import TextField
from dragoman.shared.batches.speech_field import SpeechField
from dragoman.shared.errors import DataError, UsageError, check_number, shown
from dragoman.shared.nn.embeddings import TextEmbedding
from dragoman.shared.nn.heads import TiedProjection
from dragoman.shared.nn.positions import LearnedPositions, SinusoidalPositions
from dragoman.shared.nn.speech import SpeechEmbedding
from dragoman.shared.nn.subsampler import ConvolutionalStem
from dragoman.shared.nn.transformer import Decoder, Encoder
from dragoman.shared.nn.translator import MEMORY, Translator
from dragoman.shared.search.bans import ForbiddenFirst, ForbiddenTokens
from dragoman.shared.systems.system import System

MODEL_TYPE = "whisper"
ENGLISH = "en"
OUTPUT, TOKENS = "proj_out.weight", "model.decoder.embed_tokens.weight"
TABLE = "model.encoder.embed_positions.weight"
POSITIONS = "embeddings.speech.positions.weight"
#: Symbols by our name. What the model has no symbol for, padding and the unknown, is one that no output has in it.
SYMBOLS = {
    "<s>": "<|startoftranscript|>",
    "</s>": "<|endoftext|>",
    "<pad>": "<|startoflm|>",
    "<unk>": "<|startofprev|>",
    "<transcribe>": "<|transcribe|>",
    "<translate>": "<|translate|>",
    "<notimestamps>": "<|notimestamps|>",
}
TAG = re.compile(r"<\|[a-z]{2,3}\|>")
#: Rows of the smallest vocabulary of many languages, by which the published code tells those of English.
MANY = 51865
#: Between a table of sinusoids in half precision and the same in single precision.
ROUNDING = 5e-3


def import_hf_whisper(
    folder: Path,
    *,
    scratch: Path,
    source_languages: list[str] | None = None,
    target_languages: list[str] | None = None,
    seconds: float | None = None,
    times: bool = False,
) -> tuple[System, LoadReport]:
    """Read a folder.

    Args:
        folder: with config.json, weights, a tokenizer, preprocessor_config.json and, if it has one,
            generation_config.json.
        scratch: a folder for the tokenizer file, needed until the system is saved.
        source_languages: codes; by default all that the model has symbols for.
        target_languages: ["en"] for translation, which can write transcripts as well (the default for models of many
            languages), or the source languages for transcripts alone (the only ones of models of English).
        seconds: a shorter window than the model was trained on: its encoder computes less, and hears no longer sound.
        times: outputs have the times of their segments.

    Returns:
        The system, and the report of what was loaded and what was not.

    Raises:
        DataError: naming the file, if something is missing or has no counterpart here.
        UsageError: for a language that the model does not hear or cannot write, or a window that is no shorter one.
    """
    config = Config(folder / CONFIG)
    if seconds is not None:
        check_number("--window", seconds, least=1, most=window(folder, config.need("num_mel_bins")).seconds)
    generation = Config(folder / "generation_config.json") if (folder / "generation_config.json").is_file() else config
    tensors, weights = read_tensors(folder)
    prefix = "" if any(name.startswith("model.") for name in tensors) else "model."
    tensors = {name if name == OUTPUT else f"{prefix}{name}": tensor for name, tensor in tensors.items()}
    check_rows(config.need("vocab_size"), tensors, config.path)
    many = bool(generation.get("is_multilingual", config.need("vocab_size") >= MANY))
    start = generation.get("decoder_start_token_id", config.get("decoder_start_token_id"))
    tokenizer, heard = read_tokenizer(folder, config.need("vocab_size"), scratch, many=many, start=start)
    if config.get("eos_token_id", tokenizer.eos) != tokenizer.eos:
        raise DataError(
            f"{config.path}: eos_token_id is {config.get('eos_token_id')}, but the tokenizer's {tokenizer.eos}"
        )
    table = tensors.get(TABLE)
    computed = table is not None and is_sinusoidal(table)
    model = built(partial(build_whisper, config, folder, tokenizer.pad, computed, seconds), tensors, config.path)
    report = load_whisper(model, tensors, str(weights))
    sources = languages_of_side("source", source_languages, tagged=heard, said=None, code=None, path=folder)
    texts = outputs(tokenizer, sources, target_languages or ([ENGLISH] if many else sources), many=many)
    (name, output), *others = texts.items()
    system = System(
        model=model,
        inputs={"speech": SpeechField()},
        output=output,
        output_name=name,
        other_outputs=dict(others),
        source_languages=sources,
        target_languages=[ENGLISH] if name == "translation" else sources,
        start_symbols=len(output.prefix),
        bans=bans(generation, tokenizer),
    )
    return with_times(system=system) if times else system, report


# -- texts ------------------------------------------------------------------------------------------------------------


def outputs(tokenizer: JsonTokenizer, sources: list[str], targets: list[str], *, many: bool) -> dict[str, TextField]:
    """Return the texts that the model is to write, by name, the first of them unless asked for another.

    Args:
        tokenizer: of the output.
        sources: the languages that are heard.
        targets: those that are to be written.
        many: the model has many languages.

    Raises:
        UsageError: if the model cannot write a target language.
    """
    heard = ["<{source_language}>"] if many else []
    transcript = TextField(
        column="source_text",
        tokenizer=tokenizer,
        prefix=["<s>", *heard, *(["<transcribe>"] if many else []), "<notimestamps>"],
    )
    if many and targets == [ENGLISH]:
        # By these names, a row of a corpus in another target language is an error.
        prefix = ["<start in {target_language}>", *heard, "<into English from {source_language}>", "<notimestamps>"]
        return {"translation": TextField(tokenizer=tokenizer, prefix=prefix), "transcript": transcript}
    if sorted(targets) != sorted(sources):
        able = "translates into en alone, and transcribes" if many else "transcribes English alone"
        raise UsageError(f"the model {able}: it cannot write {', '.join(targets)} from {', '.join(sources)}")
    return {"transcript": transcript}


def read_tokenizer(
    folder: Path, rows: int, scratch: Path, *, many: bool, start: int | None = None
) -> tuple[JsonTokenizer, list[str]]:
    """Read the tokenizer, whose symbols, times among them, are no text, and whose texts begin without a space.

    Args:
        folder: with tokenizer.json; or with vocab.json, merges.txt and added_tokens.json.
        rows: of the model.
        scratch: a folder for a tokenizer file.
        many: the model has many languages.
        start: the number of the symbol that outputs start with, if it is not the usual one.

    Returns:
        The tokenizer, and the languages that it has symbols for; English alone if the model has no others.
    """
    if (folder / JSON).is_file():
        content = read_json(folder / JSON)
    else:
        content = json.loads(older_tokenizer(folder).to_str())
    try:
        added = {token["content"]: token["id"] for token in content["added_tokens"]}
        content["added_tokens"] = [token | {"special": True} for token in content["added_tokens"]]
    except (KeyError, TypeError) as error:
        raise DataError(f"{folder / JSON}: does not list the symbols of a tokenizer ({error})") from error
    # Words of the transcripts that the model was trained on begin with a space, the first one too.
    steps = [content.get("decoder") or {"type": "ByteLevel"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]
    content["decoder"] = {"type": "Sequence", "decoders": steps}
    path = scratch / JSON
    path.write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")
    language_tags = [symbol for symbol in added if TAG.fullmatch(symbol)]
    tags = tags_by_code(language_tags)
    if many:
        warn_of_unnamed(language_tags, tags.values(), folder)
    symbols = dict(SYMBOLS)
    if start is not None and start != added.get(SYMBOLS["<s>"]):
        first = [symbol for symbol, id in added.items() if id == start]
        if not first:
            raise DataError(f"{folder}: has no symbol of the number {shown(start)} (decoder_start_token_id)")
        symbols["<s>"] = first[0]
    if many:
        symbols |= {f"<{code}>": symbol for code, symbol in tags.items()} | {f"<start in {ENGLISH}>": symbols["<s>"]}
        task = {True: SYMBOLS["<transcribe>"], False: SYMBOLS["<translate>"]}
        symbols |= {f"<into English from {code}>": task[code == ENGLISH] for code in tags}
    return JsonTokenizer(file=str(path), symbols=symbols, rows=rows), list(tags) if many else [ENGLISH]


def older_tokenizer(folder: Path) -> tokenizers.Tokenizer:
    """Put a tokenizer together from vocab.json, merges.txt and added_tokens.json.

    Raises:
        DataError: if one is missing or is of something else.
    """
    paths = [folder / name for name in ("vocab.json", "merges.txt", "added_tokens.json")]
    missing = [path.name for path in paths if not path.is_file()]
    if missing:
        raise DataError(f"{folder}: has neither {JSON} nor {', '.join(missing)}, so there is no tokenizer")
    try:
        built = tokenizers.Tokenizer(models.BPE.from_file(str(paths[0]), str(paths[1])))
        settings = read_json(folder / SETTINGS) if (folder / SETTINGS).is_file() else {}
        built.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=bool(settings.get("add_prefix_space", False)))
        built.decoder = decoders.ByteLevel()
        numbers = Config(paths[2]).values
        built.add_special_tokens(
            [
                AddedToken(symbol, special=True, normalized=False)
                for symbol in sorted(numbers, key=lambda one: numbers[one])
            ]
        )
        wrong = [symbol for symbol, number in numbers.items() if built.token_to_id(symbol) != number]
    except DataError:
        raise
    except Exception as error:  # the library raises nothing more precise
        raise DataError(f"{folder}: vocab.json and merges.txt are not byte-level pairs ({error})") from error
    if wrong:
        raise DataError(
            f"{paths[2]}: {wrong[0]!r} is {numbers[wrong[0]]}, but {built.token_to_id(wrong[0])} comes next"
        )
    return built


def bans(generation: Config, tokenizer: JsonTokenizer) -> list[Any]:
    """Return the symbols that no output has, and those that none begins with; how long outputs are is for searches."""
    tokens = {name: generation.get(name, []) for name in ("suppress_tokens", "begin_suppress_tokens")}
    for name, ids in tokens.items():
        if not isinstance(ids, list) or not all(type(id) is int and 0 <= id < tokenizer.size for id in ids):
            raise DataError(f"{generation.path}: {name} {ids} are not ids below {tokenizer.size}")
    never, first = ([id for id in ids if id != tokenizer.eos] for ids in tokens.values())
    return [*([ForbiddenTokens(tokens=never)] if never else []), *([ForbiddenFirst(tokens=first)] if first else [])]


# -- model ------------------------------------------------------------------------------------------------------------


def build_whisper(
    config: Config, folder: Path, padding: int, computed: bool, seconds: float | None = None
) -> Translator:
    """Build the model that a folder describes, with fresh parameters.

    Args:
        config: the model's settings.
        folder: with the settings of features.
        padding: the padding symbol.
        computed: the encoder's positions are sinusoids, which are computed anew and do not learn; otherwise a table.
        seconds: of the window; None: as the folder says.
    """
    width, dropout = config.need("d_model"), float(config.get("dropout", 0.0))
    features, states = window(folder, config.need("num_mel_bins")), config.need("max_source_positions")
    if features.frames != ConvolutionalStem.STRIDE * states:
        raise DataError(
            f"{config.path}: max_source_positions is {states}, but a window of {features.seconds:g} s has "
            f"{features.frames} frames, not twice as many"
        )
    if seconds is not None:
        features = LogMel(bins=features.bins, seconds=seconds)
    positions: nn.Module = (
        SinusoidalPositions(width=width, offset=0) if computed else LearnedPositions(width=width, length=states)
    )
    target = TextEmbedding(
        vocabulary=config.need("vocab_size"),
        width=width,
        padding=padding,
        positions=LearnedPositions(width=width, length=config.need("max_target_positions")),
        dropout=dropout,
        scaled=False,
    )
    layer = partial(layer_of, config, pre_norm=True, activation="gelu")
    return Translator(
        embeddings={
            "speech": SpeechEmbedding(
                frontend=features,
                subsampler=ConvolutionalStem(inputs=features.bins, width=width),
                positions=positions,
                dropout=dropout,
                scaled=False,
            )
        },
        encoder=Encoder(
            layer=layer("encoder", None),
            layers=config.need("encoder_layers"),
            layer_drop=float(config.get("encoder_layerdrop", 0.0)),
        ),
        target_embedding=target,
        decoder=Decoder(
            layer=layer("decoder", [MEMORY]),
            layers=config.need("decoder_layers"),
            layer_drop=float(config.get("decoder_layerdrop", 0.0)),
        ),
        projection=projection_of(target, tied=config.get("tie_word_embeddings", True)),
    )


def window(folder: Path, bins: int) -> LogMel:
    """Build the features that ``preprocessor_config.json`` describes.

    Raises:
        DataError: if they have no counterpart here.
    """
    config = Config(folder / "preprocessor_config.json")
    settings = {"sampling_rate": RATE, "n_fft": FOURIER, "hop_length": HOP, "dither": 0.0, "feature_size": bins}
    config.refuse({name: (usual,) for name, usual in (settings | {"do_normalize": False}).items()}, told=True)
    return LogMel(bins=bins, seconds=float(config.get("chunk_length", 30)))


def is_sinusoidal(table: Tensor) -> bool:
    """Tell whether a table (L, D) holds sinusoids, be they rounded to half precision."""
    if table.dim() != 2 or table.shape[1] < 4:
        return False
    computed = SinusoidalPositions(width=table.shape[1], offset=0)(len(table), like=table.float())
    return torch.allclose(table.float(), computed, rtol=0, atol=ROUNDING)


def load_whisper(model: Translator, tensors: Mapping[str, Tensor], source: str) -> LoadReport:
    """Fill the model. Keys have no bias there; one of zeros, as any other, changes no attention."""
    rest = without_copies(tensors, {OUTPUT: TOKENS} if isinstance(model.projection, TiedProjection) else {})
    if POSITIONS not in model.state_dict():
        rest.pop(TABLE, None)
    for name in tensors:
        if name.endswith(".k_proj.weight"):
            rest.setdefault(name.replace("weight", "bias"), torch.zeros(len(tensors[name])))
    return load_renamed(model, rest, {name: whisper_counterparts(name) for name in model.state_dict()}, source)


def whisper_counterparts(name: str) -> tuple[str, ...]:
    """Return the names there of what a tensor of the model here is made of: fairseq's in layers."""
    names = {"projection.weight": OUTPUT, POSITIONS: TABLE}
    for kind in ("weight", "bias"):
        for number, part in enumerate(("first", "second"), start=1):
            names[f"embeddings.speech.subsampler.{part}.{kind}"] = f"model.encoder.conv{number}.{kind}"
    return (names[name],) if name in names else tuple(f"model.{theirs}" for theirs in counterparts(name))
