"""Tensors of a model that have a row for each symbol of a vocabulary, and the text that the symbols are of.

A module knows its own tensors (``SymbolRows``), and the model that has it as a part knows what the part reads or writes
(``SymbolFields``). With both, other models lend parameters and vocabularies are trimmed without a look at names.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from torch import nn

#: The text that a decoder writes, and the one that a head for CTC writes, beside the names of inputs.
OUTPUT, CTC = "output", "ctc"


@runtime_checkable
class SymbolRows(Protocol):
    """A module with tensors whose first dimension is a vocabulary."""

    def symbol_tensors(self) -> list[str]:
        """Return the names of those tensors, as in the module's ``state_dict``."""
        ...


@runtime_checkable
class SymbolFields(Protocol):
    """A model that knows which text the symbols of its parts are of."""

    def symbol_fields(self) -> dict[str, str]:
        """Return, by the name of a part ("heads.ctc"), the name of an input, ``OUTPUT`` or ``CTC``."""
        ...


@runtime_checkable
class SymbolArguments(Protocol):
    """A module that is built with ids of symbols, or lists of them, of which it has no tensors."""

    def symbol_arguments(self) -> dict[str, nn.Module]:
        """Return, by the name of an argument, a module with a tensor of the same symbols (``SymbolRows``)."""
        ...


def tensors_below(module: nn.Module, name: str) -> list[str]:
    """Return the symbol tensors of a module's part, by their names in the module."""
    part = module.get_submodule(name)
    return [f"{name}.{tensor}" for tensor in part.symbol_tensors()] if isinstance(part, SymbolRows) else []
