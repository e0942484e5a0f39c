"""Objectives made of parts that share one pass through the encoder.

A recipe composes them::

    objective: !new:shared.objectives.EncoderDecoderObjective
        system: !ref <system>
        parts:
            - !new:shared.objectives.CrossEntropy
                smoothing: 0.1
            - !new:shared.objectives.Ctc
                weight: 0.3
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from torch import Tensor, nn

from shared.batch import Batch
from shared.errors import UsageError
from shared.generator import Encoding
from shared.objectives.objective import Loss, Objective, Term

if TYPE_CHECKING:
    from shared.systems.system import System


class Part(nn.Module):
    """One part of a loss: reads a batch and its encoding, and returns terms.

    A part does not own the model, which is handed to it at every call, so that several parts can share it and the
    objective's ``state_dict`` holds it once. It may own parameters that only it needs.
    """

    def check(self, model: Any) -> None:
        """Raise UsageError if the part cannot work with this model; called once, when the objective is built."""

    def terms(self, model: Any, batch: Batch, encoding: Encoding) -> dict[str, Term]:
        """Return the part's terms by name; those of weight 0 are only reported.

        Args:
            model: usually a ``shared.nn.translator.Translator``.
            batch: the prepared batch.
            encoding: what ``model.encode(batch)`` returned.

        """
        raise TypeError(f"{type(self).__name__} does not define terms(model, batch, encoding)")

    def counts(self, batch: Batch) -> dict[str, Tensor]:
        """Return the counts of all terms that ``terms`` returns for this batch, from the batch alone."""
        raise TypeError(f"{type(self).__name__} does not define counts(batch)")


class EncoderDecoderObjective(Objective):
    """Encodes a batch once and adds up its parts.

    Args:
        system: what is trained; ``system.model`` is handed to the parts.
        parts: whose terms bear different names.
        source_field: the batch field to encode; by default the model chooses, as it does when it translates.

    Raises:
        UsageError: without parts, or if one does not fit the model.

    """

    def __init__(self, *, system: System, parts: list[Part], source_field: str | None = None) -> None:
        super().__init__()
        if not parts:
            raise UsageError("an objective needs at least one part")
        for part in parts:
            part.check(system.model)
        self.system = system
        self.parts = nn.ModuleList(parts)
        self.source_field = source_field

    @property
    def model(self) -> Any:
        """The model that is trained."""
        return self.system.model

    def counts(self, batch: Batch) -> dict[str, Tensor]:
        """Return the counts of all parts."""
        return _merged([part.counts(batch) for part in self._parts()])

    def forward(self, batch: Batch) -> Loss:
        """Return the loss of one batch."""
        encoding = self.model.encode(batch, self.source_field)
        return Loss(_merged([part.terms(self.model, batch, encoding) for part in self._parts()]))

    def _parts(self) -> list[Part]:
        return cast(list[Part], list(self.parts))


def _merged(dictionaries: list[dict[str, Any]]) -> dict[str, Any]:
    """Join dictionaries that have no name in common."""
    merged: dict[str, Any] = {}
    for dictionary in dictionaries:
        twice = sorted(merged.keys() & dictionary.keys())
        if twice:
            raise UsageError(f"two parts of the objective are both called {', '.join(twice)}: give one a prefix")
        merged |= dictionary
    return merged
