"""The dictionary and pieces of a fairseq text model, and the symbols around the texts of each task."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from dragoman.exchange.codes import tags_by_code
from dragoman.exchange.fairseq.fairseq_model import Settings
from dragoman.exchange.vocabularies.segmenters import ByteLevelPairs, BytePairs, Segmenter, SentencePieces, Words
from dragoman.exchange.vocabularies.vocabulary import FIRST, VocabularyTokenizer, read_vocabulary
from dragoman.shared.errors import DataError, shown

LANGUAGE = "<{language}>"


@dataclass(frozen=True)
class Layout:
    """The symbols around texts, and those that a task adds to the dictionary.

    Attributes:
        source: before and behind the source.
        target: before and behind the target; None for an encoder alone.
        added: symbols behind those of the dictionary.
        tag: from what the settings call a language to its symbol, or None if languages have no symbols.
        names: what the settings call the languages that have symbols.
    """

    source: tuple[list[str], list[str]] = ([], ["</s>"])
    target: tuple[list[str], list[str]] | None = (["</s>"], ["</s>"])
    added: list[str] = field(default_factory=list)
    tag: Callable[[str], str] | None = None
    names: list[str] = field(default_factory=list)


#: Of masked language models, whatever task they were trained for later.
MASKED = Layout(source=(["<s>"], ["</s>"]), target=None, added=["<mask>"])


def layout_of(settings: Settings, dictionary: Sequence[str], folder: Path) -> Layout:
    """Return the layout of a translator's task.

    Raises:
        DataError: for a task of which nothing is known here.
    """
    task = str(settings.get("task", "translation"))
    if task in ("denoising", "multilingual_denoising", "translation_from_pretrained_bart"):
        return _denoising(settings, task, folder)
    if task == "translation_multi_simple_epoch":
        return _many_languages(settings, folder)
    if not task.startswith("translation") or task in ("translation_lev", "translation_from_pretrained_xlm"):
        raise DataError(f"{settings.path}: the task {shown(task)} has no counterpart here")
    tags = [symbol for symbol in dictionary if re.fullmatch(r"LANG_TOK_\w+", symbol)]
    if not tags:
        return Layout()
    return Layout(  # the language token is the first word of each text
        source=([LANGUAGE], ["</s>"]),
        target=(["</s>", LANGUAGE], ["</s>"]),
        tag="LANG_TOK_{}".format,
        names=[symbol.removeprefix("LANG_TOK_") for symbol in tags],
    )


def _denoising(settings: Settings, task: str, folder: Path) -> Layout:
    if task == "denoising" and not settings.get("langs"):
        return Layout(source=(["<s>"], ["</s>"]), target=(["</s>", "<s>"], ["</s>"]), added=["<mask>"])
    names = _names(settings, folder)
    tag = "[{}]".format
    return Layout(
        source=([], ["</s>", LANGUAGE]),
        target=([LANGUAGE], ["</s>", LANGUAGE]),
        added=[*map(tag, names), "<mask>"],
        tag=tag,
        names=names,
    )


def _many_languages(settings: Settings, folder: Path) -> Layout:
    brackets = settings.get("lang_tok_style", "multilingual") == "mbart"
    tag = ("[{}]" if brackets else "__{}__").format
    names = _names(settings, folder)
    specification = settings.get("langtoks")
    main = specification.get("main") if isinstance(specification, dict) else None
    decoder_default = "tgt" if settings.get("decoder_langtok") else None
    encoder, decoder = main or (settings.get("encoder_langtok"), decoder_default)
    sides = {"src": "<{source_language}>", "tgt": "<{target_language}>"}
    return Layout(
        source=([sides[encoder]] if encoder else [], ["</s>"]),
        target=(["</s>", LANGUAGE] if decoder else ["</s>"], ["</s>"]),
        added=[*map(tag, names), *(["<mask>"] if brackets else [])],
        tag=tag,
        names=names,
    )


def _names(settings: Settings, folder: Path) -> list[str]:
    """Return a checkpoint's languages, in the order of their symbols."""
    given = settings.get("langs")
    if isinstance(given, str):
        return given.split(",")
    if given:
        return [str(name) for name in given]
    listed = settings.get("lang_dict")
    if listed:
        path = folder / Path(str(listed)).name
        if not path.is_file():
            raise DataError(f"{settings.path}: its languages are listed in {path.name}, which is not in {folder}")
        return path.read_text(encoding="utf-8").split()
    pairs = settings.get("lang_pairs") or []
    pairs = pairs.split(",") if isinstance(pairs, str) else pairs
    names = sorted({name for pair in pairs for name in str(pair).split("-")})
    if not names:
        raise DataError(f"{settings.path}: its settings do not say its languages (langs)")
    return names


def codes_of(layout: Layout) -> dict[str, str]:
    """Return the symbols of a layout's languages by our codes; languages that have no code here are left out."""
    if layout.tag is None:
        return {}
    return {code: layout.tag(name) for code, name in tags_by_code(layout.names).items()}


def find_dictionary(folder: Path, language: str | None) -> Path:
    """Return ``dict.<language>.txt`` or ``dict.txt``; or one of several that are all the same (mBART-50).

    Raises:
        DataError: if the folder has neither.
    """
    wanted = [f"dict.{language}.txt", "dict.txt"] if language else ["dict.txt"]
    for name in wanted:
        if (folder / name).is_file():
            return folder / name
    others = sorted(folder.glob("dict.*.txt"))
    if len(others) > 1 and len({path.read_bytes() for path in others}) == 1:
        return others[0]
    if language is None and others:
        raise DataError(
            f"{folder}: has dictionaries by language, but the checkpoint does not say its languages: "
            "name them with --source-languages and --target-languages"
        )
    raise DataError(f"{folder}: has no {' or '.join(wanted)}; --dictionary says where the dictionary is")


def find_segmenter(folder: Path, pieces: Path | None) -> Segmenter:
    """Return what cuts text into pieces.

    Args:
        folder: where the checkpoint is.
        pieces: a SentencePiece model, a file of BPE codes, a folder with ``encoder.json`` and ``vocab.bpe``, or
            ``words`` if the dictionary is of words; None to look beside the checkpoint.

    Raises:
        DataError: if there is none or several.
    """
    if pieces is None:
        paths = [path for path in sorted(folder.iterdir()) if path.suffix == ".model" or "codes" in path.name]
        paths += [folder] if (folder / "encoder.json").is_file() else []
        if len(paths) != 1:
            what = "nothing" if not paths else ", ".join(path.name for path in paths)
            raise DataError(
                f"{folder}: {what} to cut text with; name a SentencePiece model, BPE codes, or words with --pieces"
            )
        pieces = paths[0]
    if str(pieces) == "words" and not pieces.exists():
        return Words()
    if pieces.is_dir():
        return ByteLevelPairs(vocabulary=str(pieces / "encoder.json"), merges=str(pieces / "vocab.bpe"))
    return SentencePieces(model=str(pieces)) if pieces.suffix == ".model" else BytePairs(codes=str(pieces))


def tokenizer_of(dictionary: Path, rows: int, segmenter: Segmenter, layout: Layout) -> VocabularyTokenizer:
    """Return the tokenizer of an embedding of ``rows`` vectors.

    Raises:
        DataError: if the dictionary does not have as many symbols.
    """
    listed = read_vocabulary(dictionary)
    inside = {*listed}
    added = [symbol for symbol in layout.added if symbol not in inside]
    if layout.target is None and rows == len(listed):  # trained before a mask was put behind the dictionary
        added = []
    if rows != len(listed) + len(added):
        behind = f" and {len(added)} behind them ({added[0]} ... {added[-1]})" if added else ""
        raise DataError(
            f"{dictionary}: has {len(listed)} symbols with the {len(FIRST)} first ones{behind}, "
            f"but the model {rows} vectors: it is another model's"
        )
    symbols = {symbol: symbol for symbol in FIRST}
    symbols |= {"<mask>": "<mask>"} if "<mask>" in (*listed, *added) else {}
    symbols |= {f"<{code}>": tag for code, tag in codes_of(layout).items()}
    return VocabularyTokenizer(segmenter=segmenter, vocabulary=str(dictionary), added=added or None, symbols=symbols)
