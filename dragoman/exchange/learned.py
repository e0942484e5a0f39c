"""Metrics that are trained models: they score each segment by itself, and a corpus by the mean.

Legend: S segments.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dragoman.exchange.comet_models import JointComet, SegmentComet
from dragoman.shared.errors import DataError, UsageError
from dragoman.shared.evaluation.counts import Counts


class LearnedMetric:
    """The metric "comet": a trained model; vectors of sources and references are kept for every system that is scored.

    Args:
        model: what scores.
        sources: a text for each segment.
        references: sets of references: one for a model that reads references; one that does not reads none.

    Raises:
        DataError: if the numbers of texts differ, or are 0.
        UsageError: if the model wants a reference and there are none, or several.
    """

    def __init__(
        self, model: SegmentComet | JointComet, sources: Sequence[str], references: Sequence[Sequence[str]]
    ) -> None:
        if not sources:
            raise DataError("there are 0 sources to score beside")
        if model.with_reference and len(references) != 1:
            raise UsageError(f"{model.name} reads one set of references, not {len(references)}")
        for lines in references:
            if len(lines) != len(sources):
                raise DataError(f"{len(sources)} sources, but {len(lines)} references")
        self._model = model
        self._segments = len(sources)
        self._score = model.beside(sources, references[0] if model.with_reference else None)

    @property
    def signature(self) -> str:
        """The model that scored, and what it read."""
        read = "source+reference" if self._model.with_reference else "source"
        return f"comet|model:{self._model.name}|weights:{self._model.fingerprint}|reads:{read}|times:100"

    def count(self, hypotheses: Sequence[str]) -> Counts:
        """Score hypotheses; (S, 2): the model's score, and 1.

        Raises:
            DataError: if there are not as many as sources.
        """
        if len(hypotheses) != self._segments:
            raise DataError(f"{len(hypotheses)} hypotheses, but {self._segments} sources")
        scores = self._score(hypotheses)
        values = np.stack([scores.double().numpy(), np.ones(len(hypotheses))], axis=1)
        return Counts("comet", self.signature, values, mean)


def mean(totals: np.ndarray) -> np.ndarray:
    """Return a hundred times the mean; totals (..., 2): sum of scores, segments."""
    return 100 * totals[..., 0] / totals[..., 1]
