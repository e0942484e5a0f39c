"""Conditions that a generated output must meet to be kept."""

from __future__ import annotations

from typing import Annotated

from dragoman.shared.annotations import Checked
from dragoman.shared.ranges import PositiveFloat, Range, Share


class Quality(Checked):
    """Conditions that an output must meet to be kept. Empty outputs are always dropped.

    Args:
        minimum_score: the lowest score of the search.
        maximum_ratio: the highest ratio of the longer to the shorter of output and source text, in tokens without
            symbols; rows whose source is not text are not checked.
        maximum_rate: tokens per second of the recording; rows without a recording are not checked.
        maximum_dropped: the share of rows that may be dropped; more is an error.
    """

    def __init__(
        self,
        *,
        minimum_score: float | None = None,
        maximum_ratio: Annotated[float, Range(least=1)] | None = None,
        maximum_rate: PositiveFloat | None = None,
        maximum_dropped: Share = 0.5,
    ) -> None:
        self.minimum_score = minimum_score
        self.maximum_ratio = maximum_ratio
        self.maximum_rate = maximum_rate
        self.maximum_dropped = maximum_dropped

    def reason(self, *, score: float, tokens: int, inputs: list[int], seconds: float | None) -> str:
        """Say why an output is dropped, "" if it is kept; ``inputs`` are the lengths of its source texts in tokens."""
        if not tokens:
            return "empty"
        if self.minimum_score is not None and not score >= self.minimum_score:
            return f"score below {self.minimum_score:g}"
        if self.maximum_ratio is not None and any(
            max(tokens, length) > self.maximum_ratio * min(tokens, length) for length in inputs
        ):
            return f"ratio above {self.maximum_ratio:g}"
        if self.maximum_rate is not None and seconds is not None and tokens > self.maximum_rate * seconds:
            return f"more than {self.maximum_rate:g} tokens per second"
        return ""
