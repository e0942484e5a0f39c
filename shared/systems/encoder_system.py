"""An encoder that was trained alone: it writes nothing, and is there for other systems to begin with."""

from __future__ import annotations

from typing import Any

from torch import nn

from shared.corpus.fields import Field, TextField
from shared.errors import UsageError
from shared.systems.system import System
from shared.text import languages

NOTHING = "this model is an encoder, which writes nothing: take it to initialise a system that does"


class EncoderSystem(System):
    """A model that has no output; ``Initialise`` takes parameters from its folder.

    Args:
        model: the encoder.
        inputs: what it reads, by batch field.
        source_languages: the language codes that it was trained on, as far as they are known.

    Raises:
        DataError: for an unknown language code.

    """

    def __init__(
        self, *, model: nn.Module, inputs: dict[str, Field], source_languages: list[str] | None = None
    ) -> None:
        nn.Module.__init__(self)
        self.model = model
        self.inputs = {name: field.evaluating() for name, field in inputs.items()}
        self.source_languages: list[str] = list(source_languages or [])
        self.target_languages: list[str] = []
        self.output_name = ""
        self.origin = []
        for code in self.source_languages:
            languages.check(code)

    @property
    def output(self) -> TextField:  # type: ignore[override]
        """Refuse.

        Raises:
            UsageError: always: there is none.

        """
        raise UsageError(NOTHING)

    def hypotheses(self, *inputs: Any, **options: Any) -> Any:
        """Refuse, as :attr:`output` does."""
        raise UsageError(NOTHING)
