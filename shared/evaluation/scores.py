"""Scores of detokenised text against references, each with a signature that says how it was computed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dragoman.shared.errors import DataError
from dragoman.shared.evaluation.counts import HIGHER_IS_BETTER, Counts, Metric
from dragoman.shared.evaluation.metrics import METRICS, unknown
from dragoman.shared.text import languages

#: The code of several languages at once (ISO 639-2).
SEVERAL = "mul"


@dataclass(frozen=True)
class Score:
    """One number and what it means.

    Attributes:
        name: one of METRICS (metrics.py); "comet" (learned.py); "off_target" (off_target.py); "cosine",
            "cosine_of_others", "retrieval", "distance" (representations.py); "word_f" (mt/word_accuracy.py);
            "precision_1", "coverage" (mt/induction.py); "preferred" (contrasts.py); "al", "laal", "dal", "ap",
            "yaal", "laal_ca", "yaal_ca", of whole talks with "long_" before it (simultaneous/latency.py).
        value: 0 to 100 for bleu, chrf and their kin, about that for comet, higher is better; milliseconds for "al" and
            its kin; a percentage, lower is better, for the others.
        signature: how it was computed.
        lines: how many lines were scored: all of them, but for off_target.
    """

    name: str
    value: float
    signature: str
    lines: int

    @staticmethod
    def of(counts: Counts) -> Score:
        """Return the score of what a metric counted."""
        return Score(counts.metric, counts.score, counts.signature, len(counts.values))

    @property
    def higher_is_better(self) -> bool:
        """Tell which way the number improves."""
        return self.name in HIGHER_IS_BETTER

    def row(self) -> dict[str, Any]:
        """Return the score as the part of a result (see results.py) that it is."""
        value = round(self.value, 2)
        return {"metric": self.name, "value": value, "signature": self.signature, "lines": self.lines}

    def __str__(self) -> str:
        """Return the number with its signature, on one line."""
        return f"{self.name} {self.value:.2f} ({self.lines} {'line' if self.lines == 1 else 'lines'}, {self.signature})"


class TextScorer:
    """Metrics with their references: made before anything is translated, so that what cannot be scored is known early.

    Args:
        references: a line for each sentence; or several sets of references, each of as many lines (not for WER and
            CER), with None where a sentence has fewer than others.
        language: code of the language that they are in; SEVERAL, of labels of texts in several.
        metrics: names of :class:`Score`, in the order wanted.

    Raises:
        DataError: if the numbers of lines differ or are 0, a metric is unknown or does not fit the language, a
            reference is empty where that has no meaning, or the language needs a tokenizer that is not installed.
    """

    def __init__(self, references: Sequence[Any], language: str, metrics: Sequence[str]) -> None:
        if language != SEVERAL:
            languages.check(language)
        sets = _reference_sets(references)
        self.lines = len(sets[0])
        if not self.lines:
            raise DataError("there are 0 references to score against")
        for number, lines in enumerate(sets, 1):
            if len(lines) != self.lines:
                raise DataError(f"{self.lines} lines of references 1, but {len(lines)} lines of references {number}")
        for metric in metrics:
            if metric not in METRICS:
                raise DataError(unknown(metric))
        self._metrics: list[Metric] = [METRICS[metric](metric, sets, language) for metric in metrics]

    def count(self, hypotheses: Sequence[str]) -> list[Counts]:
        """Return what each metric counts in detokenised hypotheses.

        Raises:
            DataError: if their number is not that of the references.
        """
        hypotheses = list(hypotheses)
        if len(hypotheses) != self.lines:
            raise DataError(f"{len(hypotheses)} hypotheses, but {self.lines} lines of references")
        return [metric.count(hypotheses) for metric in self._metrics]


def score(
    hypotheses: Sequence[str],
    references: Sequence[Any],
    language: str,
    metrics: Sequence[str] = ("bleu", "chrf", "ter"),
) -> list[Score]:
    """Score detokenised hypotheses; arguments and errors are those of :class:`TextScorer`."""
    return [Score.of(counts) for counts in TextScorer(references, language, metrics).count(hypotheses)]


def _reference_sets(references: Sequence[Any]) -> list[list[str | None]]:
    if isinstance(references, str):
        raise DataError("references must be a list of lines, not one string")
    single = [line for line in references if isinstance(line, str)]
    if len(single) == len(references):
        return [list(single)]
    if single:
        raise DataError("references must be lines, or lists of lines, not both")
    return [list(lines) for lines in references]
