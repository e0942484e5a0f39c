"""Foreign tokenizers: numbers as the checkpoint has them, hand values, what users may type, and what is refused."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

from dragoman.exchange.vocabularies.json_file import JsonTokenizer
from dragoman.exchange.vocabularies.segmenters import ByteLevelPairs, BytePairs, MosesWords, SentencePieces, Words
from dragoman.exchange.vocabularies.vocabulary import FIRST, VocabularyTokenizer, read_vocabulary
from dragoman.shared.described import build, describe
from dragoman.shared.errors import DataError, UsageError
from dragoman.shared.text.piece_model import train_sentencepiece
from dragoman.shared.text.tokenizer import Tokenizer as Protocol
from tests.small import GOLDEN, refuses

CODES = "#version: 0.2\nl o\nlo w</w>\ne r</w>\n"


def file(path: Path, content: str) -> str:
    path.write_text(content, encoding="utf-8")
    return str(path)


@pytest.fixture
def words(tmp_path: Path) -> VocabularyTokenizer:
    path = file(tmp_path / "dict.txt", "low 9\nlo@@ 8\nw@@ 7\ner 6\n</w> 5\nLANG_TOK_DE 1\n")
    symbols = {name: name for name in FIRST} | {"<de>": "LANG_TOK_DE", "<mask>": "<mask>"}
    codes = BytePairs(codes=file(tmp_path / "codes", CODES))
    return VocabularyTokenizer(segmenter=codes, vocabulary=path, added=["<mask>"], symbols=symbols)


def test_numbers_are_the_dictionarys(words: VocabularyTokenizer) -> None:
    assert words.encode("low lower slow") == [4, 5, 6, 7, 3, 4]  # s@@ is not in the dictionary
    assert words.decode([0, 4, 5, 6, 7, 2, 1]) == "low lower"
    assert words.lengths(["", "low", "low lower"]).tolist() == [0, 1, 4]
    assert (words.bos, words.pad, words.eos, words.unk, words.mask, words.id("<de>")) == (0, 1, 2, 3, 10, 9)
    assert (words.size, words.symbol(5), words.symbol(10)) == (11, "lo@@", "<mask>")
    held: Protocol = words
    assert held.size == 11


@pytest.mark.parametrize("typed", ["</s>", "<s>", "<pad>", "<mask>", "LANG_TOK_DE", "<de>"])
def test_typed_symbols_stay_text(words: VocabularyTokenizer, typed: str) -> None:
    plain = VocabularyTokenizer(**words.arguments | {"segmenter": Words()})
    assert set(plain.encode(f"{typed} low")) == {3, 4}
    assert not set(words.encode(typed)) & {0, 1, 2, 9, 10}


def test_symbols_that_the_checkpoint_lacks(words: VocabularyTokenizer) -> None:
    with pytest.raises(DataError, match=r"no symbol '<blank>', only <s> <pad>"):
        _ = words.blank
    refuses(ValueError, "id 11 is outside the vocabulary of 11", words.decode, [11])


def test_through_a_model_folder(words: VocabularyTokenizer, tmp_path: Path) -> None:
    assets: dict[str, Path] = {}
    description = json.loads(json.dumps(describe(words, assets)))
    moved = tmp_path / "moved"
    moved.mkdir()
    for name, path in assets.items():
        (moved / name).write_bytes(path.read_bytes())
    for copy in (build(description, moved), pickle.loads(pickle.dumps(words))):
        assert copy.fingerprint == words.fingerprint
        assert copy.encode("lower slow") == words.encode("lower slow")


def test_fingerprints_see_every_difference(words: VocabularyTokenizer, tmp_path: Path) -> None:
    arguments = words.arguments
    codes = file(tmp_path / "other", CODES + "s l\n")
    other = [
        arguments | {"segmenter": BytePairs(codes=codes)},
        arguments | {"added": ["<mask>", "more"]},
        arguments | {"symbols": arguments["symbols"] | {"<fr>": "LANG_TOK_DE"}},
        arguments | {"vocabulary": file(tmp_path / "two.txt", "low 9\n</w> 5\nLANG_TOK_DE 1\n")},
    ]
    prints = {VocabularyTokenizer(**one).fingerprint for one in other}
    assert len(prints) == 4 and words.fingerprint not in prints


@pytest.mark.parametrize(
    ("name", "content", "rows"),
    [
        ("dict.txt", "a 3\nb c 2\n▁ 1\n", [*FIRST, "a", "b c", "▁"]),
        ("dict.txt", "a 3\nb 1\na 1 #fairseq:overwrite\n", [*FIRST, "a (overwritten)", "b", "a"]),
        ("vocab.json", '["</s>", "x"]', ["</s>", "x"]),
        ("vocab.json", '{"x": 1, "</s>": 0}', ["</s>", "x"]),
    ],
)
def test_vocabulary_files(tmp_path: Path, name: str, content: str, rows: list[str]) -> None:
    assert read_vocabulary(Path(file(tmp_path / name, content))) == rows


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("dict.txt", "a 3\nb\n", "line 2 is not 'symbol count': 'b'"),
        ("dict.txt", "a 3\na 2\n", "'a' is both symbol 4 and symbol 5"),
        ("dict.txt", "<s> 3\n", "'<s>' is both symbol 0 and symbol 4"),
        ("vocab.json", '{"x": 2, "</s>": 0}', "number its 2 symbols from 0 without a gap"),
        ("vocab.json", '{"x": true, "</s>": 0}', "without a gap"),
        ("vocab.json", '["<s>", "<pad>", "<unk>"]', "has no symbol '</s>'"),
        ("vocab.json", "[1", "line 1 is not JSON"),
    ],
)
def test_vocabulary_files_that_are_wrong(tmp_path: Path, name: str, content: str, message: str) -> None:
    with pytest.raises(DataError, match=f"{name}: .*{message}"):
        VocabularyTokenizer(segmenter=Words(), vocabulary=file(tmp_path / name, content))


def test_needed_symbols_and_files(tmp_path: Path) -> None:
    path = file(tmp_path / "dict.txt", "a 1\n")
    few = {"<pad>": "<pad>", "<unk>": "<unk>"}
    given = {"segmenter": Words(), "vocabulary": path, "symbols": few}
    refuses(UsageError, "do not say which one is </s>", VocabularyTokenizer, **given)
    for make in (
        lambda: VocabularyTokenizer(segmenter=Words(), vocabulary=str(tmp_path / "none.txt")),
        lambda: SentencePieces(model=str(tmp_path / "none.model")),
        lambda: BytePairs(codes=str(tmp_path / "none")),
        lambda: JsonTokenizer(file=str(tmp_path / "none.json"), symbols={}),
        lambda: ByteLevelPairs(vocabulary=str(tmp_path / "none.json"), merges=path),
    ):
        refuses(DataError, "none.*: no such", make)
    for make in (SentencePieces, lambda model: JsonTokenizer(file=model, symbols={})):
        refuses(DataError, r"dict.txt: not a", make, model=path)


@pytest.mark.parametrize(
    ("codes", "parts"),
    [
        ("#version: 0.2\na a\nb c</w>\n", "aa@@ a@@ bc"),  # the leftmost pair first, and not over itself; bc has no end
        ("a a\nc </w>\n", "aa@@ a@@ b@@ c"),  # version 0.1: the end is a part of its own
        ("a a 9\nb c</w> 3\n", "aa@@ a@@ bc"),  # fastBPE
        ("#version: 0.2\nb c</w>\na a\naa a\n", "aaa@@ bc"),
    ],
)
def test_byte_pairs_by_hand(tmp_path: Path, codes: str, parts: str) -> None:
    segmenter = BytePairs(codes=file(tmp_path / "codes", codes))
    assert segmenter.split("aaabc") == parts.split()
    assert segmenter.split("  x  y ") == ["x", "y"]
    assert segmenter.split("") == []
    assert segmenter.join(parts.split()) == "aaabc"


def test_moses_by_hand() -> None:
    pytest.importorskip("sacremoses")
    segmenter = MosesWords(language="en")
    assert segmenter.split('It\'s "well-known".') == ["It", "&apos;s", "&quot;", "well", "@-@", "known", "&quot;", "."]
    assert segmenter.join(segmenter.split('It\'s "well-known".')) == 'It\'s "well-known".'
    plain = MosesWords(language="en", dash_splits=False, escape=False)
    assert plain.split("It's well-known") == ["It", "'s", "well-known"]
    assert segmenter.split("") == []
    assert segmenter.fingerprint != MosesWords(language="de").fingerprint


def test_moses_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "sacremoses", None)
    refuses(UsageError, r"pip install 'dragoman\[moses\]'", MosesWords, language="en")


@pytest.mark.parametrize("codes", ["a b\na b c d\n", "#version: 0.2\na\n", "#version: 0.3\na b\n"])
def test_codes_that_are_wrong(tmp_path: Path, codes: str) -> None:
    refuses(DataError, r"codes: line \d", BytePairs, codes=file(tmp_path / "codes", codes))


def test_lone_surrogates_are_refused(tmp_path: Path, words: VocabularyTokenizer) -> None:
    train_sentencepiece(["a b"] * 9, tmp_path / "m.model", kind="char", size=300)
    for segmenter in (Words(), SentencePieces(model=str(tmp_path / "m.model")), words.segmenter):
        refuses(DataError, "not valid Unicode", segmenter.split, "a \udc80")


def test_byte_level_numbers(tmp_path: Path) -> None:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {piece: number for number, piece in enumerate([*alphabet, "Ġa", "lo"])}
    segmenter = ByteLevelPairs(
        vocabulary=file(tmp_path / "encoder.json", json.dumps(vocabulary)),
        merges=file(tmp_path / "vocab.bpe", "#version: 0.2\nĠ a\nl o\n"),
    )
    pieces = segmenter.split("lo a é")
    assert pieces[:2] == ["257", "256"] and len(pieces) == 2 + 3  # a space and two bytes
    assert segmenter.join([*pieces, "<unk>"]) == "lo a é"


@pytest.fixture
def unigram(tmp_path: Path) -> JsonTokenizer:
    """A Unigram model with special symbols among its pieces, as the multilingual encoders have them."""
    pieces = ["<s>", "<pad>", "</s>", "<unk>", "▁", "a", "b", "<", "s", ">", "en_XX", "e"]
    model = Tokenizer(models.Unigram([(piece, -float(n > 3)) for n, piece in enumerate(pieces)], unk_id=3))
    model.pre_tokenizer = pre_tokenizers.Metaspace()
    model.add_special_tokens(["<s>", "<pad>", "</s>", "<unk>", "<mask>"])
    model.enable_truncation(2)
    model.enable_padding()
    model.save(str(tmp_path / "tokenizer.json"))
    symbols = {name: name for name in (*FIRST, "<mask>")} | {"<en>": "en_XX"}
    return JsonTokenizer(file=str(tmp_path / "tokenizer.json"), symbols=symbols)


def test_json_by_hand(unigram: JsonTokenizer) -> None:
    assert unigram.encode("ab ab") == [4, 5, 6, 4, 5, 6]  # nothing cut, nothing padded
    assert unigram.encode("<s>a") == [4, 7, 8, 9, 5]  # the special symbol is a piece of the model
    assert unigram.encode("en_XX") == [4, 11, 3, 3, 3, 3]
    assert unigram.encode("</s>")[1:] == [7, 3, 8, 9]
    assert (unigram.mask, unigram.id("<en>"), unigram.size) == (12, 10, 13)
    assert unigram.lengths(["ab ab", "", "<s>a"]).tolist() == [6, 0, 5]
    assert unigram.decode([0, 10, 4, 5, 6, 2, 1]) == unigram.decode([4, 5, 6])
    copy = pickle.loads(pickle.dumps(unigram))
    assert copy.encode("<s>a") == unigram.encode("<s>a")


def test_json_with_more_rows(unigram: JsonTokenizer) -> None:
    more = JsonTokenizer(**unigram.arguments, rows=20)
    assert more.size == 20 and more.symbol(19) == "(nothing at 19)"
    assert more.encode("ab") == unigram.encode("ab")
    missing = {"<pad>": "<pad>", "<de>": "de_DE"}
    refuses(DataError, "has no symbol 'de_DE'", JsonTokenizer, file=unigram.arguments["file"], symbols=missing)


def test_pieces_of_another_model_are_joined_with_spaces():
    """A translator's source and target may have a model each, as OPUS-MT's; the joining one knows none of these."""
    pieces = SentencePieces(model=str(GOLDEN / "tokenizer.model"))
    unknown = ["▁Qdid", "▁Qdid", "Qn't"]
    assert not {*unknown} & {*pieces.pieces()}
    assert pieces.join(unknown) == "Qdid QdidQn't"
