"""Joined texts: ids written out by hand, lengths, and the way back."""

import numpy as np
import pytest

from dragoman import DataError, Manifest, UsageError
from dragoman.exchange.vocabularies.segmenters import Words
from dragoman.exchange.vocabularies.vocabulary import VocabularyTokenizer
from dragoman.shared.batches.fields import TextField
from dragoman.st.joined_text import JoinedText
from tests import small
from tests.small import refuses

WORDS = ["abc", "bca cab", "aabb"]
SIDES = {"transcript": "source", "translation": "target"}


@pytest.fixture(scope="module")
def tokenizer():
    return small.tokenizer(WORDS * 9, size=262)


def field(tokenizer, column):
    return TextField(column=column, tokenizer=tokenizer)


@pytest.fixture
def joined(tokenizer):
    fields = {"transcript": field(tokenizer, "source_text"), "translation": field(tokenizer, "target_text")}
    return JoinedText(fields=fields)


def row(source, target):
    return small.row("r", source, target)


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


def test_prefix_and_suffix_are_of_both_texts_together(joined, tokenizer):
    other = JoinedText(fields=joined.fields, prefix=["</s>"], suffix=["<sep>"])
    ids = other(row("abc", "aabb"), np.random.default_rng(0)).tolist()
    assert [ids[0], ids[-1]] == [tokenizer.id("</s>"), tokenizer.id("<sep>")]


def test_lengths_are_those_of_the_ids(joined, tmp_path):
    rows = [row("abc", "aabb"), row("bca cab", ""), row("", "abc"), row("", "")]
    expected = [len(joined(one, np.random.default_rng(0))) for one in rows]
    manifest = Manifest.write(tmp_path / "m.arrow", [one | {"id": str(n)} for n, one in enumerate(rows)])
    assert joined.lengths(rows).tolist() == joined.lengths(manifest).tolist() == expected
    assert [joined.length(one) for one in rows] == expected
    assert expected[3] == joined.overhead == 3
    assert joined.lengths([row("abc", None), rows[0], row(None, "abc")]).tolist() == [-1, expected[0], -1]
    refuses(DataError, "has no source_text", joined, row(None, "abc"), np.random.default_rng(0))


def test_a_text_of_no_ids_is_not_missing(tokenizer):
    """Fields without symbols of their own have no id of an empty text."""
    fields = {
        name: TextField(column=f"{side}_text", tokenizer=tokenizer, prefix=[], suffix=[])
        for name, side in SIDES.items()
    }
    joined = JoinedText(fields=fields)
    for one in (row("", ""), row("abc", ""), row("", "abc")):
        assert joined.lengths([one]).tolist() == [len(joined(one, np.random.default_rng(0)))]


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
    other = small.tokenizer(WORDS * 9, kind="bpe", size=272)
    refuses(UsageError, "two texts or more, not 1", JoinedText, fields={"one": field(tokenizer, "source_text")})
    mixed = {"one": field(other, "source_text"), "two": field(tokenizer, "target_text")}
    refuses(UsageError, "that of 'one' is another", JoinedText, fields=mixed)
    words = tmp_path / "dict.txt"
    words.write_text("abc 1\n", encoding="utf-8")
    symbols = {"<pad>": "<pad>", "</s>": "</s>", "<unk>": "<unk>", "<de>": "<s>"}
    lacking = VocabularyTokenizer(segmenter=Words(), vocabulary=str(words), symbols=symbols)
    plain = {name: TextField(column=f"{side}_text", tokenizer=lacking, prefix=[]) for name, side in SIDES.items()}
    refuses(DataError, "the tokenizer has no symbol '<sep>', only <pad> </s> <unk> <de>", JoinedText, fields=plain)
    said = "^joined texts cannot be rewritten as one: rewrite the texts of the rows$"
    refuses(UsageError, said, joined.pieces, row("a", "b"), "ab")
    refuses(UsageError, said, lambda: joined.parts(row("abc", "abc"), "abcabc"))


def test_an_output_begins_with_the_first_text_up_to_the_separator(joined, tokenizer):
    first, end = joined.first_text()
    assert first is joined.fields["transcript"] and end == tokenizer.sep
