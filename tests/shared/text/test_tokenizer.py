"""The tokenizer: ids against the SentencePiece library itself, round trips, and what users may type."""

from __future__ import annotations

import copy
import io
import pickle
import random
import unicodedata
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import sentencepiece
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.shared.described import build, describe
from dragoman.shared.errors import DataError, UsageError
from dragoman.shared.text.balance import balanced, smoothed_counts
from dragoman.shared.text.piece_model import train_sentencepiece
from dragoman.shared.text.tokenizer import SPECIALS, SentencePieceTokenizer, Symbols
from tests import small
from tests.small import examples

TEXTS = [
    "The quick brown fox jumps over the lazy dog, again and again.",
    "Der schnelle braune Fuchs springt über den faulen Hund.",
    "Съешь же ещё этих мягких французских булок, да выпей чаю.",
    "我能吞下玻璃而不伤身体。",
    "أنا قادر على أكل الزجاج و هذا لا يؤلمني.",
]
UNSEEN = ["Ñandú 🦉 👩\u200d👩\u200d👧 ½ naïve", "ไทย", "한국어", "日本語とカタカナ", "\U0001f3f4\U000e0067", "שלום"]


def texts() -> list[str]:
    generator = random.Random(3)
    words = [word for text in TEXTS for word in text.split()]
    return [" ".join(generator.choices(words, k=9)) for _ in range(400)]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("models")
    sizes = {"unigram": 500, "bpe": 500, "char": 400}
    return {
        kind: str(train_sentencepiece(texts(), folder / f"{kind}.model", kind=kind, size=size))
        for kind, size in sizes.items()
    }


@pytest.fixture(params=["unigram", "bpe", "char"])
def tokenizer(request: pytest.FixtureRequest, models: dict[str, str]) -> SentencePieceTokenizer:
    return SentencePieceTokenizer(model=models[request.param], tags=["de", "zh-CN", "<bt>"])


def test_layout(tokenizer: SentencePieceTokenizer) -> None:
    after = [*SPECIALS, "<de>", "<zh-CN>", "<bt>"]
    assert [tokenizer.symbol(i) for i in range(tokenizer.pieces, tokenizer.size)] == after
    assert [tokenizer.id(symbol) for symbol in after] == list(range(tokenizer.pieces, tokenizer.size))
    names = [tokenizer.pad, tokenizer.bos, tokenizer.eos, tokenizer.unk, tokenizer.mask, tokenizer.sep, tokenizer.blank]
    assert names == list(range(tokenizer.pieces, tokenizer.pieces + 7))


@pytest.mark.parametrize("text", [*TEXTS, *UNSEEN])
def test_round_trip_and_library(tokenizer: SentencePieceTokenizer, text: str) -> None:
    ids = tokenizer.encode(text)
    assert all(0 <= i < tokenizer.pieces for i in ids)
    library = sentencepiece.SentencePieceProcessor(model_file=tokenizer.arguments["model"])
    assert [tokenizer.symbol(i) for i in ids] == library.encode(text, out_type=str)
    assert tokenizer.decode(ids) == text


@settings(max_examples=examples(60))  # of letters that SentencePiece does not take for a space, as it does "▁"
@given(text=st.text(alphabet=st.characters(categories=["L", "Nd", "So"], exclude_characters="▁"), max_size=30))
def test_any_letters_come_back(models: dict[str, str], text: str) -> None:
    tokenizer = SentencePieceTokenizer(model=models["bpe"], tags=[])
    assert tokenizer.decode(tokenizer.encode(text)) == unicodedata.normalize("NFC", text)


@pytest.mark.parametrize("typed", [*SPECIALS, "<de>", "<zh-CN>", "<bt>", "<0x41>", "▁<de>"])
def test_typed_symbols_stay_text(tokenizer: SentencePieceTokenizer, typed: str) -> None:
    ids = tokenizer.encode(f"a {typed} b")
    assert max(ids) < tokenizer.pieces
    assert tokenizer.decode(ids).split() == ["a", typed.strip("▁"), "b"]


def test_symbols_in_the_training_text_do_not_become_symbols() -> None:
    poisoned = [f"{text} </s> <s> <unk> <pad> <de> <0x41>" for text in texts()]
    tokenizer = small.tokenizer(poisoned, ["de"], kind="bpe", size=600)
    ids = tokenizer.encode("x </s> <s> <unk> <pad> <de> <0x41>")
    assert max(ids) < tokenizer.pieces
    assert tokenizer.decode(ids) == "x </s> <s> <unk> <pad> <de> <0x41>"


def test_control_symbols_of_foreign_models_have_no_id(tmp_path: Path) -> None:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts()), model_writer=model, vocab_size=130, minloglevel=2, pad_id=3
    )
    (tmp_path / "foreign.model").write_bytes(model.getvalue())
    library = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    tokenizer = SentencePieceTokenizer(model=str(tmp_path / "foreign.model"), tags=["de"])
    assert tokenizer.pieces == library.get_piece_size() - 4  # <unk> <s> </s> <pad>
    assert not {"<s>", "</s>", "<unk>", "<pad>"} & {tokenizer.symbol(i) for i in range(tokenizer.pieces)}
    assert tokenizer.unk in tokenizer.encode("한국어")  # no byte fallback
    assert set(tokenizer.encode("<s>")) & set(range(tokenizer.pieces, tokenizer.size)) <= {tokenizer.unk}
    assert tokenizer.encode(TEXTS[0]) == [i - 4 for i in library.encode(TEXTS[0])]


def test_decode_leaves_symbols_out(tokenizer: SentencePieceTokenizer) -> None:
    ids = tokenizer.encode("the lazy dog")
    mixed = [tokenizer.bos, tokenizer.id("<de>"), *ids[:2], tokenizer.blank, *ids[2:], tokenizer.eos, tokenizer.pad]
    assert tokenizer.decode(np.array(mixed)) == "the lazy dog"
    for outside in (-1, tokenizer.size):
        small.refuses(ValueError, str(outside), tokenizer.decode, [outside])
        small.refuses(ValueError, str(outside), tokenizer.symbol, outside)


def test_lengths_are_those_of_encode(tokenizer: SentencePieceTokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.shared.text.tokenizer._CHUNK", 4)
    many = [*TEXTS, *UNSEEN, "", " "]
    assert tokenizer.lengths(many).tolist() == [len(tokenizer.encode(text)) for text in many]


def test_unknown_symbols_and_bad_tags(models: dict[str, str]) -> None:
    tokenizer = SentencePieceTokenizer(model=models["bpe"], tags=["de"])
    small.refuses(DataError, "<fr>.*<blank> <de>", tokenizer.id, "<fr>")
    for tags in (["de", "de"], ["<pad>"], "de"):
        with pytest.raises(UsageError):
            SentencePieceTokenizer(model=models["bpe"], tags=tags)  # type: ignore[arg-type]
    small.refuses(DataError, "'dee'", SentencePieceTokenizer, model=models["bpe"], tags=["dee"])


def test_bad_text_and_bad_files(tokenizer: SentencePieceTokenizer, tmp_path: Path) -> None:
    small.refuses(DataError, "Unicode", tokenizer.encode, "a\ud800b")
    small.refuses(DataError, "no such", SentencePieceTokenizer, model=str(tmp_path / "none.model"), tags=[])
    (tmp_path / "cut.model").write_bytes(Path(tokenizer.arguments["model"]).read_bytes()[:1000])
    small.refuses(DataError, "cut.model", SentencePieceTokenizer, model=str(tmp_path / "cut.model"), tags=[])


def test_copies_know_the_same(tokenizer: SentencePieceTokenizer) -> None:
    description = describe(tokenizer, assets := {})
    rebuilt = build(description, next(iter(assets.values())).parent)
    for other in (pickle.loads(pickle.dumps(tokenizer)), copy.deepcopy(tokenizer), rebuilt):
        assert other.fingerprint == tokenizer.fingerprint
        assert other.encode(TEXTS[2]) == tokenizer.encode(TEXTS[2])
    more = SentencePieceTokenizer(model=tokenizer.arguments["model"], tags=["de"])
    assert more.fingerprint != tokenizer.fingerprint


def test_training_is_reproducible_and_reports_its_size(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for kind in ("unigram", "bpe", "char"):
        one = train_sentencepiece(texts(), tmp_path / "1.model", kind=kind, size=450).read_bytes()
        caplog.clear()
        two = train_sentencepiece(iter(texts()), tmp_path / "2.model", kind=kind, size=450).read_bytes()
        assert one == two
    assert "of the 450 pieces" in caplog.text  # there are fewer characters than that
    assert sorted(path.name for path in tmp_path.iterdir()) == ["1.model", "2.model"]


def test_long_texts_are_not_dropped(tmp_path: Path) -> None:
    long = "".join(chr(0x4E00 + i) for i in range(2000))  # 6000 bytes, above SentencePiece's default limit
    model = train_sentencepiece([long], tmp_path / "m.model", kind="char", size=3000)
    assert sentencepiece.SentencePieceProcessor(model_file=str(model)).piece_to_id(chr(0x4E00 + 1999)) > 256


def test_training_errors(tmp_path: Path) -> None:
    out = tmp_path / "m.model"
    out.write_bytes(b"old")
    small.refuses(DataError, "no text", train_sentencepiece, ["", " "], out, kind="bpe", size=300)
    said = r"260 pieces has no room.*above \d+"
    small.refuses(DataError, said, train_sentencepiece, texts(), out, kind="unigram", size=260)
    small.refuses(DataError, "m.model", train_sentencepiece, ["a\ud800b"], out, kind="bpe", size=300)
    arguments = {"kind": "bpe", "size": 300}
    for wrong in ({"kind": "word"}, {"size": 257}, {"coverage": 2.0}, {"normalisation": "NFC"}):
        with pytest.raises(UsageError, match=str(next(iter(wrong.values())))):
            train_sentencepiece(texts(), out, **(arguments | wrong))  # type: ignore[arg-type]
    for size in (257, 10_000_001, 99999999999, 10**23, float("nan"), True):
        with pytest.raises(UsageError, match=r"pieces .*unknown piece and the 256 bytes.* above 257 and at most 10,"):
            train_sentencepiece(texts(), out, kind="bpe", size=size)  # type: ignore[arg-type]
    assert out.read_bytes() == b"old"


def test_balanced_shares() -> None:
    sizes = {"en": 1000, "de": 100, "none": 0, "cy": 10}
    data = {code: [f"{code}{i}" for i in range(size)] for code, size in sizes.items()}
    everything = sorted(text for part in data.values() for text in part)
    assert sorted(balanced(data, alpha=1.0, seed=0)) == everything  # as it is: each text once
    drawn = list(balanced(data, alpha=0.5, seed=0))
    # by hand: roots 31.62, 10, 3.162 of 44.785; shares of 1110 draws 783.8, 247.9, 78.4
    assert Counter(text[:2] for text in drawn) == {"en": 784, "de": 248, "cy": 78}
    assert max(Counter(text for text in drawn if text[:2] == "en").values()) == 1
    assert set(Counter(text for text in drawn if text[:2] == "de").values()) == {2, 3}
    assert list(balanced(data, alpha=0.5, seed=0)) == drawn != list(balanced(data, alpha=0.5, seed=1))
    assert Counter(text[:2] for text in balanced(data, alpha=0, seed=0, limit=300)) == {"en": 100, "de": 100, "cy": 100}
    for wrong in ({"alpha": 2.0}, {"alpha": 1.0, "limit": 0}):
        with pytest.raises(UsageError):
            list(balanced(data, seed=0, **wrong))  # type: ignore[arg-type]


@given(st.lists(st.integers(1, 10**6), min_size=1, max_size=9), st.floats(0, 1), st.integers(0, 10**6))
def test_smoothed_counts_add_up(sizes: list[int], alpha: float, total: int) -> None:
    counts = smoothed_counts(np.array(sizes), alpha, total)
    exact = np.array(sizes) ** alpha / (np.array(sizes) ** alpha).sum() * total
    assert counts.sum() == total and (abs(counts - exact) < 1 + 1e-6).all()


def test_tags_without_end_are_laid_out_in_one_pass(monkeypatch):
    """Each symbol is looked at a fixed number of times: the equality of texts is asked for as often as there are."""
    asked = 0

    class Counted(str):
        __hash__ = str.__hash__

        def __eq__(self, other):
            nonlocal asked
            asked += 1
            return str.__eq__(self, other)

    tags = [Counted(f"<{number}>") for number in range(2000)]
    layout = Symbols()
    layout._lay_out(5, tags)
    assert (layout.size, layout.id("<1999>")) == (5 + len(SPECIALS) + 2000, 5 + len(SPECIALS) + 1999)
    assert asked < 20_000
    said = "tags must be given once and must not be specials: <0>, <7>"
    small.refuses(UsageError, said, layout._lay_out, 5, [*tags, "<7>", "<0>"])
