"""Subtitle files: sentences over blocks, times and tags that stay, what is refused. pysubs2 reads what is written."""

from __future__ import annotations

import re

import pytest

from dragoman import DataError
from dragoman.commands.subtitle_files import SubtitleFile, divided
from tests.small import refuses

pysubs2 = pytest.importorskip("pysubs2")
pytest.importorskip("sentencex")

SRT = """1
00:00:01,000 --> 00:00:03,500
<i>I never thought that
Mr. Smith would</i>

2
00:00:03,600 --> 00:00:05,000
{\\an8}come. Never <b>again</b>!

3
00:00:05,100 --> 00:00:06,000
- Who is it?
- Me.

4
00:00:09,000 --> 00:00:10,000
And then

5
00:00:12,500 --> 00:00:13,000
he left.
"""


def made(tmp_path, text: str, name: str = "film.srt", language: str = "en") -> SubtitleFile:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return SubtitleFile(path, language)


def test_sentences_run_over_blocks_but_not_over_speakers_and_pauses(tmp_path):
    file = made(tmp_path, SRT)
    assert [one.text for one in file.sentences] == [
        "I never thought that Mr. Smith would come.", "Never again!", "Who is it?", "Me.", "And then", "he left.",
    ]  # fmt: skip
    assert file.lost == 2  # <b> and </b>


def test_times_and_tags_stay(tmp_path):
    file = made(tmp_path, SRT)
    translations = [
        "Ich hätte nie gedacht, dass Herr Schmidt kommen würde.", "Nie wieder!", "Wer ist da?", "Ich.",
        "Und dann", "ging er.",
    ]  # fmt: skip
    written = file.written(translations, "de")
    old, new = pysubs2.SSAFile.from_string(SRT), pysubs2.SSAFile.from_string(written)
    assert [(event.start, event.end) for event in new] == [(event.start, event.end) for event in old]
    assert written.split("\n\n")[:4] == [
        "1\n00:00:01,000 --> 00:00:03,500\n<i>Ich hätte nie gedacht,\ndass Herr Schmidt kommen</i>",
        "2\n00:00:03,600 --> 00:00:05,000\n{\\an8}würde. Nie wieder!",
        "3\n00:00:05,100 --> 00:00:06,000\n- Wer ist da?\n- Ich.",
        "4\n00:00:09,000 --> 00:00:10,000\nUnd dann",
    ]


def test_a_block_without_words_goes_and_the_one_before_is_shown_as_long(tmp_path):
    file = made(tmp_path, SRT)
    new = pysubs2.SSAFile.from_string(file.written(["Nie.", "", "Wer?", "Ich.", "Dann", "ging er."], "de"))
    shown = [(one.start, one.end, one.plaintext) for one in new]
    assert shown[:2] == [(1000, 5000, "Nie."), (5100, 6000, "- Wer?\n- Ich.")]


def test_a_block_is_not_shown_through_a_pause_nor_for_one_without_text(tmp_path):
    blocks = ["1 --> 2\nHello.", "2 --> 3\n<i></i>", "30 --> 32\nUh.", "40 --> 41\nBye."]
    text = "".join(re.sub(r"(\d+) --> (\d+)", r"1\n00:00:\1,000 --> 00:00:\2,000", one) + "\n\n" for one in blocks)
    file = made(tmp_path, text)
    new = pysubs2.SSAFile.from_string(file.written(["Hallo.", "", "Tschüss."], "de"))
    shown = [(one.start // 1000, one.end // 1000, one.plaintext) for one in new]
    assert shown == [(1, 2, "Hallo."), (40, 41, "Tschüss.")]


def test_words_are_divided_as_the_sentence_is_and_behind_a_sign_if_one_is_near():
    words = ["aa ", "bb ", "cc ", "dd "]
    assert divided(words, [1, 1]) == [["aa ", "bb "], ["cc ", "dd "]]
    assert divided(words, [3, 1]) == [["aa ", "bb ", "cc "], ["dd "]]
    assert divided(["aa ", "bb, ", "cc ", "dd ", "ee "], [5, 5]) == [["aa ", "bb, "], ["cc ", "dd ", "ee "]]
    assert divided(["aa "], [1, 9]) == [["aa "], []] and divided([], [4, 4]) == [[], []]
    assert divided(words, [9, 1, 1, 1]) == [["aa "], ["bb "], ["cc "], ["dd "]]


def test_texts_without_spaces_are_joined_and_cut_between_words(tmp_path):
    text = "1\n00:00:01,000 --> 00:00:02,000\n我从来没有\n\n2\n00:00:02,100 --> 00:00:03,000\n想过。\n"
    file = made(tmp_path, text, language="zh-CN")
    assert [one.text for one in file.sentences] == ["我从来没有想过。"]
    [first, second] = pysubs2.SSAFile.from_string(file.written(["私は考えたことがありません。"], "ja"))
    assert first.plaintext + second.plaintext == "私は考えたことがありません。" and first.plaintext and second.plaintext


def test_settings_of_webvtt_stay_with_their_cues(tmp_path):
    """Styles and regions too, to which they may refer, wherever a cue stands; notes go."""
    head = "WEBVTT\n\nSTYLE\n::cue { color: red }\n\nREGION\nid:fred\nwidth:40%\n\nNOTE a\nnote\n\n"
    cues = {
        "00:06.000 --> 00:07.000 align:start position:10%": "Late.",
        "first\n00:01.000 --> 00:02.000  region:fred line:0 ": "One",
        "00:02.100 --> 00:03.000 align:end": "two",
        "00:03.100 --> 00:04.000": "three.",
    }
    file = made(tmp_path, head + "\n\n".join(f"{place}\n{text}" for place, text in cues.items()), "film.vtt")
    assert [one.text for one in file.sentences] == ["One two three.", "Late."]
    written = file.written(["Eins drei.", "Spät."], "de")
    start = "WEBVTT\n\nSTYLE\n::cue { color: red }\n\nREGION\nid:fred\nwidth:40%\n\n"
    assert written.startswith(start) and "NOTE" not in written
    lines = written.removeprefix(start).strip().splitlines()
    assert [line for line in lines if line and not line.isdigit()] == [
        "00:00:01.000 --> 00:00:02.000 region:fred line:0", "Eins",
        "00:00:02.100 --> 00:00:04.000 align:end", "drei.",
        "00:00:06.000 --> 00:00:07.000 align:start position:10%", "Spät.",
    ]  # fmt: skip
    wrong = "WEBVTT\n\n1:02.000 --> 1:03.000\na\n\n00:02.000 --> 00:03.000\nb\n"
    refuses(DataError, "film.vtt: of 2 lines with times, 1 can be read", made, tmp_path, wrong, "film.vtt")


def test_styles_and_comments_of_substation_stay(tmp_path):
    made_by_them = pysubs2.SSAFile()
    made_by_them.styles["Loud"] = pysubs2.SSAStyle(bold=True)
    made_by_them.append(pysubs2.SSAEvent(start=0, end=900, text="{\\an8}Hello.", style="Loud", name="Ann"))
    made_by_them.append(pysubs2.SSAEvent(start=950, end=1200, text="to do", type="Comment"))
    file = made(tmp_path, made_by_them.to_string("ass"), "film.ass")
    assert [one.text for one in file.sentences] == ["Hello."]
    new = pysubs2.SSAFile.from_string(file.written(["Hallo."], "de"))
    assert [(one.text, one.style, one.name, one.type) for one in new] == [
        ("{\\an8}Hallo.", "Loud", "Ann", "Dialogue"), ("to do", "Default", "", "Comment"),
    ]  # fmt: skip
    assert new.styles["Loud"].bold


def test_what_cannot_be_read_is_refused(tmp_path):
    refuses(DataError, "film.srt: line 2: '00:01 --> soon' are no times", made, tmp_path, "1\n00:01 --> soon\na\n")
    refuses(DataError, "film.srt: holds no subtitles", made, tmp_path, "nothing here\n")
    refuses(DataError, "film.ass: ", made, tmp_path, "", "film.ass")
    (tmp_path / "latin.srt").write_bytes(SRT.replace("never", "jamás").encode("latin-1"))
    refuses(DataError, "latin.srt: is not UTF-8 .byte 0xe1", SubtitleFile, tmp_path / "latin.srt", "en")
    refuses(DataError, "none.srt: cannot be read", SubtitleFile, tmp_path / "none.srt", "en")
