"""Subtitles keep their limits, and what is written is what players' libraries read."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.errors import UsageError
from shared.text.subtitles import Cue, SubtitleRules, srt, subtitles, too_fast, vtt

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


@given(talks(), st.sampled_from([RULES, SubtitleRules(line_length=10, lines=3), SubtitleRules(lines=1)]))
def test_every_word_is_in_one_block_and_every_block_keeps_the_limits(segments, rules):
    blocks = subtitles(segments, rules)
    cut = [c for s in segments for w in s.text.split() for c in pieces(w, rules.line_length)]
    assert [word for block in blocks for word in block.text.split()] == cut
    for block in blocks:
        lines = block.text.split("\n")
        assert len(lines) <= rules.lines and max(map(len, lines)) <= rules.line_length
        assert block.start < block.end
    for one, other in itertools.pairwise(blocks):
        assert one.end < other.start
        if other.start - one.start > 2 * rules.gap:
            assert other.start - one.end >= rules.gap - 1e-9
    for segment in segments:
        if segment.text:
            assert any(block.start == pytest.approx(segment.start) for block in blocks)


def pieces(word, length):
    return [word[start : start + length] for start in range(0, len(word), length)]


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


def test_without_spaces_a_line_ends_behind_any_character():
    [block, *rest] = subtitles([Cue(0.0, 4.0, "今天天气很好。" * 4)], SubtitleRules(line_length=8), spaced=False)
    assert block.text == "今天天气很好。今\n天天气很好。" or block.text.replace("\n", "").startswith("今天天气很好。")
    assert "".join(b.text.replace("\n", "") for b in [block, *rest]) == "今天天气很好。" * 4


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
    [("line_length", 0), ("lines", 0), ("gap", -1), ("characters_per_second", 0), ("gap", float("nan"))],
)
def test_limits_are_checked(name, value):
    with pytest.raises(UsageError, match=f"{name} must be"):
        SubtitleRules(**{name: value})


def test_blocks_have_the_times_of_their_words_where_these_are_known():
    text = "This is the first sentence of the talk. And here is the second one, which is longer than the first."
    words = [Cue(10 + n, 10.5 + n, word) for n, word in enumerate(text.split())]
    segment = Cue(9.0, 40.0, text)
    first, second = subtitles([segment], SubtitleRules(shortest=0, characters_per_second=1000), words=[words])
    assert (first.start, first.end, second.start, second.end) == (10.0, 17.5, 18.0, 29.5)
    assert subtitles([segment], RULES, words=[words[1:]]) == subtitles([segment], RULES)
