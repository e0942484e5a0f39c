"""Judges of hypotheses that are trained metrics: COMET as minimum Bayes risk, and an estimator of quality.

Legend: N hypotheses of a sentence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from dragoman.exchange.comet import read_comet
from dragoman.exchange.comet_models import JointComet, SegmentComet
from dragoman.shared.described import Described
from dragoman.shared.errors import DataError, UsageError
from dragoman.shared.generator import Hypothesis


class _CometJudge(Described):
    """The part that both have: a folder of unbabel-comet, which is read when it is asked first."""

    def __init__(self, *, model: str) -> None:
        self.model = model
        self._read: SegmentComet | JointComet | None = None

    def _loaded(self, device: torch.device) -> SegmentComet | JointComet:
        if self._read is None:
            self._read = read_comet(Path(self.model))
            self._read.regressor.to(device)
        return self._read

    def _source(self, row: Mapping[str, Any]) -> str:
        source = str(row.get("source_text") or "")
        if not source.strip():
            raise DataError(f"row {row.get('id')!r} has no source_text, which {self.model} reads")
        return source


class ExpectedComet(_CometJudge):
    r"""COMET that a hypothesis can expect if any of the others may be the reference: minimum Bayes risk.

    Fernandes et al. (2022, "Quality-Aware Decoding for Neural Machine Translation", section 4.2):

        value(h) = 1/N \sum_{h'} comet(source, h, h')

    over all N hypotheses, h among them. Each text is encoded once; the N^2 pairs cost the small net alone.

    Args:
        model: a folder of unbabel-comet (dragoman/exchange/comet.py) whose model reads references, each text by itself.
    """

    def judge(
        self, system: Any, rows: Sequence[Mapping[str, Any]], outputs: Sequence[Sequence[Hypothesis]]
    ) -> list[list[float]]:
        """Return the expected metric of each hypothesis; see :class:`dragoman.shared.search.choosing.Judge`.

        Raises:
            DataError: if the model cannot be read, or a row has no source text.
            UsageError: for a model of another kind.
        """
        model = self._loaded(system.device)
        if not isinstance(model, SegmentComet) or not model.with_reference:
            raise UsageError(f"{self.model}: does not compare a hypothesis with a reference, each encoded by itself")
        texts = [[one.texts[system.output_name] for one in hypotheses] for hypotheses in outputs]
        sources = [self._source(row) for row in rows]
        vectors = model.vectors([*sources, *(text for each in texts for text in each)])
        of_sources, of_texts = vectors[: len(sources)], vectors[len(sources) :].split([len(each) for each in texts])
        values = []
        for source, each in zip(of_sources, of_texts, strict=True):
            count = len(each)
            scores = model.score(
                each.repeat_interleave(count, 0), source.expand(count * count, -1), each.repeat(count, 1)
            )
            values.append(scores.reshape(count, count).mean(1).tolist())
        return values


class QualityEstimate(_CometJudge):
    """The quality of a hypothesis as a model estimates it that sees the source alone (CometKiwi: Rei et al. 2022).

    Args:
        model: a folder of unbabel-comet (dragoman/exchange/comet.py) whose model needs no reference.
    """

    def judge(
        self, system: Any, rows: Sequence[Mapping[str, Any]], outputs: Sequence[Sequence[Hypothesis]]
    ) -> list[list[float]]:
        """Return the estimate for each hypothesis; see :class:`dragoman.shared.search.choosing.Judge`.

        Raises:
            DataError: if the model cannot be read, or a row has no source text.
            UsageError: if the model needs a reference.
        """
        model = self._loaded(system.device)
        if not model.estimates:
            raise UsageError(f"{self.model}: needs a reference, so it estimates nothing")
        sources = [self._source(row) for row, hypotheses in zip(rows, outputs, strict=True) for _ in hypotheses]
        texts = [one.texts[system.output_name] for hypotheses in outputs for one in hypotheses]
        scores = iter(model.beside(sources, None)(texts).tolist())
        return [[next(scores) for _ in hypotheses] for hypotheses in outputs]
