"""Objectives made of parts that share one pass through the encoder.

A recipe composes them::

    objective: !new:shared.objectives.EncoderDecoderObjective
        system: !ref <system>
        parts:
            - !new:shared.objectives.CrossEntropy
                label_smoothing: 0.1
            - !new:shared.objectives.Ctc
                weight: 0.3
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from torch import Tensor, nn

from dragoman.shared.annotations import Checked
from dragoman.shared.batch import Batch
from dragoman.shared.errors import UsageError
from dragoman.shared.generator import Encoding
from dragoman.shared.nn.translator import FieldEncoder
from dragoman.shared.objectives.objective import Loss, Objective, Term

if TYPE_CHECKING:
    from dragoman.shared.systems.reading_model import ReadingModel

#: Encodes a field of the batch, None for the objective's own: once, however many parts ask for it.
Encode = Callable[[str | None], Encoding]


class Part(Checked, nn.Module):
    """One part of a loss: reads a batch and its encoding, and returns terms.

    A part does not own the model, which is handed to it at every call, so that several parts can share it and the
    objective's ``state_dict`` holds it once. It may own parameters that only it needs.

    Args:
        source: the batch field whose encoding it reads; None: the one that the objective encodes.
    """

    def __init__(self, *, source: str | None = None) -> None:
        super().__init__()
        self.source = source

    def check(self, model: Any) -> None:
        """Raise UsageError if the part cannot work with this model; called once, when the objective is built."""

    def check_system(self, system: ReadingModel) -> None:
        """Raise UsageError if the part cannot work with what the system reads and writes, or with its model."""
        self.check(system.model)

    def at(self, update: int) -> None:
        """Set what depends on the number of the update; see ``Objective.at``."""

    def alarms(self, means: dict[str, float]) -> list[str]:
        """Return what is wrong if a validation finds these means of all terms; see ``Objective.alarms``."""
        return []

    def evaluate(self, model: Any, batch: Batch, encode: Encode) -> dict[str, Term]:
        """Return the part's terms by name; those of weight 0 are only reported.

        A part that reads several encodings, or none, overrides this method; others define :meth:`terms`.
        """
        return self.terms(model, batch, encode(self.source))

    def terms(self, model: Any, batch: Batch, encoding: Encoding) -> dict[str, Term]:
        """Return the terms of a part that reads one encoding, that of the field ``source``."""
        raise TypeError(f"{type(self).__name__} does not define terms(model, batch, encoding)")

    def counts(self, batch: Batch) -> dict[str, Tensor]:
        """Return the counts of all terms that ``evaluate`` returns for this batch, from the batch alone."""
        raise TypeError(f"{type(self).__name__} does not define counts(batch)")


def check_embedded(model: Any, part: Part, field: str | None) -> None:
    """Refuse a part that reads the encoding of a field that the model cannot read, by UsageError."""
    embeddings = getattr(model, "embeddings", None)
    if field is not None and embeddings is not None and field not in embeddings:
        raise UsageError(
            f"{type(part).__name__} reads the encoding of {field!r}, but the model has embeddings of "
            f"{' and '.join(embeddings)} only"
        )


def check_head(model: Any, name: str) -> None:
    """Refuse a part whose head the model lacks, by UsageError."""
    heads = list(getattr(model, "heads", []))
    if name not in heads:
        raise UsageError(f"the model has no head {name!r}, only {', '.join(heads) or 'none'}")


class EncoderDecoderObjective(Objective):
    """Encodes each field that its parts ask for once, and adds up the parts.

    Args:
        system: what is trained; ``system.model`` is handed to the parts.
        parts: whose terms bear different names.
        source_field: the batch field that parts without a ``source`` read; by default the model chooses, as it does
            when it translates.

    Raises:
        UsageError: without parts, or if one does not fit the model, has a negative weight, or reads what the model has
            no embedding for.
    """

    def __init__(self, *, system: ReadingModel, parts: list[Part], source_field: str | None = None) -> None:
        super().__init__()
        if not parts:
            raise UsageError("an objective needs at least one part")
        for part in parts:
            check_embedded(system.model, part, part.source)
            part.check_system(system)
            weight = getattr(part, "weight", 0.0)
            if not weight >= 0:  # its loss would be made larger; ctc_weight: 2 leaves 1 - 2 for cross entropy
                raise UsageError(f"{type(part).__name__}: weight must not be negative, not {weight:g}")
        self.system = system
        self.parts = nn.ModuleList(parts)
        self.source_field = source_field

    @property
    def model(self) -> Any:
        """The model that is trained."""
        return self.system.model

    def at(self, update: int) -> None:
        """Tell all parts the number of the update."""
        for part in self._parts():
            part.at(update)

    def alarms(self, means: dict[str, float]) -> list[str]:
        """Return the alarms of all parts."""
        return [alarm for part in self._parts() for alarm in part.alarms(means)]

    def counts(self, batch: Batch) -> dict[str, Tensor]:
        """Return the counts of all parts."""
        return _merged([part.counts(batch) for part in self.parts_of(batch)])

    def forward(self, batch: Batch) -> Loss:
        """Return the loss of one batch."""
        encodings: dict[str | None, Encoding] = {}

        def encode(field: str | None) -> Encoding:
            field = field or self.source_field or self._default_field(batch)
            if field not in encodings:
                encodings[field] = self.encode(batch, field)
            return encodings[field]

        return Loss(_merged([part.evaluate(self.model, batch, encode) for part in self.parts_of(batch)]))

    def encode(self, batch: Batch, field: str | None) -> Encoding:
        """Encode a field of a batch; by default the one that the model chooses."""
        return self.model.encode(batch, field)

    def _default_field(self, batch: Batch) -> str | None:
        """Return the field that the model chooses, so that one named by a part is not encoded again; None: several."""
        return self.model.default_field(batch) if isinstance(self.model, FieldEncoder) else None

    def parts_of(self, batch: Batch) -> list[Part]:
        """Return the parts that a batch is trained on: all."""
        return self._parts()

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
