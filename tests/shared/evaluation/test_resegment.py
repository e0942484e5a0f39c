"""Outputs of whole talks are cut where the parts are nearest to their references: all cuts are tried."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.commands.score import cutter
from shared.errors import DataError
from shared.evaluation.resegment import resegment, resegment_text

words = st.lists(st.sampled_from("abc"), max_size=7)
references = st.lists(st.lists(st.sampled_from("abc"), max_size=4), min_size=1, max_size=4)


def distance(one, other):
    """Levenshtein's, by its definition."""
    if not one or not other:
        return len(one) + len(other)
    exchanged = distance(one[1:], other[1:]) + (one[0] != other[0])
    return min(exchanged, distance(one[1:], other) + 1, distance(one, other[1:]) + 1) if exchanged else 0


def cost(parts, lines):
    return sum(distance(tuple(part), tuple(line)) for part, line in zip(parts, lines, strict=True))


@given(words, references)
def test_no_cut_is_better(hypothesis, lines):
    parts = resegment(hypothesis, lines)
    assert len(parts) == len(lines) and list(itertools.chain(*parts)) == hypothesis
    inner = itertools.combinations_with_replacement(range(len(hypothesis) + 1), len(lines) - 1)
    every = ([0, *ends, len(hypothesis)] for ends in inner)
    best = min(cost([hypothesis[a:b] for a, b in itertools.pairwise(ends)], lines) for ends in every)
    assert cost(parts, lines) == best


@given(references)
def test_the_references_themselves_are_cut_as_they_are_or_as_well(lines):
    assert cost(resegment(list(itertools.chain(*lines)), lines), lines) == 0


def test_case_and_punctuation_do_not_move_a_cut():
    references = ["Good morning, everybody.", "Today we talk about bees."]
    hypothesis = "good Morning everybody; today, we speak about the bees!"
    assert resegment_text(hypothesis, references, "en") == [
        "good Morning everybody;",
        "today, we speak about the bees!",
    ]
    assert resegment_text("今天很好。我们谈蜜蜂。", ["今天真好。", "我们谈蜜蜂。"], "zh") == [
        "今天很好。",
        "我们谈蜜蜂。",
    ]


def test_documents_do_not_cross(tmp_path):
    cut = cutter(["a b", "c", "a b"], ["one", "one", "two"], "en")
    assert cut(["a b c a b", "x"], tmp_path) == ["a b", "c a b", "x"]
    assert cutter(["a b", "c"], None, "en")(["a", "b c"], tmp_path) == ["a b", "c"]
    with pytest.raises(DataError, match="1 lines, but the references are of 2 talks"):
        cut(["a"], tmp_path)
    with pytest.raises(DataError, match="2 lines name talks, but there are 1 lines"):
        cutter(["a"], ["one", "two"], "en")
    with pytest.raises(DataError, match="must follow one another"):
        cutter(["a", "b", "c"], ["one", "two", "one"], "en")
