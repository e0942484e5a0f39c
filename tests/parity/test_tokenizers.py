"""Ids of foreign tokenizers against transformers, subword-nmt and sacremoses: the same for every line, odd ones too."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
import sentencepiece

from dragoman.exchange.vocabularies.json_file import JsonTokenizer
from dragoman.exchange.vocabularies.segmenters import BytePairs, MosesWords, SentencePieces
from dragoman.exchange.vocabularies.vocabulary import FIRST, VocabularyTokenizer
from tests.parity.compared import Compared
from tests.parity.tokenizers_of_others import bert, mbart, mbart50, nllb, roberta, train, xlm_roberta

transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.parity

#: What a user may type and transformers takes for a symbol.
TYPED = ["<s> a", "</s>", "a <pad> b", "<unk>", "<mask>", "[MASK] a [SEP]", "en_XX de_DE", "__de__ a", ">>de<< a"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tokenizers")


@pytest.fixture(scope="module")
def model(lines: list[str], folder: Path) -> str:
    return train(lines, folder / "sentencepiece.bpe.model", "unigram")


def written(path: Path, content: object) -> str:
    path.write_text(json.dumps(content), encoding="utf-8")
    return str(path)


def same(compared: Compared, lines: list[str], ours: object, theirs: object) -> None:
    """Compare the ids of every line."""
    assert len(lines) >= 1000
    compared.same("symbols", [ours(line) for line in lines], [theirs(line) for line in lines])


def same_text(lines: list[str], ours: object, theirs: object) -> None:
    """Compare decoded texts of known ids."""
    for line in lines[::7]:
        ids = ours.encode(line)
        assert ours.decode(ids) == theirs.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)


# -- SentencePiece with numbers of another vocabulary -----------------------------------------------------------------


def test_fairseq_order_is_sentencepieces_moved_by_one(
    lines: list[str], folder: Path, model: str, compared: Compared
) -> None:
    compared.named("sentencepiece", "tokenizer: SentencePiece in fairseq's order")
    segmenter = SentencePieces(model=model)
    vocabulary = written(folder / "fairseq.json", [*FIRST, *segmenter.pieces()])
    symbols = {name: name for name in FIRST} | {"<mask>": "<mask>", "<de>": "de_DE"}
    ours = VocabularyTokenizer(segmenter=segmenter, vocabulary=vocabulary, added=["de_DE", "<mask>"], symbols=symbols)
    library = sentencepiece.SentencePieceProcessor(model_file=model)
    same(compared, lines + TYPED, ours.encode, lambda line: [i + 1 if i else 3 for i in library.encode(line)])
    assert ours.lengths(lines).tolist() == [len(library.encode(line)) for line in lines]
    decoded = [library.decode(library.encode(line)) for line in lines[:50]]
    assert [ours.decode(ours.encode(line)) for line in lines[:50]] == decoded
    assert (ours.bos, ours.pad, ours.eos, ours.unk) == (0, 1, 2, 3)
    assert ours.id("<de>") == len(library) + 1 and ours.mask == ours.size - 1 == len(library) + 2


def test_m2m100(lines: list[str], folder: Path, model: str, compared: Compared) -> None:
    compared.named("transformers", "tokenizer: M2M-100")
    segmenter = SentencePieces(model=model)
    numbers = {piece: number for number, piece in enumerate([*FIRST, *segmenter.pieces()[:-60]])}
    vocabulary = written(folder / "m2m.json", numbers)
    theirs = transformers.M2M100Tokenizer(vocabulary, model, src_lang="de", tgt_lang="fr")
    tokenization = transformers.models.m2m_100.tokenization_m2m_100
    codes = [theirs.get_lang_token(code) for code in tokenization.FAIRSEQ_LANGUAGE_CODES["m2m100"]]
    symbols = {name: name for name in FIRST} | {"<de>": "__de__", "<fr>": "__fr__"}
    ours = VocabularyTokenizer(segmenter=segmenter, vocabulary=vocabulary, added=codes, symbols=symbols)
    same(compared, lines, ours.encode, lambda line: plain(theirs, line))
    assert [ours.id("<de>"), *ours.encode(lines[0]), ours.eos] == theirs(lines[0]).input_ids
    assert [ours.id("<fr>"), *ours.encode(lines[0]), ours.eos] == theirs(text_target=lines[0]).input_ids
    assert not {*(i for line in TYPED for i in ours.encode(line))} & {0, 1, 2, ours.id("<de>")}
    same_text(lines, ours, theirs)


@pytest.mark.parametrize("separate", [False, True])
def test_marian(lines: list[str], folder: Path, separate: bool, compared: Compared) -> None:
    compared.named("transformers", "tokenizer: MarianMT")
    names = enumerate(("source.spm", "target.spm"))
    source, target = (train(lines[n::2], folder / name, "unigram") for n, name in names)
    pieces = [[p for p in SentencePieces(model=path).pieces()][:-40] for path in (source, target)]
    rows = [["</s>", "<unk>", *pieces[0], "<pad>"], ["</s>", "<unk>", *pieces[1], "<pad>"]]
    if not separate:
        rows = [["</s>", "<unk>", ">>fra<<", *sorted({*pieces[0], *pieces[1]}), "<pad>"]] * 2
    numbered = ({r: i for i, r in enumerate(x)} for x in rows)
    files = [written(folder / f"marian-{separate}-{n}.json", x) for n, x in enumerate(numbered)]
    options = {"target_vocab_file": files[1], "separate_vocabs": True} if separate else {}
    theirs = transformers.MarianTokenizer(source, target, files[0], **options)
    symbols = {name: name for name in ("<pad>", "</s>", "<unk>")} | ({} if separate else {"<fr>": ">>fra<<"})
    segmenters = (SentencePieces(model=spm) for spm in (source, target))
    pairs = [{"segmenter": one, "vocabulary": file} for one, file in zip(segmenters, files, strict=True)]
    ours = [VocabularyTokenizer(**pair, symbols=symbols) for pair in pairs]
    source_ids, target_ids = ((lambda line, one=one: [*one.encode(line), one.eos]) for one in ours)
    same(compared, lines, source_ids, lambda line: theirs(line).input_ids)
    same(compared, lines, target_ids, lambda line: theirs(text_target=line).input_ids)
    for tokenizer in ours[separate:]:  # with one vocabulary, an output may hold pieces of the source's model
        for ids in map(tokenizer.encode, lines[::7]):
            assert ours[1].decode(ids) == theirs.decode(ids, skip_special_tokens=True)
    if not separate:
        assert [ours[0].id("<fr>"), *ours[0].encode("ein Wort")] == theirs(">>fra<<ein Wort").input_ids[:-1]
        assert ours[0].id("<fr>") not in ours[0].encode(">>fra<< ein Wort")


# -- tokenizer.json ---------------------------------------------------------------------------------------------------


def plain(theirs: object, line: str) -> list[int]:
    return theirs(line, add_special_tokens=False).input_ids


@pytest.mark.parametrize("make", [bert, roberta, xlm_roberta, mbart50, mbart, nllb])
def test_tokenizer_json(lines: list[str], folder: Path, model: str, make, compared: Compared) -> None:
    compared.named("transformers", f"tokenizer: {make.__name__} (tokenizer.json)")
    theirs, symbols = make(lines, model)
    theirs.save_pretrained(folder / make.__name__)
    ours = JsonTokenizer(file=str(folder / make.__name__ / "tokenizer.json"), symbols=symbols)
    assert ours.size == len(theirs)
    same(compared, lines, ours.encode, lambda line: plain(theirs, line))
    assert ours.lengths(lines).tolist() == [len(plain(theirs, line)) for line in lines]
    same_text(lines, ours, theirs)
    reserved = {ours.id(name) for name in symbols} - {ours.unk}
    assert ours.eos in plain(theirs, symbols["</s>"])  # which is why it must not be asked
    assert not reserved & {id for line in (*TYPED, symbols["</s>"]) for id in ours.encode(line)}
    around = {
        "bert": (["<s>"], ["</s>"]), "roberta": (["<s>"], ["</s>"]), "xlm_roberta": (["<s>"], ["</s>"]),
        "mbart50": (["<de>"], ["</s>"]), "mbart": ([], ["</s>", "<de>"]), "nllb": (["<de>"], ["</s>"]),
    }  # fmt: skip
    before, behind = ([ours.id(symbol) for symbol in side] for side in around[make.__name__])
    assert [*before, *ours.encode(lines[5]), *behind] == theirs(lines[5]).input_ids


# -- byte-pair codes --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["0.2", "0.1"])
@pytest.mark.parametrize("language", [None, "de"])
def test_subword_nmt(lines: list[str], folder: Path, version: str, language: str | None, compared: Compared) -> None:
    compared.named("subword-nmt", "tokenizer: codes" + (" on words of sacremoses" if language else ""))
    apply_bpe, learn_bpe = (pytest.importorskip(f"subword_nmt.{name}") for name in ("apply_bpe", "learn_bpe"))
    moses = pytest.importorskip("sacremoses").MosesTokenizer("de")

    def words(line: str) -> str:
        return moses.tokenize(line, aggressive_dash_splits=True, return_str=True) if language else line

    codes = io.StringIO()
    learn_bpe.learn_bpe([words(line) for line in lines], codes, 500)
    text = codes.getvalue() if version == "0.2" else codes.getvalue().split("\n", 1)[1]
    path = folder / f"codes-{version}-{language}"
    path.write_text(text, encoding="utf-8")
    theirs = apply_bpe.BPE(io.StringIO(text))
    ours = BytePairs(codes=str(path), words=MosesWords(language="de") if language else None)
    # fairseq divides what comes out at any kind of space
    same(compared, lines, ours.split, lambda line: theirs.process_line(words(line)).split())
    merges = text.split("\n", 1)[1] if version == "0.2" else None
    if merges:  # fastBPE's file: the same merges with counts
        fast = folder / f"fast-{language}"
        fast.write_text("".join(f"{line} 7\n" for line in merges.split("\n") if line), encoding="utf-8")
        fast_ours = BytePairs(codes=str(fast), words=MosesWords(language="de") if language else None)
        assert [fast_ours.split(line) for line in lines] == [ours.split(line) for line in lines]
