"""Checks a recipe's tree against the classes and functions that it names, before anything is built.

Names are imported, their signatures are read, and every argument's name and value is compared with them.
"""

from __future__ import annotations

import builtins
import collections.abc
import functools
import importlib
import inspect
import math
import os
import pkgutil
import types
import typing
from pathlib import Path
from typing import Any

from shared.described import PACKAGES, Described, named, register
from shared.recipe.tree import Node, nearest

_LISTS = (list, tuple, set, frozenset, collections.abc.Sequence, collections.abc.Iterable, collections.abc.Collection)
_DICTS = (dict, collections.abc.Mapping, collections.abc.MutableMapping)
_ANYTHING = (Any, object, inspect.Parameter.empty, None)


def check_tree(root: Node, seen: set[int] | None = None) -> None:
    """Check every call in a tree whose references have been followed.

    Args:
        root: the tree.
        seen: what has been checked before; added to.

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
    if package in PACKAGES:
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
        UsageError: naming the nearest name, if there is no such thing or its module cannot be imported.

    """
    parts = node.path.split(".")
    if len(parts) == 1 and hasattr(builtins, parts[0]):
        return getattr(builtins, parts[0])
    found: Any = _import(parts[0], node)
    if found is None:
        meant = nearest(parts[0], PACKAGES, few=0)
        node.refuse(f"{node.path}: there is no module {parts[0]!r}, installed or beside the recipe{meant}")
    for depth, part in enumerate(parts[1:], 1):
        if inspect.ismodule(found) and not hasattr(found, part):
            _import(".".join(parts[: depth + 1]), node)
        if not hasattr(found, part):
            modules = [m.name for m in pkgutil.iter_modules(getattr(found, "__path__", []))]
            names = [name for name in [*dir(found), *modules] if not name.startswith("_")]
            where = ".".join(parts[:depth])
            node.refuse(f"{node.path}: there is no {part!r} in {where}{nearest(part, names, few=0)}")
        found = getattr(found, part)
    return found


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
    parameters = _parameters(target)
    if parameters is None:
        return  # written in C, without a signature
    origins = dict((node.source or node).items())
    given: dict[str, tuple[Node, Node]] = {}
    if isinstance(node.value, list):
        positional = [p for p in parameters.values() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        if any(p.kind is p.VAR_POSITIONAL for p in parameters.values()):
            return
        if len(node.value) > len(positional):
            node.refuse(f"{node.path} takes {len(positional)} positional arguments, not {len(node.value)}")
        given = {p.name: (child, origins[i]) for i, (p, child) in enumerate(zip(positional, node.value, strict=False))}
    elif isinstance(node.value, dict):
        given = {name: (child, origins[name]) for name, child in node.value.items()}
    known = [p.name for p in parameters.values() if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    open_ended = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    for name, (child, origin) in given.items():
        if isinstance(node.value, dict) and name not in known:
            if not open_ended:
                origin.refuse(f"{node.path} has no argument {name!r}{nearest(name, known)}")
            continue
        parameter = parameters[name]
        hint = _hint(parameter, target)
        if child.value is None and not child.tag and parameter.default is None:
            continue
        problem = mismatch(child, hint)
        if problem:
            place = "" if child.place == origin.place else f", written at {child.where}"
            origin.refuse(f"{problem} ({node.path}){place}")
    for parameter in parameters.values():
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
        parameters = list(inspect.signature(target if function is None else function).parameters.values())
    except (ValueError, TypeError):
        return None
    if inspect.isclass(target) and function is not None:
        parameters = parameters[1:]  # self
    return {parameter.name: parameter for parameter in parameters}


def _hint(parameter: inspect.Parameter, target: Any) -> Any:
    """Return a parameter's annotation; Any if it names something that is imported for type checkers only."""
    annotation = parameter.annotation
    if isinstance(annotation, str):
        function = inspect.unwrap(_function(target) or target)
        try:
            return eval(annotation, getattr(function, "__globals__", {}))
        except (NameError, AttributeError, TypeError, SyntaxError):
            return Any
    return annotation


# -- values ---------------------------------------------------------------------------------------------------------


def mismatch(node: Node, hint: Any) -> str:
    """Compare a value with an annotation; return what is wrong, "" if nothing is."""
    if any(hint is anything for anything in _ANYTHING) or isinstance(hint, typing.TypeVar | str):
        return ""
    if isinstance(hint, typing.NewType):
        return mismatch(node, hint.__supertype__)
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        return mismatch(node, arguments[0])
    if origin in (typing.Union, types.UnionType):
        return _union(node, hint, arguments)
    if origin is typing.Literal:
        known = [a for a in arguments if type(a) is type(node.value) and a == node.value]
        return "" if known and not node.tag else f"{_show(node)} is not one of {', '.join(map(repr, arguments))}"
    base = origin or hint
    if node.path:
        return "" if _call_fits(node, base) else f"{_show(node)} is not {_name(hint)}"
    if isinstance(node.value, list):
        return _list(node, hint, base, arguments)
    if isinstance(node.value, dict):
        return _dict(node, hint, base, arguments)
    return _scalar(node.value, base, hint)


def _union(node: Node, hint: Any, members: tuple[Any, ...]) -> str:
    problems = [mismatch(node, member) for member in members]
    if "" in problems:
        return ""
    real = [problem for problem, member in zip(problems, members, strict=True) if member is not type(None)]
    return real[0] if len(real) == 1 else f"{_show(node)} is not {_name(hint)}"


def _call_fits(node: Node, base: Any) -> bool:
    kind = node.tag.partition(":")[0]
    if kind in ("!apply", "!module") or not isinstance(base, type):
        return True  # what a function returns is not known
    target = locate(node)
    if kind == "!name":
        if base in (type, collections.abc.Callable):
            return True
        if not node.value and not inspect.isroutine(target) and not inspect.isclass(target):
            return isinstance(target, base) if not getattr(base, "_is_protocol", False) else True
        return base not in (int, float, str, bool, Path, *_LISTS, *_DICTS)
    if not inspect.isclass(target):
        return True  # refused when the call itself is checked
    if getattr(base, "_is_protocol", False):
        return all(hasattr(target, name) for name in _methods(base))
    return issubclass(target, base)


@functools.cache
def _methods(protocol: type) -> list[str]:
    """Return the methods of a protocol; its plain attributes may be set by constructors, and are not known before."""
    bases = [base for base in protocol.__mro__ if getattr(base, "_is_protocol", False) and base is not typing.Protocol]
    own = {name: value for base in bases for name, value in vars(base).items()}
    return [
        name for name, value in own.items() if inspect.isfunction(value) and (name == "__call__" or name[:1] != "_")
    ]


def _list(node: Node, hint: Any, base: Any, arguments: tuple[Any, ...]) -> str:
    if base not in _LISTS:
        fits = not isinstance(base, type) or getattr(base, "_is_protocol", False) or isinstance([], base)
        return "" if fits else f"{_show(node)} is not {_name(hint)}"
    if base is tuple and arguments and arguments[-1] is not Ellipsis:
        if len(arguments) != len(node.value):
            return f"{_show(node)} is not {_name(hint)}"
        pairs = list(zip(node.value, arguments, strict=True))
    else:
        pairs = [(item, arguments[0]) for item in node.value] if arguments else []
    return _first(f"item {i}: {p}" if (p := mismatch(item, wanted)) else "" for i, (item, wanted) in enumerate(pairs))


def _dict(node: Node, hint: Any, base: Any, arguments: tuple[Any, ...]) -> str:
    if base not in _DICTS:
        open_ended = not isinstance(base, type) or getattr(base, "_is_protocol", False) or typing.is_typeddict(base)
        fits = open_ended or isinstance({}, base)
        return "" if fits else f"{_show(node)} is not {_name(hint)}: name its class with !new:"
    wanted = arguments[1] if len(arguments) == 2 else Any
    return _first(f"{name}: {p}" if (p := mismatch(item, wanted)) else "" for name, item in node.value.items())


def _first(problems: typing.Iterable[str]) -> str:
    return next((problem for problem in problems if problem), "")


def _scalar(value: Any, base: Any, hint: Any) -> str:
    shown = f"{value!r} is not {_name(hint)}"
    if base in (type(None), None):
        return "" if value is None else shown
    if not isinstance(base, type) or getattr(base, "_is_protocol", False):
        return shown if base in _DICTS or base in _LISTS else ""
    if base in (Path, os.PathLike):
        return "" if isinstance(value, str) else shown
    if isinstance(value, bool):
        return "" if issubclass(bool, base) and base not in (int,) else shown
    if base is float and isinstance(value, int):
        return ""
    if base in _LISTS:
        return f"{shown}: put it in brackets, [{value}]"
    if isinstance(value, base):
        return ""
    if base in (int, float) and isinstance(value, str) and _number(value) is not None:
        return f"{shown}: write {_number(value)!r} without quotes"
    if base is int and isinstance(value, float) and math.isfinite(value) and value == int(value):
        return f"{shown}: write {int(value)}"
    if base is str and isinstance(value, int | float):
        return f'{shown}: put it in quotes, "{value}"'
    return shown


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _show(node: Node) -> str:
    if node.tag == "!tuple":
        return f"a tuple of {len(node.value)}"
    if node.tag:
        return node.tag
    if isinstance(node.value, list):
        return f"a list of {len(node.value)}"
    return "a mapping" if isinstance(node.value, dict) else repr(node.value)


def _name(hint: Any) -> str:
    """Say an annotation as in "is not ..."."""
    if hint is type(None):
        return "null"
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return " or ".join(_name(member) for member in typing.get_args(hint))
    if isinstance(hint, type) and not typing.get_args(hint):
        article = "an" if hint.__name__[0] in "aeiouAEIOU" else "a"
        return f"{article} {hint.__name__}"
    return str(hint).replace("typing.", "").replace("collections.abc.", "")
