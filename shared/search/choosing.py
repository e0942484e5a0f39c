"""Choosing among the hypotheses that a search finds, by something else than the probability that it searched by.

Legend: B sentences, N hypotheses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol, runtime_checkable

from dragoman.shared.described import Described
from dragoman.shared.generator import Hypothesis
from dragoman.shared.ranges import PositiveInt
from dragoman.shared.search.search import ByRows, CtcSearch, Search


@runtime_checkable
class Judge(Protocol):
    """Says how good hypotheses are."""

    def judge(
        self, system: Any, rows: Sequence[Mapping[str, Any]], outputs: Sequence[Sequence[Hypothesis]]
    ) -> list[list[float]]:
        """Return a number for each hypothesis, the higher the better.

        Args:
            system: that found them, for its output's name and language, and its device.
            rows: B, which it read.
            outputs: the N hypotheses of each, with their texts.
        """
        ...


class ChoosingSearch(Described):
    """A search whose hypotheses a judge puts in order; what the judge says becomes their score.

    Of hypotheses with equal texts one is kept, the first.

    Args:
        search: finds the hypotheses: sampling, or a beam with as many ``n_best``.
        judge: of them.
        n_best: how many are returned, at most.
    """

    def __init__(self, *, search: Search | CtcSearch | ByRows, judge: Judge, n_best: PositiveInt = 1) -> None:
        self.found_by = search
        self.judge = judge
        self.n_best = n_best

    def best(
        self, system: Any, rows: Sequence[Mapping[str, Any]], outputs: Sequence[Sequence[Hypothesis]]
    ) -> list[list[Hypothesis]]:
        """Return the best of the N hypotheses of each of B rows, best first; see :meth:`Judge.judge`."""
        chosen = []
        for hypotheses, values in zip(outputs, self.judge.judge(system, rows, outputs), strict=True):
            first: dict[str, Hypothesis] = {}
            for hypothesis, value in zip(hypotheses, values, strict=True):
                first.setdefault(hypothesis.texts[system.output_name], replace(hypothesis, score=value))
            chosen.append(sorted(first.values(), key=lambda one: -one.score)[: self.n_best])
        return chosen
