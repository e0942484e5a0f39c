"""Checks a recipe's tree against the classes and functions that it names, before anything is built.

Names are imported, their signatures are read, and every argument's name and value is compared with them.
"""

from __future__ import annotations

import builtins
import collections.abc
import importlib
import inspect
import pkgutil
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from dragoman.shared.annotations import DICTS, LISTS, Values, hints, is_protocol, methods, parameters
from dragoman.shared.annotations import mismatch as _mismatch
from dragoman.shared.described import Described, named, register
from dragoman.shared.moved import HOME, PACKAGES, importable
from dragoman.shared.recipe.elsewhere import elsewhere
from dragoman.shared.recipe.reach import check_object, check_path
from dragoman.shared.recipe.tree import Node, nearest


def check_phase(resolved: Node, written: Node, seen: set[int]) -> None:
    """Check every path, argument and type of a phase, but for what was ``seen``; imports what it names, builds nothing.

    Raises:
        UsageError: naming file, line, key and value.
    """
    if not resolved.tag.startswith("!new:"):
        written.refuse("a phase is an object: !new:path")
    if not hasattr(locate(resolved), "run"):
        written.refuse(f"{resolved.path} is not a phase: it has no run()")
    check_tree(resolved, seen)


def check_tree(root: Node, seen: set[int] | None = None) -> None:
    """Check every call in a tree whose references have been followed, but for what was ``seen``, and add it there.

    Raises:
        UsageError: naming file, line, key, value and the nearest known name.
    """
    seen = set() if seen is None else seen
    for node in root.walk():
        if id(node) not in seen:
            seen.add(id(node))
            if node.path:
                _check_call(node)


def _check_call(node: Node) -> None:
    target = locate(node)
    kind = node.tag.partition(":")[0]
    if kind == "!module":
        if not inspect.ismodule(target):
            node.refuse(f"{node.path} is not a module")
    elif kind == "!new":
        if not inspect.isclass(target):
            node.refuse(f"{node.path} is not a class: use !name: for the thing itself, !apply: to call a function")
        if inspect.isabstract(target):
            missing = ", ".join(sorted(getattr(target, "__abstractmethods__", ())))
            node.refuse(f"{node.path} is abstract (it lacks {missing}): name one of its subclasses")
        if issubclass(target, Described):
            _register(node, target)
    elif kind == "!apply" and not inspect.isroutine(target):
        node.refuse(f"{node.path} is not a function: use !new: for classes")
    if not node.value and kind in ("!name", "!module"):
        return
    if kind == "!module" or not callable(target):
        node.refuse(f"{node.path} takes no arguments")
    _check_arguments(node, target, partial=kind == "!name")


def _register(node: Node, target: type[Described]) -> None:
    """Let the model folder that the recipe may make name a class, which needs a name of its own there."""
    package = target.__module__.partition(".")[0]
    if package == HOME:
        return
    register(package)
    try:
        named(target.__name__)
    except ValueError as error:
        node.refuse(str(error), error)


# -- what a path names ----------------------------------------------------------------------------------------------


def locate(node: Node) -> Any:
    """Import what a node's path names.

    Raises:
        UsageError: naming the nearest name, if there is no such thing or its module cannot be imported; or if it is
            beyond a recipe's reach.
    """
    parts = importable(node.path).split(".")
    is_builtin = len(parts) == 1 and hasattr(builtins, parts[0])
    if not all(part.isidentifier() for part in parts):
        node.refuse(f"{node.path!r} is not the path of a class, function or module")
    if not is_builtin and parts[0] not in sys.modules and find_spec(parts[0]) is None:
        meant = nearest(parts[0], PACKAGES, few=0)
        node.refuse(f"{node.path}: there is no module {parts[0]!r}, installed or beside the recipe{meant}")
    check_path(node)
    if is_builtin:
        return getattr(builtins, parts[0])
    thing: Any = _import(parts[0], node)
    for depth, part in enumerate(parts[1:], 1):
        if inspect.ismodule(thing) and not hasattr(thing, part):
            _import(".".join(parts[: depth + 1]), node)
        if not hasattr(thing, part):
            modules = [m.name for m in pkgutil.iter_modules(getattr(thing, "__path__", []))]
            names = [name for name in [*dir(thing), *modules] if not name.startswith("_")]
            where = ".".join(parts[:depth]).removeprefix("" if node.path.startswith(HOME) else f"{HOME}.")
            node.refuse(f"{node.path}: there is no {part!r} in {where}{nearest(part, names, few=0)}")
        thing = getattr(thing, part)
        check_object(node, ".".join(parts[: depth + 1]), thing)
    return thing


def _import(name: str, node: Node) -> Any:
    """Import a module; None if there is none of this name."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(error.name + ".")):
            return None
        node.refuse(f"{name} cannot be imported: {error} (is it an extra of the installation?)", error)
    except Exception as error:
        node.refuse(f"{name} cannot be imported: {type(error).__name__}: {' '.join(str(error).split())}", error)


# -- arguments ------------------------------------------------------------------------------------------------------


def _check_arguments(node: Node, target: Any, *, partial: bool) -> None:
    accepted = _parameters(target)
    if accepted is None:
        return  # written in C, without a signature
    origins = dict((node.source or node).items())
    given: dict[str, tuple[Node, Node]] = {}
    if isinstance(node.value, list):
        positional = [p for p in accepted.values() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        if any(p.kind is p.VAR_POSITIONAL for p in accepted.values()):
            return
        if len(node.value) > len(positional):
            node.refuse(f"{node.path} takes {len(positional)} positional arguments, not {len(node.value)}")
        given = {p.name: (child, origins[i]) for i, (p, child) in enumerate(zip(positional, node.value, strict=False))}
    elif isinstance(node.value, dict):
        given = {name: (child, origins[name]) for name, child in node.value.items()}
    annotated = hints(_function(target) or target)
    names = [p.name for p in accepted.values() if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    open_ended = any(p.kind is p.VAR_KEYWORD for p in accepted.values())
    for name, (child, origin) in given.items():
        if isinstance(node.value, dict) and name not in names:
            if not open_ended:
                origin.refuse(f"{node.path} has no argument {name!r}{elsewhere(name) or nearest(name, names)}")
            continue
        parameter = accepted[name]
        if child.value is None and not child.tag and parameter.default is None:
            continue
        problem = mismatch(child, annotated.get(parameter.name, Any))
        if problem:
            place = "" if child.place == origin.place else f", written at {child.where}"
            origin.refuse(f"{problem} ({node.path}){place}")
    for parameter in accepted.values():
        wanted = parameter.default is parameter.empty and parameter.kind not in (
            parameter.VAR_POSITIONAL,
            parameter.VAR_KEYWORD,
        )
        if wanted and not partial and parameter.name not in given:
            node.refuse(f"{node.path} needs the argument {parameter.name!r}")


def _function(target: Any) -> Any:
    """Return what receives the arguments of a call; None if they cannot be known."""
    if not inspect.isclass(target):
        return target
    for name in ("__init__", "__new__"):
        function = inspect.unwrap(getattr(target, name))
        if inspect.isfunction(function) and function is not Described.__new__:
            return function
    return None


def _parameters(target: Any) -> dict[str, inspect.Parameter] | None:
    function = _function(target)
    if function is None and issubclass(target, Described):
        return {}
    try:
        accepted = parameters(target if function is None else function)
    except (ValueError, TypeError):
        return None
    without_self = inspect.isclass(target) and function is not None
    return dict([*accepted.items()][1:]) if without_self else accepted


# -- values ---------------------------------------------------------------------------------------------------------


class _Nodes(Values):
    """The values in a recipe's tree, of which an object is known by its class."""

    advice = ": name its class with !new:"

    def inside(self, value: Node) -> Any:
        return value.value

    def show(self, value: Node) -> str:
        if value.tag:
            return f"a tuple of {len(value.value)}" if value.tag == "!tuple" else value.tag
        if isinstance(value.value, list):
            return f"a list of {len(value.value)}"
        return "a mapping" if isinstance(value.value, dict) else repr(value.value)

    def fits(self, value: Node, base: Any) -> bool | None:
        kind = value.tag.partition(":")[0]
        if not value.path:
            return None
        if kind in ("!apply", "!module") or not isinstance(base, type):
            return True  # what a function returns is not known
        target = locate(value)
        if kind == "!name":
            if base in (type, collections.abc.Callable):
                return True
            if not value.value and not inspect.isroutine(target) and not inspect.isclass(target):
                return is_protocol(base) or isinstance(target, base)
            return base not in (int, float, str, bool, Path, *LISTS, *DICTS)
        if not inspect.isclass(target):
            return True  # refused when the call itself is checked
        if is_protocol(base):
            return all(hasattr(target, name) for name in methods(base))
        return issubclass(target, base)


_NODES = _Nodes()


def mismatch(node: Node, hint: Any) -> str:
    """Compare a value of a recipe with an annotation; return what is wrong, "" if nothing is."""
    return _mismatch(node, hint, _NODES)
