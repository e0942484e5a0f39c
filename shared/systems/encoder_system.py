"""An encoder that was trained alone: it writes nothing, and is there for other systems to begin with."""

from __future__ import annotations

from torch import nn

from dragoman.shared.batches.fields import Field
from dragoman.shared.systems.reading_model import ReadingModel


class EncoderSystem(ReadingModel):
    """A model that has no output; ``Initialise`` takes parameters from its folder.

    Args:
        model: the encoder.
        inputs: what it reads, by batch field.
        source_languages: the language codes that it was trained on, as far as they are known.

    Raises:
        DataError: for an unknown language code.
    """

    purpose = "this model is an encoder, which writes nothing: take it to initialise a system that does"

    def __init__(
        self, *, model: nn.Module, inputs: dict[str, Field], source_languages: list[str] | None = None
    ) -> None:
        super().__init__(model=model, inputs=inputs, source_languages=source_languages or [])
