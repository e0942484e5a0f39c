"""A report on each tensor of somebody's checkpoint: loaded, missing, unexpected or reshaped; nothing is silent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from dragoman.shared.errors import DataError

#: By name of a parameter here, the names there of the tensors that it is made of, one below the other.
Names = Mapping[str, Sequence[str]]


@dataclass
class LoadReport:
    """The report on loaded and missing tensors.

    Attributes:
        source: the file.
        loaded: names of this model's tensors that were filled.
        missing: names of this model's tensors for which the file has nothing; they stay as they were initialised.
        unexpected: names of the file's tensors that this model has no place for.
        reshaped: names of this model's tensors whose counterparts have another shape, with both shapes; not loaded.
        elsewhere: names of the file's tensors that are known to serve what this model is not for; not loaded.
        names: of each of this model's tensors, the names of those that it is made of, as the importer calls them.
        factors: by such a name, what the file's tensor was multiplied by.
    """

    source: str
    loaded: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    unexpected: list[str] = field(default_factory=list)
    reshaped: dict[str, str] = field(default_factory=dict)
    elsewhere: list[str] = field(default_factory=list)
    names: Names = field(default_factory=dict)
    factors: Mapping[str, float] = field(default_factory=dict)

    @property
    def counts(self) -> str:
        """The numbers of tensors loaded, missing, unexpected and reshaped, in words."""
        return (
            f"{len(self.loaded)} tensors loaded, {len(self.missing)} missing, "
            f"{len(self.unexpected)} unexpected, {len(self.reshaped)} reshaped"
        )

    def lines(self) -> Iterator[str]:
        """Yield the report as lines of text."""
        yield f"{self.source}: {self.counts}"
        yield from (f"missing     {name}" for name in self.missing)
        yield from (f"unexpected  {name}" for name in self.unexpected)
        yield from (f"reshaped    {name}: {shapes}" for name, shapes in self.reshaped.items())
        yield from (f"elsewhere   {name}" for name in self.elsewhere)

    def check(self, allow: Sequence[str] = (), *, remedy: str = "; --allow NAME goes on without") -> None:
        """Refuse anything but a full match.

        Args:
            allow: beginnings of names that may be missing, unexpected or reshaped.
            remedy: what the message says at its end.

        Raises:
            DataError: with the first names that are not allowed.
        """
        wrong = [f"{name} is missing" for name in _others(self.missing, allow)]
        wrong += [f"{name} is unexpected" for name in _others(self.unexpected, allow)]
        wrong += [f"{name} is {self.reshaped[name]}" for name in _others(self.reshaped, allow)]
        if wrong:
            more = f" and {len(wrong) - 5} more" if len(wrong) > 5 else ""
            raise DataError(f"{self.source}: {'; '.join(wrong[:5])}{more}{remedy}")


def _others(names: Sequence[str] | Mapping[str, str], allow: Sequence[str]) -> list[str]:
    return [name for name in names if not any(name == one or name.startswith(one) for one in allow)]


def without_copies(tensors: Mapping[str, Tensor], owners: Mapping[str, str]) -> dict[str, Tensor]:
    """Return tensors without copies of shared ones, by the names of copies; one that differs stays, as unexpected."""
    return {
        name: tensor
        for name, tensor in tensors.items()
        if (owner := owners.get(name, name)) == name or owner not in tensors or not torch.equal(tensor, tensors[owner])
    }


def load_renamed(module: nn.Module, tensors: Mapping[str, Tensor], names: Names, source: str) -> LoadReport:
    """Fill a module with tensors that have other names elsewhere.

    Args:
        module: to be filled; its own types are kept (half precision becomes single).
        tensors: of the checkpoint, without what is known to carry no weight.
        names: for each of the module's tensors, those that it is made of.
        source: the checkpoint, for the report.

    Returns:
        What was loaded and what was not.

    Raises:
        DataError: if a tensor that is to be loaded holds a value that is not a finite number.
    """
    report, used = LoadReport(source, names=names), set()
    for name, tensor in module.state_dict().items():
        parts = [part for part in names.get(name, ()) if part in tensors]
        used |= {*parts}
        if not parts or len(parts) < len(names[name]):
            report.missing.append(name)
            continue
        value = torch.cat([tensors[part] for part in parts]) if len(parts) > 1 else tensors[parts[0]]
        if value.shape != tensor.shape:
            report.reshaped[name] = f"{tuple(value.shape)} instead of {tuple(tensor.shape)}"
            continue
        if not value.isfinite().all():
            raise DataError(f"{source}: {' or '.join(parts)} holds values that are not finite numbers")
        tensor.copy_(value)
        report.loaded.append(name)
    report.unexpected = [name for name in tensors if name not in used]
    return report
