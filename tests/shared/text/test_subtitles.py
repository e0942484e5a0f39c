"""Subtitles keep their limits, and what is written is what players' libraries read."""

import itertools
import re
import unicodedata

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from dragoman.shared.errors import UsageError
from dragoman.shared.text.subtitles import Cue, SubtitleRules, srt, subtitles, too_fast, vtt
from tests.small import refuses

RULES = SubtitleRules()
words = st.lists(st.text("abcdefgh,.!?", min_size=1, max_size=12), max_size=60).map(" ".join)


@st.composite
def talks(draw):
    """Segments that follow one another, with pauses between some."""
    segments, time = [], 0.0
    for text in draw(st.lists(words, max_size=5)):
        time += draw(st.sampled_from([0.0, 0.05, 2.0]))
        end = time + draw(st.floats(0.1, 20.0))
        segments.append(Cue(time, end, text))
        time = end
    return segments


@given(talks(), st.sampled_from([RULES, SubtitleRules(line_length=10, lines=3), SubtitleRules(lines=1)]), st.booleans())
def test_the_texts_are_whole_and_every_block_keeps_the_limits(segments, rules, spaced):
    blocks = subtitles(segments, rules, spaced=spaced)
    check_blocks(blocks, segments, rules)
    for segment in segments:
        if segment.text:
            assert any(block.start == pytest.approx(segment.start, abs=0.2) for block in blocks)
    if spaced:
        cut = {word for s in segments for word in s.text.split() if len(word) <= rules.line_length}
        assert cut <= {word for block in blocks for word in block.text.split()}, "words are not cut"


def check_blocks(blocks, segments, rules):
    """Characters are those of the module regex, which has Unicode's tables, and not ICU's."""
    assert bare(block.text for block in blocks) == bare(segment.text for segment in segments)
    for block in blocks:
        lines = block.text.split("\n")
        assert len(lines) <= rules.lines
        assert max(len(regex.findall(r"\X", line)) for line in lines) <= rules.line_length
    whole = regex.findall(r"\X", bare(segment.text for segment in segments))
    cut = [c for block in blocks for line in block.text.split("\n") for c in regex.findall(r"\X", bare([line]))]
    assert cut == whole, "no character is cut"
    for one, other in itertools.pairwise(blocks):
        assert one.start < one.end < other.start or one.start < one.end <= other.start - rules.gap + 1e-9
        if other.start - one.start > 2 * rules.gap:
            assert other.start - one.end >= rules.gap - 1e-9


def bare(texts):
    return "".join("".join(texts).split())


WORDS = (
    "我在 公司 工作 ， 。 “ ” （ ） 12345 👩\u200d👩\u200d👧\u200d👦 🇩🇪🇫🇷 ー ちょっと ラーメン "
    "น้ำเปล่า ที่นี่ ကျွန်တော် မြန်မာ ខ្ញុំ ចូលចិត្ត ຂ້ອຍ ມັກ हिन्दी 한국 می\u200cخواهم New York"
)
SIGNS = st.sampled_from([" ", *WORDS.split(), *(unicodedata.normalize("NFD", word) for word in ("한국어", "Việt"))])


@given(st.lists(st.lists(SIGNS, max_size=20).map("".join), max_size=3), st.integers(3, 15))
def test_characters_of_all_scripts_stay_whole(texts, length):
    segments = [Cue(2.0 * n, 2.0 * n + 2, text) for n, text in enumerate(texts)]
    rules = SubtitleRules(line_length=length)
    check_blocks(subtitles(segments, rules, spaced=False), segments, rules)


@given(st.lists(st.sampled_from("我在公司ちょっラーメン。，！」）"), min_size=1, max_size=40).map("".join))
def test_no_line_begins_with_a_sign_that_must_not(text):
    blocks = subtitles([Cue(0.0, 9.0, text)], SubtitleRules(line_length=12), spaced=False)
    lines = [line for block in blocks for line in block.text.split("\n")]
    forbidden = set("ょっー。，！」）ン") - {"ン"}
    runs = [len(run) for run in regex.findall("[ょっー。，！」）]+", text)]
    if max(runs, default=0) < 12:
        assert not [line for line in lines[1:] if line[0] in forbidden]


@pytest.mark.parametrize(
    "text, lines",
    [
        ("我在 New York 的 Microsoft 公司工作，一共12345天。",
         ["我在 New", "York 的", "Microsoft", "公司工作，", "一共12345天。"]),
        ("สวัสดีครับ ผมชื่อสมชาย น้ำเปล่าที่นี่อร่อยมาก", ["สวัสดีครับ", "ผมชื่อสมชาย", "น้ำเปล่าที่นี่", "อร่อยมาก"]),
        ("很好👩\u200d👩\u200d👧\u200d👦很好很好很好", ["很好👩\u200d👩\u200d👧\u200d👦很好很好很好"]),
        ("東京へ行きます。ラーメンをちょっと食べたい！", ["東京へ行きます。", "ラーメンをちょっと", "食べたい！"]),
        ("ကျွန်တော်မြန်မာစာလေ့လာနေပါတယ်", ["ကျွန်တော်မြန်မာစာ", "လေ့လာနေပါတယ်"]),
        ("ខ្ញុំចូលចិត្តសៀវភៅខ្ញុំចូលចិត្ត", ["ខ្ញុំចូលចិត្តសៀវភៅ", "ខ្ញុំចូលចិត្ត"]),
        ("ຂ້ອຍມັກອ່ານປຶ້ມຂ້ອຍມັກ", ["ຂ້ອຍມັກອ່ານ", "ປຶ້ມຂ້ອຍມັກ"]),
    ],
    ids=["zh", "th", "emoji", "ja", "my", "km", "lo"],
)  # fmt: skip
def test_lines_of_scripts_without_spaces_end_where_a_reader_expects_it(text, lines):
    blocks = subtitles([Cue(0.0, 10.0, text)], SubtitleRules(line_length=10), spaced=False)
    assert [line for block in blocks for line in block.text.split("\n")] == lines


@pytest.mark.parametrize("text", ["한국어를 배우고 있습니다", "Tôi đang học tiếng Việt ở trường"])
def test_decomposed_text_has_the_lines_of_composed_text(text):
    rules = SubtitleRules(line_length=8)
    [lines, others] = (
        [block.text for block in subtitles([Cue(0.0, 9.0, unicodedata.normalize(form, text))], rules)]
        for form in ("NFC", "NFD")
    )
    assert [unicodedata.normalize("NFC", other) for other in others] == lines


def test_a_word_that_is_too_long_is_cut_where_a_line_may_end():
    [block] = subtitles([Cue(0.0, 9.0, "well-known-sources")], SubtitleRules(line_length=12))
    assert block.text == "well-known-\nsources"


def test_a_block_ends_behind_a_sentence_and_its_lines_are_alike():
    text = "This is the first sentence of the talk. And here is the second one, which is longer than the first."
    blocks = subtitles([Cue(10.0, 20.0, text)], RULES)
    assert [block.text for block in blocks] == [
        "This is the first sentence of the talk.",
        "And here is the second one,\nwhich is longer than the first.",
    ]
    assert blocks[1].start == pytest.approx(10 + 10 * 39 / (39 + 59)) and blocks[0].end == blocks[1].start - 0.08
    assert blocks[1].end == 20.0 and too_fast(blocks, RULES) == 0


def test_a_short_block_stays_while_there_is_time_and_is_counted_if_there_is_none():
    text = "forty characters are read in two seconds"
    [first, second] = subtitles([Cue(0.0, 0.5, text), Cue(1.5, 2.0, "yes")], RULES)
    assert first.end == pytest.approx(1.5 - 0.08) and second.end == pytest.approx(2.5)
    assert too_fast([first, second], RULES) == 1
    [alone] = subtitles([Cue(0.0, 0.5, text)], RULES)
    assert alone.end == pytest.approx(40 / 21) and too_fast([alone], RULES) == 0


def test_formats_by_hand():
    cues = [Cue(0.0, 1.2345, "a < b"), Cue(3661.9996, 3662.5, "two\nlines")]
    assert srt(cues) == ("1\n00:00:00,000 --> 00:00:01,234\na < b\n\n2\n01:01:02,000 --> 01:01:02,500\ntwo\nlines\n\n")
    assert vtt(cues) == (
        "WEBVTT\n\n00:00:00.000 --> 00:00:01.234\na &lt; b\n\n01:01:02.000 --> 01:01:02.500\ntwo\nlines\n\n"
    )


CUES = [Cue(0.5, 1.25, "One & two <three>"), Cue(1.5, 4.0, "two\nlines: --> “ä”"), Cue(7200.0, 7201.0, "3")]


def test_pysubs2_reads_what_is_written():
    pysubs2 = pytest.importorskip("pysubs2")
    for text, kind in ((srt(CUES), "srt"), (vtt(CUES), "vtt")):
        read = pysubs2.SSAFile.from_string(text, format_=kind)
        assert [(event.start, event.end) for event in read] == [(500, 1250), (1500, 4000), (7200000, 7201000)]
        assert read[1].plaintext.startswith("two\nlines")


def test_webvtt_reads_what_is_written():
    webvtt = pytest.importorskip("webvtt")
    read = webvtt.from_string(vtt(CUES))
    assert [caption.text for caption in read] == ["One & two <three>", "two\nlines: --> “ä”", "3"] or [
        caption.raw_text for caption in read
    ] == ["One &amp; two &lt;three&gt;", "two\nlines: --&gt; “ä”", "3"]
    assert [caption.start for caption in read] == ["00:00:00.500", "00:00:01.500", "02:00:00.000"]


@pytest.mark.parametrize(
    ("name", "value"),
    [("line_length", 0), ("lines", 0), ("gap", -1), ("characters_per_second", 0), ("gap", float("nan"))]
    + [(name, float("inf")) for name in ("gap", "shortest", "characters_per_second", "line_length")],
)
def test_limits_are_checked(name, value):
    refuses(UsageError, f"{name} must be", SubtitleRules, **{name: value})


def test_blocks_have_the_times_of_their_words_where_these_are_known():
    text = "This is the first sentence of the talk. And here is the second one, which is longer than the first."
    words = [Cue(10 + n, 10.5 + n, word) for n, word in enumerate(text.split())]
    segment = Cue(9.0, 40.0, text)
    first, second = subtitles([segment], SubtitleRules(shortest=0, characters_per_second=1000), words=[words])
    assert (first.start, first.end, second.start, second.end) == (10.0, 17.5, 18.0, 29.5)
    assert subtitles([segment], RULES, words=[words[1:]]) == subtitles([segment], RULES)


def test_words_without_spaces_between_them_share_the_time_of_what_wrote_them():
    """Eight signs in the four seconds from 2 on: half a second each."""
    text = "我在公司工作呢。"
    rules = SubtitleRules(line_length=4, lines=1, gap=0, shortest=0, characters_per_second=1000)
    words = [Cue(2.0, 4.0, "我在公司"), Cue(4.0, 6.0, "工作呢。")]
    for known in (words, [Cue(2.0, 6.0, text)], [Cue(2.0, 4.5, "我在公司工"), Cue(4.5, 6.0, "作呢。")]):
        blocks = subtitles([Cue(0.0, 9.0, text)], rules, spaced=False, words=[known])
        assert [(block.start, block.end, block.text) for block in blocks] == [
            (2.0, pytest.approx(4.0), "我在公司"),
            (pytest.approx(4.0), pytest.approx(6.0), "工作呢。"),
        ]


def test_no_cue_lasts_no_time():
    segments = [Cue(1.0, 1.0, "one two three four five"), Cue(1.0, 1.0, "six"), Cue(1.0005, 1.0005, "seven")]
    rules = SubtitleRules(line_length=5, lines=1, shortest=0, characters_per_second=1e9)
    blocks = subtitles(segments, rules)
    times = re.findall(r"(\d+),(\d+) --> \d+:\d+:(\d+),(\d+)", srt(blocks))
    assert len(times) == 7
    assert all((int(a), int(b)) < (int(c), int(d)) for a, b, c, d in times)
    assert "00:00:02.000 --> 00:00:02.001" in vtt([Cue(2.0, 2.0001, "x")])


@pytest.mark.parametrize("time", [float("inf"), float("nan"), 10**400])
def test_a_cue_has_finite_times(time):
    refuses(UsageError, "the end of a cue must be a number", Cue, 0.0, time, "x")
