"""Learning rates, and factors of them, as functions of the update."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from bisect import bisect_left
from itertools import pairwise
from typing import Protocol, runtime_checkable

from dragoman.shared.annotations import Checked
from dragoman.shared.errors import UsageError
from dragoman.shared.ranges import NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt


@runtime_checkable
class Schedule(Protocol):
    """A number for every update: a learning rate, a factor of it, a probability."""

    def __call__(self, update: int) -> float:
        """Return the number of update 1, 2, ..."""
        ...


class InverseSquareRoot(Checked):
    """Linear warm-up, then decay with 1/sqrt(update) (Vaswani et al. 2017, section 5.3; fairseq's ``inverse_sqrt``).

    Args:
        peak: the learning rate at the end of the warm-up.
        warmup: updates of warm-up.
        initial: the learning rate before the first update.
    """

    def __init__(self, *, peak: PositiveFloat, warmup: PositiveInt, initial: NonNegativeFloat = 0.0) -> None:
        self.peak = peak
        self.warmup = warmup
        self.initial = initial

    def __call__(self, update: int) -> float:
        """Return the learning rate of an update."""
        if update < self.warmup:
            return self.initial + (self.peak - self.initial) * update / self.warmup
        return float(self.peak * (self.warmup / update) ** 0.5)


class _Decay(Checked, ABC):
    """Linear warm-up to ``peak``, then a decay to ``final`` at ``total`` updates."""

    def __init__(
        self, *, peak: PositiveFloat, total: PositiveInt, warmup: NonNegativeInt = 0, final: NonNegativeFloat = 0.0
    ) -> None:
        if warmup >= total:
            raise UsageError(f"warmup must end before total, which is {total}, not at {warmup}")
        self.peak = peak
        self.total = total
        self.warmup = warmup
        self.final = final

    def __call__(self, update: int) -> float:
        """Return the learning rate of an update."""
        if update < self.warmup:
            return self.peak * update / self.warmup
        return self.decayed(min(1.0, (update - self.warmup) / (self.total - self.warmup)))

    @abstractmethod
    def decayed(self, share: float) -> float:
        """Return the learning rate after a share of the decay."""


class Linear(_Decay):
    """Linear warm-up to ``peak``, then linear decay to ``final`` at ``total`` updates."""

    def decayed(self, share: float) -> float:
        """See :class:`_Decay`."""
        return self.peak + (self.final - self.peak) * share


class Cosine(_Decay):
    """Linear warm-up to ``peak``, then half a cosine down to ``final`` at ``total`` (Loshchilov and Hutter 2017)."""

    def decayed(self, share: float) -> float:
        """See :class:`_Decay`."""
        return self.final + (self.peak - self.final) * (1 + math.cos(math.pi * share)) / 2


class TriStage(Checked):
    """Linear warm-up, constant, exponential decay (Park et al. 2019, section 3.2; fairseq's ``tri_stage``).

    Args:
        peak: the learning rate of the middle stage.
        total: updates in all.
        shares: what the three stages take of ``total``; they add up to 1.
        initial_scale: the first learning rate as a share of the peak.
        final_scale: the last one as a share of the peak.
    """

    def __init__(
        self,
        *,
        peak: PositiveFloat,
        total: PositiveInt,
        shares: list[float],
        initial_scale: NonNegativeFloat = 0.01,
        final_scale: PositiveFloat = 0.01,
    ) -> None:
        if len(shares) != 3 or abs(sum(shares) - 1) > 1e-6 or min(shares) < 0:
            raise UsageError(f"shares must be three numbers that add up to 1, not {shares}")
        self.peak = peak
        self.total = total
        self.initial_scale = initial_scale
        self.final_scale = final_scale
        self.warmup = int(total * shares[0])
        self.hold = int(total * shares[1])
        self.decay = total - self.warmup - self.hold

    def __call__(self, update: int) -> float:
        """Return the learning rate of an update."""
        if update < self.warmup:
            return self.peak * (self.initial_scale + (1 - self.initial_scale) * update / self.warmup)
        if update < self.warmup + self.hold or self.decay == 0:
            return self.peak
        share = min(1.0, (update - self.warmup - self.hold) / self.decay)
        return float(self.peak * self.final_scale**share)


class Constant(Checked):
    """The same learning rate throughout, after an optional linear warm-up."""

    def __init__(self, *, peak: PositiveFloat, warmup: NonNegativeInt = 0) -> None:
        self.peak = peak
        self.warmup = warmup

    def __call__(self, update: int) -> float:
        """Return the learning rate of an update."""
        return self.peak * min(1.0, update / self.warmup) if self.warmup else self.peak


class Steps:
    """A number that changes at some updates: ``values [0, 1], after [10000]`` is 0 for 10,000 updates, and then 1.

    Args:
        values: the numbers, in their order.
        after: after how many updates the second, third, ... number holds.
    """

    def __init__(self, *, values: list[float], after: list[int]) -> None:
        rising = all(one < other for one, other in pairwise([0, *after]))
        if len(values) != len(after) + 1 or not rising:
            raise UsageError(f"steps need one value more than updates, and rising updates, not {values} and {after}")
        self.values = list(values)
        self.after = list(after)

    def __call__(self, update: int) -> float:
        """Return the number of an update."""
        return float(self.values[bisect_left(self.after, update)])


class PiecewiseLinear:
    """A number that moves evenly from one value to the next: ``values [1, 0.1], at [0, 1000]`` is 0.55 at update 500.

    Before the first update named it has the first value, after the last one the last.

    Args:
        values: the numbers, in their order.
        at: the updates at which it has them.
    """

    def __init__(self, *, values: list[float], at: list[int]) -> None:
        if not values or len(values) != len(at) or any(one >= other for one, other in pairwise(at)):
            raise UsageError(f"as many values as rising updates are needed, not {values} and {at}")
        self.values = list(values)
        self.at = list(at)

    def __call__(self, update: int) -> float:
        """Return the number of an update."""
        after = bisect_left(self.at, update)
        if after in (0, len(self.at)):
            return float(self.values[min(after, len(self.values) - 1)])
        begin, end = self.at[after - 1 : after + 1]
        share = (update - begin) / (end - begin)
        return self.values[after - 1] + (self.values[after] - self.values[after - 1]) * share
