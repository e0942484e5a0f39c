"""Outputs of whole talks, cut to the lines of their references, so that they can be scored (Matusov et al. 2005).

Legend: H words of the hypothesis, R words of all references, S references.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterator, Sequence
from itertools import accumulate, islice, pairwise

import numpy as np

from dragoman.shared.batches.manifest import Manifest
from dragoman.shared.errors import DataError
from dragoman.shared.text import languages
from dragoman.shared.text.units import characters, in_run

#: The most pairs of a word of a talk and a word of its references: two hours of speech as characters, some minutes.
MOST_PAIRS = 2 * 10**10


def resegment(hypothesis: Sequence[str], references: Sequence[Sequence[str]]) -> list[list[str]]:
    """Cut the words of a document at the places where the parts have the least edit distance to the references in all.

    Equal words cost nothing, a word that is put in, left out or exchanged costs 1 (Levenshtein). Of several best
    cuts, one is taken. Time grows with H times R (some ten seconds for 60,000 words each), memory with H times the root
    of R.

    Args:
        hypothesis: the H words of one document; documents never share a call.
        references: the words of its S lines, in order.

    Returns:
        S lists of words, which are the hypothesis in order.

    Raises:
        DataError: if H times R is above ``MOST_PAIRS``.
    """
    if not references:
        raise ValueError("there are no references to cut for")
    ids: dict[str, int] = {}
    words = np.array([ids.setdefault(word, len(ids)) for word in hypothesis], dtype=np.int64)
    flat = [ids.setdefault(word, len(ids)) for line in references for word in line]
    if len(words) * len(flat) > MOST_PAIRS:
        raise DataError(
            f"a talk of {len(words):,} words cannot be cut to references of {len(flat):,} words: at most "
            f"{MOST_PAIRS:,} pairs of words; cut the recording into talks"
        )
    ends = _cuts(words, flat, np.cumsum([len(line) for line in references]).tolist())
    starts = [0, *ends[:-1]]
    return [list(hypothesis[start:end]) for start, end in zip(starts, ends, strict=True)]


def rows_of_recordings(manifest: Manifest) -> dict[str, list[int]]:
    """Return the numbers of the rows of each recording, by time.

    Raises:
        DataError: if a row has no recording.
    """
    talks: dict[str, list[int]] = {}
    starts = np.nan_to_num(manifest.column("start"))
    for number, file in enumerate(manifest.column("audio").to_pylist()):
        if file is None:
            raise DataError(f"{manifest.path}: row {manifest[number]['id']!r} has no recording")
        talks.setdefault(file, []).append(number)
    return {file: sorted(numbers, key=lambda number: starts[number]) for file, numbers in talks.items()}


def resegment_text(hypothesis: str, references: Sequence[str], language: str) -> list[str]:
    """Cut the output of one document to the lines of its references.

    Words are compared without case and punctuation, where something is left without it; in a language without spaces
    between words, characters are, but for words and numbers of other scripts.

    Args:
        hypothesis: the whole output.
        references: the lines, in order.
        language: code of the language that both are in.

    Returns:
        As many lines as there are references: parts of the hypothesis as they are, without white space at their ends.
    """
    spaced = languages.spaced(language)
    spans = _words(hypothesis, spaced)
    words = [_plain(hypothesis[start:end]) for start, end in spans]
    parts = resegment(words, [[_plain(line[a:b]) for a, b in _words(line, spaced)] for line in references])
    ends = [0, *accumulate(map(len, parts))]
    return [hypothesis[spans[a][0] : spans[b - 1][1]] if a < b else "" for a, b in pairwise(ends)]


def _words(text: str, spaced: bool) -> list[tuple[int, int]]:
    """Return where words begin and end: what spaces divide, else characters, and runs of letters of other scripts."""
    if spaced:
        return [match.span() for match in re.finditer(r"\S+", text)]
    spans: list[tuple[int, int]] = []
    place, in_word = 0, False
    for character in characters(text):
        begin, place = place, place + len(character)
        was, in_word = in_word, in_run(character[0])
        if was and in_word:
            spans[-1] = (spans[-1][0], place)
        elif not character.isspace():
            spans.append((begin, place))
    return spans


def _plain(word: str) -> str:
    """Return a word in one case and form, without punctuation and symbols unless it has nothing else."""
    word = unicodedata.normalize("NFC", word.casefold())
    return "".join(sign for sign in word if unicodedata.category(sign)[0] not in "PSZC") or word


class _Distances:
    """The table of edit distances of the first r words of the references and the first h of the hypothesis.

    It is read from its last row to its first. Every n-th row is kept, n about the root of R; those between two of them
    are made again when one of them is read, so that memory grows with H times the root of R.

    Args:
        words: the hypothesis as numbers, (H,) int64.
        flat: the words of all references, likewise; R of them.
    """

    def __init__(self, words: np.ndarray, flat: Sequence[int]) -> None:
        self.words, self.flat = words, flat
        self.size = math.isqrt(len(flat)) + 1
        self._places = np.arange(len(words) + 1, dtype=np.int32)
        self._kept = list(islice(self._after(self._places, 0), 0, None, self.size))
        self._block, self._rows = -1, list[np.ndarray]()

    def _after(self, row: np.ndarray, number: int) -> Iterator[np.ndarray]:
        """Yield the row of a number, and all those after it."""
        yield row
        for word in self.flat[number:]:
            best = row + 1  # the reference's word is left out
            np.minimum(best[1:], row[:-1] + (self.words != word), out=best[1:])
            # A word that is put in costs 1 more than the place to its left: subtract the places, take the least so far.
            best -= self._places
            row = np.minimum.accumulate(best)
            row += self._places
            yield row

    def __getitem__(self, number: int) -> np.ndarray:
        """Return a row, (H+1,) int32."""
        block, place = divmod(number, self.size)
        if block != self._block:
            self._block, self._rows = block, list(islice(self._after(self._kept[block], block * self.size), self.size))
        return self._rows[place]


def _cuts(words: np.ndarray, flat: Sequence[int], boundaries: Sequence[int]) -> list[int]:
    """Go back along a best path; return where it leaves the words of each reference.

    The path that goes back as far as it can in the hypothesis before it crosses a boundary cuts first.
    """
    table = _Distances(words, flat)
    place = len(words)
    ends = [place]
    row = len(flat)
    for boundary in reversed(boundaries[:-1]):
        while row > boundary:
            here = table[row]
            if place and here[place] == here[place - 1] + 1:
                place -= 1
                continue
            if place and here[place] == table[row - 1][place - 1] + (words[place - 1] != flat[row - 1]):
                place -= 1
            row -= 1
        here = table[row]
        while place and here[place] == here[place - 1] + 1:
            place -= 1
        ends.append(place)
    return ends[::-1]
