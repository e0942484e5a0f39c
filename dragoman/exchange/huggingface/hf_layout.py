"""The symbols around texts, as a folder in Hugging Face's layout itself says them.

A folder that was exported here says all of it (``dragoman`` in its config.json). Others have a template in their
tokenizer.json, and in their settings the symbols that an output starts with.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from dragoman.exchange.huggingface.hf_reading import read_json
from dragoman.exchange.huggingface.hf_text_files import (
    END,
    JSON,
    LANGUAGE,
    PADDING,
    START,
    Around,
    TextFiles,
    Texts,
    named_tags,
    texts_of,
)
from dragoman.exchange.vocabularies.extended import ExtendedTokenizer
from dragoman.exchange.vocabularies.json_file import JsonTokenizer, rows_of
from dragoman.exchange.vocabularies.segmenters import SentencePieces
from dragoman.exchange.vocabularies.vocabulary import VocabularyTokenizer
from dragoman.shared.batches.fields import TextField
from dragoman.shared.errors import DataError, shown
from dragoman.shared.systems.system import System
from dragoman.shared.text.languages import LANGUAGES, check
from dragoman.shared.text.tokenizer import Tokenizer

OWN = "dragoman"
#: What it calls languages that were added, by ``dragoman extend``: lists of codes, each with a tokenizer of its own.
ADDED = "added_languages"
#: Classes of tokenizers that say nothing, beside their file, about texts.
PLAIN = ("PreTrainedTokenizerFast", "TokenizersBackend")
#: Settings that name what an output starts with, and what we call a symbol that has no name here.
STARTS = {"decoder_start_token_id": "<start>", "forced_bos_token_id": "<first>"}


# -- exports of our own -----------------------------------------------------------------------------------------------


def own_layout(system: System) -> dict[str, Any]:
    """Return what :func:`read_own` needs to know of a translator of text."""
    fields = {"source": system.inputs["source"], "target": system.output}
    codes = {"source": system.source_languages, "target": system.target_languages}
    layout: dict[str, Any] = {}
    for side, field in fields.items():
        assert isinstance(field, TextField)
        layout[side] = {"languages": codes[side], "prefix": field.prefix, "suffix": field.suffix}
    tokenizer = system.output.tokenizer
    layout["symbols"] = {name: tokenizer.symbol(tokenizer.id(name)) for name in tokenizer.symbols}
    while isinstance(tokenizer, ExtendedTokenizer):
        layout.setdefault(ADDED, []).insert(0, tokenizer.languages)
        tokenizer = tokenizer.tokenizer
    return layout


def read_own(files: TextFiles) -> Texts:
    """Read the texts of a folder that was exported here.

    Raises:
        DataError: naming the file, if it does not say what an export says.
    """
    config = files.config
    said: Any = config.need(OWN)
    wrong = DataError(f"{config.path}: {OWN} does not say what an export says: {shown(said)}")
    if not isinstance(said, dict) or not isinstance(said.get("symbols"), dict):
        raise wrong
    symbols, source, target = said["symbols"], said.get("source"), said.get("target")
    for own in (source, target):
        parts = [own.get(name) for name in ("languages", "prefix", "suffix")] if isinstance(own, dict) else [None]
        if not all(isinstance(part, list) and all(isinstance(one, str) for one in part) for part in parts):
            raise wrong
    if not all(isinstance(row, str) for row in symbols.values()):
        raise wrong
    if files.has(JSON):
        tokenizers: list[Any] = [_own_json(files, symbols, said.get(ADDED, []), wrong)] * 2
    else:
        names = ("source.spm", "target.spm")
        segmenters = [SentencePieces(model=files.path(name)) for name in names]
        given = {"vocabulary": files.path("vocab.json"), "symbols": symbols}
        tokenizers = [VocabularyTokenizer(segmenter=segmenter, **given) for segmenter in segmenters]
    around = [(said[side]["prefix"], said[side]["suffix"]) for side in ("source", "target")]
    try:
        texts = texts_of((tokenizers[0], tokenizers[1]), around[0], around[1])
        defaults = {side: [check(code) for code in said[side]["languages"]] for side in ("source", "target")}
    except ValueError as error:
        raise DataError(f"{config.path}: {OWN}: {error}") from error
    return replace(texts, defaults=defaults)


def _own_json(files: TextFiles, symbols: dict[str, str], added: Any, wrong: DataError) -> Tokenizer:
    """Return the tokenizer of an export, with those of the languages that were added."""
    layers = added if isinstance(added, list) else [added]
    if not all(isinstance(codes, list) and codes and all(isinstance(code, str) for code in codes) for codes in layers):
        raise wrong
    known = {name: row for name, row in symbols.items() if name not in {f"<{code}>" for code in sum(layers, [])}}
    tokenizer: Tokenizer = files.json(known)
    for codes in layers:
        known |= {name: symbols[name] for code in codes if (name := f"<{code}>") in symbols}
        tokenizer = ExtendedTokenizer(
            tokenizer=tokenizer, extended=files.below(codes[0]).json(known), languages=[*codes]
        )
    return tokenizer


# -- templates --------------------------------------------------------------------------------------------------------


def is_plain(files: TextFiles) -> bool:
    """Tell whether all that is said about texts stands in ``tokenizer.json``."""
    return files.has(JSON) and str(files.settings.get("tokenizer_class")) in PLAIN


def read_template(files: TextFiles) -> Texts:
    """Read the texts of a translator around whose sources stands what the template of ``tokenizer.json`` says.

    Raises:
        DataError: naming the file, if the model's settings do not say what an output starts with.
    """
    config = files.config
    numbers = files.vocabulary()
    rows = rows_of(numbers)
    symbols: dict[str, str] = {}
    for name, setting in ((PADDING, "pad_token_id"), (END, "eos_token_id"), (START, "bos_token_id")):
        id = config.get(setting)
        if name != START or id is not None:
            symbols[name] = rows[_checked(id, len(rows), f"{config.path}: {setting}")]
    for name, setting in (("<unk>", "unk_token"), ("<mask>", "mask_token")):
        token = files.settings.get(setting)
        token = token.get("content") if isinstance(token, dict) else token
        if isinstance(token, str) and token in numbers:
            symbols[name] = token
    symbols.setdefault("<unk>", symbols[PADDING])  # byte-level vocabularies have nothing unknown
    added = files.listed()
    tags = {f"<{code}>": tag for tag in added if (code := tag[1:-1]) in LANGUAGES and tag == f"<{code}>"}
    tags |= {name: tag for name, tag in named_tags(added).items() if name not in tags}
    before, behind = _template(files)
    ours = {row: name for name, row in (symbols | tags).items()}
    named = symbols | tags | {row: row for row in (*before, *behind) if row not in ours}
    tokenizer = files.json(named)
    source = ([ours.get(row, row) for row in before], [ours.get(row, row) for row in behind])
    start: list[str] = []
    defaults: dict[str, list[str]] = {}
    for place, setting in enumerate(STARTS):
        id = files.said(setting)
        if id is None and (place or not tags):
            continue  # what is missing at the first place is for who knows the output's language to say
        first = LANGUAGE
        if id is not None:  # what has no name here gets one by `started`
            first = ours.get(rows[_checked(id, len(rows), f"{config.path}: {setting}")], END)
        if first in tags:
            defaults["target"], first = [first[1:-1]], LANGUAGE
        start.append(first)
    read = [name[1:-1] for name in sum(source, []) if name in tags]
    if len(read) == 1 and read != defaults.get("target"):
        defaults["source"] = read
    texts = texts_of((tokenizer, tokenizer), source, (start or [END], [END]), tags=tags.values())
    return replace(texts, defaults=defaults)


def _template(files: TextFiles) -> Around:
    """Return the symbols before and behind a text; the library has read the file, so that it has the right form."""
    step: dict[str, Any] = read_json(files.folder / JSON).get("post_processor") or {}
    steps: list[dict[str, Any]] = step["processors"] if step.get("type") == "Sequence" else [step]
    for step in steps:
        if step.get("type") == "TemplateProcessing":
            parts: list[str] = [(part.get("SpecialToken") or {}).get("id", "") for part in step["single"]]
            place = parts.index("")
            return parts[:place], parts[place + 1 :]
        if step.get("type") in ("BertProcessing", "RobertaProcessing"):
            return [step["cls"][0]], [step["sep"][0]]
    return [], []


# -- what outputs start with ------------------------------------------------------------------------------------------


def started(texts: Texts, files: TextFiles) -> Texts:
    """Return texts whose output starts as :func:`started_field` says; what reads its tokenizer goes on to do so."""
    if texts.target is None:
        return texts
    target, source = started_field(texts.target, files), texts.source
    if source.tokenizer is texts.target.tokenizer:
        source = TextField(**source.arguments | {"tokenizer": target.tokenizer})
    return replace(texts, source=source, target=target)


def started_field(field: TextField, files: TextFiles) -> TextField:
    """Return an output that starts with the symbols that the settings name, where its language is none of them.

    Raises:
        DataError: naming the file, the setting and the value, if the tokenizer has no such symbol.
    """
    tokenizer, prefix = field.tokenizer, [*field.prefix]
    assert isinstance(tokenizer, JsonTokenizer | VocabularyTokenizer)
    names = {tokenizer.id(name): name for name in reversed(tokenizer.symbols)}
    new: dict[str, str] = {}
    for place, (setting, name) in enumerate(STARTS.items()):
        id = files.said(setting)
        if id is None or (place < len(prefix) and "{" in prefix[place]):
            continue
        _checked(id, tokenizer.size, f"{files.config.path}: {setting}")
        if place < len(prefix) and tokenizer.id(prefix[place]) == id:
            continue
        if id not in names:
            names[id], new[name] = name, tokenizer.symbol(id)
        prefix[place : place + 1] = [names[id]]
    if new:  # rows that had no name here; those that are pieces of text stay so
        arguments = tokenizer.arguments
        more = {"symbols": arguments["symbols"] | new, "pieces": [*(arguments.get("pieces") or []), *new]}
        tokenizer = type(tokenizer)(**arguments | more)
    return TextField(**field.arguments | {"tokenizer": tokenizer, "prefix": prefix})


def _checked(id: Any, rows: int, what: str) -> int:
    """Return the number of a symbol.

    Raises:
        DataError: if there is no such symbol.
    """
    if type(id) is not int or not 0 <= id < rows:
        raise DataError(f"{what} is {shown(id)}, which is none of the tokenizer's {rows} symbols")
    return id
