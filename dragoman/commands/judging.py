"""Judges of hypotheses: by a metric against each other (minimum Bayes risk), or by another model.

Legend: N hypotheses of a sentence.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch

from dragoman.shared.batches.stream import Budget
from dragoman.shared.described import Described
from dragoman.shared.errors import DataError, UsageError
from dragoman.shared.evaluation.metrics import SacreMetric, bleu, chrf
from dragoman.shared.evaluation.rescoring import score_rows
from dragoman.shared.generator import Hypothesis
from dragoman.shared.ranges import Range
from dragoman.shared.systems.combining import LARGEST_WEIGHT
from dragoman.shared.systems.system import System

#: Of outputs that another model scores at a time.
BUDGET = Budget(rows=128)
#: What another model says of an empty output.
NEVER = -1e9
#: Metrics of a sentence that are quick enough for all pairs of hypotheses.
OF_SENTENCES = ("chrf", "chrf++", "bleu")


class ExpectedMetric(Described):
    r"""The metric that a hypothesis can expect if any of the others may be the reference: minimum Bayes risk.

    Kumar and Byrne (2004, NAACL); with samples, Eikema and Aziz (2020, COLING, section 7):

        value(h) = 1/N \sum_{h'} metric(h, h')

    over all N hypotheses, h among them; from 0 to 1. BLEU counts the orders that a sentence has.

    Args:
        metric: "chrf", "chrf++" or "bleu", as sacreBLEU has it.

    Raises:
        UsageError: for another metric.
    """

    def __init__(self, *, metric: str = "chrf") -> None:
        if metric not in OF_SENTENCES:
            raise UsageError(f"hypotheses are compared by {', '.join(OF_SENTENCES)}, not {metric!r}")
        self.metric = metric

    def judge(
        self, system: Any, rows: Sequence[Mapping[str, Any]], outputs: Sequence[Sequence[Hypothesis]]
    ) -> list[list[float]]:
        """Return the expected metric of each hypothesis; see :class:`dragoman.shared.search.choosing.Judge`."""
        side = f"{system.output.side}_language"
        return [
            self.expected([hypothesis.texts[system.output_name] for hypothesis in hypotheses], row[side])
            for row, hypotheses in zip(rows, outputs, strict=True)
        ]

    def expected(self, texts: Sequence[str], language: str) -> list[float]:
        """Return the mean of the metric of each of N texts against all of them."""
        times = Counter(texts)
        distinct = [*times]
        metric = SacreMetric(self.metric, [distinct], language)
        pairs = _chrf_of_pairs(metric) if self.metric.startswith("chrf") else _bleu_of_pairs(metric, distinct)
        means = pairs @ np.array([*times.values()]) / (100 * len(texts))
        by_text = dict(zip(distinct, means.tolist(), strict=True))
        return [by_text[text] for text in texts]


def _chrf_of_pairs(metric: SacreMetric) -> np.ndarray:
    """Return chrF of each text (rows) against each (columns), (N, N).

    What two texts share of an n-gram is the smaller of its counts: with its first, second, ... occurrence told apart,
    the size of the intersection of two sets, and a product of matrices for all pairs.
    """
    texts = [cached["ref_ngrams"][0] for cached in metric.scorer._ref_cache]
    parts = []
    for of_order in zip(*texts, strict=True):
        sets = [{(gram, time) for gram, times in grams.items() for time in range(times)} for grams in of_order]
        columns = {occurrence: column for column, occurrence in enumerate(set().union(*sets))}
        there = np.zeros((len(sets), len(columns)))
        for row, occurrences in enumerate(sets):
            there[row, [columns[occurrence] for occurrence in occurrences]] = 1
        size = there.sum(axis=1)
        parts += [*np.broadcast_arrays(size[:, None], size[None]), there @ there.T]
    return chrf(np.stack(parts, axis=-1))


def _bleu_of_pairs(metric: SacreMetric, texts: Sequence[str]) -> np.ndarray:
    """Return BLEU of each text (rows) against each (columns), (N, N): a diagonal of the pairs at a time."""
    places = np.arange(len(texts))
    pairs = np.zeros((len(texts), len(texts)))
    for shift in places:
        shifted = (places + shift) % len(texts)
        counts = metric.count([texts[place] for place in shifted]).values
        pairs[shifted, places] = bleu(counts, effective_order=True)
    return pairs


class OtherModel(Described):
    r"""The score of the search and the log-probability of another model beside it.

        value(y) = score(y) + weight / |z| \sum_t log p(z_t | z_{<t}, ...)

    A language model (Och and Ney 2002) reads nothing, and z is y itself. Any other model translates back: z is the
    source, given y ("reconstruction": Tu et al. 2017, arXiv 1611.01874, section 4.3; the noisy channel).

    Args:
        model: the folder of a language model, or of a translator of text in the other direction.
        weight: of it, above 0.
    """

    def __init__(self, *, model: str, weight: Annotated[float, Range(above=0, most=LARGEST_WEIGHT)] = 1.0) -> None:
        self.model = model
        self.weight = weight
        self._system: System | None = None  # loaded when it is asked

    def judge(
        self, system: Any, rows: Sequence[Mapping[str, Any]], outputs: Sequence[Sequence[Hypothesis]]
    ) -> list[list[float]]:
        """Return the weighted sum for each hypothesis; see :class:`dragoman.shared.search.choosing.Judge`.

        Raises:
            DataError: if the model translates back, and a row has no source text.
            UsageError: if the model cannot write that language, or reads sound.
        """
        other = self._loaded(system.device)
        spoken = [
            (row, row[f"{system.output.side}_language"], hypothesis.texts[system.output_name])
            for row, hypotheses in zip(rows, outputs, strict=True)
            for hypothesis in hypotheses
        ]
        asked = [self._asked(other, *one) for one in spoken]
        means = [NEVER] * len(asked)
        numbers = [number for number, (_, _, text) in enumerate(spoken) if text.strip()]
        scored = score_rows(other, [asked[number] for number in numbers], budget=BUDGET, autocast=system.autocast)
        for place, total, tokens in scored:
            means[numbers[place]] = total / tokens
        each = iter(means)
        return [[one.score + self.weight * next(each) for one in hypotheses] for hypotheses in outputs]

    def _loaded(self, device: torch.device) -> System:
        if self._system is None:
            self._system = System.load(Path(self.model), device)
            if "speech" in self._system.reads:
                raise UsageError(f"{self.model}: reads sound: outputs are judged by what reads and writes text")
        return self._system

    def _asked(self, other: System, row: Mapping[str, Any], language: str, text: str) -> dict[str, Any]:
        """Return the row that the other model scores for an output."""
        written = other.scored
        content, code = text, language
        if other.inputs:
            content, code = str(row.get("source_text") or ""), str(row.get("source_language"))
            if not content.strip():
                raise DataError(f"row {row.get('id')!r} has no source_text, which {self.model} would score")
            if language not in other.source_languages:
                known = ", ".join(other.source_languages)
                raise UsageError(f"{self.model}: reads {known}, not the outputs' {language!r}: it is to translate back")
        if code not in other.output_languages:
            raise UsageError(f"{self.model}: writes {', '.join(other.output_languages)}, not {code!r}")
        read = {"source_text": text, "source_language": language}
        return {"id": row.get("id"), "audio": None} | read | {written.column: content, written.language_column: code}
