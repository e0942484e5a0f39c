"""The counts of a metric in the outputs of one system, of which scores and tests of significance are made.

Legend: S sentences, K counts of a sentence.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from dragoman.shared.text.normalise import Policy

#: What a signature says where texts were not in normal form C.
COMPOSED = "|unicode:nfc"
#: Texts as recognisers write them.
SPOKEN = Policy(events=True, punctuation=False, lowercase=True)
HIGHER_IS_BETTER = {
    "accuracy",
    "answer_f1",
    "answer_f1_local",
    "entity_f1",
    "exact_match",
    "exact_match_local",
    "bleu",
    "bleu_lc",
    "bleu_bare",
    "spbleu",
    "chrf",
    "chrf++",
    "comet",
    "cosine",
    "meteor",
    "mining_f1",
    "retrieval",
    "rouge1",
    "rouge2",
    "rougeL",
    "rougeLsum",
    "word_f",
}


@dataclass(frozen=True)
class Counts:
    """The counts of a metric in the outputs of one system.

    Attributes:
        metric: its name.
        signature: how it was computed.
        values: the counts, float64 (S, K).
        formula: makes scores (...) of sums of counts (..., K).
    """

    metric: str
    signature: str
    values: np.ndarray
    formula: Callable[[np.ndarray], np.ndarray]

    @property
    def score(self) -> float:
        """The score of all sentences together."""
        return float(self.formula(self.values.sum(axis=0)))

    @property
    def higher_is_better(self) -> bool:
        """Tell which way the score improves."""
        return self.metric in HIGHER_IS_BETTER


class Metric(Protocol):
    """A metric with its references."""

    def count(self, hypotheses: Sequence[str]) -> Counts:
        """Count in as many hypotheses as there are references."""
        ...


def form_of(*texts: Sequence[str | None]) -> str:
    """Return what a signature says of texts that are not all in normal form C."""
    changed = any(line and not unicodedata.is_normalized("NFC", line) for lines in texts for line in lines)
    return COMPOSED if changed else ""


def rate(totals: np.ndarray) -> np.ndarray:
    """Return edits per hundred units of reference; totals (..., 2): edits, units.

    Of references without a unit, it is 100 if there are edits, else 0, as TER has it.
    """
    edits, units = totals[..., 0], totals[..., 1]
    return np.where(units > 0, 100 * edits / np.where(units > 0, units, 1), np.where(edits > 0, 100.0, 0.0))
