"""Ranges of numbers, which stand in annotations: ``width: PositiveInt``, ``agree: Annotated[int, Range(least=2)]``.

Recipes and model folders are compared with them before anything is built, the constructors of
:class:`shared.annotations.Checked` classes when they are called.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any


@dataclass(frozen=True, kw_only=True)
class Range:
    """The finite numbers between two limits.

    Attributes:
        least: the smallest that is allowed.
        most: the largest.
        above: all must be greater.
        below: all must be smaller.
    """

    least: float = -math.inf
    most: float = math.inf
    above: float = -math.inf
    below: float = math.inf

    def __contains__(self, value: Any) -> bool:
        """Tell whether a value is a number in the range."""
        try:
            return self.least <= value <= self.most and self.above < value < self.below
        except TypeError:
            return False

    def __str__(self) -> str:
        """Say the range as in "must be at least 1"."""
        if math.isfinite(self.least) and math.isfinite(self.most):
            return f"between {self.least:,.15g} and {self.most:,.15g}"
        limits = [("at least", self.least), ("above", self.above), ("at most", self.most), ("below", self.below)]
        return " and ".join(f"{words} {limit:,.15g}" for words, limit in limits if math.isfinite(limit))


PositiveInt = Annotated[int, Range(least=1)]
NonNegativeInt = Annotated[int, Range(least=0)]
PositiveFloat = Annotated[float, Range(above=0)]
NonNegativeFloat = Annotated[float, Range(least=0)]
#: A part of a whole, or a probability.
Share = Annotated[float, Range(least=0, most=1)]
#: One that leaves something.
ShareBelowOne = Annotated[float, Range(least=0, below=1)]
