"""An objective whose parts are each about one field, and count where a batch has it."""

from __future__ import annotations

from typing import cast

from dragoman.shared.batch import Batch
from dragoman.shared.errors import UsageError
from dragoman.shared.objectives.parts import EncoderDecoderObjective, Part
from dragoman.shared.systems.encoder_system import EncoderSystem


class FieldObjective(EncoderDecoderObjective):
    """Adds up the parts whose field a batch has, so that streams may have some fields and lack others.

    Args:
        system: whose model encodes all fields of a batch together, such as a JoinedEncoder.
        parts: such as ``MaskedTokens`` for each text; each names its ``field``.

    Raises:
        UsageError: if a part does not name its field.
    """

    def __init__(self, *, system: EncoderSystem, parts: list[Part]) -> None:
        nameless = [type(part).__name__ for part in parts if not hasattr(part, "field")]
        if nameless:
            raise UsageError(f"part {nameless[0]} does not say which field it is about")
        super().__init__(system=system, parts=parts)

    def parts_of(self, batch: Batch) -> list[Part]:
        """Return the parts whose field the batch has.

        Raises:
            UsageError: if there is none.
        """
        parts = [part for part in super().parts_of(batch) if cast(str, part.field) in batch]
        if not parts:
            raise UsageError(f"stream {batch.stream!r} has no field that a part of the objective is about")
        return parts
