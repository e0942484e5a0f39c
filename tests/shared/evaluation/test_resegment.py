"""Outputs of whole talks are cut where the parts are nearest to their references: all cuts are tried."""

import itertools
import tracemalloc
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rapidfuzz.distance import Levenshtein

from dragoman.commands.score import cutter
from dragoman.shared.errors import DataError
from dragoman.shared.evaluation import resegment as module
from dragoman.shared.evaluation.resegment import resegment, resegment_text
from dragoman.shared.text.units import joined
from tests.small import refuses

words = st.lists(st.sampled_from("abc"), max_size=7)
references = st.lists(st.lists(st.sampled_from("abc"), max_size=4), min_size=1, max_size=4)


def cost(parts, lines):
    return sum(Levenshtein.distance(part, line) for part, line in zip(parts, lines, strict=True))


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
    parts = ["good Morning everybody;", "today, we speak about the bees!"]
    assert resegment_text(hypothesis, references, "en") == parts
    parts = ["今天很好。", "我们谈蜜蜂。"]
    assert resegment_text("".join(parts), ["今天真好。", "我们谈蜜蜂。"], "zh") == parts


def test_words_are_compared_by_what_is_no_punctuation():
    """Every word has other signs than in its reference, and "a" and "b" come again on either side of the cut."""
    assert resegment_text("A, b; «c»! b: a? (d)", ["a b. c?", "b, a; d"], "en") == ["A, b; «c»!", "b: a? (d)"]
    assert resegment_text("b! a? b, a;", ["b?", "a, b; a!"], "en") == ["b!", "a? b, a;"]


@pytest.mark.parametrize(
    ("word", "plain"),
    [
        ("Good,", "good"),
        ("(WELL-known)", "wellknown"),
        ("3.5%", "35"),
        ("…", "…"),
        ("--", "--"),
        ("$", "$"),
        ("กู!", "กู"),
        ("e\u0301.", "é"),
        ("\u200c", "\u200c"),
    ],
)
def test_a_word_without_case_and_punctuation_unless_it_has_nothing_else(word, plain):
    assert module._plain(word) == plain


def test_documents_do_not_cross(tmp_path):
    cut = cutter(["a b", "c", "a b"], ["one", "one", "two"], "en")
    assert cut(["a b c a b", "x"], tmp_path) == ["a b", "c a b", "x"]
    assert cutter(["a b", "c"], None, "en")(["a", "b c"], tmp_path) == ["a b", "c"]
    refuses(DataError, "1 lines, but the references are of 2 talks", cut, ["a"], tmp_path)
    refuses(DataError, "2 lines name talks, but there are 1 lines", cutter, ["a"], ["one", "two"], "en")
    refuses(DataError, "must follow one another", cutter, ["a", "b", "c"], ["one", "two", "one"], "en")


def test_the_table_of_a_long_talk_is_never_held_whole():
    """3,000 words by 3,000 in int32 would be 36 MB."""
    lines = [[str(number * 7919 % 500) for number in range(start, start + 20)] for start in range(0, 3000, 20)]
    heard = [word for line in lines for word in line]
    tracemalloc.start()
    parts = resegment(heard, lines)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert parts == lines
    assert peak < 4_000_000


def test_a_talk_that_would_take_hours_is_refused(monkeypatch):
    monkeypatch.setattr(module, "MOST_PAIRS", 12)
    assert resegment(["a"] * 4, [["a"] * 3]) == [["a"] * 4]
    with pytest.raises(DataError, match="a talk of 5 words cannot be cut to references of 3 words: at most 12 pairs"):
        resegment(["a"] * 5, [["a"] * 3])


TALKS = {
    "zh": ["我在 New York 工作。", "Microsoft 很好，", "一共 2020 人！", "谢谢"],
    "ja": ["東京へ行きます。", "New York の Microsoft", "ラーメンを食べたい！"],
    "th": ["สวัสดีครับ ผมชื่อสมชาย", "น้ำเปล่าที่นี่อร่อย", "มาก New York"],
    "my": ["ကျွန်တော်မြန်မာစာ", "လေ့လာနေပါတယ်။"],
    "ko": ["한국어를 배우고", "있습니다 New York"],
    "fa": ["می\u200cخواهم بروم", "خانه"],
    "en": ["It's  well-known.", "We go to New York!"],
}


@pytest.mark.parametrize("language", TALKS)
@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_a_perfect_talk_is_cut_to_its_lines_as_they_are(language, form):
    lines = TALKS[language]
    heard = unicodedata.normalize(form, joined(lines, language))
    assert resegment_text(heard, lines, language) == [unicodedata.normalize(form, line) for line in lines]


def test_vowel_signs_tell_words_apart():
    """Both lines are the same consonants: only the signs above them say where the first one ends."""
    assert resegment_text("กิกี กูกุ", ["กิ", "กี", "กู", "กุ"], "th") == ["กิ", "กี", "กู", "กุ"]
    assert resegment_text("กิกู", ["กี", "กู"], "th") == ["กิ", "กู"]


def test_a_talk_without_words_and_references_without_lines():
    assert resegment([], [["a"], ["b"]]) == [[], []]
    assert resegment(["a", "b"], [[], []]) in ([["a", "b"], []], [[], ["a", "b"]])
    assert resegment_text("", ["a", "b"], "en") == ["", ""]
    refuses(ValueError, "^there are no references to cut for$", resegment, ["a"], [])


def test_rows_of_the_table_are_those_of_the_definition():
    heard, wanted = [0, 1, 2, 0, 1], [1, 2, 2, 0, 3, 1, 0]
    table = module._Distances(module.np.array(heard), wanted)
    assert table.size == 3
    for number in (7, 3, 0, 5, 6, 1, 2, 4):
        row = [Levenshtein.distance(wanted[:number], heard[:end]) for end in range(len(heard) + 1)]
        assert table[number].tolist() == row
