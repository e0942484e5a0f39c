"""Notes in the log, at the start of a training, on settings that are legal but seldom meant."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from shared.corpus.stream import Stream
from shared.training.schedules import Schedule


def warm_up_notes(schedule: Schedule, updates: int) -> list[str]:
    """Return a warning if the warm-up does not end before training does, so that the peak is never reached."""
    warmup = getattr(schedule, "warmup", 0)
    if warmup <= updates:
        return []
    return [
        f"warning: the warm-up takes {warmup:,} updates, the training only {updates:,}: the learning rate ends at "
        f"{schedule(updates):.3g}, below its peak"
    ]


def alternating_notes(streams: Sequence[Stream], accumulation: int) -> list[str]:
    """Return a warning if an update has too few batches for one of each stream, so that tasks alternate.

    Args:
        streams: of the training, with their weights.
        accumulation: batches per update and process.

    """
    weights = [Fraction(stream.weight).limit_denominator(1000) for stream in streams]
    unit = Fraction(math.gcd(*(w.numerator for w in weights)), math.lcm(*(w.denominator for w in weights)))
    needed = sum(int(weight / unit) for weight in weights)
    if len(streams) == 1 or accumulation >= needed:
        return []
    return [
        f"warning: updates alternate between the tasks of {len(streams)} streams: a batch is of one stream, and "
        f"grad_accumulation_factor is {accumulation}; with {needed}, an update adds up the losses of all"
    ]
