"""The texts around a model in Hugging Face's layout: its tokenizer, and the symbols before and behind each text."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers

from dragoman.exchange.codes import warn_of_unnamed
from dragoman.exchange.huggingface.hf_layout import OWN, is_plain, read_own, read_template, started
from dragoman.exchange.huggingface.hf_reading import Config
from dragoman.exchange.huggingface.hf_text_files import (
    END,
    JSON,
    LANGUAGE,
    PADDING,
    PIECES,
    SETTINGS,
    START,
    Around,
    TextFiles,
    Texts,
    named_tags,
    texts_of,
)
from dragoman.exchange.vocabularies.json_file import JsonTokenizer, rows_of
from dragoman.exchange.vocabularies.segmenters import SentencePieces
from dragoman.exchange.vocabularies.vocabulary import FIRST, VocabularyTokenizer, read_vocabulary
from dragoman.shared.batches.fields import TextField
from dragoman.shared.errors import DataError
from dragoman.shared.text.tokenizer import Tokenizer

FAIRSEQ = {name: name for name in (*FIRST, "<mask>")}
BERT = {"<s>": "[CLS]", "</s>": "[SEP]", "<pad>": "[PAD]", "<unk>": "[UNK]", "<mask>": "[MASK]"}
#: How NLLB and MADLAD-400 write languages.
NLLB, MADLAD = re.compile("[a-z]{3}_[A-Z][a-z]{3}"), re.compile("<2[a-z]{2,3}(_[A-Za-z]{2,4})*>")
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


def read_texts(folder: Path, config: Config, scratch: Path) -> Texts:
    """Read what a folder says about texts.

    Raises:
        DataError: naming the file, if something is missing, or does not fit the model.
    """
    files = TextFiles(folder, config, scratch)
    if config.get(OWN) is not None:
        return _checked(read_own(files), config)
    texts = READERS[config.need("model_type")](files)
    tokenizer = texts.source.tokenizer
    named = [tokenizer.symbol(tokenizer.id(name)) for name in tokenizer.symbols]
    warn_of_unnamed(texts.tags, named, folder)
    if texts.tags and not {*texts.tags} & {*named}:
        raise DataError(f"{folder}: none of its language tags has a code here")
    return _checked(started(texts, files), config)


def _checked(texts: Texts, config: Config) -> Texts:
    """Compare what the model's settings say about symbols with the tokenizers."""
    sides: list[tuple[TextField, str]] = [(texts.source, "vocab_size")]
    if texts.target is not None:
        sides.append((texts.target, "decoder_vocab_size" if config.get("decoder_vocab_size") else "vocab_size"))
    for field, name in sides:
        tokenizer: Tokenizer = field.tokenizer
        if tokenizer.size != config.need(name):
            raise DataError(f"{config.path}: {name} is {config.need(name)}, but the tokenizer has {tokenizer.size} ids")
        for setting, id in (("pad_token_id", tokenizer.pad), ("eos_token_id", tokenizer.eos)):
            if texts.target is not None and config.get(setting, id) != id:
                raise DataError(f"{config.path}: {setting} is {config.get(setting)}, but the tokenizer's is {id}")
    return texts


# -- model types ------------------------------------------------------------------------------------------------------


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
    pairs = files.path("vocab.json"), files.path("merges.txt")
    try:
        model = models.BPE.from_file(*pairs)
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
    return texts_of((tokenizer, tokenizer), ([START], [END]), None)


def _bart(files: TextFiles) -> Texts:
    if is_plain(files):
        return read_template(files)
    tokenizer = _byte_level(files)
    return texts_of((tokenizer, tokenizer), ([START], [END]), ([END, START], [END]))


def _mbart(files: TextFiles) -> Texts:
    if is_plain(files):
        return read_template(files)
    kind = str(files.settings.get("tokenizer_class", ""))
    tags = MBART if kind.startswith("MBart50") else MBART[:25]
    if files.has(JSON):
        tokenizer: Tokenizer = files.json(FAIRSEQ, tags)
    else:
        tokenizer = files.pieces(None, [*tags, "<mask>"], FAIRSEQ, tags)
    if kind.startswith("MBart50"):
        return texts_of((tokenizer, tokenizer), ([LANGUAGE], [END]), ([END, LANGUAGE], [END]), tags=tags)
    return texts_of((tokenizer, tokenizer), ([], [END, LANGUAGE]), ([LANGUAGE], [END]), tags=tags)


def _m2m(files: TextFiles) -> Texts:
    kind = str(files.settings.get("tokenizer_class", ""))
    if kind.startswith("Nllb") or (not kind.startswith("M2M") and files.has(JSON)):
        tags = [tag for tag in files.listed() if NLLB.fullmatch(tag)]
        if is_plain(files) and not tags:
            return read_template(files)
        tokenizer: Tokenizer = (
            files.json(FAIRSEQ, tags) if files.has(JSON) else files.pieces(None, [*tags, "<mask>"], FAIRSEQ, tags)
        )
        before: Around = ([], [END, LANGUAGE]) if files.settings.get("legacy_behaviour") else ([LANGUAGE], [END])
    else:
        codes = str(files.settings.get("language_codes", "m2m100"))
        if codes not in M2M:
            raise DataError(f"{files.folder / SETTINGS}: language_codes {codes!r} are not known, only {', '.join(M2M)}")
        tags = [f"__{code}__" for code in M2M[codes]]
        tokenizer = files.pieces(files.path("vocab.json"), tags, {name: name for name in FIRST}, tags)
        before = ([LANGUAGE], [END])
    return texts_of((tokenizer, tokenizer), before, ([END, LANGUAGE], [END]), tags=tags)


def _fsmt(files: TextFiles) -> Texts:
    if is_plain(files):
        return read_template(files)
    raise DataError(f"{files.folder}: the tokenizer of FSMT has no counterpart here, only one of a {JSON}")


def _marian(files: TextFiles) -> Texts:
    if is_plain(files):
        return read_template(files)
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
    return texts_of((pair[0], pair[1]), (before, [END]), ([PADDING], [END]), said, tags)


def _t5(files: TextFiles) -> Texts:
    """Read the texts of T5 and mT5, which have no symbols for languages, or MADLAD-400, which reads ``<2de> ...``."""
    config = files.config
    rows = _t5_rows(files)
    ids = {PADDING: config.need("pad_token_id"), END: config.need("eos_token_id")}
    outside = [name for name, id in ids.items() if type(id) is not int or not 0 <= id < len(rows)]
    if outside:
        raise DataError(f"{config.path}: its number of {outside[0]} is outside of the tokenizer's {len(rows)} symbols")
    symbols = {name: rows[id] for name, id in ids.items()} | {"<unk>": "<unk>"}
    tags = [row for row in rows if MADLAD.fullmatch(row)]
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
    texts = texts_of((tokenizer, tokenizer), (before, [END]), ([PADDING], [END]), tags=tags)
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
    "fsmt": _fsmt,
    "m2m_100": _m2m,
    "marian": _marian,
    "mbart": _mbart,
    "mt5": _t5,
    "roberta": _encoder,
    "t5": _t5,
    "xlm-roberta": _encoder,
}
