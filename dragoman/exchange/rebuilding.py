"""Building a system again with other symbols: fewer (trimming.py), or more (extending.py)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeGuard

from torch import Tensor

from dragoman.shared.described import Described
from dragoman.shared.errors import DataError
from dragoman.shared.nn.symbols import SymbolArguments, SymbolRows
from dragoman.shared.search.bans import TokenList
from dragoman.shared.systems.reading_model import ReadingModel
from dragoman.shared.systems.system import System
from dragoman.shared.text.tokenizer import Tokenizer


class Rebuilding:
    """Builds a system again, with what becomes of its symbols and of the parameters that have a row for each.

    Subclasses say what becomes of a tokenizer, by its fingerprint: ``changes`` tells whether it becomes another one,
    ``tokenizer`` returns that, ``size`` its number of ids, ``number`` the new id of an old one (None: it is gone), and
    ``rows`` what becomes of a tensor (V, ...) of its symbols.
    """

    def __init__(self) -> None:
        self._owners: dict[int, Tokenizer] = {}
        self._built: dict[int, Any] = {}

    def changes(self, fingerprint: str) -> bool:
        """Tell whether a tokenizer becomes another one."""
        raise TypeError(f"{type(self).__name__} does not define changes(fingerprint)")

    def number(self, id: int, fingerprint: str) -> int | None:
        """Return the new id of an old one, None if it is gone."""
        raise TypeError(f"{type(self).__name__} does not define number(id, fingerprint)")

    def size(self, fingerprint: str) -> int:
        """Return the new number of ids."""
        raise TypeError(f"{type(self).__name__} does not define size(fingerprint)")

    def rows(self, values: Tensor, fingerprint: str) -> Tensor:
        """Return what becomes of a tensor (V, ...) with a row for each symbol."""
        raise TypeError(f"{type(self).__name__} does not define rows(values, fingerprint)")

    def tokenizer(self, old: Any) -> Tokenizer:
        """Return what a tokenizer becomes."""
        raise TypeError(f"{type(self).__name__} does not define tokenizer(old)")

    def adjusted(self, value: Described, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments of a described object, in which symbols have their new numbers, with other changes."""
        return arguments

    def apply(self, system: ReadingModel) -> ReadingModel:
        """Return the system that was built again, in eval mode.

        Raises:
            DataError: if the model does not say to which text the symbols of a part belong.
        """
        self._owners = {id(part): tokenizer for _, part, tokenizer in system.symbol_parts()}
        tokenizers = system.tokenizers_of_rows()
        _check_owners(system, tokenizers)
        tensors = {}
        for name, value in system.state_dict().items():
            mark = tokenizers[name].fingerprint if name in tokenizers else None
            tensors[name] = value if mark is None or not self.changes(mark) else self.rows(value, mark)
        again: ReadingModel = self._again(system, None)
        again.load_state_dict(tensors, assign=True)
        again.origin = list(system.origin)
        return again.eval()

    def _again(self, value: Any, tokenizer: Tokenizer | None) -> Any:
        """Build a described object again; ``tokenizer`` is that of the part of the model that it belongs to."""
        if isinstance(value, list):
            return [self._again(item, tokenizer) for item in value]
        if isinstance(value, dict):
            return {name: self._again(item, tokenizer) for name, item in value.items()}
        if not isinstance(value, Described):
            return value
        if id(value) not in self._built:
            self._built[id(value)] = self._changed(value, self._owners.get(id(value), tokenizer))
        return self._built[id(value)]

    def _changed(self, value: Described, tokenizer: Tokenizer | None) -> Described:
        if hasattr(value, "encode") and self.changes(getattr(value, "fingerprint", "")):
            new: Any = self.tokenizer(value)
            return new
        arguments = {name: self._again(argument, tokenizer) for name, argument in value.arguments.items()}
        if isinstance(value, SymbolRows) and "vocabulary" in arguments and self._concerns(tokenizer):
            arguments["vocabulary"] = self.size(tokenizer.fingerprint)
            for symbol in ("padding", "blank"):
                if symbol in arguments:
                    arguments[symbol] = self.number(arguments[symbol], tokenizer.fingerprint)
        if isinstance(value, SymbolArguments):
            for name, part in value.symbol_arguments().items():
                if self._concerns(self._owners[id(part)]):
                    mark, ids = self._owners[id(part)].fingerprint, arguments[name]
                    numbers = [self.number(one, mark) for one in (ids if isinstance(ids, list) else [ids])]
                    arguments[name] = numbers if isinstance(ids, list) else numbers[0]
        if isinstance(value, System) and value.bans and self._concerns(value.output.tokenizer):
            arguments["bans"] = [self._ban(ban, value.output.tokenizer.fingerprint) for ban in value.bans]
        return type(value)(**self.adjusted(value, arguments))

    def _concerns(self, tokenizer: Tokenizer | None) -> TypeGuard[Tokenizer]:
        return tokenizer is not None and self.changes(tokenizer.fingerprint)

    def _ban(self, ban: Any, fingerprint: str) -> Any:
        """Return a ban on symbols with their new numbers, without those that are gone; others as they are."""
        if not isinstance(ban, TokenList):
            return ban
        lists = {}
        for code, ids in ban.lists.items():
            numbers = (self.number(id, fingerprint) for id in ids)
            lists[code] = [number for number in numbers if number is not None]
        return type(ban)(**ban.arguments | {"tokens": lists if ban.by_language else lists[""]})


def _check_owners(system: ReadingModel, tokenizers: Mapping[str, Tokenizer]) -> None:
    """Refuse a model that does not say to which text the symbols of a part belong."""
    for name, part in system.named_modules():
        for tensor in part.symbol_tensors() if isinstance(part, SymbolRows) else []:
            if f"{name}.{tensor}" not in tokenizers:
                raise DataError(f"{type(system.model).__name__}: does not say which text the symbols of {name} are of")
