"""Numbers of modules that follow the update: dropout that begins late, for example."""

from __future__ import annotations

import re

from torch import nn

from dragoman.shared.errors import UsageError
from dragoman.shared.training.schedules import Schedule


class Scheduled:
    r"""Sets attributes of modules before each update; what is saved of a system keeps the values of its constructor.

    Args:
        module: the objective.
        schedules: regular expression for the whole names of numbers -> what they are at update 1, 2, ...:
            ``"system\\.model\\.encoder\\..*\\.dropout"``. A compiled layer is compiled again when one changes.

    Raises:
        UsageError: if a pattern matches no number of the module.
    """

    def __init__(self, module: nn.Module, schedules: dict[str, Schedule]) -> None:
        self._places: list[tuple[nn.Module, str, Schedule]] = []
        for pattern, schedule in schedules.items():
            places = [place for name, place in _numbers(module).items() if re.fullmatch(pattern, name)]
            if not places:
                raise UsageError(f"scheduled: {pattern!r} matches the name of no number of a module")
            self._places += [(part, attribute, schedule) for part, attribute in places]

    def at(self, update: int) -> None:
        """Set the values of an update."""
        for part, attribute, schedule in self._places:
            setattr(part, attribute, schedule(update))


def _numbers(module: nn.Module) -> dict[str, tuple[nn.Module, str]]:
    """Return the modules' attributes that are floating-point numbers, by name."""
    return {
        f"{name}.{attribute}".lstrip("."): (part, attribute)
        for name, part in module.named_modules()
        for attribute, value in vars(part).items()
        if isinstance(value, float)
    }
