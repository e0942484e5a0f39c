"""Tokenizers for an export to Hugging Face's layout, and the settings that follow from them.

Ours become ``tokenizer.json`` (SentencePiece models are rewritten for the library tokenizers), with the symbols around
a source built in; Marian's stay its two SentencePiece models with a vocabulary.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers
from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, processors

from dragoman.exchange.huggingface.hf_layout import OWN, own_layout
from dragoman.exchange.huggingface.hf_writing import write_json
from dragoman.exchange.vocabularies.adding import BPE, BYTE, CHARACTERS, LIVE, UNIGRAM, merges_of
from dragoman.exchange.vocabularies.extended import ExtendedTokenizer
from dragoman.exchange.vocabularies.json_file import JsonTokenizer
from dragoman.exchange.vocabularies.segmenters import SentencePieces
from dragoman.exchange.vocabularies.vocabulary import FIRST, VocabularyTokenizer
from dragoman.shared.batches.fields import TextField
from dragoman.shared.errors import UsageError
from dragoman.shared.systems.system import System
from dragoman.shared.text.normalise import effective
from dragoman.shared.text.piece_file import NFC, REMOVED, SPACES, parsed
from dragoman.shared.text.tokenizer import SentencePieceTokenizer, Tokenizer

JSON, SETTINGS = "tokenizer.json", "tokenizer_config.json"
NAMES = {"bos_token": "<s>", "pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>", "mask_token": "<mask>"}

#: What becomes of single characters under the rule ``nfc``.
_CHARACTERS = ((SPACES, " "), (REMOVED, ""))


@dataclass(frozen=True)
class Start:
    """The settings of a model that depend on its tokenizer.

    Attributes:
        settings: for ``config.json``.
        generation: for ``generation_config.json``.
        notes: what a user has to know, a line each.
    """

    settings: dict[str, Any]
    generation: dict[str, Any]
    notes: list[str]


def new_order(system: System) -> list[int]:
    """Return our ids in the order that they get there.

    Ids of foreign tokenizers stay; ours have fairseq's first four symbols first, because M2M-100's positions begin
    behind the padding symbol's number.

    Raises:
        UsageError: for a tokenizer that cannot be written there, or different ids on both sides.
    """
    source, target = (field.tokenizer for field in _fields(system))
    if source.fingerprint == target.fingerprint:
        return order_of(target)
    if isinstance(target, SentencePieceTokenizer):
        raise UsageError("source and target have different tokenizers, which transformers has no native class for")
    if _is_pieces(source) and _is_pieces(target) and _rows(source) == _rows(target):
        return list(range(target.size))
    raise _unknown(f"a {type(source).__name__} and a {type(target).__name__}")


def order_of(tokenizer: Tokenizer) -> list[int]:
    """Return the ids of a tokenizer in the order that they get there; see :func:`new_order`.

    Raises:
        UsageError: for a tokenizer that cannot be written there.
    """
    if isinstance(tokenizer, SentencePieceTokenizer):
        first = [tokenizer.id(symbol) for symbol in FIRST]
        return [*first, *(id for id in range(tokenizer.size) if id not in first)]
    if isinstance(tokenizer, JsonTokenizer) or _is_pieces(tokenizer):
        return list(range(tokenizer.size))
    if isinstance(tokenizer, ExtendedTokenizer):
        return [*order_of(tokenizer.tokenizer), *range(tokenizer.tokenizer.size, tokenizer.size)]
    raise _unknown(f"a {type(tokenizer).__name__}")


def _unknown(tokenizers: str) -> UsageError:
    return UsageError(
        f"transformers has no native class for {tokenizers} of these "
        "files: SentencePiece models (one vocabulary) and tokenizer.json can be exported"
    )


def _fields(system: System) -> tuple[TextField, TextField]:
    field = system.inputs["source"]
    assert isinstance(field, TextField)
    return field, system.output


def _is_pieces(tokenizer: Tokenizer) -> bool:
    return isinstance(tokenizer, VocabularyTokenizer) and isinstance(tokenizer.segmenter, SentencePieces)


def _rows(tokenizer: Tokenizer) -> list[str]:
    return [tokenizer.symbol(id) for id in range(tokenizer.size)]


def _layers(tokenizer: Tokenizer) -> tuple[Tokenizer, list[ExtendedTokenizer]]:
    """Return a tokenizer as it was before languages were added, and what was added, the first first."""
    layers: list[ExtendedTokenizer] = []
    while isinstance(tokenizer, ExtendedTokenizer):
        layers.insert(0, tokenizer)
        tokenizer = tokenizer.tokenizer
    return tokenizer, layers


def write_tokenizer(system: System, order: Sequence[int], folder: Path) -> Start:
    """Write the tokenizer's files, and return the settings that follow.

    There a tokenizer does not know of a text's language: an added one (``dragoman extend``) has a folder of its own
    below, named by its code, with a tokenizer that divides and reads its texts.

    Args:
        system: a plain text translator.
        order: our ids in the order that they get there.
        folder: where to write.

    Raises:
        UsageError: if the source is surrounded by what cannot be built in, or an output begins with too much.
    """
    source, target = _fields(system)
    tokenizer = target.tokenizer
    changes = [type(change).__name__ for change in effective(source.normalizers)]
    if changes:
        raise UsageError(f"transformers has no place for {', '.join(changes)} before the tokenizer")
    old, layers = _layers(tokenizer)
    added = [code for layer in layers for code in layer.languages]
    before, behind, notes = _around(system, [code for code in system.source_languages if code not in added])
    named = {name: tokenizer.symbol(tokenizer.id(ours)) for name, ours in NAMES.items() if ours in tokenizer.symbols}
    settings: dict[str, Any] = {**named, "clean_up_tokenization_spaces": False}
    if isinstance(old, VocabularyTokenizer) and not (source.tokenizer is tokenizer and _covers(old)):
        if layers:
            raise UsageError("transformers has no place for a language that was added to two SentencePiece models")
        settings |= _marian(source, target, before + behind, folder)
        write_json(folder / SETTINGS, settings)
    else:
        _write_json(old, tokenizer, order, (before, behind), settings, folder)
    for layer in layers:
        read = {*layer.languages} <= {*system.source_languages}
        *around, more = _around(system, layer.languages) if read else (before, behind, notes)
        place = folder / layer.languages[0]
        place.mkdir()
        _write_json(layer.extended, tokenizer, order, (around[0], around[1]), settings, place)
        notes += [f"texts in {', '.join(layer.languages)} have the tokenizer in {place.name}/", *(more if read else [])]
    ids = {f"{name}_id": order.index(tokenizer.id(NAMES[name])) for name in list(NAMES)[:3] if name in named}
    start, more = _start(system, order, added)
    ids |= {"forced_eos_token_id": ids["eos_token_id"]} | start
    generation = {"num_beams": 5, "early_stopping": True, "suppress_tokens": [ids["pad_token_id"]]}
    ids.pop("forced_bos_token_id", None)
    return Start(ids | {OWN: own_layout(system)}, ids | start | generation, notes + more)


def _write_json(
    divides: Tokenizer,
    tokenizer: Tokenizer,
    order: Sequence[int],
    around: tuple[list[int], list[int]],
    settings: dict[str, Any],
    folder: Path,
) -> None:
    """Write what divides texts, at ids of a tokenizer that may have more, and the symbols around a text."""
    rows = [divides.symbol(id) if id < divides.size else f"(nothing at {id})" for id in order]
    content = content_of(divides, rows)
    before, behind = ([*map(tokenizer.symbol, ids)] for ids in around)
    content.post_processor = processors.TemplateProcessing(
        single=[*before, "$A", *behind],
        special_tokens=[(tokenizer.symbol(id), order.index(id)) for id in {*around[0], *around[1]}],
    )
    (folder / JSON).write_text(content.to_str(pretty=True), encoding="utf-8")
    write_json(folder / SETTINGS, settings | {"tokenizer_class": "PreTrainedTokenizerFast"})


def _around(system: System, languages: list[str]) -> tuple[list[int], list[int], list[str]]:
    """Return the ids before and behind a source that are the same for these languages, and what to say of others."""
    source, _ = _fields(system)
    prefix = source.arguments.get("prefix")
    first = 1 if prefix is None else len(prefix)
    symbols = set()
    for one in languages:
        for other in system.target_languages:
            row = {"id": "", source.column: "", "source_language": one, "target_language": other}
            symbols.add(tuple(source(row, np.random.default_rng(0)).tolist()))
    befores, behinds = {ids[:first] for ids in symbols}, {ids[first:] for ids in symbols}
    if len(behinds) > 1:
        raise UsageError("transformers has no place for a language behind the source of a model of several languages")
    if len(befores) == 1:
        return list(befores.pop()), list(behinds.pop()), []
    if first > 1:
        raise UsageError(f"transformers has no place for {first} symbols before a source that depend on its language")
    tag = source.tokenizer.symbol(sorted(befores)[0][0])
    return [], list(behinds.pop()), [f"each source has to begin with the symbol of its language: {tag} and the text"]


def _start(system: System, order: Sequence[int], added: list[str]) -> tuple[dict[str, int], list[str]]:
    """Return what an output starts with, and what to say if that depends on its language, of added ones first."""
    codes = sorted(system.target_languages, key=lambda code: code not in added)
    starts = {code: [order.index(id) for id in system.output.prefix_ids(code)] for code in codes}
    names = ("decoder_start_token_id", "forced_bos_token_id")
    lengths = {len(ids) for ids in starts.values()}
    if not lengths <= {1, 2}:
        raise UsageError(f"transformers has no place for {max(lengths)} symbols before an output")
    settings = {}
    notes = []
    for name, ids in zip(names, zip(*starts.values(), strict=True), strict=False):
        if len({*ids}) == 1:
            settings[name] = ids[0]
        else:
            said = ", ".join(f"{code} {id}" for code, id in list(zip(starts, ids, strict=True))[:5])
            notes.append(f"generate() needs the output's language: {name}= {said}{', ...' if len(ids) > 5 else ''}")
    return settings, notes


def _covers(tokenizer: VocabularyTokenizer) -> bool:
    """Tell whether every piece of the SentencePiece model has a row."""
    segmenter = tokenizer.segmenter
    return isinstance(segmenter, SentencePieces) and {*segmenter.pieces()} <= {*_rows(tokenizer)}


def content_of(tokenizer: Tokenizer, rows: list[str]) -> tokenizers.Tokenizer:
    """Return the tokenizer as the library tokenizers has it, with these rows."""
    if isinstance(tokenizer, JsonTokenizer):
        content = tokenizers.Tokenizer.from_file(tokenizer.arguments["file"])
        content.no_truncation()
        content.no_padding()
        return content
    if isinstance(tokenizer, SentencePieceTokenizer):
        return sentencepiece_json(Path(tokenizer.arguments["model"]), rows)
    assert isinstance(tokenizer, VocabularyTokenizer) and isinstance(tokenizer.segmenter, SentencePieces)
    return sentencepiece_json(Path(tokenizer.segmenter.arguments["model"]), rows)


def _marian(source: TextField, target: TextField, around: list[int], folder: Path) -> dict[str, Any]:
    """Write MarianTokenizer's files: a vocabulary, and a SentencePiece model for each side."""
    if around != [source.tokenizer.eos]:
        raise UsageError("transformers has no native class for two SentencePiece models with symbols around the source")
    rows = {row: number for number, row in enumerate(_rows(target.tokenizer))}
    (folder / "vocab.json").write_text(json.dumps(rows, ensure_ascii=False), encoding="utf-8")
    for field, name in ((source, "source.spm"), (target, "target.spm")):
        tokenizer = field.tokenizer
        assert isinstance(tokenizer, VocabularyTokenizer) and isinstance(tokenizer.segmenter, SentencePieces)
        shutil.copyfile(tokenizer.segmenter.arguments["model"], folder / name)
    return {"tokenizer_class": "MarianTokenizer", "separate_vocabs": False}


def sentencepiece_json(path: Path, rows: list[str]) -> tokenizers.Tokenizer:
    """Rewrite a SentencePiece model for the library tokenizers, with its pieces at given rows.

    Args:
        path: of the model: unigram, BPE or characters.
        rows: what stands at each id: all pieces of the model, and symbols.

    Raises:
        UsageError: for a model of words.
    """
    proto = parsed(path.read_bytes())
    kind = proto.trainer_spec.model_type
    scores = {piece.piece: piece.score for piece in proto.pieces if piece.type in LIVE}
    fallback = any(piece.type == BYTE for piece in proto.pieces)
    if kind == UNIGRAM:
        vocabulary = [(row, scores.get(row, 0.0)) for row in rows]
        content = tokenizers.Tokenizer(models.Unigram(vocabulary, rows.index("<unk>"), fallback))
    elif kind in (BPE, CHARACTERS):
        numbers = {row: number for number, row in enumerate(rows)}
        merges = merges_of(scores) if kind == BPE else []
        content = tokenizers.Tokenizer(
            models.BPE(numbers, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=fallback)
        )
    else:
        raise UsageError(f"{path}: transformers has no native class for a SentencePiece model of words")
    rule = proto.normalizer_spec
    steps: list[Any] = []
    if rule.name == NFC:  # spelled out: the library applies tables of characters to grapheme clusters, and loses marks
        steps = [normalizers.NFC(), *(normalizers.Replace(Regex(f"[{signs}]"), by) for signs, by in _CHARACTERS)]
    elif rule.precompiled_charsmap:
        steps = [normalizers.Precompiled(rule.precompiled_charsmap)]
    if rule.remove_extra_whitespaces:
        steps += [normalizers.Strip(), normalizers.Replace(Regex(" {2,}"), " ")]
    content.normalizer = normalizers.Sequence(steps)
    scheme = "always" if rule.add_dummy_prefix else "never"
    content.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme=scheme)
    space = [decoders.Strip(" ", 1, 0)] if rule.add_dummy_prefix else []
    content.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), *space])
    symbols = [row for row in rows if row not in scores and not row.startswith("(nothing at ")]
    content.add_special_tokens([AddedToken(row, normalized=False, special=True) for row in symbols])
    return content
