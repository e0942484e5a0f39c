"""Joined texts: ids written out by hand, lengths, and the way back."""

import numpy as np
import pytest

from shared.corpus.fields import TextField
from shared.corpus.joined_text import JoinedText
from shared.corpus.manifest import Manifest
from shared.errors import DataError, UsageError
from shared.text.piece_model import train_sentencepiece
from shared.text.segmenters import Words
from shared.text.tokenizer import SentencePieceTokenizer
from shared.text.vocabulary import VocabularyTokenizer

WORDS = ["abc", "bca cab", "aabb"]
SIDES = {"transcript": "source", "translation": "target"}


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    model = train_sentencepiece(WORDS * 9, tmp_path_factory.mktemp("t") / "t.model", kind="char", size=262)
    return SentencePieceTokenizer(model=str(model), tags=["de", "en"])


def field(tokenizer, column):
    return TextField(column=column, tokenizer=tokenizer)


@pytest.fixture
def joined(tokenizer):
    fields = {"transcript": field(tokenizer, "source_text"), "translation": field(tokenizer, "target_text")}
    return JoinedText(fields=fields)


def row(source, target):
    return {"id": "r", "source_text": source, "target_text": target, "source_language": "en", "target_language": "de"}


def test_texts_stand_one_after_the_other_with_a_separator(joined, tokenizer):
    ids = joined(row("abc", "aabb"), np.random.default_rng(0)).tolist()
    assert ids == [
        tokenizer.id("<de>"),
        *tokenizer.encode("abc"),
        tokenizer.id("<sep>"),
        *tokenizer.encode("aabb"),
        tokenizer.id("</s>"),
    ]
    assert joined.prefix_ids("de") == ids[:1] and joined.side == "target" and joined.column == "target_text"
    assert joined.split(ids[1:-1]) == {"transcript": tokenizer.encode("abc"), "translation": tokenizer.encode("aabb")}


def test_lengths_are_those_of_the_ids(joined, tmp_path):
    rows = [row("abc", "aabb"), row("bca cab", ""), row("", "abc"), row("", "")]
    expected = [len(joined(one, np.random.default_rng(0))) for one in rows]
    manifest = Manifest.write(tmp_path / "m.arrow", [one | {"id": str(n)} for n, one in enumerate(rows)])
    assert joined.lengths(rows).tolist() == joined.lengths(manifest).tolist() == expected
    assert [joined.length(one) for one in rows] == expected
    assert expected[3] == joined.overhead == 3
    assert joined.lengths([row("abc", None), row(None, "abc")]).tolist() == [-1, -1]
    with pytest.raises(DataError, match="has no source_text"):
        joined(row(None, "abc"), np.random.default_rng(0))


def test_the_first_separator_counts_and_a_missing_one_leaves_the_rest_empty(joined, tokenizer):
    a, b, sep = tokenizer.encode("a")[-1], tokenizer.encode("b")[-1], tokenizer.sep
    for tokens, transcript, translation in (
        ([a, b], [a, b], []),
        ([a, sep], [a], []),
        ([sep, b], [], [b]),
        ([a, sep, b, sep, a], [a], [b, sep, a]),
        ([], [], []),
    ):
        assert joined.split(tokens) == {"transcript": transcript, "translation": translation}
    assert tokenizer.decode([b, sep, a]) == "ba"  # a second separator makes no text


def test_a_typed_separator_is_text(joined, tokenizer):
    ids = joined(row("a<sep>b", "c"), np.random.default_rng(0)).tolist()
    assert ids.count(tokenizer.sep) == 1
    assert tokenizer.decode(joined.split(ids[1:-1])["transcript"]) == "a<sep>b"


def test_what_cannot_be_joined_is_refused(joined, tokenizer, tmp_path):
    other = train_sentencepiece(WORDS * 9, tmp_path / "o.model", kind="bpe", size=272)
    other = SentencePieceTokenizer(model=str(other), tags=["de", "en"])
    with pytest.raises(UsageError, match="two texts or more, not 1"):
        JoinedText(fields={"one": field(tokenizer, "source_text")})
    with pytest.raises(UsageError, match="that of 'one' is another"):
        JoinedText(fields={"one": field(other, "source_text"), "two": field(tokenizer, "target_text")})
    words = tmp_path / "dict.txt"
    words.write_text("abc 1\n", encoding="utf-8")
    symbols = {"<pad>": "<pad>", "</s>": "</s>", "<unk>": "<unk>", "<de>": "<s>"}
    lacking = VocabularyTokenizer(segmenter=Words(), vocabulary=str(words), symbols=symbols)
    plain = {name: TextField(column=f"{side}_text", tokenizer=lacking, prefix=[]) for name, side in SIDES.items()}
    with pytest.raises(DataError, match="the tokenizer has no symbol '<sep>', only <pad> </s> <unk> <de>"):
        JoinedText(fields=plain)
    with pytest.raises(UsageError, match="cannot be rewritten as one"):
        joined.parts(row("abc", "abc"), "abcabc")
