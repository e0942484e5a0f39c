"""The rule ``nfc`` against unicodedata and SentencePiece's own rule; old files keep theirs."""

from __future__ import annotations

import shutil
import unicodedata
from pathlib import Path

import pytest
import sentencepiece
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.exchange.vocabularies.segmenters import SentencePieces
from dragoman.shared.errors import DataError
from dragoman.shared.text.piece_file import charsmap, parsed, read_piece_file
from dragoman.shared.text.piece_model import train_sentencepiece
from dragoman.shared.text.tokenizer import SentencePieceTokenizer
from tests.small import examples, refuses

GOLDEN = Path(__file__).parents[2] / "golden" / "model" / "tokenizer.model"

#: What people write, and SentencePiece's default rewrites.
KEPT = [
    "你好，世界！（不）“我”：是；１００元～…",
    "これは、ﾃｽﾄです。「はい」？ Ａ社は㈱です！",
    "می\u200cخواهم کتاب\u200cها را بخوانم",
    "ශ්\u200dරී ලංකා",
    "السلام عليكم ﷺ ورحمة ﻻ",
    "it costs 5 ½ €, №1 ™ ﬁne… x² H₂O 3ª Ⅳ",
    "👩\u200d👩\u200d👧 👍🏽 ❤\ufe0f",
    "שלום\u200f! \u061cעולם",
    "ភាសា\u200bខ្មែរ",
    "Straße ŀl ǆ ſ",
]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("nfc") / "m.model"
    vietnamese = unicodedata.normalize("NFD", "Tiếng Việt rất đẹp và khó học")
    korean = unicodedata.normalize("NFD", "안녕하세요 여러분")
    return str(train_sentencepiece([vietnamese, korean, *KEPT] * 3, path, kind="unigram", size=700))


@pytest.mark.parametrize("text", KEPT)
@pytest.mark.parametrize("kind", ["unigram", "bpe", "char"])
def test_what_people_write_is_kept(kind: str, text: str, tmp_path: Path) -> None:
    """By a tokenizer that was trained on it, and by one that knows bytes only."""
    for texts in ([text] * 3, ["hello"] * 3):
        path = train_sentencepiece(texts, tmp_path / "m.model", kind=kind, size=400)
        tokenizer = SentencePieceTokenizer(model=str(path), tags=[])
        assert tokenizer.decode(tokenizer.encode(text)) == text


#: Letters whose marks decompose, stand in another order, or are excluded from composition.
LETTERS = "aeiouAEOUsŠệặǘҊй가힣ক়क़שׁבּשَ\u0651\u064e\u0301\u0302\u0323\u0327\u05b8\u05c1\u1161\u11a8Ω≠が"


@settings(max_examples=examples(300))
@given(text=st.text(alphabet=LETTERS + " ", max_size=12))
def test_one_text_in_every_form_has_one_tokenisation(model: str, text: str) -> None:
    tokenizer = SentencePieceTokenizer(model=model, tags=[])
    composed = unicodedata.normalize("NFC", text)
    ids = tokenizer.encode(composed)
    for form in (text, unicodedata.normalize("NFD", text)):
        assert tokenizer.encode(form) == ids and tokenizer.lengths([form]).tolist() == [len(ids)]
        assert SentencePieces(model=model).split(form) == [tokenizer.symbol(id) for id in ids]
    assert tokenizer.decode(ids) == " ".join(part for part in composed.split(" ") if part)


def test_training_composes(model: str) -> None:
    pieces = {piece.piece for piece in parsed(Path(model).read_bytes()).pieces}
    assert {"ế", "안", "녕"} <= {*"".join(pieces)} and not {"\u0301", "\u1161"} & {*"".join(pieces)}


def test_spaces_and_controls_are_those_of_sentencepiece(model: str) -> None:
    """Its default is asked, whose NFKC is left out of account; bidirectional marks and the like are no white space."""
    options = {"add_dummy_prefix": False, "remove_extra_whitespaces": False, "escape_whitespaces": False}
    theirs = sentencepiece.SentencePieceNormalizer(rule_name="nmt_nfkc", **options)
    ours = sentencepiece.SentencePieceNormalizer(model_file=model, **options)
    others = dict.fromkeys("\u061c\u200b\u200c\u200e\u200f\ufffd", None) | {"\v": " ", "\x85": " ", "\ufeff": ""}
    others |= {chr(n): "" for n in range(0x80, 0xA0) if n != 0x85}
    for number in {*range(1, 0x300), *range(0x1680, 0x1681), *range(0x2000, 0x3001), *range(0xFE00, 0x10000)}:
        sign = chr(number)
        found = theirs.normalize(f"a{sign}b")[1:-1]
        expected = others.get(sign, found if found in (" ", "") else None)
        assert ours.normalize(f"a{sign}b") == f"a{sign if expected is None else expected}b", hex(number)


def test_the_file_says_its_rule_and_nothing_of_this_machine(model: str, tmp_path: Path) -> None:
    rule = parsed(Path(model).read_bytes()).normalizer_spec
    assert (rule.name, rule.normalization_rule_tsv) == ("nfc", "") and len(charsmap().splitlines()) < 100
    texts = ["안녕하세요 여러분 é"] * 5
    one, two = (train_sentencepiece(texts, tmp_path / n, kind="bpe", size=270).read_bytes() for n in ("1", "2"))
    assert one == two


def test_earlier_files_keep_their_rule(tmp_path: Path) -> None:
    """One that was kept from before there was another, and SentencePiece's rules by name."""
    library = sentencepiece.SentencePieceProcessor(model_file=str(GOLDEN))
    tokenizer = SentencePieceTokenizer(model=str(GOLDEN), tags=[])
    for text in (*KEPT, "e\u0301 ế", "a\tb"):
        assert [tokenizer.symbol(id) for id in tokenizer.encode(text)] == library.encode(text, out_type=str)
    path = str(train_sentencepiece(["a e"] * 5, tmp_path / "i.model", kind="char", size=300, normalisation="identity"))
    assert SentencePieceTokenizer(model=path, tags=[]).encode("e\u0301") != SentencePieceTokenizer(
        model=path, tags=[]
    ).encode("é")


def test_a_file_that_is_none_is_refused(tmp_path: Path) -> None:
    refuses(DataError, "no such tokenizer model", read_piece_file, tmp_path / "none.model")
    shutil.copy(__file__, tmp_path / "text.model")
    refuses(DataError, "text.model: not a SentencePiece model", read_piece_file, tmp_path / "text.model")
