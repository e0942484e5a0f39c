"""Outputs of whole talks, cut to the lines of their references, so that they can be scored (Matusov et al. 2005).

Legend: H words of the hypothesis, R words of all references, S references.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from shared.text import languages


def resegment(hypothesis: Sequence[str], references: Sequence[Sequence[str]]) -> list[list[str]]:
    """Cut the words of a document at the places where the parts have the least edit distance to the references in all.

    Equal words cost nothing, a word that is put in, left out or exchanged costs 1 (Levenshtein). Of several best
    cuts, one is taken. Time and memory grow with H times R.

    Args:
        hypothesis: the H words of one document; documents never share a call.
        references: the words of its S lines, in order.

    Returns:
        S lists of words, which are the hypothesis in order.

    """
    if not references:
        raise ValueError("there are no references to cut for")
    ids: dict[str, int] = {}
    words = np.array([ids.setdefault(word, len(ids)) for word in hypothesis], dtype=np.int64)
    flat = [ids.setdefault(word, len(ids)) for line in references for word in line]
    distances = _distances(words, flat)
    ends = _cuts(words, flat, distances, np.cumsum([len(line) for line in references]).tolist())
    starts = [0, *ends[:-1]]
    return [list(hypothesis[start:end]) for start, end in zip(starts, ends, strict=True)]


def resegment_text(hypothesis: str, references: Sequence[str], language: str) -> list[str]:
    """Cut the output of one document to the lines of its references.

    Words are compared without case and punctuation, where something is left without it; in a language without spaces
    between words, characters are.

    Args:
        hypothesis: the whole output.
        references: the lines, in order.
        language: code of the language that both are in.

    Returns:
        As many lines as there are references.

    """
    spaced = languages.spaced(language)

    def words(text: str) -> list[str]:
        return text.split() if spaced else list("".join(text.split()))

    shown = words(hypothesis)
    parts = resegment([_plain(word) for word in shown], [[_plain(word) for word in words(line)] for line in references])
    space, start, lines = " " if spaced else "", 0, []
    for part in parts:
        lines.append(space.join(shown[start : start + len(part)]))
        start += len(part)
    return lines


def _plain(word: str) -> str:
    return re.sub(r"[^\w]", "", word.casefold()) or word


def _distances(words: np.ndarray, flat: list[int]) -> np.ndarray:
    """Return the edit distance of the first r words of the references and the first h of the hypothesis, (R+1, H+1)."""
    places = np.arange(len(words) + 1, dtype=np.int32)
    table = np.empty((len(flat) + 1, len(words) + 1), dtype=np.int32)
    table[0] = places
    for row, word in enumerate(flat, start=1):
        above = table[row - 1]
        best = above + 1  # the reference's word is left out
        best[1:] = np.minimum(best[1:], above[:-1] + (words != word))
        # A word that is put in costs 1 more than the place to its left: subtract the places, take the least so far.
        table[row] = np.minimum.accumulate(best - places) + places
    return table


def _cuts(words: np.ndarray, flat: list[int], table: np.ndarray, boundaries: list[int]) -> list[int]:
    """Go back along a best path; return where it leaves the words of each reference.

    The path that goes back as far as it can in the hypothesis before it crosses a boundary cuts first.
    """
    place = len(words)
    ends = [place]
    row = len(flat)
    for boundary in reversed(boundaries[:-1]):
        while row > boundary:
            if place and table[row, place] == table[row, place - 1] + 1:
                place -= 1
            elif place and table[row, place] == table[row - 1, place - 1] + (words[place - 1] != flat[row - 1]):
                row, place = row - 1, place - 1
            else:
                row -= 1
        while place and table[row, place] == table[row, place - 1] + 1:
            place -= 1
        ends.append(place)
    return ends[::-1]
