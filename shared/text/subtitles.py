"""Texts with times as subtitles: blocks of short lines that can be read in their time; the formats SRT and WebVTT."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from html import escape
from itertools import accumulate, pairwise

from dragoman.shared.errors import check_number
from dragoman.shared.text.units import characters, display_words, fitting

#: What a cut costs that is not behind a sign: that of a block which is empty by this share.
_NO_SIGN = 0.5
SIGN = re.compile(r"[.!?…;:,。！？；：，、។၊။།][\"'”’»)\]」』）】》〉]*\s?$")
#: Seconds between the beginnings of two blocks, at least: each is then shown for a millisecond, the formats' unit.
_LEAST = 0.002


@dataclass(frozen=True)
class Cue:
    """A text and the time in which it is shown.

    Attributes:
        start: seconds from the beginning of the recording.
        end: likewise.
        text: what is shown; its lines are divided by line ends.

    Raises:
        UsageError: for a time that is not finite.
    """

    start: float
    end: float
    text: str

    def __post_init__(self) -> None:
        check_number("the start of a cue", self.start)
        check_number("the end of a cue", self.end)


@dataclass(frozen=True, kw_only=True)
class SubtitleRules:
    """Limits of subtitles.

    Attributes:
        line_length: the most characters in a line: a letter with its marks, or an emoji, is one (units.py).
        lines: the most lines in a block.
        characters_per_second: the fastest that a block may have to be read.
        gap: seconds between two blocks, at least.
        shortest: seconds that a block is shown, at least, if there is time.
    """

    line_length: int = 42
    lines: int = 2
    characters_per_second: float = 21.0
    gap: float = 0.08
    shortest: float = 1.0

    def __post_init__(self) -> None:
        for name in ("line_length", "lines"):
            check_number(name, getattr(self, name), least=1, most=10_000)
        for name in ("gap", "shortest"):
            check_number(name, getattr(self, name), least=0, most=3600)
        check_number("characters_per_second", self.characters_per_second, above=0)


def subtitles(
    segments: Sequence[Cue],
    rules: SubtitleRules,
    *,
    spaced: bool = True,
    words: Sequence[Sequence[Cue] | None] | None = None,
) -> list[Cue]:
    """Cut the texts of segments into blocks that keep the rules.

    A segment becomes as few blocks as its text needs, cut behind punctuation where that is possible, each with a part
    of the segment's time in proportion to its characters. A block that is shown too shortly to be read stays until the
    next one, at most; one that has too little time even so keeps it (see :func:`too_fast`).

    Args:
        segments: in order, none before the end of the one before it; those without text are left out.
        rules: the limits.
        spaced: whether words are divided by spaces; if not, a line ends where the rules of the script let it.
        words: the words of each segment with their times, which its blocks then have; None where they are not known.

    Returns:
        The blocks in order, none before the end of the one before it, each shown for some time; put together, they are
        the texts, but for white space where a line ends.
    """
    timed = [None] * len(segments) if words is None else words
    pairs = zip(segments, timed, strict=True)
    blocks = [block for segment, of_segment in pairs for block in _blocks(segment, rules, spaced, of_segment)]
    for number in range(1, len(blocks)):
        earliest = blocks[number - 1].start + _LEAST
        blocks[number] = replace(blocks[number], start=max(blocks[number].start, earliest))
    shown = []
    for number, block in enumerate(blocks):
        following = blocks[number + 1].start if number + 1 < len(blocks) else float("inf")
        reading = _characters(block) / rules.characters_per_second
        wanted = max(block.end, block.start + max(rules.shortest, reading, _LEAST))
        end = min(wanted, following - rules.gap)
        if end <= block.start:  # there is no time for a gap
            end = min(wanted, (block.start + following) / 2)
        shown.append(replace(block, end=end))
    return shown


def too_fast(blocks: Iterable[Cue], rules: SubtitleRules) -> int:
    """Return the number of blocks that have to be read faster than the rules allow."""
    limit = rules.characters_per_second * (1 + 1e-6)
    return sum(_characters(block) > limit * (block.end - block.start) for block in blocks)


def srt(cues: Iterable[Cue]) -> str:
    """Return cues as a SubRip file."""
    return "".join(f"{number}\n{_times(cue, ',')}\n{cue.text}\n\n" for number, cue in enumerate(cues, start=1))


def vtt(cues: Sequence[Cue]) -> str:
    """Return cues as a WebVTT file (W3C)."""
    blocks = (f"{_times(cue, '.')}\n{escape(cue.text, quote=False)}\n\n" for cue in cues)
    return "WEBVTT\n\n" + "".join(blocks)


def _times(cue: Cue, point: str) -> str:
    """Return the times of a cue as both formats have them; players drop a cue that lasts no millisecond."""
    start = max(round(cue.start * 1000), 0)
    end = max(round(cue.end * 1000), start + 1)
    return f"{_clock(start, point)} --> {_clock(end, point)}"


def _clock(milliseconds: int, point: str) -> str:
    minutes, rest = divmod(milliseconds, 60_000)
    return f"{minutes // 60:02}:{minutes % 60:02}:{rest // 1000:02}{point}{rest % 1000:03}"


def _characters(cue: Cue) -> int:
    return len(characters(cue.text.replace("\n", " ")))


def timed_by_words(segment: Cue, words: Sequence[Cue] | None) -> bool:
    """Tell whether times of words are those of a segment's words: put together, they are its text."""
    return words is not None and _bare("".join(word.text for word in words)) == _bare(segment.text)


def _bare(text: str) -> str:
    return "".join(text.split())


def _blocks(segment: Cue, rules: SubtitleRules, spaced: bool, timed: Sequence[Cue] | None) -> list[Cue]:
    """Cut a segment into blocks, each with its part of the time, or with that of its words."""
    words = [part for word in display_words(segment.text, spaced=spaced) for part in fitting(word, rules.line_length)]
    if not words:
        return []
    times = _times_of_signs(timed) if timed and timed_by_words(segment, timed) else None
    groups = _grouped(words, rules)
    sizes = [len(characters("".join(group).rstrip())) for group in groups]
    duration, before, done, blocks = segment.end - segment.start, 0, 0, []
    for group, size in zip(groups, sizes, strict=True):
        start, end = (segment.start + duration * count / sum(sizes) for count in (before, before + size))
        before += size
        signs = len(_bare("".join(group)))
        if times is not None:
            start, end = times[done][0], times[done + signs - 1][1]
        done += signs
        blocks.append(Cue(start, end, "\n".join(balanced_lines(group, rules.line_length))))
    return blocks


def _times_of_signs(words: Iterable[Cue]) -> list[tuple[float, float]]:
    """Return begin and end of each code point of words that is not white space: equal parts of its word's time."""
    times = []
    for word in words:
        count = len(_bare(word.text))
        part = (word.end - word.start) / max(count, 1)
        times += [(word.start + part * number, word.start + part * (number + 1)) for number in range(count)]
    return times


def _grouped(words: list[str], rules: SubtitleRules) -> list[list[str]]:
    """Divide words into the fewest blocks, of similar sizes and with signs at their ends.

    The best division of the first ``end`` words is found from those of fewer words (dynamic programming).
    """
    full = rules.line_length * rules.lines
    sizes = [len(characters(word)) for word in words]
    bare = [len(characters(word.rstrip())) for word in words]
    best: list[tuple[float, float]] = [(0, 0.0)]  # blocks, and what they cost
    begins = [0]
    for end in range(1, len(words) + 1):
        choices = []
        for begin in range(end - 1, -1, -1):
            if len(_wrapped(sizes[begin:end], bare[begin:end], rules.line_length)) > rules.lines:
                break
            empty = 1 - (sum(sizes[begin : end - 1]) + bare[end - 1]) / full
            sign = 0.0 if end == len(words) or SIGN.search(words[end - 1]) else _NO_SIGN**2
            choices.append((best[begin][0] + 1, best[begin][1] + empty**2 + sign, begin))
        blocks, cost, begin = min(choices)
        best.append((blocks, cost))
        begins.append(begin)
    groups, end = [], len(words)
    while end:
        groups.append(words[begins[end] : end])
        end = begins[end]
    return groups[::-1]


def _wrapped(sizes: Sequence[int], bare: Sequence[int], length: int) -> list[int]:
    """Fill one line after another, and return the number of words in each; no way needs fewer lines.

    Args:
        sizes: characters of each word with the space at its end.
        bare: the same without.
        length: the most characters in a line.
    """
    lines, filled = [0], 0
    for size, shown in zip(sizes, bare, strict=True):
        if lines[-1] and filled + shown > length:
            lines.append(0)
            filled = 0
        lines[-1] += 1
        filled += size
    return lines


def balanced_lines(words: list[str], length: int) -> list[str]:
    """Divide a block into as few lines as it needs, as equal as they can be: the shortest length that needs no more."""
    sizes = [len(characters(word)) for word in words]
    bare = [len(characters(word.rstrip())) for word in words]
    fewest = len(_wrapped(sizes, bare, length))
    counts = next(
        counts for limit in range(max(bare), length + 1) if len(counts := _wrapped(sizes, bare, limit)) <= fewest
    )
    ends = [0, *accumulate(counts)]
    return ["".join(words[start:end]).rstrip() for start, end in pairwise(ends)]
