"""The values that a command line or a program gives to keys of a recipe."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from reprlib import repr as shown
from typing import Any, NamedTuple

from dragoman.shared.errors import UsageError
from dragoman.shared.recipe.tree import COMMAND_LINE, Node


class Bare(str):
    """The value, true, of a key that stands on the command line without one."""


def pairs(overrides: Mapping[str, Any] | Sequence[str]) -> Sequence[tuple[str, Any]]:
    """Read ``--key value``, ``--key=value`` and ``--switch``, in order."""
    if isinstance(overrides, Mapping):
        return list(overrides.items())
    given_pairs = []
    rest = list(overrides)
    while rest:
        word = rest.pop(0)
        key, equals, value = word[2:].partition("=")
        if not word.startswith("--") or not key:
            raise UsageError(f"{COMMAND_LINE}: expected --key, not {word!r}")
        if not equals:
            value = rest.pop(0) if rest and not rest[0].startswith("--") else Bare("true")
        given_pairs.append((key, value))
    return given_pairs


class Start(NamedTuple):
    """The values that a recipe is started with, and how.

    Attributes:
        values: keys of the recipe and their values, in order.
        arm: the name of ``--arm``, with the place that gives it.
        run: the name of ``--run``.
        trusts: whether ``--trust-recipe`` was given.
    """

    values: list[tuple[str, Any]]
    arm: Node | None
    run: str | None
    trusts: bool


def start_options(given: Sequence[tuple[str, Any]], *, inside: bool) -> Start:
    """Take what says how a recipe is started out of the values for its keys.

    Args:
        given: keys and values.
        inside: another recipe runs this one, and cannot say how: all but the arm are keys.

    Raises:
        UsageError: for a value that cannot be one of these.
    """
    rest: list[tuple[str, Any]] = []
    run: str | None = None
    arm: Node | None = None
    trusts = False
    for key, value in given:
        if key in ("arm", "run") and isinstance(value, Bare):
            raise UsageError(f"{COMMAND_LINE}: --{key}: stands without a value: give it with --{key} NAME")
        if key == "arm":
            arm = value if isinstance(value, Node) else Node(str(value), place=COMMAND_LINE, key="--arm")
        elif inside:
            rest.append((key, value))
        elif key == "run":
            run = str(value)
        elif key.replace("-", "_") == "trust_recipe":
            if str(value).lower() not in ("true", "false"):
                raise UsageError(f"{COMMAND_LINE}: --trust-recipe takes no value, not {shown(value)}")
            trusts = str(value).lower() == "true"
        else:
            rest.append((key, value))
    return Start(rest, arm, run, trusts)


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
