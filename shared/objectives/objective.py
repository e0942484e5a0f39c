"""Interface of training objectives: an Objective, which returns a Loss made of Terms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from torch import Tensor, nn

from dragoman.shared.annotations import Checked
from dragoman.shared.batch import Batch
from dragoman.shared.errors import UsageError

if TYPE_CHECKING:
    from dragoman.shared.systems.reading_model import ReadingModel


@dataclass(frozen=True)
class Term:
    """One part of a loss, as a sum, so that it can be normalised over the whole global batch.

    Attributes:
        sum: scalar tensor with gradient: the loss summed over the part's own units.
        count: scalar tensor: how many units (tokens, sentences, frames) were summed over.
        weight: the part's factor in the total.
    """

    sum: Tensor
    count: Tensor
    weight: float = 1.0


@dataclass(frozen=True)
class Loss:
    """The parts of a loss by name; parts whose weight is 0 are only reported."""

    parts: dict[str, Term]

    def total(self, counts: dict[str, Tensor] | None = None) -> Tensor:
        """Add up weight * sum / count over the parts.

        Args:
            counts: global counts that replace the parts' own (of all ranks and all accumulated batches).

        Raises:
            UsageError: naming a part that ``counts`` lacks: the local batch alone would normalise it.
            ValueError: if no part has a weight.
        """
        total = None
        for name, term in self.parts.items():
            if term.weight == 0:
                continue
            if counts is not None and name not in counts:
                raise UsageError(
                    f"part {name!r} of the loss is missing in the objective's counts(), which returned "
                    f"{', '.join(sorted(counts)) or 'nothing'}: it could not be normalised over the global batch"
                )
            count = term.count if counts is None else counts[name]
            part = term.weight * term.sum / count.clamp(min=1)
            total = part if total is None else total + part
        if total is None:
            raise ValueError(f"no part of the loss has a weight other than 0: {sorted(self.parts)}")
        return total

    def check(self, counts: dict[str, Tensor]) -> None:
        """Compare the parts' own counts with those that ``Objective.counts`` returned; this waits for the device.

        Raises:
            UsageError: naming a part whose count differs, or that one of the two lacks.
        """
        for name in sorted(self.parts.keys() | counts.keys()):
            count = float(self.parts[name].count) if name in self.parts else None
            told = float(counts[name]) if name in counts else None
            if count != told:
                raise UsageError(
                    f"part {name!r} of the loss: the objective's counts(batch) says {told}, the loss was summed over "
                    f"{count}: the two must agree, or the part is normalised wrongly over several batches"
                )


class Objective(Checked, nn.Module):
    """Owns what it trains. DDP wraps it whole; its ``state_dict`` is what a checkpoint holds.

    Subclasses implement ``forward`` and ``counts``; ``self.system`` is what phases after training work with.
    """

    system: ReadingModel
    #: Whether ``prepare`` looks at no parameter: processes that share them then need not gather them for it.
    prepares_alone: ClassVar[bool] = False

    def at(self, update: int) -> None:
        """Set what depends on the number of the update, which is about to be done: 1, 2, ...

        It must be a function of that number alone, since checkpoints hold nothing of it.
        """

    def alarms(self, means: dict[str, float]) -> list[str]:
        """Return what is wrong if a validation finds these means of the parts; a line each, for the log."""
        return []

    def prepare(self, batch: Batch) -> Batch:
        """Change a batch before the forward pass, without gradient and in eval mode (for example back-translate)."""
        return batch

    def check_streams(self, names: Sequence[str]) -> None:
        """Raise UsageError if a batch of one of these streams could not be trained on; all of them can by default."""

    def counts(self, batch: Batch) -> dict[str, Tensor]:
        """Return the ``count`` of each part that ``forward(batch)`` will return, from the batch alone.

        The loop adds these up over the accumulated batches and over all ranks before the first backward pass, so that
        each part is normalised by its own global count, whatever the way the work was divided. With ``--debug`` they
        are compared with those of the loss.
        """
        raise TypeError(f"{type(self).__name__} does not define counts(batch)")

    def forward(self, batch: Batch) -> Loss:
        """Return the loss of one (prepared) batch, on whatever device the batch is."""
        raise TypeError(f"{type(self).__name__} does not define forward(batch)")
