"""JSON that this project has written, read again with care: by then a person or a broken disk may have changed it."""

from __future__ import annotations

import json
import types
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dragoman.shared.annotations import LARGEST
from dragoman.shared.errors import DataError, shortened
from dragoman.shared.machine.nesting import from_json


def read_record(path: Path, kinds: Mapping[str, Any], what: str, advice: str = "") -> dict[str, Any]:
    """Read a file that holds one record; for the arguments see :func:`parse_record`.

    Raises:
        DataError: if it cannot be read, naming the file, the key and its value.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise _damaged(str(path), what, str(error.strerror), advice) from error
    except UnicodeDecodeError as error:
        raise _damaged(str(path), what, str(error), advice) from error
    return parse_record(text, str(path), kinds, what, advice)


def parse_record(text: str, where: str, kinds: Mapping[str, Any], what: str, advice: str = "") -> dict[str, Any]:
    """Return a record; keys that ``kinds`` does not name may have any value.

    Args:
        text: JSON.
        where: it stands, for the message.
        kinds: the type of each key's value, made of bool, int, float, str, None, Any, list[...], dict[str, ...] and
            unions; those of keys that may be missing are ``NotRequired[...]``.
        what: the text should be: "a phase record".
        advice: what to do about a damaged one.

    Raises:
        DataError: naming the place, the key and its value.
    """
    try:
        record = from_json(text)
    except ValueError as error:
        problem = f"{shortened(text)!r} is not JSON: {getattr(error, 'msg', error)}"
        raise _damaged(where, what, problem, advice) from error
    if not isinstance(record, dict):
        raise _damaged(where, what, f"{_shown(record)} is not an object", advice)
    return check_record(record, where, kinds, what, advice)


def check_record(
    record: dict[str, Any], where: str, kinds: Mapping[str, Any], what: str, advice: str = ""
) -> dict[str, Any]:
    """Return a record if its values are of the given kinds; see :func:`parse_record`."""
    for key, kind in kinds.items():
        optional = typing.get_origin(kind) is typing.NotRequired
        if key in record:
            kind = typing.get_args(kind)[0] if optional else kind
            if not _is(record[key], kind):
                raise _damaged(where, what, f"{key!r} is {_shown(record[key])}, not {_name(kind)}", advice)
        elif not optional:
            raise _damaged(where, what, f"{key!r} is missing", advice)
    return record


def _is(value: Any, kind: Any) -> bool:
    """Tell whether a value of JSON is of a type."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if kind is Any:
        return True
    if origin is types.UnionType:
        return any(_is(value, member) for member in arguments)
    if origin is list:
        return isinstance(value, list) and all(_is(item, arguments[0]) for item in value)
    if origin is dict:
        return isinstance(value, dict) and all(_is(item, arguments[1]) for item in value.values())
    if kind in (int, float):
        if isinstance(value, int):
            return not isinstance(value, bool) and abs(value) <= LARGEST
        return kind is float and isinstance(value, float)
    return isinstance(value, kind)


def _name(kind: Any) -> str:
    names = {int: "a whole number", float: "a number", str: "text", bool: "true or false"}
    names |= {types.NoneType: "null"}
    if typing.get_origin(kind) is types.UnionType:
        return " or ".join(map(_name, typing.get_args(kind)))
    arguments = typing.get_args(kind)
    if typing.get_origin(kind) is list:
        return "a list" if arguments[0] is Any else f"a list, each item of it {_name(arguments[0])}"
    if typing.get_origin(kind) is dict:
        return "an object" if arguments[1] is Any else f"an object, each value of it {_name(arguments[1])}"
    return names[kind]


def _shown(value: Any) -> str:
    return shortened(json.dumps(value, ensure_ascii=False, default=lambda other: type(other).__name__))


def _damaged(where: str, what: str, problem: str, advice: str) -> DataError:
    return DataError(f"{where}: not {what} ({problem})" + (f"; {advice}" if advice else ""))
