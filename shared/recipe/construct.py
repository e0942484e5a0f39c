"""Lets HyperPyYAML build what a checked tree describes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from shared.errors import DataError


class Refused(Exception):
    """A constructor raised a ValueError."""

    def __init__(self, tag: str, error: ValueError) -> None:
        super().__init__(tag)
        self.tag = tag
        self.error = error


def construct(text: str) -> Any:
    """Build the objects of a recipe.

    Args:
        text: YAML whose references have been followed.

    Raises:
        Refused: if a constructor refuses a value.
        DataError: from constructors that read files.

    """
    import ruamel.yaml
    import yaml
    from hyperpyyaml import load_hyperpyyaml

    class Loader(ruamel.yaml.loader.Loader):
        @classmethod
        def add_implicit_resolver(cls, *_: object, **__: object) -> None:
            """Leave text in parentheses alone: tuples have been read before, and bear their tag."""

        @classmethod
        def add_multi_constructor(cls, tag_prefix: str, multi_constructor: Callable[..., Any]) -> None:
            def construct(loader: Any, path: str, node: Any) -> Any:
                try:
                    return multi_constructor(loader, path, node)
                except DataError:
                    raise
                except ValueError as error:
                    raise Refused(tag_prefix + path, error) from error

            super().add_multi_constructor(tag_prefix, construct)

    Loader.add_constructor("!float", lambda loader, node: float(node.value))
    try:
        return load_hyperpyyaml(text, loader=Loader)
    finally:  # HyperPyYAML changes these while it loads, and leaves them changed if loading fails
        yaml.constructor.BaseConstructor.construct_object.__defaults__ = (False,)
        ruamel.yaml.constructor.BaseConstructor.construct_object.__defaults__ = (False,)
