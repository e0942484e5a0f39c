"""Notes in the log, at the start of a training, on settings that are legal but seldom meant."""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence
from fractions import Fraction

from dragoman.shared.batches.stream import Stream
from dragoman.shared.recipe.locations import installed
from dragoman.shared.training.schedules import Schedule


def warm_up_notes(schedule: Schedule, updates: int) -> list[str]:
    """Return a warning if the warm-up does not end before training does, so that the peak is never reached."""
    warmup = getattr(schedule, "warmup", 0)
    if warmup <= updates:
        return []
    return [
        f"warning: the warm-up takes {warmup:,} updates, the training only {updates:,}: the learning rate ends at "
        f"{schedule(updates):.3g}, below its peak"
    ]


#: With more parameters for each row of training data, a model is too large for the data.
MANY = 10_000


def size_notes(parameters: int, rows: int, recipe: str, command: str) -> list[str]:
    """Return a warning if a model that learns from scratch has far more parameters than its data can teach."""
    if parameters <= MANY * rows:
        return []
    small = f"{recipe}_small"
    advice = "smaller numbers of width, feedforward, layers and pieces are faster and better"
    if recipe and any(name == small for name, _ in installed()):
        words = [small if word == recipe else word for word in shlex.split(command)] or ["dragoman", "run", small]
        advice = f"a small model is faster and better: {shlex.join(words)}"
    each = f"{parameters // max(rows, 1):,} from each (more than {MANY:,} are far too many)"
    return [f"warning: {parameters / 1e6:.1f} M parameters learn from {rows:,} rows, {each}; {advice}"]


def time_left(done: int, seconds: float, left: int) -> str:
    """Return how long the rest of a training takes, when so many updates took so many seconds: "3 d 18 h", "40 s"."""
    rest = round(seconds / max(done, 1) * left)
    for large, unit, small, part in ((86400, "d", 3600, "h"), (3600, "h", 60, "min")):
        if rest >= large:
            return f"{rest // large:,} {unit} {rest % large // small} {part}"
    return f"{-(-rest // 60)} min" if rest >= 60 else f"{rest} s"


def alternating_notes(streams: Sequence[Stream], accumulation: int) -> list[str]:
    """Return a warning if an update has too few batches for one of each stream, so that tasks alternate."""
    weights = [Fraction(stream.weight).limit_denominator(1000) for stream in streams]
    unit = Fraction(math.gcd(*(w.numerator for w in weights)), math.lcm(*(w.denominator for w in weights)))
    needed = sum(int(weight / unit) for weight in weights)
    if len(streams) == 1 or accumulation >= needed:
        return []
    return [
        f"warning: updates alternate between the tasks of {len(streams)} streams: a batch is of one stream, and "
        f"grad_accumulation_factor is {accumulation}; with {needed}, an update adds up the losses of all"
    ]
