"""The position of a training: its update, and the next batch."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, NotRequired

from dragoman.shared.machine.records import check_record


@dataclass
class Position:
    """The progress of a run.

    Attributes:
        update: how many updates are done.
        epoch: the epoch of the next batch.
        batch: how many steps of it are used up: a batch of every process that it was planned for.
        due: whether the validation after this update is still to be done.
        finished: whether a validation has found that it is enough.
        end: how many updates the run was to do when that was found.
        forgiven: the update up to which validations without a better score do not count: those before the run was
            given more updates, after it had stopped early.
    """

    update: int = 0
    epoch: int = 0
    batch: int = 0
    due: bool = False
    finished: bool = False
    end: int = 0
    forgiven: int = 0


def check_position(record: dict[str, Any], update: int) -> None:
    """Refuse what is not a position after an update, as :class:`Position` takes it.

    Raises:
        ValueError: naming the value.
    """
    kinds: dict[str, Any] = {field.name: bool if isinstance(field.default, bool) else int for field in fields(Position)}
    older = {name: NotRequired[kinds[name]] for name in ("end", "forgiven")}  # which older checkpoints lack
    check_record(record, "its position", kinds | older, "one")
    odd = {name: value for name, value in record.items() if name not in kinds or value < 0}
    if odd or record["update"] != update:
        raise ValueError(f"its position cannot be: {odd or record}, after update {update}")
