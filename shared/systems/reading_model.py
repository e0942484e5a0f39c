"""The reading side of a system: a model, and the fields that turn rows of a manifest into its input."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any

from torch import nn

from dragoman.shared.batches.fields import Field, TextField
from dragoman.shared.errors import UsageError
from dragoman.shared.machine.device import autocast
from dragoman.shared.nn.symbols import SymbolFields, SymbolRows, tensors_below
from dragoman.shared.systems.saved_model import SavedModel
from dragoman.shared.text import languages
from dragoman.shared.text.tokenizer import Tokenizer

#: The languages of a text that are named; of more, the number is.
MOST_LANGUAGES = 8


class ReadingModel(SavedModel):
    """A model folder whose model reads fields of rows; what it writes, if anything, is for subclasses to say.

    Args:
        model: the module that is trained and saved.
        inputs: what the model was trained to read, by batch field: ``{"speech": SpeechField()}``,
            ``{"source": TextField(...)}``, or both; nothing if it is a language model.
        reads: the names of those inputs that are read together to translate. Default: all.
        source_languages: the language codes that the model was trained to read.

    Raises:
        DataError: for an unknown language code.
        UsageError: if it is to read an input that it does not have.
    """

    def __init__(
        self, *, model: nn.Module, inputs: dict[str, Field], reads: list[str] | None = None, source_languages: list[str]
    ) -> None:
        super().__init__()
        self.model = model
        self.inputs = {name: field.evaluating() for name, field in inputs.items()}
        self.reads = self._known_inputs(list(inputs) if reads is None else reads)
        for code in source_languages:
            languages.check(code)
        self.source_languages = list(source_languages)
        self.origin = []

    def __repr__(self) -> str:
        """Return task, languages, parameters and vocabularies; ``model`` shows its modules."""
        return brief(self)

    @property
    def input_fields(self) -> dict[str, Field]:
        """The fields that are read to translate, by batch field."""
        return {name: self.inputs[name] for name in self.reads}

    def autocast(self) -> AbstractContextManager[Any]:
        """Return the context for which the matrices were stored (``autocast_dtype``)."""
        return autocast(self.device.type, self.autocast_dtype)

    def text_fields(self) -> list[TextField]:
        """Return all text fields that the model reads or writes, each once."""
        return [field for field in self.inputs.values() if isinstance(field, TextField)]

    def symbol_field(self, name: str) -> Field | None:
        """Return the field that a model calls by this name in ``symbol_fields``; None if it is not known."""
        return self.inputs.get(name)

    def symbol_parts(self) -> Iterator[tuple[str, nn.Module, Tokenizer]]:
        """Yield name, module and tokenizer of each part of the model with tensors that have a row for each symbol."""
        fields = self.model.symbol_fields() if isinstance(self.model, SymbolFields) else {}
        for name, text in fields.items():
            part = self.model.get_submodule(name)
            field = self.symbol_field(text)
            if isinstance(part, SymbolRows) and isinstance(field, TextField):
                yield f"model.{name}", part, field.tokenizer

    def tokenizers_of_rows(self) -> dict[str, Tokenizer]:
        """Return, by the name of a tensor, the tokenizer to whose symbols its rows belong."""
        return {name: tokenizer for part, _, tokenizer in self.symbol_parts() for name in tensors_below(self, part)}

    def _known_inputs(self, names: Sequence[str]) -> list[str]:
        """Return names of inputs.

        Raises:
            UsageError: if there is none, though the model reads something, or one is unknown.
        """
        if isinstance(names, str) or (self.inputs and not names):
            raise UsageError(f"reads must be a list of inputs, not {names!r}")
        for name in names:
            if name not in self.inputs:
                names_shown = " and ".join(self.inputs) or "nothing"
                raise UsageError(f"the system can read {names_shown}, not {name!r}")
        return list(dict.fromkeys(names))


def brief(system: ReadingModel) -> str:
    """Return four lines: the task of a system, its languages, its parameters, its vocabularies."""
    parameters = list(system.parameters())
    types = sorted({str(parameter.dtype).removeprefix("torch.") for parameter in parameters})
    where = f" ({', '.join(types)}, {system.device})" if parameters else ""
    table = {
        "task": _task(system),
        "languages": _languages(system),
        "parameters": f"{sum(parameter.numel() for parameter in parameters):,}{where}",
        "vocabulary": "; ".join(vocabularies(system)) or "none",
    }
    return "\n".join(f"{title:12}{text}" for title, text in table.items())


def _task(system: ReadingModel) -> str:
    read = " and ".join("text" if name == "source" else name for name in system.reads)
    written = " and ".join(getattr(system, "texts", {}))
    if not written:
        return f"encoder of {read}"
    return f"{read} to {written}" if read else "language model"


def _languages(system: ReadingModel) -> str:
    source, target = named(system.source_languages), named(getattr(system, "output_languages", []))
    if not system.reads:
        return target
    return source if target in ("", source) else f"{source} to {target}"


def named(codes: Sequence[str]) -> str:
    """Return the codes of languages, or their number if they are many."""
    return ", ".join(codes) if len(codes) <= MOST_LANGUAGES else f"{len(codes)} languages"


def vocabularies(system: ReadingModel) -> Iterator[str]:
    """Yield size and kind of each vocabulary that a system reads or writes."""
    tokenizers = {field.tokenizer.fingerprint: field.tokenizer for field in system.text_fields()}
    for tokenizer in tokenizers.values():
        yield f"{tokenizer.size:,} ({type(tokenizer).__name__})"
