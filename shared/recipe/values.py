"""The objects of a recipe: built when their phase begins, and tried before anything is run.

In a trial, each object that can be built is built. What an earlier phase has yet to write (a tokenizer, a model folder)
cannot be read, so objects made of it cannot be built. That is no reason to leave the rest untried: a missing part takes
their place, and a constructor that looks at its numbers before it looks at a missing part still refuses them.
"""

from __future__ import annotations

import functools
from typing import Any, NoReturn

from dragoman.shared.errors import DataError, UsageError, one_line
from dragoman.shared.recipe.inner import arguments_of
from dragoman.shared.recipe.signatures import locate
from dragoman.shared.recipe.tree import INNER, Node


class LookedAt(Exception):
    """Something needs to know more of a missing part than that it is one."""


def _looked_at(*_: object) -> NoReturn:
    raise LookedAt


class _Missing:
    """Stands for an object that cannot be built yet; whatever is asked of it raises LookedAt."""

    __class__ = property(_looked_at)  # isinstance asks for it
    __getattr__ = __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __bool__ = __len__ = _looked_at
    __iter__ = __contains__ = __getitem__ = __call__ = __index__ = __int__ = __float__ = __hash__ = _looked_at
    __str__ = __repr__ = __format__ = __fspath__ = __add__ = __radd__ = __mul__ = __rmul__ = _looked_at


_MISSING = _Missing()


class Builder:
    """Builds what a tree describes whose references have been followed: each node once, and nothing else."""

    def __init__(self) -> None:
        self._built: dict[int, tuple[Node, Any]] = {}

    def build(self, node: Node) -> Any:
        """Build an object and all inside.

        Raises:
            UsageError: naming file, line and key, if a constructor refuses a value.
            DataError: from constructors that read files.
        """
        if id(node) not in self._built:
            self._built[id(node)] = node, self._build(node)
        return self._built[id(node)][1]

    def _build(self, node: Node) -> Any:
        value: Any = node.value
        if node.tag == INNER:
            value = arguments_of(node, self.build)
        elif isinstance(value, dict):
            value = {name: self.build(child) for name, child in value.items()}
        elif isinstance(value, list):
            value = [self.build(child) for child in value]
        if node.tag == "!tuple":
            return tuple(value)
        if not node.path:
            return value
        called = locate(node)
        if node.tag.startswith(("!name:", "!module:")):
            return functools.partial(called, **value) if value else called
        return self._call(node, called, value)

    def _call(self, node: Node, called: Any, value: Any) -> Any:
        try:
            return called(*value) if isinstance(value, list) else called(**value)
        except DataError:
            raise
        except ValueError as error:
            node.refuse_value(one_line(error), error)


class Trial(Builder):
    """The objects of a tree, as far as they can be built.

    Args:
        root: the tree.

    Attributes:
        result: what the root becomes; None if it needs what is missing.
        unreadable: objects that could not read a file or folder, and what they say.

    Raises:
        UsageError: naming file, line and key, if a constructor refuses a value.
    """

    def __init__(self, root: Node) -> None:
        super().__init__()
        self.unreadable: list[tuple[Node, DataError]] = []
        result = self.build(root)
        self.result = None if result is _MISSING else result

    def parts(self) -> list[tuple[Node, Any]]:
        """Return the objects that could be built, with their nodes."""
        return [(node, built) for node, built in self._built.values() if node.path and built is not _MISSING]

    def _call(self, node: Node, called: Any, value: Any) -> Any:
        try:
            return super()._call(node, called, value)
        except LookedAt:
            return _MISSING
        except UsageError:
            raise
        except DataError as error:
            self.unreadable.append((node, error))
            return _MISSING
        except Exception as error:  # of a library that was given a missing part; if of another, the run will say it
            if is_overflow(error):
                raise
            return _MISSING


def is_overflow(error: Exception) -> bool:
    """Tell whether an error says that a tensor has more elements than torch can count."""
    return isinstance(error, RuntimeError | OverflowError) and "overflow" in str(error).lower()
