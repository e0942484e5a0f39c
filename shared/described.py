"""Objects that know how they were built, so that a model folder can describe them as plain data.

A class takes part by inheriting :class:`Described` and having a keyword-only constructor whose arguments are numbers,
strings, lists, dictionaries or other described objects. ``describe`` turns the object into JSON, ``build`` turns the
JSON back into the object; ``build`` constructs classes of this project only, and never runs anything else.
"""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path
from typing import Any

ROOMS = ("shared", "mt", "st")


class Described:
    """Remembers its constructor's keyword arguments in ``self.arguments``."""

    #: Names of constructor arguments that are files to be kept inside the model folder.
    asset_arguments: tuple[str, ...] = ()

    arguments: dict[str, Any]

    def __new__(cls, *positional: object, **arguments: Any) -> Any:
        """Record the arguments on the way to ``__init__``."""
        if positional:
            raise TypeError(f"{cls.__name__} takes keyword arguments only")
        instance = super().__new__(cls)
        instance.__dict__["arguments"] = arguments
        return instance

    def __getnewargs_ex__(self) -> tuple[tuple[()], dict[str, Any]]:
        """Keep the arguments through copying and pickling (to loader workers)."""
        return (), self.arguments


def describe(value: Any, assets: dict[str, Path] | None = None) -> Any:
    """Describe an object as plain data.

    Args:
        value: a described object, or a number, string, list or dictionary of such.
        assets: filled with the files that the description needs, by their name inside the model folder.

    Raises:
        TypeError: if something in it is neither plain nor described.

    """
    return _describe(value, {} if assets is None else assets, {}, "")


def _describe(value: Any, assets: dict[str, Path], seen: dict[int, str], path: str) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, list | tuple):
        return [_describe(item, assets, seen, f"{path}/{i}") for i, item in enumerate(value)]
    if isinstance(value, dict):
        return {str(key): _describe(item, assets, seen, f"{path}/{key}") for key, item in value.items()}
    if not isinstance(value, Described):
        raise TypeError(f"{path or 'the object'}: a {type(value).__name__} cannot be described as plain data")
    if id(value) in seen:
        return {"same_as": seen[id(value)]}
    seen[id(value)] = path
    arguments = {}
    for name, argument in value.arguments.items():
        if name in value.asset_arguments and argument is not None:
            arguments[name] = {"asset": _claim(Path(argument), assets)}
        else:
            arguments[name] = _describe(argument, assets, seen, f"{path}/{name}")
    return {"class": f"{type(value).__module__}.{type(value).__qualname__}", "arguments": arguments}


def _claim(file: Path, assets: dict[str, Path]) -> str:
    """Return a name for the file inside the model folder; two different files never share one."""
    name, number = file.name, 1
    while name in assets and assets[name].resolve() != file.resolve():
        number += 1
        name = f"{file.stem}-{number}{file.suffix}"
    assets[name] = file
    return name


def change(description: Any, path: str, value: Any) -> None:
    """Change an argument in a description of an object.

    Args:
        description: from :func:`describe`; it is changed.
        path: of the argument, with dots: "model.encoder.layer.dropout".
        value: what the argument becomes, plain data.

    Raises:
        ValueError: if the path leads to nothing, or to an object that stands in another place.

    """
    node = description
    *way, last = path.split(".")
    for part in way:
        node = _known(_inside(node), part, path)[part]
    if _is_object(node):
        parameters = inspect.signature(_class(node["class"], path).__init__).parameters
        _known({name: None for name in parameters if name != "self"}, last, path)
    else:
        _known(_inside(node), last, path)
    _inside(node)[last] = value


def _is_object(node: Any) -> bool:
    return isinstance(node, dict) and set(node) == {"class", "arguments"}


def _inside(node: Any) -> dict[str, Any]:
    return node["arguments"] if _is_object(node) else node if isinstance(node, dict) else {}


def _known(inside: dict[str, Any], name: str, path: str) -> dict[str, Any]:
    if name not in inside:
        raise ValueError(f"{path}: there is no {name!r}, only {', '.join(inside) or 'what has no parts'}")
    return inside


def build(description: Any, folder: Path | None = None) -> Any:
    """Build what :func:`describe` described.

    Args:
        description: plain data, as read from JSON.
        folder: the model folder that holds the assets.

    Raises:
        ValueError: if the description names a class outside this project, or one that is not a described class, or an
            asset outside the folder.

    """
    return _build(description, folder, {}, "")


def assets_of(description: Any) -> list[str]:
    """Return the names of the files that a description needs, each once, in their order."""
    if isinstance(description, dict):
        if set(description) == {"asset"}:
            return [description["asset"]]
        description = list(description.values())
    if not isinstance(description, list):
        return []
    return list(dict.fromkeys(name for item in description for name in assets_of(item)))


def _build(value: Any, folder: Path | None, built: dict[str, Any], path: str) -> Any:
    if isinstance(value, list):
        return [_build(item, folder, built, f"{path}/{i}") for i, item in enumerate(value)]
    if not isinstance(value, dict):
        return value
    if set(value) == {"same_as"}:
        return built[value["same_as"]]
    if set(value) == {"asset"}:
        name = value["asset"]
        if folder is None or Path(name).name != name:
            raise ValueError(f"{path}: {name!r} is not a file of the model folder")
        return str(folder / name)
    if not _is_object(value):
        return {key: _build(item, folder, built, f"{path}/{key}") for key, item in value.items()}
    kind = _class(value["class"], path)
    arguments = {name: _build(item, folder, built, f"{path}/{name}") for name, item in value["arguments"].items()}
    built[path] = kind(**arguments)
    return built[path]


def _class(name: str, path: str) -> type[Described]:
    module, _, attribute = name.rpartition(".")
    if module.split(".")[0] not in ROOMS:
        raise ValueError(f"{path or 'model'}: {name!r} is not a class of this project ({', '.join(ROOMS)})")
    kind = getattr(importlib.import_module(module), attribute, None)
    if not (isinstance(kind, type) and issubclass(kind, Described)):
        raise ValueError(f"{path or 'model'}: {name!r} is not a class that a model folder may name")
    return kind
