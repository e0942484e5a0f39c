"""Phrases that translate each other, in a sentence pair whose words are linked.

A source phrase and a target phrase are counterparts if no word of either is linked outside of the other, and at least
one word of each is linked (Koehn, Och and Marcu 2003, "Statistical Phrase-Based Translation", section 2.2; the
alignment template of Och and Ney 2004, equation 9). Words without links may stand at the ends of either, so that one
phrase has several counterparts.

Legend: m source words, n target words.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from dragoman.shared.text.word_links import Link

#: The columns of manifests with the phrases of each side.
PHRASES = {side: f"{side}_phrases" for side in ("source", "target")}


class PhrasePair(NamedTuple):
    """A source phrase and its counterpart: where they begin and end, in words; ends are not part of them."""

    source_start: int
    source_end: int
    target_start: int
    target_end: int


def phrase_pairs(links: Iterable[Link], m: int, n: int, longest: int) -> list[PhrasePair]:
    """Return all phrase pairs of m source and n target words, in order, with at most ``longest`` words a side."""
    to_target: list[list[int]] = [[] for _ in range(m)]
    to_source: list[list[int]] = [[] for _ in range(n)]
    for source, target in links:
        to_target[source].append(target)
        to_source[target].append(source)
    # A target word's first and last links; one without links fits into every phrase.
    firsts = [min(places, default=m) for places in to_source]
    lasts = [max(places, default=-1) for places in to_source]
    pairs = []
    for start in range(m):
        low, high = n, -1  # the target words that the source phrase is linked with lie from low to high
        for end in range(start + 1, min(start + longest, m) + 1):
            low = min([low, *to_target[end - 1]])
            high = max([high, *to_target[end - 1]])
            if high - low >= longest:
                break
            if high < 0 or min(firsts[low : high + 1]) < start or max(lasts[low : high + 1]) >= end:
                continue
            pairs += [PhrasePair(start, end, *span) for span in _widened(low, high + 1, to_source, longest)]
    return pairs


def _widened(low: int, high: int, to_source: list[list[int]], longest: int) -> list[tuple[int, int]]:
    """Return a target phrase, and what it becomes with words without links at its ends."""
    starts = [low]
    while starts[-1] > 0 and not to_source[starts[-1] - 1]:
        starts.append(starts[-1] - 1)
    ends = [high]
    while ends[-1] < len(to_source) and not to_source[ends[-1]]:
        ends.append(ends[-1] + 1)
    return [(start, end) for start in reversed(starts) for end in ends if end - start <= longest]
