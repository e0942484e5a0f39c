"""Accuracy of translated words by their frequency in training: rare words apart from frequent ones.

Neubig et al. 2019, "compare-mt", section 3.2: the F measure of words in buckets of frequency.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from dragoman.shared.errors import DataError, UsageError
from dragoman.shared.text.word_spans import words


@dataclass(frozen=True)
class Bucket:
    """Words that training showed at least ``low`` times, and less often than ``high`` (None: any number of times).

    Attributes:
        low: see above.
        high: see above.
        matches: words of hypotheses that their reference has, each as often as it has it.
        written: words of hypotheses.
        wanted: words of references.
    """

    low: int
    high: int | None
    matches: int
    written: int
    wanted: int

    @property
    def name(self) -> str:
        """The label in tables: "0", "1-99", "100+"."""
        if self.high is None:
            return f"{self.low}+"
        return f"{self.low}" if self.high == self.low + 1 else f"{self.low}-{self.high - 1}"

    @property
    def f_measure(self) -> float:
        """The harmonic mean of precision and recall, in per cent; 0 without any word."""
        total = self.written + self.wanted
        return 200 * self.matches / total if total else 0.0


def frequencies(texts: Iterable[str], language: str, lexicon: Collection[str] | None = None) -> Counter[str]:
    """Count the words of texts, in their case; those of a lexicon divide texts without spaces."""
    longest = max(map(len, lexicon or ()), default=1)
    return Counter(text[slice(*span)] for text in texts for span in words(text, language, lexicon, longest))


def by_frequency(
    hypotheses: Sequence[str],
    references: Sequence[str],
    counts: Mapping[str, int],
    language: str,
    edges: Sequence[int] = (100, 1000),
) -> list[Bucket]:
    """Count matches in buckets of words, the rarest first.

    Args:
        hypotheses: the outputs.
        references: one for each.
        counts: how often training showed each word.
        language: of both.
        edges: frequencies at which buckets begin, rising, above 0; the first bucket begins with words never seen.

    Raises:
        DataError: if there are not as many references as hypotheses.
        UsageError: for edges that do not rise.
    """
    bounds = [0, *edges]
    if bounds != sorted(set(bounds)):
        raise UsageError(f"edges must rise and be above 0, not {list(edges)}")
    if len(hypotheses) != len(references):
        raise DataError(f"{len(hypotheses)} hypotheses, but {len(references)} references")
    sums = [[0, 0, 0] for _ in bounds]
    for hypothesis, reference in zip(hypotheses, references, strict=True):
        written, wanted = Counter(_words(hypothesis, language)), Counter(_words(reference, language))
        for part, counter in enumerate((written & wanted, written, wanted)):
            for word, number in counter.items():
                bucket = sum(counts.get(word, 0) >= edge for edge in edges)
                sums[bucket][part] += number
    ends = [*bounds[1:], None]
    return [Bucket(low, high, *parts) for low, high, parts in zip(bounds, ends, sums, strict=True)]


def _words(text: str, language: str) -> list[str]:
    return [text[start:end] for start, end in words(text, language)]
