"""Units of display: ICU's, against Unicode's tables in the module regex and values by hand."""

import unicodedata

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from dragoman.shared.text.units import (
    breakable,
    characters,
    display_words,
    fitting,
    in_run,
    is_inside,
    joined,
    sentences,
)

FAMILY = "👩\u200d👩\u200d👧\u200d👦"
PARTS = ["a", "é", "e\u0301", "我", "。", "ค", "\u0e37\u0e48", " ", FAMILY, "🇩🇪", "\ud800", "한", "9"]
TEXTS = st.lists(st.sampled_from(PARTS)).map("".join)


@given(TEXTS)
def test_parts_put_together_are_the_text(text):
    assert "".join(characters(text)) == "".join(breakable(text)) == "".join(sentences(text)) == text
    assert "".join(fitting(text, 3)) == text
    for spaced in (True, False):
        assert "".join(display_words(text, spaced=spaced)) == " ".join(text.split())


@given(TEXTS.filter(lambda text: "\ud800" not in text))
def test_characters_are_grapheme_clusters(text):
    assert characters(text) == regex.findall(r"\X", text)


@pytest.mark.parametrize(
    "texts, language, whole",
    [
        (["I am", "", " here "], "en", "I am here"),
        (["我在", "公司。"], "zh", "我在公司。"),
        (["我在 New", "York 的", "2020", "15"], "zh-TW", "我在 New York 的2020 15"),
        (["東京へ", "ラーメン"], "ja", "東京へラーメン"),
        (["한국", "사람"], "ko", "한국 사람"),
        (["สวัสดีครับ", "ผมชื่อสมชาย"], "th", "สวัสดีครับ ผมชื่อสมชาย"),
        (["नमस्ते", "दुनिया"], "hi", "नमस्ते दुनिया"),
        ([], "zh", ""),
    ],
)
def test_sentences_follow_one_another_as_their_language_has_them(texts, language, whole):
    assert joined(texts, language) == whole


def test_words_of_scripts_without_spaces_follow_without_one():
    assert joined(["ผม", "ชื่อ", "New", "York"], "th", words=True) == "ผมชื่อNew York"
    assert joined(["my", "name"], "en", words=True) == "my name"


@pytest.mark.parametrize("sign", [*"aÄяωक한ع9٣", unicodedata.normalize("NFD", "한")[1]])
def test_scripts_with_spaces_have_runs(sign):
    assert in_run(sign)


@pytest.mark.parametrize("sign", "漢々あー。กລខမབ،- ㄅ")
def test_scripts_without_spaces_and_signs_have_none(sign):
    assert not in_run(sign)


def test_what_nobody_would_cut():
    text = f"的New好น้ำ{FAMILY}。"
    allowed = [0, 1, 4, 5, 8, 8 + len(FAMILY), len(text)]
    assert [place for place in range(len(text) + 1) if not is_inside(text, place)] == allowed


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("", []),
        ("one two", ["one ", "two"]),
        ("今日は、東京へ。", ["今日は、", "東京へ。"]),
        ("我在公司。", ["我在", "公司。"]),
        ("สวัสดีครับ", ["สวัสดี", "ครับ"]),
        ("\U00020000\U00020000 a b", ["\U00020000", "\U00020000 ", "a ", "b"]),  # two units each in UTF-16
        (f"{FAMILY}{FAMILY} a", [FAMILY, f"{FAMILY} ", "a"]),
    ],
)
def test_lines_end_between_words_and_phrases(text, parts):
    assert breakable(text) == parts


def test_no_line_begins_with_what_must_not():
    for sign in "。、」ゃッー":
        assert not [part for part in breakable(f"東京{sign}東京") if part.startswith(sign)]


def test_words_of_display_have_one_space_at_their_ends():
    assert display_words("  a\t b\nc ", spaced=True) == ["a ", "b ", "c"]
    assert display_words("  我在 \n New York ", spaced=False) == ["我在 ", "New ", "York"]
    assert display_words(" ", spaced=True) == display_words("", spaced=False) == []


@pytest.mark.parametrize(
    ("word", "length", "parts"),
    [
        ("", 3, [""]),
        ("abc", 3, ["abc"]),
        ("abcd", 3, ["abc", "d"]),
        ("abc ", 3, ["abc "]),  # its end is no character of the line
        ("e\u0301e\u0301", 2, ["e\u0301e\u0301"]),
        ("e\u0301e\u0301", 1, ["e\u0301", "e\u0301"]),
        (FAMILY, 1, [FAMILY]),
        ("ab-cde", 4, ["ab-", "cde"]),
        ("ab-cdefgh", 4, ["ab-c", "defg", "h"]),
        ("我在公司", 3, ["我在公", "司"]),
    ],
)
def test_long_words_are_cut_where_a_line_may_end(word, length, parts):
    assert fitting(word, length) == parts


def test_places_at_the_ends_and_behind_long_runs():
    assert [is_inside("ab", place) for place in (-1, 0, 1, 2, 3)] == [False, False, True, False, False]
    text = "。" * 100 + "e" + "。\u0301" + "。"
    assert [place for place in range(len(text)) if is_inside(text, place)] == [102]
    assert is_inside("x。" + FAMILY, 4) and not is_inside("x。" + FAMILY, 2)


def test_white_space_around_texts_is_left_out():
    assert joined([" a ", " \n", "b"], "en") == "a b"
    assert joined(["New", "我", "York"], "zh") == "New我York"
    assert joined(["我", "New"], "zh") == "我New"
    assert joined(["ຂ້ອຍ", "ກິນ"], "lo") == "ຂ້ອຍ ກິນ"
    assert joined(["ຂ້ອຍ", "ກິນ"], "lo", words=True) == "ຂ້ອຍກິນ"


def test_sentences_have_the_spaces_behind_them():
    assert sentences("Er kam 😀. Sie ging!  Warum? ") == ["Er kam 😀. ", "Sie ging!  ", "Warum? "]
    assert sentences("他来了。为什么？") == ["他来了。", "为什么？"] and sentences("") == []
