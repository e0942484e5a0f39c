"""Labels as text, and the inputs that are labelled."""

import numpy as np
import pytest
import torch

from dragoman import DataError, UsageError
from dragoman.mt.understanding.labels import LabelField, LabelTokenizer, PairField, WordsField
from dragoman.shared.described import build, describe
from tests.small import refuses, row, tokenizer

TAGS = LabelTokenizer(labels=["O", "B-X", "I-X"])
RNG = np.random.default_rng(1)


@pytest.fixture(scope="module")
def own():
    return tokenizer(["a good day", "bad nights"], tags=["en"])


def test_labels_are_their_numbers():
    assert TAGS.encode("I-X O  B-X") == [2, 0, 1] and TAGS.decode([2, 0, 1]) == "I-X O B-X"
    assert TAGS.size == 3 and TAGS.symbols == [] and TAGS.lengths(["O O", ""]).tolist() == [2, 0]
    again = build(describe(TAGS))
    assert again.fingerprint == TAGS.fingerprint != LabelTokenizer(labels=["O", "I-X", "B-X"]).fingerprint
    refuses(DataError, "'B-Y' is not one of the labels O, B-X, I-X", TAGS.encode, "O B-Y")
    refuses(DataError, "no symbol '</s>'", TAGS.id, "</s>")
    refuses(ValueError, "label 3 is outside the 3 labels", TAGS.symbol, 3)


@pytest.mark.parametrize(
    ("labels", "problem"),
    [
        (["a"], "labels must be two or more different ones, not 'a'"),
        (["a", "b", "a"], "not 'a, b, a'"),
        (["a", "b c"], "label 'b c' is empty or has white space"),
        (["a", ""], "label '' is empty"),
    ],
)
def test_lists_that_are_none_are_refused(labels, problem):
    refuses(UsageError, problem, LabelTokenizer, labels=labels)


def test_a_label_is_a_field_of_a_row():
    field = LabelField(tokenizer=LabelTokenizer(labels=["no", "yes"]))
    rows = [row(1, "a", label="yes"), row(2, "b"), row(3, "c", label="no")]
    assert field(rows[0], RNG).tolist() == [1] and field.lengths(rows).tolist() == [1, -1, 1]
    assert field.side == "source" and not field.in_language
    refuses(DataError, "'maybe' is not one of the labels no, yes", field.lengths, [row(4, "d", label="maybe")])


def test_a_pair_is_one_sequence(own):
    field = PairField(tokenizer=own, prefix=["<s>"], between=["</s>", "<sep>"])
    rows = [row(1, "a day", second_text="bad"), row(2, "good"), row(3, second_text="good")]
    first, second = own.encode("a day"), own.encode("bad")
    expected = [own.bos, *first, own.eos, own.sep, *second, own.eos]
    assert field(rows[0], RNG).tolist() == expected and field.length(rows[0]) == len(expected)
    assert field.lengths(rows).tolist() == [len(expected), -1, -1]
    default = PairField(tokenizer=own)(rows[0], RNG).tolist()
    assert default == [own.id("<en>"), *first, own.eos, *second, own.eos]
    refuses(DataError, "row '2' has no second_text", field, rows[1], RNG)


def test_the_second_text_can_be_told_from_the_first_or_be_missing(own):
    field = PairField(tokenizer=own, prefix=["<s>"], between=["</s>", "<sep>"], types=True, alone=True)
    rows = [row(1, "a day", second_text="bad"), row(2, "good")]
    first, second = own.encode("a day"), own.encode("bad")
    one, other = (field(each, RNG) for each in rows)
    assert one["types"].tolist() == [0] * (len(first) + 3) + [1] * (len(second) + 1)
    assert other[""].tolist() == [own.bos, *own.encode("good"), own.eos] and not other["types"].any()
    assert field.lengths(rows).tolist() == [len(one[""]), len(other[""])] == [field.length(each) for each in rows]
    assert field.lengths([row(3, second_text="bad")]).tolist() == [-1] and field.between == ["</s>", "<sep>"]
    assert PairField(tokenizer=own).columns == ["source_text", "second_text"]


def test_words_have_the_places_of_their_first_pieces(own):
    field = WordsField(column="source_text", tokenizer=own, prefix=["<s>"])
    one = field(row(1, " good  a\tbad"), RNG)
    words = [own.encode(word) for word in ("good", "a", "bad")]
    assert one[""].tolist() == [own.bos, *words[0], *words[1], *words[2], own.eos]
    assert [int(one[""][place]) for place in one["places"]] == [ids[0] for ids in words]
    assert one["places"].dtype == torch.int64 and field.length(row(1, "good a bad")) == len(one[""])
    rows = [row(1, "good a bad"), row(2), row(3, ""), row(4, "day")]
    assert field.lengths(rows).tolist() == [len(one[""]), -1, 2, 2 + len(own.encode("day"))]
    empty = field(row(3, ""), RNG)
    assert empty[""].tolist() == [own.bos, own.eos] and empty["places"].tolist() == []
    assert field.fingerprint != own.fingerprint


def test_a_word_without_pieces_is_refused(own):
    class Without:
        """Pieces that know no x."""

        def __getattr__(self, name):
            return getattr(own, name)

        def encode(self, text):
            return [] if text == "x" else own.encode(text)

    field = WordsField(column="source_text", tokenizer=Without())
    refuses(DataError, "row '7': word 'x' has no pieces to label", field, row(7, "a x"), RNG)
