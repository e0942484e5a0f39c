"""Phrases that translate each other in sentence pairs whose words are linked, and the phase that finds them.

A source phrase and a target phrase are counterparts if no word of either is linked outside of the other, and at least
one word of each is linked (Koehn, Och and Marcu 2003, "Statistical Phrase-Based Translation", section 2.2; the
alignment template of Och and Ney 2004, equation 9). Words without links may stand at the ends of either, so that one
phrase has several counterparts.

Legend: m source words, n target words.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from dragoman.shared.batches.find import find_manifests
from dragoman.shared.batches.manifest import Manifest, Row
from dragoman.shared.errors import DataError
from dragoman.shared.machine.workspace import Workspace
from dragoman.shared.phases.adding_columns import AddColumns
from dragoman.shared.phases.evaluating import opened
from dragoman.shared.phases.linking import LINKS, keys
from dragoman.shared.ranges import PositiveInt
from dragoman.shared.text.normalise import Normalizer, apply
from dragoman.shared.text.word_links import Link, read
from dragoman.shared.text.word_spans import linked_words

#: The columns of manifests with the phrases of each side.
PHRASES = {side: f"{side}_phrases" for side in ("source", "target")}
PHRASES_TYPE = pa.list_(pa.list_(pa.int32(), 4))


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


class ExtractPhrases(AddColumns):
    """Find the phrases of each text that have a counterpart in its translation, by links between words (AlignWords).

    Adds the columns ``source_phrases`` and ``target_phrases``: for each phrase of that text where it begins and ends,
    and where its counterpart does, in words of ``linked_words``; None for a row without links. Of several counterparts
    in the sentence pair, the one counts that has the highest probability in the phrase table, which is the one with
    which the phrase is found most often: p(t | s) = c(s, t) / c(s). Of equal ones, it is the shortest. Phrases are
    compared as aligners see words: in lower case, without the signs at their ends.

    Memory: 24 bytes for each phrase pair of ``pairs`` while they are counted; a sentence of 20 words that is translated
    word by word has 74.

    Args:
        manifests: with the column ``word_links``; see :class:`AddColumns`.
        pairs: likewise; those whose phrases make the table.
        normalizers: changes to the texts of each column before they are divided, those of ``AlignWords``.
        longest: the most words of a phrase, on either side.
    """

    columns = dict.fromkeys(PHRASES.values(), PHRASES_TYPE)

    def __init__(
        self,
        *,
        manifests: list[str],
        pairs: list[str],
        normalizers: dict[str, list[Normalizer]] | None = None,
        longest: PositiveInt = 4,
    ) -> None:
        super().__init__(manifests=manifests, further=pairs)
        self.pairs = list(pairs)
        self.normalizers = dict(normalizers or {})
        self.longest = longest

    def begin(self, workspace: Workspace) -> None:
        """Count the phrase pairs.

        Raises:
            DataError: if a manifest has no links.
        """
        numbers = array("Q")
        for path in find_manifests(self.pairs):
            for row in opened(path, workspace):
                numbers.extend(number for _, number in self._numbered(row))
        self._numbers, self._counts = np.unique(np.array(numbers, dtype=np.uint64), return_counts=True)
        workspace.log.info("%s: %d phrase pairs, %d different", workspace.phase, len(numbers), len(self._numbers))

    def rows(self, manifest: Manifest, workspace: Workspace) -> Iterator[Row]:
        """Yield the rows with their phrases."""
        rows = phrases = 0
        for row in manifest:
            numbered = self._numbered(row)
            new: dict[str, list[list[int]] | None] = dict.fromkeys(PHRASES.values())
            if row[LINKS] is not None:
                counts = self._counted([number for _, number in numbered])
                pairs = [pair for pair, _ in numbered]
                turned = [PhrasePair(*pair[2:], *pair[:2]) for pair in pairs]
                new = {PHRASES["source"]: best(pairs, counts), PHRASES["target"]: best(turned, counts)}
                rows, phrases = rows + 1, phrases + len(new[PHRASES["source"]] or [])
            yield row | new
        workspace.log.info(
            "%s: %s: %d source phrases in %d sentence pairs", workspace.phase, manifest.path, phrases, rows
        )

    def _numbered(self, row: Row) -> list[tuple[PhrasePair, int]]:
        """Return a row's phrase pairs, and a number for the words of each."""
        if LINKS not in row:
            raise DataError(f"row {row['id']!r} has no column {LINKS}: AlignWords adds it")
        if row[LINKS] is None:
            return []
        source, target = self._words(row, "source"), self._words(row, "target")
        links = read(row[LINKS])
        wrong = next((link for link in links if link[0] >= len(source) or link[1] >= len(target)), None)
        if wrong:
            raise DataError(
                f"row {row['id']!r}: {wrong[0]}-{wrong[1]} links a word that is not there: the texts have "
                f"{len(source)} and {len(target)} words"
            )
        languages = f"{row['source_language']}\t{row['target_language']}"
        numbered = []
        for pair in phrase_pairs(links, len(source), len(target), self.longest):
            a, b, c, d = pair
            text = f"{languages}\t{' '.join(source[a:b])}\t{' '.join(target[c:d])}"
            # 64 bits of a hash: texts of a large corpus would not fit into memory.
            numbered.append((pair, int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little")))
        return numbered

    def _words(self, row: Row, side: str) -> list[str]:
        language = row[f"{side}_language"]
        text = apply(self.normalizers.get(f"{side}_text", []), row[f"{side}_text"] or "", language)
        return keys([text[start:end] for start, end in linked_words(text, language)], language)

    def _counted(self, numbers: Sequence[int]) -> list[int]:
        """Return how often phrase pairs occur in the table; 0 for those that it lacks."""
        if not numbers or not len(self._numbers):
            return [0] * len(numbers)
        asked = np.array(numbers, dtype=np.uint64)
        places = np.searchsorted(self._numbers, asked).clip(max=len(self._numbers) - 1)
        return np.where(self._numbers[places] == asked, self._counts[places], 0).tolist()


def best(pairs: Sequence[PhrasePair], counts: Sequence[int]) -> list[list[int]]:
    """Return each phrase with the counterpart of the highest count; of equal ones the shortest, then the first."""
    by_span: dict[tuple[int, int], tuple[tuple[int, int, int], PhrasePair]] = {}
    for pair, count in zip(pairs, counts, strict=True):
        start, end = pair[2:]
        rank = -count, end - start, start
        rival = by_span.get(pair[:2])
        if rival is None or rank < rival[0]:
            by_span[pair[:2]] = rank, pair
    return [list(by_span[span][1]) for span in sorted(by_span)]
