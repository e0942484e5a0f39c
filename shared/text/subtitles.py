"""Texts with times as subtitles: blocks of short lines that can be read in their time; the formats SRT and WebVTT."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from html import escape

from shared.errors import UsageError

#: What a cut costs that is not behind a sign: that of a block which is empty by this share.
_NO_SIGN = 0.5
_SIGN = re.compile(r"[.!?…;:,。！？；：，、][\"'”’»)\]]*$")


@dataclass(frozen=True)
class Cue:
    """A text and the time in which it is shown.

    Attributes:
        start: seconds from the beginning of the recording.
        end: likewise.
        text: what is shown; its lines are divided by line ends.

    """

    start: float
    end: float
    text: str


@dataclass(frozen=True, kw_only=True)
class SubtitleRules:
    """Limits of subtitles.

    Attributes:
        line_length: the most characters in a line.
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
        for name, smallest in (("line_length", 1), ("lines", 1), ("gap", 0), ("shortest", 0)):
            if not getattr(self, name) >= smallest:
                raise UsageError(f"{name} must be at least {smallest}, not {getattr(self, name)}")
        if not self.characters_per_second > 0:
            raise UsageError(f"characters_per_second must be above 0, not {self.characters_per_second}")


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
        spaced: whether words are divided by spaces; if not, a line may end behind any character.
        words: the words of each segment with their times, which its blocks then have; None where they are not known.

    Returns:
        The blocks in order, none before the end of the one before it; every word is in one of them.

    """
    known = [None] * len(segments) if words is None else words
    pairs = zip(segments, known, strict=True)
    blocks = [block for segment, of_segment in pairs for block in _blocks(segment, rules, spaced, of_segment)]
    shown = []
    for number, block in enumerate(blocks):
        following = blocks[number + 1].start if number + 1 < len(blocks) else float("inf")
        wanted = max(block.end, block.start + max(rules.shortest, _characters(block) / rules.characters_per_second))
        end = min(wanted, following - rules.gap)
        if end <= block.start:  # there is no time for a gap
            end = (block.start + following) / 2
        shown.append(replace(block, end=end))
    return shown


def too_fast(blocks: Iterable[Cue], rules: SubtitleRules) -> int:
    """Return the number of blocks that have to be read faster than the rules allow."""
    limit = rules.characters_per_second * (1 + 1e-6)
    return sum(_characters(block) > limit * (block.end - block.start) for block in blocks)


def srt(cues: Iterable[Cue]) -> str:
    """Return cues as a SubRip file."""
    return "".join(
        f"{number}\n{_clock(cue.start, ',')} --> {_clock(cue.end, ',')}\n{cue.text}\n\n"
        for number, cue in enumerate(cues, start=1)
    )


def vtt(cues: Sequence[Cue]) -> str:
    """Return cues as a WebVTT file (W3C)."""
    times = (f"{_clock(cue.start, '.')} --> {_clock(cue.end, '.')}" for cue in cues)
    blocks = (f"{time}\n{escape(cue.text, quote=False)}\n\n" for time, cue in zip(times, cues, strict=True))
    return "WEBVTT\n\n" + "".join(blocks)


def _clock(seconds: float, point: str) -> str:
    milliseconds = max(round(seconds * 1000), 0)
    minutes, rest = divmod(milliseconds, 60_000)
    return f"{minutes // 60:02}:{minutes % 60:02}:{rest // 1000:02}{point}{rest % 1000:03}"


def _characters(cue: Cue) -> int:
    return len(cue.text.replace("\n", " "))


def timed_by_words(segment: Cue, words: Sequence[Cue] | None) -> bool:
    """Tell whether times of words are those of a segment's words, one for each."""
    return words is not None and len(words) == len(segment.text.split())


def _blocks(segment: Cue, rules: SubtitleRules, spaced: bool, known: Sequence[Cue] | None) -> list[Cue]:
    """Cut a segment into blocks, each with its part of the time, or with that of its words."""
    space = " " if spaced else ""
    words = [part for word in _units(segment.text, spaced) for part in _cut(word, rules.line_length)]
    if not words:
        return []
    groups = _grouped(words, rules, space)
    sizes = [len(space.join(group)) for group in groups]
    duration, before, blocks = segment.end - segment.start, 0, []
    times = _of_parts(known, rules.line_length) if known and timed_by_words(segment, known) else None
    done = 0
    for group, size in zip(groups, sizes, strict=True):
        start, end = (segment.start + duration * count / sum(sizes) for count in (before, before + size))
        if times is not None:
            start, end = times[done].start, times[done + len(group) - 1].end
        done += len(group)
        blocks.append(Cue(start, end, "\n".join(_lines(group, rules.line_length, space))))
        before += size
    return blocks


def _of_parts(words: Sequence[Cue], length: int) -> list[Cue]:
    """Return the times of the parts that words are cut into: each has that of its word."""
    return [replace(word, text=part) for word in words for part in _cut(word.text, length)]


def _units(text: str, spaced: bool) -> list[str]:
    """Return what a line may end behind."""
    return text.split() if spaced else list("".join(text.split()))


def _cut(word: str, length: int) -> list[str]:
    """Cut a word that is longer than a line."""
    return [word[start : start + length] for start in range(0, len(word), length)]


def _grouped(words: list[str], rules: SubtitleRules, space: str) -> list[list[str]]:
    """Divide words into the fewest blocks, of similar sizes and with signs at their ends.

    The best division of the first ``end`` words is found from those of fewer words (dynamic programming).
    """
    full = rules.line_length * rules.lines
    best: list[tuple[float, float]] = [(0, 0.0)]  # blocks, and what they cost
    begins = [0]
    for end in range(1, len(words) + 1):
        choices = []
        for begin in range(end - 1, -1, -1):
            group = words[begin:end]
            if len(_wrapped(group, rules.line_length, space)) > rules.lines:
                break
            empty = 1 - len(space.join(group)) / full
            sign = 0.0 if end == len(words) or _SIGN.search(group[-1]) else _NO_SIGN**2
            choices.append((best[begin][0] + 1, best[begin][1] + empty**2 + sign, begin))
        blocks, cost, begin = min(choices)
        best.append((blocks, cost))
        begins.append(begin)
    groups, end = [], len(words)
    while end:
        groups.append(words[begins[end] : end])
        end = begins[end]
    return groups[::-1]


def _wrapped(words: list[str], length: int, space: str) -> list[list[str]]:
    """Fill one line after another; no way needs fewer lines."""
    lines: list[list[str]] = [[]]
    for word in words:
        if lines[-1] and len(space.join([*lines[-1], word])) > length:
            lines.append([])
        lines[-1].append(word)
    return lines


def _lines(words: list[str], length: int, space: str) -> list[str]:
    """Divide a block into as few lines as it needs, as equal as they can be: the shortest length that needs no more."""
    count = len(_wrapped(words, length, space))
    longest = max(map(len, words))
    length = next(limit for limit in range(longest, length + 1) if len(_wrapped(words, limit, space)) <= count)
    return [space.join(line) for line in _wrapped(words, length, space)]
