"""Compares values with annotations: those of recipes and model folders before anything is built, numbers in calls."""

from __future__ import annotations

import collections.abc
import functools
import inspect
import math
import os
import re
import types
import typing
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from dragoman.shared.errors import UsageError, shortened, shown
from dragoman.shared.ranges import Range

#: The largest whole number that files and tensors hold.
LARGEST = 2**63 - 1

LISTS = (list, tuple, set, frozenset, collections.abc.Sequence, collections.abc.Iterable, collections.abc.Collection)
DICTS = (dict, collections.abc.Mapping, collections.abc.MutableMapping)
#: What is said of a number outside its range begins with this.
MUST = "must be"
_ANYTHING = (Any, object, inspect.Parameter.empty, None)


class Values:
    """Values as they are: lists, dictionaries, scalars and objects. A subclass knows those of a recipe's tree."""

    #: Added to what is said of a dictionary in the place of an object.
    advice = ""

    def inside(self, value: Any) -> Any:
        """Return a list, dictionary or scalar."""
        return value

    def show(self, value: Any) -> str:
        """Return a value as messages have it."""
        return shown(value) if is_plain(value) else type(value).__name__

    def fits(self, value: Any, base: Any) -> bool | None:
        """Tell whether an object is of a type; None if it is a list, a dictionary or a scalar, and of any type."""
        if is_protocol(base):
            return all(hasattr(value, name) for name in methods(base))
        return None if is_plain(value) else not isinstance(base, type) or isinstance(value, base)


AS_THEY_ARE = Values()


def is_plain(value: Any) -> bool:
    """Tell whether a value is a list, a dictionary or a scalar, and no object."""
    return value is None or isinstance(value, bool | int | float | str | list | tuple | dict)


def is_protocol(base: Any) -> bool:
    """Tell whether a type is a protocol."""
    return bool(getattr(base, "_is_protocol", False))


@functools.cache
def methods(protocol: type) -> list[str]:
    """Return the methods of a protocol; its plain attributes may be set by constructors, and are not known before."""
    bases = [base for base in protocol.__mro__ if is_protocol(base) and base is not typing.Protocol]
    attributes = {name: value for base in bases for name, value in vars(base).items()}
    return [
        name
        for name, value in attributes.items()
        if inspect.isfunction(value) and (name == "__call__" or name[:1] != "_")
    ]


def hints(function: Any) -> dict[str, Any]:
    """Return the annotations of a function by parameter; Any for what is imported for type checkers only.

    Those of an unpacked TypedDict (PEP 692) are returned as if each of its keys were written as a parameter.
    """
    function = inspect.unwrap(function)
    names = getattr(function, "__globals__", {})
    by_parameter = {name: _evaluated(text, names) for name, text in getattr(function, "__annotations__", {}).items()}
    for name, hint in list(by_parameter.items()):
        if keys := _keys(hint):
            del by_parameter[name]
            by_parameter |= {key: typing.get_args(kind)[0] if _may_lack(kind) else kind for key, kind in keys.items()}
    return by_parameter


def parameters(function: Any) -> dict[str, inspect.Parameter]:
    """Return the parameters of a function; those of an unpacked TypedDict have the default ``...`` if they may lack."""
    accepted = dict(inspect.signature(function).parameters)
    names = getattr(inspect.unwrap(function), "__globals__", {})
    for name, parameter in list(accepted.items()):
        hint = _evaluated(parameter.annotation, names) if parameter.kind is parameter.VAR_KEYWORD else None
        if keys := _keys(hint):
            del accepted[name]
            for key, kind in keys.items():
                default = ... if _may_lack(kind) else parameter.empty
                accepted[key] = inspect.Parameter(key, parameter.KEYWORD_ONLY, default=default)
    return accepted


def _keys(hint: Any) -> dict[str, Any]:
    """Return the annotations of an unpacked TypedDict's keys; nothing for other annotations."""
    if typing.get_origin(hint) is not typing.Unpack:
        return {}
    (unpacked,) = typing.get_args(hint)
    keys = typing.get_type_hints(unpacked, include_extras=True)
    lacking = {
        key for key in unpacked.__optional_keys__ if not _may_lack(keys[key])
    }  # of a dictionary with total=False
    return {key: typing.NotRequired[kind] if key in lacking else kind for key, kind in keys.items()}


def _may_lack(hint: Any) -> bool:
    return typing.get_origin(hint) is typing.NotRequired


def _evaluated(annotation: Any, names: dict[str, Any]) -> Any:
    if not isinstance(annotation, str):
        return annotation
    try:
        return eval(annotation, names)
    except (NameError, AttributeError, TypeError, SyntaxError):
        return Any


class Checked:
    """A class whose constructor refuses what is outside the ranges and Literals in its annotations, by a UsageError."""

    def __init_subclass__(cls, **given: Any) -> None:
        """Put the comparison before the constructor's own work."""
        super().__init_subclass__(**given)
        if "__init__" in vars(cls):
            cls.__init__ = _checked(cls.__init__)  # type: ignore[method-assign]


def _checked(init: Callable[..., None]) -> Callable[..., None]:
    names = [*inspect.signature(init).parameters][1:]

    @functools.wraps(init)
    def checking(self: Any, *positional: Any, **arguments: Any) -> None:
        given = {**dict(zip(names, positional, strict=False)), **arguments} if positional else arguments
        for name, hint, quick in _ranged(init):
            value = given.get(name)
            if value is None or value in quick.get(type(value), ()):
                continue
            problem = mismatch(value, hint)
            if problem:
                raise UsageError(f"{type(self).__name__}: {name}{' ' if problem.startswith(MUST) else ': '}{problem}")
        init(self, *positional, **arguments)

    return checking


@functools.cache
def _ranged(init: Callable[..., None]) -> list[tuple[str, Any, dict[type, Range]]]:
    """Return the arguments that have ranges, and of numbers the range by their type, which needs no further look."""
    ranged = [(name, hint) for name, hint in hints(init).items() if _is_limited(hint)]
    return [(name, hint, _quick(hint)) for name, hint in ranged]


def _quick(hint: Any) -> dict[type, Range]:
    members = [typing.get_args(member) for member in (hint, *typing.get_args(hint))]
    return {parts[0]: parts[1] for parts in members if len(parts) == 2 and isinstance(parts[1], Range)}


def _is_limited(hint: Any) -> bool:
    return (
        isinstance(hint, Range)
        or typing.get_origin(hint) is typing.Literal
        or any(map(_is_limited, typing.get_args(hint)))
    )


def mismatch(value: Any, hint: Any, values: Values = AS_THEY_ARE) -> str:
    """Compare a value, which ``values`` opens and shows, with an annotation; return what is wrong, "" if nothing is."""
    if any(hint is anything for anything in _ANYTHING) or isinstance(hint, typing.TypeVar | str):
        return ""
    if isinstance(hint, typing.NewType):
        return mismatch(value, hint.__supertype__, values)
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        return _outside(values.inside(value), arguments[1:]) or mismatch(value, arguments[0], values)
    if origin in (typing.Union, types.UnionType):
        return _union(value, hint, arguments, values)
    base = origin or hint
    fits, plain = values.fits(value, base), values.inside(value)
    if origin is typing.Literal:
        same = fits is None and any(type(argument) is type(plain) and argument == plain for argument in arguments)
        return "" if same else f"{values.show(value)} is not one of {', '.join(map(repr, arguments))}"
    if fits is not None:
        return "" if fits else f"{values.show(value)} is not {name_of(hint)}"
    if isinstance(plain, list | tuple):
        return _list(value, hint, base, arguments, values)
    if isinstance(plain, dict):
        return _dict(value, hint, base, arguments, values)
    return _scalar(plain, base, hint)


def _union(value: Any, hint: Any, members: tuple[Any, ...], values: Values) -> str:
    problems = [mismatch(value, member, values) for member in members]
    if "" in problems:
        return ""
    real = [problem for problem, member in zip(problems, members, strict=True) if member is not type(None)]
    outside = [problem for problem in real if problem.startswith(MUST)]
    return (outside or real)[0] if outside or len(real) == 1 else f"{values.show(value)} is not {name_of(hint)}"


def _outside(value: Any, ranges: tuple[Any, ...]) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return ""
    what = "" if isinstance(value, int) or math.isfinite(value) else "a finite number "
    limits = [limit for limit in ranges if isinstance(limit, Range)]
    return next((f"{MUST} {what}{limit}, not {value!r}" for limit in limits if value not in limit), "")


def _list(value: Any, hint: Any, base: Any, arguments: tuple[Any, ...], values: Values) -> str:
    if base not in LISTS:
        fits = not isinstance(base, type) or is_protocol(base) or isinstance([], base)
        return "" if fits else f"{values.show(value)} is not {name_of(hint)}"
    if base is tuple and arguments and arguments[-1] is not Ellipsis:
        if len(arguments) != len(values.inside(value)):
            return f"{values.show(value)} is not {name_of(hint)}"
        pairs = list(zip(values.inside(value), arguments, strict=True))
    else:
        pairs = [(item, arguments[0]) for item in values.inside(value)] if arguments else []
    return _first((f"item {i}", mismatch(item, wanted, values)) for i, (item, wanted) in enumerate(pairs))


def _dict(value: Any, hint: Any, base: Any, arguments: tuple[Any, ...], values: Values) -> str:
    if base not in DICTS:
        open_ended = not isinstance(base, type) or is_protocol(base) or typing.is_typeddict(base)
        fits = open_ended or isinstance({}, base)
        return "" if fits else f"{values.show(value)} is not {name_of(hint)}{values.advice}"
    wanted = arguments[1] if len(arguments) == 2 else Any
    return _first((name, mismatch(item, wanted, values)) for name, item in values.inside(value).items())


def _first(problems: Iterable[tuple[str, str]]) -> str:
    return next((f"{place}: {problem}" for place, problem in problems if problem), "")


def _scalar(value: Any, base: Any, hint: Any) -> str:
    shown = f"{shortened(repr(value))} is not {name_of(hint)}"
    if base in (type(None), None):
        return "" if value is None else shown
    if not isinstance(base, type) or is_protocol(base):
        return shown if base in DICTS or base in LISTS else ""
    if base in (Path, os.PathLike):
        return "" if isinstance(value, str) else shown
    if isinstance(value, bool):
        return "" if issubclass(bool, base) and base not in (int,) else shown
    if base in (int, float) and isinstance(value, int) and abs(value) > LARGEST:
        return f"{shortened(str(value))} is a number of more than 64 bits"
    if base is float and isinstance(value, float) and not math.isfinite(value):
        return f"{value} is not a finite number"
    if base is float and isinstance(value, int):
        return ""
    if base in LISTS:
        return f"{shown}: {_in_brackets(value, typing.get_args(hint))}"
    if isinstance(value, base):
        return ""
    if base in (int, float) and isinstance(value, str) and _number(value) is not None:
        return f"{shown}: write {_number(value)!r} without quotes"
    if base is int and isinstance(value, float) and math.isfinite(value) and value == int(value):
        return f"{shown}: write {int(value)}"
    if base is str and isinstance(value, int | float):
        return f'{shown}: put it in quotes, "{value}"'
    return shown


def _in_brackets(value: Any, items: tuple[Any, ...]) -> str:
    """Say how a list is written: with the value in it, if that is such an item, else with objects."""
    plain = (str, int, float, bool, Path, os.PathLike)
    members = [member for item in items[:1] for member in (typing.get_args(item) or [item])]
    objects = bool(members) and not any(member in (*_ANYTHING, *plain) for member in members)
    return "name objects in brackets, [!new:...]" if objects else f"put it in brackets, [{value}]"


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def name_of(hint: Any) -> str:
    """Say an annotation as in "is not ..."."""
    if hint is type(None):
        return "null"
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return " or ".join(name_of(member) for member in typing.get_args(hint))
    if isinstance(hint, type) and not typing.get_args(hint):
        article = "an" if hint.__name__[0] in "aeiouAEIOU" else "a"
        return f"{article} {hint.__name__}"
    if typing.get_origin(hint) is typing.Annotated:
        return name_of(typing.get_args(hint)[0])
    text = re.sub(r"Annotated\[(\w+), [^]]*]", r"\1", str(hint))
    return text.replace("typing.", "").replace("collections.abc.", "")
