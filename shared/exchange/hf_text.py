"""The texts around a model in Hugging Face's layout: its tokenizer, and the symbols before and behind each text."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers

from shared.corpus.fields import TextField
from shared.errors import DataError
from shared.exchange.codes import language_of
from shared.exchange.hf_reading import Config, read_json
from shared.text.json_file import JsonTokenizer, rows_of
from shared.text.segmenters import SentencePieces
from shared.text.tokenizer import Tokenizer
from shared.text.vocabulary import FIRST, VocabularyTokenizer, read_vocabulary

LANGUAGE, START, END, PADDING = "<{language}>", "<s>", "</s>", "<pad>"
FAIRSEQ = {name: name for name in (*FIRST, "<mask>")}
BERT = {"<s>": "[CLS]", "</s>": "[SEP]", "<pad>": "[PAD]", "<unk>": "[UNK]", "<mask>": "[MASK]"}
JSON, PIECES, SETTINGS = "tokenizer.json", "sentencepiece.bpe.model", "tokenizer_config.json"
#: What T5's family calls its SentencePiece model, and a space before a word.
T5_PIECES, SPACE = "spiece.model", "▁"

#: mBART's languages in the order of their symbols, the first 25 of which are those of cc25.
MBART = """
ar_AR cs_CZ de_DE en_XX es_XX et_EE fi_FI fr_XX gu_IN hi_IN it_IT ja_XX kk_KZ ko_KR lt_LT lv_LV my_MM ne_NP nl_XX ro_RO
ru_RU si_LK tr_TR vi_VN zh_CN af_ZA az_AZ bn_IN fa_IR he_IL hr_HR id_ID ka_GE km_KH mk_MK ml_IN mn_MN mr_IN pl_PL ps_AF
pt_XX sv_SE sw_KE ta_IN te_IN th_TH tl_XX uk_UA ur_PK xh_ZA gl_ES sl_SI
""".split()
#: M2M-100's, and those of its relative for WMT 2021.
M2M = {
    "m2m100": """
af am ar ast az ba be bg bn br bs ca ceb cs cy da de el en es et fa ff fi fr fy ga gd gl gu ha he hi hr ht hu hy id ig
ilo is it ja jv ka kk km kn ko lb lg ln lo lt lv mg mk ml mn mr ms my ne nl no ns oc or pa pl ps pt ro ru sd si sk sl so
sq sr ss su sv sw ta th tl tn tr uk ur uz vi wo xh yi yo zh zu
""".split(),
    "wmt21": "en ha is ja cs ru zh de".split(),
}


@dataclass(frozen=True)
class Texts:
    """The texts that go into a model and come out of it.

    Attributes:
        source: the field of its input.
        target: the field of its output; None for an encoder.
        languages: our codes of the languages that it has symbols for, by side.
        said: what its files call its languages, by side, if they do.

    """

    source: TextField
    target: TextField | None
    languages: dict[str, list[str]]
    said: dict[str, str | None]


class TextFiles:
    """The files of a folder that concern text.

    Args:
        folder: the folder.
        config: the model's settings.
        scratch: a folder for tokenizers that are put together from older files; needed until the system is saved.

    """

    def __init__(self, folder: Path, config: Config, scratch: Path) -> None:
        self.folder = folder
        self.config = config
        self.scratch = scratch
        self.settings = read_json(folder / SETTINGS) if (folder / SETTINGS).is_file() else {}

    def has(self, *names: str) -> bool:
        """Tell whether all these files are there."""
        return all((self.folder / name).is_file() for name in names)

    def path(self, name: str) -> str:
        """Return the path of a file.

        Raises:
            DataError: if it is not there.

        """
        if not self.has(name):
            raise DataError(f"{self.folder}: has no {name}, so there is no tokenizer")
        return str(self.folder / name)

    def json(self, symbols: dict[str, str], tags: Iterable[str] = (), path: str | None = None) -> JsonTokenizer:
        """Return the tokenizer of ``tokenizer.json``; ``tags`` are what languages are called there."""
        named = symbols | named_tags(tags)
        return JsonTokenizer(file=path or self.path(JSON), symbols=named, rows=self.config.need("vocab_size"))

    def pieces(self, vocabulary: str | None, added: list[str], symbols: dict[str, str]) -> VocabularyTokenizer:
        """Return a SentencePiece model with a vocabulary of its own, filled up to the model's rows."""
        segmenter = SentencePieces(model=self.path(PIECES))
        known = len(read_vocabulary(Path(vocabulary))) if vocabulary else len(FIRST) + len(segmenter.pieces())
        rows = self.config.need("vocab_size")
        added = [*added, *(f"(nothing at {number})" for number in range(known + len(added), rows))]
        named = symbols | named_tags(added)
        return VocabularyTokenizer(segmenter=segmenter, vocabulary=vocabulary, added=added, symbols=named)

    def vocabulary(self) -> dict[str, int]:
        """Return the symbols of ``tokenizer.json`` with their numbers.

        Raises:
            DataError: if it is not a tokenizer.

        """
        path = self.path(JSON)
        try:
            return tokenizers.Tokenizer.from_file(path).get_vocab()
        except Exception as error:  # the library raises nothing more precise
            raise DataError(f"{path}: not a tokenizer ({' '.join(str(error).split())})") from error

    def listed(self) -> list[str]:
        """Return the further special symbols that the tokenizer's files list."""
        found = [*self.settings.get("extra_special_tokens", []), *self.settings.get("additional_special_tokens", [])]
        decoder = self.settings.get("added_tokens_decoder") or {}
        found += [token["content"] for _, token in sorted(decoder.items(), key=lambda item: int(item[0]))]
        if self.has(JSON):
            found += [token["content"] for token in read_json(self.folder / JSON).get("added_tokens", [])]
        plain = (token if isinstance(token, str) else token.get("content", "") for token in found)
        return [*dict.fromkeys(plain)]

    def older(self, name: str, tokenizer: tokenizers.Tokenizer) -> str:
        """Write a tokenizer that was put together from older files."""
        path = self.scratch / name
        tokenizer.save(str(path))
        return str(path)


def named_tags(tags: Iterable[str]) -> dict[str, str]:
    """Return the symbols of languages by our name, ``{"<de>": "de_DE"}``; the first of several is taken."""
    named: dict[str, str] = {}
    for tag in tags:
        code = language_of(tag)
        if code:
            named.setdefault(f"<{code}>", tag)
    return named


def read_texts(folder: Path, config: Config, scratch: Path) -> Texts:
    """Read what a folder says about texts.

    Raises:
        DataError: naming the file, if something is missing, or does not fit the model.

    """
    files = TextFiles(folder, config, scratch)
    texts = READERS[config.need("model_type")](files)
    _check(texts, config)
    return texts


def _check(texts: Texts, config: Config) -> None:
    """Compare what the model's settings say about symbols with the tokenizers."""
    sides: list[tuple[TextField, str, int | None]] = [(texts.source, "vocab_size", None)]
    if texts.target is not None:
        own = config.get("decoder_vocab_size")
        sides.append(
            (texts.target, "decoder_vocab_size" if own else "vocab_size", config.get("decoder_start_token_id"))
        )
    for field, name, start in sides:
        tokenizer: Tokenizer = field.tokenizer
        if tokenizer.size != config.need(name):
            raise DataError(f"{config.path}: {name} is {config.need(name)}, but the tokenizer has {tokenizer.size} ids")
        for setting, id in (("pad_token_id", tokenizer.pad), ("eos_token_id", tokenizer.eos)):
            if texts.target is not None and config.get(setting, id) != id:
                raise DataError(f"{config.path}: {setting} is {config.get(setting)}, but the tokenizer's is {id}")
        first = field.arguments["prefix"][:1]
        if start is not None and first and "{" not in first[0] and start != tokenizer.id(first[0]):
            raise DataError(
                f"{config.path}: decoder_start_token_id is {start}, not {first[0]} ({tokenizer.id(first[0])})"
            )


# -- model types ------------------------------------------------------------------------------------------------------

Around = tuple[list[str], list[str]]


def _texts(
    tokenizers: tuple[Any, Any],
    source: Around,
    target: Around | None,
    said: tuple[str | None, str | None] = (None, None),
) -> Texts:
    fields = [
        TextField(column=f"{side}_text", tokenizer=tokenizer, prefix=around[0], suffix=around[1])
        for side, tokenizer, around in zip(("source", "target"), tokenizers, (source, target), strict=True)
        if around is not None
    ]
    tagged = [symbol[1:-1] for symbol in tokenizers[0].arguments["symbols"] if language_of(symbol[1:-1])]
    marked = {
        side for side, around in (("source", source), ("target", target)) if LANGUAGE in sum(around or ([], []), [])
    }
    marked |= {"target"} if "<{target_language}>" in source[0] else set()
    return Texts(
        source=fields[0],
        target=fields[1] if target else None,
        languages={side: tagged if side in marked else [] for side in ("source", "target")},
        said=dict(zip(("source", "target"), said, strict=True)),
    )


def _word_pieces(files: TextFiles) -> JsonTokenizer:
    lines = Path(files.path("vocab.txt")).read_text(encoding="utf-8").split("\n")
    vocabulary = {line.rstrip("\r"): number for number, line in enumerate(lines) if line}
    built = tokenizers.Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    get = files.settings.get
    built.normalizer = normalizers.BertNormalizer(
        handle_chinese_chars=get("tokenize_chinese_chars", True),
        strip_accents=get("strip_accents"),
        lowercase=get("do_lower_case", True),
    )
    built.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    built.decoder = decoders.WordPiece(prefix="##")
    return files.json(BERT, path=files.older(JSON, built))


def _byte_level(files: TextFiles) -> JsonTokenizer:
    if files.has(JSON):
        return files.json(FAIRSEQ)
    if not files.has("vocab.json"):
        files.path(JSON)  # the file that is asked for where none of the known ones is there
    try:
        model = models.BPE.from_file(files.path("vocab.json"), files.path("merges.txt"))
    except Exception as error:  # the library raises nothing more precise
        raise DataError(f"{files.folder}: vocab.json and merges.txt are not byte-level pairs ({error})") from error
    built = tokenizers.Tokenizer(model)
    built.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=bool(files.settings.get("add_prefix_space", False)))
    built.decoder = decoders.ByteLevel()
    return files.json(FAIRSEQ, path=files.older(JSON, built))


def _encoder(files: TextFiles) -> Texts:
    """Read the texts of an encoder, whose model type says nothing about them: E5 and MiniLM are BERT with XLM-R's."""
    if files.has(JSON):
        tokenizer: Tokenizer = files.json(BERT if BERT[START] in files.vocabulary() else FAIRSEQ)
    elif files.has(PIECES):
        tokenizer = files.pieces(None, ["<mask>"], FAIRSEQ)
    else:
        tokenizer = _word_pieces(files) if files.has("vocab.txt") else _byte_level(files)
    return _texts((tokenizer, tokenizer), ([START], [END]), None)


def _bart(files: TextFiles) -> Texts:
    tokenizer = _byte_level(files)
    return _texts((tokenizer, tokenizer), ([START], [END]), ([END, START], [END]))


def _mbart(files: TextFiles) -> Texts:
    kind = str(files.settings.get("tokenizer_class", ""))
    tags = MBART if kind.startswith("MBart50") else MBART[:25]
    if files.has(JSON):
        tokenizer: Tokenizer = files.json(FAIRSEQ, tags)
    else:
        tokenizer = files.pieces(None, [*tags, "<mask>"], FAIRSEQ)
    if kind.startswith("MBart50"):
        return _texts((tokenizer, tokenizer), ([LANGUAGE], [END]), ([END, LANGUAGE], [END]))
    return _texts((tokenizer, tokenizer), ([], [END, LANGUAGE]), ([LANGUAGE], [END]))


def _m2m(files: TextFiles) -> Texts:
    kind = str(files.settings.get("tokenizer_class", ""))
    if kind.startswith("Nllb") or (not kind.startswith("M2M") and files.has(JSON)):
        tags = [tag for tag in files.listed() if language_of(tag)]
        fill = [*tags, "<mask>"]
        tokenizer: Tokenizer = files.json(FAIRSEQ, tags) if files.has(JSON) else files.pieces(None, fill, FAIRSEQ)
        before: Around = ([], [END, LANGUAGE]) if files.settings.get("legacy_behaviour") else ([LANGUAGE], [END])
    else:
        codes = str(files.settings.get("language_codes", "m2m100"))
        if codes not in M2M:
            raise DataError(f"{files.folder / SETTINGS}: language_codes {codes!r} are not known, only {', '.join(M2M)}")
        tags = [f"__{code}__" for code in M2M[codes]]
        tokenizer = files.pieces(files.path("vocab.json"), tags, {name: name for name in FIRST})
        before = ([LANGUAGE], [END])
    return _texts((tokenizer, tokenizer), before, ([END, LANGUAGE], [END]))


def _marian(files: TextFiles) -> Texts:
    separate = bool(files.settings.get("separate_vocabs", False))
    vocabularies = [files.path("vocab.json"), files.path("target_vocab.json" if separate else "vocab.json")]
    tags = [row for row in read_vocabulary(Path(vocabularies[0])) if row.startswith(">>") and row.endswith("<<")]
    symbols = {name: name for name in (PADDING, END, "<unk>")}
    pair = [
        VocabularyTokenizer(
            segmenter=SentencePieces(model=files.path(spm)),
            vocabulary=vocabulary,
            symbols=symbols | ({} if separate and number else named_tags(tags)),
        )
        for number, (spm, vocabulary) in enumerate(zip(("source.spm", "target.spm"), vocabularies, strict=True))
    ]
    before = ["<{target_language}>"] if tags else []
    said = files.settings.get("source_lang"), files.settings.get("target_lang")
    return _texts((pair[0], pair[1]), (before, [END]), ([PADDING], [END]), said)


def _t5(files: TextFiles) -> Texts:
    """Read the texts of T5 and mT5, which have no symbols for languages, or MADLAD-400, which reads ``<2de> ...``."""
    config = files.config
    rows = _t5_rows(files)
    ids = {PADDING: config.need("pad_token_id"), END: config.need("eos_token_id")}
    outside = [name for name, id in ids.items() if not 0 <= id < len(rows)]
    if outside:
        raise DataError(f"{config.path}: its number of {outside[0]} is outside of the tokenizer's {len(rows)} symbols")
    symbols = {name: rows[id] for name, id in ids.items()} | {"<unk>": "<unk>"}
    tags = [row for row in rows if row.startswith("<2") and language_of(row)]
    tags.sort(key=lambda tag: "_" in tag)  # a language in its usual script before the same in others
    before: list[str] = []
    if tags and not files.has(JSON):
        raise DataError(f"{files.folder}: has no {JSON}, without which {tags[0]} would be text")
    if files.has(JSON):
        if tags:
            built = tokenizers.Tokenizer.from_file(files.path(JSON))
            first = built.encode(f"{tags[0]} a", add_special_tokens=False).tokens
            before = ["<{target_language}>"] if first[:1] == [tags[0]] else [SPACE, "<{target_language}>"]
            if tags[0] not in first[:2]:
                raise DataError(f"{files.path(JSON)}: {tags[0]} at the beginning of a text becomes {' '.join(first)}")
            symbols |= named_tags(tags)
        spaces = {SPACE: SPACE} if SPACE in before else {}
        tokenizer: Tokenizer = JsonTokenizer(
            file=files.path(JSON), symbols=symbols | spaces, rows=config.need("vocab_size"), pieces=[*spaces]
        )
    else:
        vocabulary = files.scratch / "vocab.json"
        vocabulary.write_text(json.dumps(rows), encoding="utf-8")
        fill = [f"(nothing at {number})" for number in range(len(rows), config.need("vocab_size"))]
        segmenter = SentencePieces(model=files.path(T5_PIECES))
        tokenizer = VocabularyTokenizer(segmenter=segmenter, vocabulary=str(vocabulary), added=fill, symbols=symbols)
    start = config.get("decoder_start_token_id", ids[PADDING])
    first_symbol = next((name for name in (PADDING, END, "<unk>") if tokenizer.id(name) == start), None)
    if first_symbol is None:
        raise DataError(f"{config.path}: decoder_start_token_id is {start}, which is neither padding, end nor unknown")
    texts = _texts((tokenizer, tokenizer), (before, [END]), ([first_symbol], [END]))
    # What it writes it reads as well, and is not told which language that is.
    return replace(texts, languages=dict.fromkeys(texts.languages, texts.languages["target"]))


def _t5_rows(files: TextFiles) -> list[str]:
    """Return the symbols by number."""
    if not files.has(JSON):
        return SentencePieces(model=files.path(T5_PIECES)).rows()
    return rows_of(files.vocabulary())


READERS: dict[str, Callable[[TextFiles], Texts]] = {
    "bart": _bart,
    "bert": _encoder,
    "m2m_100": _m2m,
    "marian": _marian,
    "mbart": _mbart,
    "mt5": _t5,
    "roberta": _encoder,
    "t5": _t5,
    "xlm-roberta": _encoder,
}
