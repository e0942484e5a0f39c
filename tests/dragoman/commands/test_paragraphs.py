"""Paragraphs in sentences and back; ``dragoman translate --split``. The oracles are the texts and hand values."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("sentencex")

from dragoman.commands.paragraphs import Paragraph, sentence_parts
from tests.small import GOLDEN, examples

SIGNS = st.text("ab A.?!\t \n\u00a0\u3000\u2028。！\"'”)é🙂", max_size=40)


@settings(max_examples=examples(300), deadline=None)
@given(SIGNS, st.sampled_from(["en", "de", "fr", "zh", "th", "ru"]))
def test_the_spaces_between_sentences_are_those_of_the_source(text, language):
    assert "".join(sentence_parts(text, language)) == text  # sentencex alone panics at "A\u00a0."
    paragraph = Paragraph.divided(text, language)
    assert all(one == one.strip() != "" for one in paragraph.sentences)
    if language not in ("zh", "th"):  # where a space is put, as there is none
        assert paragraph.joined(paragraph.sentences, "de") == text.strip()


def test_sentences_and_their_gaps():
    paragraph = Paragraph.divided(" Dr. Smith came.  He left.\tWhy? ", "en")
    assert paragraph == Paragraph(["Dr. Smith came.", "He left.", "Why?"], ["", "  ", "\t"])
    assert paragraph.joined(["A.", "B.", "C?"], "de") == "A.  B.\tC?"
    assert paragraph.joined(["A.", "", "C?"], "de") == "A.\tC?"
    assert Paragraph.divided(" \t", "en") == Paragraph([], [])


@pytest.mark.parametrize(
    ("language", "translations", "expected"),
    [
        ("zh", ["你好。", "再见。"], "你好。再见。"),
        ("ja", ["こんにちは。", "はい。"], "こんにちは。はい。"),
        ("zh", ["iPhone", "Mac OS"], "iPhone  Mac OS"),  # words of Latin script
        ("th", ["สวัสดี", "ลาก่อน"], "สวัสดี  ลาก่อน"),  # no spaces between words, but between sentences
        ("ko", ["안녕.", "그래."], "안녕.  그래."),
    ],
)
def test_a_target_without_spaces_gets_none_and_one_of_a_source_without_gets_one(language, translations, expected):
    assert Paragraph.divided("Hello.  Bye.", "en").joined(translations, language) == expected
    assert Paragraph.divided("你好。再见。", "zh").joined(["Hello.", "Bye."], "en") == "Hello. Bye."


def test_a_line_is_translated_by_sentences(dragoman):
    sentences = ["One two.", "three four!", "Five six seven.", "one two"]
    _, output, _ = dragoman("translate", GOLDEN, text="\n".join(sentences) + "\n")
    first, second, third, fourth = output.splitlines()
    lines = ["One two.  three four! Five six seven.", "", "  ", "one two", "one two"]
    code, split, messages = dragoman("translate", GOLDEN, "--split", text="\n".join(lines) + "\n")
    assert code == 0 and split.split("\n") == [f"{first}  {second} {third}", "", "", fourth, fourth, ""], messages
    _, whole, _ = dragoman("translate", GOLDEN, text=lines[0] + "\n")
    assert whole != split.split("\n")[0] + "\n"


def test_a_paragraph_is_one_record(dragoman):
    lines = ["One two. Three four.", "", "one two"]
    asked = ["translate", GOLDEN, "--format", "json"]
    _, output, _ = dragoman(*asked, text="One two.\nThree four.\n")
    first, second = [json.loads(line)["hypotheses"][0] for line in output.splitlines()]
    code, output, _ = dragoman(*asked, "--split", text="\n".join(lines) + "\n")
    records = [json.loads(line) for line in output.splitlines()]
    assert code == 0 and [record["line"] for record in records] == [1, 2, 3]
    assert [len(record["hypotheses"]) for record in records] == [1, 1, 1]
    (whole,) = records[0]["hypotheses"]
    assert whole["translation"] == f"{first['translation']} {second['translation']}"
    assert whole["score"] == pytest.approx((first["score"] + second["score"]) / 2, abs=1e-4)
    assert records[1]["hypotheses"][0]["translation"] == ""


def test_a_sentence_that_is_cut_is_warned_of(dragoman):
    lines = [["one two"], ["one two", "Three four five."], ["Three four five.", "One two."], ["Eight!"]]
    asked = ["translate", GOLDEN, "--maximum-length-extra", 6, "--format", "json"]
    cut = []
    for line in lines:
        _, output, _ = dragoman(*asked, text="\n".join(line) + "\n")
        cut.append(any(json.loads(record)["hypotheses"][0]["cut"] for record in output.splitlines()))
    assert {*cut} == {True, False}
    code, output, messages = dragoman(*asked, "--split", text="\n".join(map(" ".join, lines)) + "\n")
    assert code == 0 and [json.loads(record)["hypotheses"][0]["cut"] for record in output.splitlines()] == cut
    named = ", ".join(f"line {number}" for number, one in enumerate(cut, start=1) if one)
    assert messages.strip().endswith(f"(see --maximum-length-extra): {named}")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--n-best", "2"], "--split: a paragraph has one hypothesis"),
        (["--sample", "--samples", "2"], "--split: a paragraph has one hypothesis"),
        (["--documents"], "--split does not go with --documents"),
        (["film.srt"], "--split does not apply to files of subtitles"),
    ],
)
def test_what_has_no_paragraphs_is_refused(dragoman, options, message):
    code, output, messages = dragoman("translate", GOLDEN, "--split", *options, text="One.\n")
    assert code == 2 and not output and message in messages, messages


def test_sound_has_no_paragraphs(dragoman, speech_model, tmp_path):
    code, _, messages = dragoman("translate", speech_model, tmp_path / "a.wav", "--split")
    assert code == 2 and "--split does not apply: this model reads speech" in messages
