"""Import of encoder-decoders that the library transformers computes: SeamlessM4T, NLLB-MoE, Canary.

What an output begins with says the language: ``</s> __deu__`` for SeamlessM4T, ``</s> deu_Latn`` for NLLB, and for
Canary the prompt of its chat template, which is rendered here, once.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch

from dragoman.exchange.codes import languages_of_side, tags_by_code, warn_of_unnamed
from dragoman.exchange.huggingface.hf_reading import CONFIG, Config
from dragoman.exchange.huggingface.hf_text import NLLB
from dragoman.exchange.huggingface.hf_text_files import GENERATION, SETTINGS, named_tags
from dragoman.exchange.huggingface.hf_whisper import bans
from dragoman.exchange.loaded import LoadReport
from dragoman.exchange.transformers_engine.encoder_decoder import BOTH, EncoderDecoderModel, joined
from dragoman.exchange.transformers_engine.library_features import LibraryFeatures
from dragoman.exchange.transformers_engine.library_folder import (
    LOCAL,
    PROBES,
    check_config,
    library,
    opened,
    opened_tokenizer,
    plain,
    quiet,
    report_of,
    tokenizer_file,
)
from dragoman.exchange.vocabularies.json_file import JsonTokenizer
from dragoman.shared.batches.fields import Field, TextField
from dragoman.shared.batches.speech_field import SpeechField
from dragoman.shared.errors import DataError, UsageError, shown
from dragoman.shared.nn.translator import MEMORY, SPEECH
from dragoman.shared.nn.weights import header_of
from dragoman.shared.systems.system import System

SEAMLESS = re.compile(r"__[a-z]{3}(_[A-Z][a-z]{3})?__")
#: What the encoders of SeamlessM4T are called, by what they read.
ENCODERS = {SPEECH: "speech_encoder.", MEMORY: "text_encoder."}
#: Of the same, what makes speech.
SPEAKING = ("t2u_model.", "vocoder.")
TRANSLATION, TRANSCRIPT = "translation", "transcript"


@dataclass
class Opened:
    """A folder as the library opens it.

    Attributes:
        folder: the folder.
        config: its settings.
        generation: those of outputs.
        tokenizer: the library's.
        reads: what its weights are for: "speech", "source", or both.
    """

    folder: Path
    config: Config
    generation: Config
    tokenizer: Any
    reads: list[str]

    def token(self, id: int | None, name: str) -> str:
        """Return the symbol with a number.

        Raises:
            DataError: if there is none; ``name`` says what it is for.
        """
        symbol = None if id is None else self.tokenizer.convert_ids_to_tokens(id)
        if symbol is None:
            raise DataError(f"{self.folder}: its tokenizer has no symbol of the number {shown(id)} ({name})")
        return str(symbol)


@dataclass
class Symbols:
    """The symbols around the texts of a model, by the names that a tokenizer here has for them.

    Attributes:
        tags: what the folder calls languages.
        source: before and behind a source.
        output: before a translation.
        transcript: before a transcript; None: it writes none.
        starts: how many of those before an output are the start, which costs nothing.
        further: the symbols among these, by name, that are not languages.
        pieces: those of them that stand for text otherwise.
    """

    tags: list[str]
    source: tuple[list[str], list[str]]
    output: list[str]
    transcript: list[str] | None
    starts: int
    further: dict[str, str] = field(default_factory=dict)
    pieces: list[str] = field(default_factory=list)


def import_encoder_decoder(
    source: Path,
    scratch: Path,
    *,
    source_languages: list[str] | None = None,
    target_languages: list[str] | None = None,
) -> tuple[System, LoadReport]:
    """Read a folder of an encoder-decoder in Hugging Face's layout.

    Args:
        source: the folder; its weights are safetensors.
        scratch: a folder for the tokenizer's file, needed until the system is saved.
        source_languages: codes; by default all that the model has symbols for.
        target_languages: likewise.

    Returns:
        The system, and the report of what was loaded and what was not.

    Raises:
        DataError: if something is missing, or the tokenizer does not fit the model.
        UsageError: without the library, for a model that needs code of its own, or for a language without a symbol.
    """
    config = Config(source / CONFIG)
    check_config(config.values, str(config.path))
    kind = config.need("model_type")
    reads = read_by(source, kind)
    generation = Config(source / GENERATION) if (source / GENERATION).is_file() else config
    folder = Opened(source, config, generation, opened_tokenizer(source), reads)
    symbols = FAMILIES[kind](folder)
    features = LibraryFeatures(settings=extractor_settings(source)) if SPEECH in reads else None
    infos: list[dict[str, Any]] = []
    loaded: Any = joined(partial(_opened, source, kind, infos), config.values, reads)
    rows = loaded.get_output_embeddings().weight.shape[0]
    tokenizer = tokenizer_of(folder, symbols, rows, scratch)
    with torch.device("meta"):
        model = EncoderDecoderModel(config=plain(config.values), reads=reads, features=features)
    model.lm = loaded
    fields: dict[str, Field] = {}
    if SPEECH in reads:
        fields[SPEECH] = SpeechField()
    if MEMORY in reads:
        before, behind = symbols.source
        fields[MEMORY] = TextField(column="source_text", tokenizer=tokenizer, prefix=before, suffix=behind)
    others = {}
    if symbols.transcript is not None and SPEECH in reads:
        others[TRANSCRIPT] = TextField(column="source_text", tokenizer=tokenizer, prefix=symbols.transcript)
    tagged = [*tags_by_code(symbols.tags)]
    codes = [
        languages_of_side(side, given, tagged=tagged, said=None, code=None, path=source)
        for side, given in (("source", source_languages), ("target", target_languages))
    ]
    system = System(
        model=model,
        inputs=fields,
        reads=[*fields][:1],
        output=TextField(tokenizer=tokenizer, prefix=symbols.output),
        output_name=TRANSLATION,
        other_outputs=others,
        source_languages=codes[0],
        target_languages=codes[1],
        start_symbols=symbols.starts,
        bans=bans(generation, tokenizer),
    )
    report = report_of(source, model, _merged(infos, reads), SPEAKING)
    system.origin.append(f"imported from {source.name} (transformers, {kind}): {report.counts}")
    return system.eval(), report


def read_by(folder: Path, kind: str) -> list[str]:
    """Return what a model reads: "speech", "source", or both, by the encoders that its weights have.

    Raises:
        DataError: if it has no weights in the format safetensors, or no encoder.
    """
    if kind not in BOTH:
        return [SPEECH if kind == "canary" else MEMORY]
    names = {name for file in sorted(folder.glob("*.safetensors")) for name in header_of(file)}
    if not names:
        raise DataError(f"{folder}: has no weights in the format safetensors")
    reads = [one for one, encoder in ENCODERS.items() if any(name.startswith(encoder) for name in names)]
    if not reads:
        raise DataError(f"{folder}: its weights have neither a speech_encoder nor a text_encoder")
    return reads


def extractor_settings(folder: Path) -> dict[str, Any]:
    """Return the settings of a folder's feature extractor, in whichever file they are.

    Raises:
        DataError: if the library finds none.
    """
    library()
    from transformers import AutoFeatureExtractor

    try:
        with quiet():
            found = AutoFeatureExtractor.from_pretrained(folder, **LOCAL)
    except (OSError, ValueError, KeyError) as error:
        raise DataError(f"{folder}: has no feature extractor ({str(error).splitlines()[0]})") from error
    settings = found.to_dict()
    return {name: value for name, value in settings.items() if not name.startswith("_")}


def tokenizer_of(folder: Opened, symbols: Symbols, rows: int, scratch: Path) -> JsonTokenizer:
    """Return the tokenizer, with the symbols of a family.

    Raises:
        DataError: if it has more symbols than the model vectors, or other numbers than the model's settings say.
        UsageError: if it divides a text otherwise than the library.
    """
    theirs = folder.tokenizer
    wanted = {"<pad>": theirs.pad_token, "</s>": theirs.eos_token, "<unk>": theirs.unk_token or theirs.pad_token}
    for name, symbol in wanted.items():
        if symbol is None:
            raise DataError(f"{folder.folder}: its tokenizer names no {name}")
    file = tokenizer_file(folder.folder, theirs, scratch)
    named = wanted | named_tags(symbols.tags) | symbols.further
    tokenizer = JsonTokenizer(file=str(file), symbols=named, rows=rows, pieces=symbols.pieces or None)
    if tokenizer.size > rows:
        raise DataError(f"{file}: has {tokenizer.size} symbols, and the model {rows} vectors")
    for setting, id in (("pad_token_id", tokenizer.pad), ("eos_token_id", tokenizer.eos)):
        said = folder.generation.get(setting, folder.config.get(setting, id))
        if said != id:
            raise DataError(f"{folder.folder}: {setting} is {shown(said)}, but the tokenizer's is {id}")
    for probe in PROBES:
        ours, wanted_ids = tokenizer.encode(probe), theirs(probe, add_special_tokens=False)["input_ids"]
        if ours != wanted_ids:
            raise UsageError(f"{file}: makes {ours} of {probe!r}, and transformers {wanted_ids}")
    return tokenizer


def _opened(folder: Path, model_type: str, infos: list[dict[str, Any]], kind: str) -> Any:
    model, info = opened(folder, kind, model_type)
    infos.append(info)
    return model


def _merged(infos: list[dict[str, Any]], reads: list[str]) -> dict[str, Any]:
    """Return what the library said of tensors when it read a folder once or twice, but for encoders left out."""
    outside = tuple(encoder for one, encoder in ENCODERS.items() if one not in reads)
    missing = {name for info in infos for name in info["missing_keys"]}
    unexpected = set.intersection(*({*info["unexpected_keys"]} for info in infos))
    return {
        "missing_keys": {name for name in missing if not name.startswith(outside)},
        "unexpected_keys": unexpected,
        "mismatched_keys": [wrong for info in infos for wrong in info["mismatched_keys"]],
    }


# -- families ---------------------------------------------------------------------------------------------------------


def _seamless(folder: Opened) -> Symbols:
    """Return the symbols of SeamlessM4T: ``__deu__ ... </s>`` is read, and ``</s> __fra__`` begins an output."""
    listed = folder.generation.get("text_decoder_lang_to_code_id")
    vocabulary = folder.tokenizer.get_vocab()
    tags = [f"__{name}__" for name in listed] if listed else [*filter(SEAMLESS.fullmatch, vocabulary)]
    lost = [tag for tag in tags if tag not in vocabulary]
    if lost or not tags:
        raise DataError(f"{folder.folder}: its tokenizer has no symbol {(lost or ['__eng__'])[0]}")
    for name, id in (listed or {}).items():
        if (there := vocabulary[f"__{name}__"]) != id:
            raise DataError(f"{folder.folder}: {name} is {shown(id)}, but {there} in its tokenizer")
    _warn(folder, tags)
    first = _start(folder)
    return Symbols(
        tags=tags,
        source=(["<{language}>"], ["</s>"]),
        output=["<first>", "<{language}>"],
        transcript=["<first>", "<{language}>"],
        starts=2,
        further={"<first>": first},
    )


def _nllb(folder: Opened) -> Symbols:
    """Return the symbols of NLLB: ``deu_Latn ... </s>`` is read, and ``</s> fra_Latn`` begins an output."""
    tags = [*filter(NLLB.fullmatch, folder.tokenizer.get_vocab())]
    if not tags:
        raise DataError(f"{folder.folder}: its tokenizer has no symbols of languages, such as eng_Latn")
    _warn(folder, tags)
    path = folder.folder / SETTINGS
    older = path.is_file() and Config(path).get("legacy_behaviour", False)
    return Symbols(
        tags=tags,
        source=([], ["</s>", "<{language}>"]) if older else (["<{language}>"], ["</s>"]),
        output=["<first>", "<{language}>"],
        transcript=None,
        starts=1,
        further={"<first>": _start(folder)},
    )


def _canary(folder: Opened) -> Symbols:
    """Return the symbols of Canary, whose outputs begin with a prompt that names both languages."""
    library()
    from transformers import AutoProcessor
    from transformers.models.canary.processing_canary import LANGUAGE_CODE_TO_NAME

    with quiet():
        processor = AutoProcessor.from_pretrained(folder.folder, **LOCAL)
    vocabulary = folder.tokenizer.get_vocab()
    known = {code: f"<|{code}|>" for code in LANGUAGE_CODE_TO_NAME if f"<|{code}|>" in vocabulary}
    if len(known) < 2:
        raise DataError(f"{folder.folder}: its tokenizer has no symbols of languages, such as <|en|>")

    def prompt(source: str, target: str) -> list[str]:
        sound = torch.zeros(16000).numpy()
        asked = processor.apply_transcription_request(sound, source_language=source, target_language=target)
        return [*map(str, folder.tokenizer.convert_ids_to_tokens(asked["decoder_input_ids"][0].tolist()))]

    one, other, *_ = known
    shape = [{known[one]: SOURCE_TAG, known[other]: TARGET_TAG}.get(symbol, symbol) for symbol in prompt(one, other)]
    if shape.count(SOURCE_TAG) != 1 or shape.count(TARGET_TAG) != 1:
        said = " ".join(shape)
        raise DataError(f"{folder.folder}: its chat template does not name {one} and {other} once each: {said!r}")
    for code in known:
        for pair in ((one, code), (code, one)):
            filled = {SOURCE_TAG: known[pair[0]], TARGET_TAG: known[pair[1]]}
            if prompt(*pair) != [filled.get(symbol, symbol) for symbol in shape]:
                raise DataError(f"{folder.folder}: the chat template asks for {' to '.join(pair)} in another way")
    special = {str(token) for token in folder.tokenizer.added_tokens_decoder.values() if token.special}
    around = [symbol for symbol in dict.fromkeys(shape) if symbol not in (SOURCE_TAG, TARGET_TAG)]
    return Symbols(
        tags=[*known.values()],
        source=([], []),
        output=shape,
        transcript=[SOURCE_TAG if symbol == TARGET_TAG else symbol for symbol in shape],
        starts=len(shape),
        further={symbol: symbol for symbol in around},
        pieces=[symbol for symbol in around if symbol not in special],
    )


SOURCE_TAG, TARGET_TAG = "<{source_language}>", "<{target_language}>"


def _start(folder: Opened) -> str:
    """Return the symbol that the decoder starts with."""
    name = "decoder_start_token_id"
    return folder.token(folder.generation.get(name, folder.config.get(name)), name)


def _warn(folder: Opened, tags: list[str]) -> None:
    warn_of_unnamed(tags, tags_by_code(tags).values(), folder.folder)


FAMILIES: dict[str, Callable[[Opened], Symbols]] = {
    "seamless_m4t": _seamless,
    "seamless_m4t_v2": _seamless,
    "nllb-moe": _nllb,
    "canary": _canary,
}
