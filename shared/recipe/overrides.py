"""The values that a command line or a program gives to keys of a recipe."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from shared.errors import UsageError
from shared.recipe.tree import COMMAND_LINE, Node


def pairs(overrides: Mapping[str, Any] | Sequence[str]) -> Sequence[tuple[str, Any]]:
    """Read ``--key value``, ``--key=value`` and ``--switch``, in order."""
    if isinstance(overrides, Mapping):
        return list(overrides.items())
    found = []
    rest = list(overrides)
    while rest:
        word = rest.pop(0)
        key, equals, value = word[2:].partition("=")
        if not word.startswith("--") or not key:
            raise UsageError(f"{COMMAND_LINE}: expected --key, not {word!r}")
        if not equals:
            value = rest.pop(0) if rest and not rest[0].startswith("--") else "true"
        found.append((key, value))
    return found


def node_of(value: Any, key: str) -> Node:
    """Turn the value of an override into nodes: a Python value, or nodes that another recipe hands on."""
    if isinstance(value, Node):
        return _copy(value, key, {})
    node = Node(value, place=COMMAND_LINE, key=key)
    if isinstance(value, Mapping):
        node.value = {str(name): node_of(child, f"{key}.{name}") for name, child in value.items()}
    elif isinstance(value, list | tuple):
        node.value = [node_of(child, f"{key}.{i}") for i, child in enumerate(value)]
    elif isinstance(value, Path):
        node.value = str(value)
    elif not (value is None or isinstance(value, bool | int | float | str)):
        node.refuse(f"a {type(value).__name__} cannot be a value of a recipe")
    return node


def _copy(node: Node, key: str, done: dict[int, Node]) -> Node:
    """Copy a tree whose references have been followed, with keys of its own; what stands in it twice is one node."""
    if id(node) not in done:
        value = node.value
        if isinstance(value, dict):
            value = {name: _copy(child, f"{key}.{name}", done) for name, child in value.items()}
        elif isinstance(value, list):
            value = [_copy(child, f"{key}.{i}", done) for i, child in enumerate(value)]
        done[id(node)] = Node(value, node.tag, node.place, key)
    return done[id(node)]
