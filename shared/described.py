"""Objects that know how they were built, so that a model folder can describe them as plain data.

A class takes part by inheriting :class:`Described` and having a keyword-only constructor whose arguments are numbers,
strings, lists, dictionaries or other described objects. ``describe`` turns the object into JSON, ``build`` turns the
JSON back into the object; ``build`` constructs classes of this project and of registered packages only, and never runs
anything else.

A class is stored under its own name ("Translator"), which is unique, not under that of its module: modules can move,
and folders written before a move still load. A package that has described classes of its own registers itself with an
entry point of the group ``dragoman.packages`` whose value is the name of the package. A package or module that is not
installed is registered for a process: by a recipe that names its classes, by ``dragoman --package PATH``, or by
:func:`register`. A model folder itself never says what is imported.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterator
from functools import cache
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from dragoman.shared.annotations import Checked, hints, mismatch, parameters
from dragoman.shared.errors import UsageError, shortened, shown
from dragoman.shared.moved import importable

#: The packages of this project whose classes model folders name.
PACKAGES = ("dragoman.shared", "dragoman.mt", "dragoman.st", "dragoman.exchange")
GROUP = "dragoman.packages"

#: Packages and modules that were registered for this process.
_here: dict[str, Path] = {}


class Recorded(Checked):
    """Remembers its constructor's keyword arguments in ``self.arguments``."""

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


class Described(Recorded):
    """A class that model folders may name: what is built from them is of such classes only."""

    #: Names of constructor arguments that are files to be kept inside the model folder.
    asset_arguments: tuple[str, ...] = ()


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
    return {"class": _name(type(value)), "arguments": arguments}


def _name(kind: type) -> str:
    """Return a class's stable name; that of its module and its own where nothing can find it by its own."""
    name = kind.__name__
    return name if kind.__module__ in _modules(packages()).get(name, []) else f"{kind.__module__}.{kind.__qualname__}"


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
        accepted = parameters(_class(node["class"], path).__init__)
        _known({name: None for name in accepted if name != "self"}, last, path)
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
    """Build what :func:`describe` described; ``folder`` is the model folder that holds the assets.

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
        if not isinstance(value["same_as"], str) or value["same_as"] not in built:
            raise ValueError(
                f"{path or 'model'}: same_as is {shown(value['same_as'])}, and no object before it stands there"
            )
        return built[value["same_as"]]
    if set(value) == {"asset"}:
        return _asset(value["asset"], folder, path)
    if not _is_object(value):
        return {key: _build(item, folder, built, f"{path}/{key}") for key, item in value.items()}
    kind = _class(value["class"], path)
    if not isinstance(value["arguments"], dict):
        value_shown = shown(value["arguments"])
        raise ValueError(f"{path or 'model'}: the arguments of a {kind.__name__} are named, not {value_shown}")
    for name in kind.asset_arguments:
        given = value["arguments"].get(name)
        if given is not None and not (isinstance(given, dict) and set(given) == {"asset"}):
            raise ValueError(f"{path}/{name}: {shown(given)} is not a file of the model folder")
    arguments = {name: _build(item, folder, built, f"{path}/{name}") for name, item in value["arguments"].items()}
    _check_types(kind, arguments, path)
    built[path] = kind(**arguments)
    return built[path]


def _check_types(kind: type[Described], arguments: dict[str, Any], path: str) -> None:
    """Refuse arguments that do not fit the annotations of a constructor; not every constructor looks at all of them."""
    annotated = hints(kind.__init__)
    for name, value in arguments.items():
        problem = mismatch(value, annotated.get(name, Any))
        if problem:
            raise ValueError(f"{path}/{name}: {problem}")


def _asset(name: Any, folder: Path | None, path: str) -> str:
    """Return the path of a file of the model folder; a name that leads elsewhere is refused."""
    if folder is None or not isinstance(name, str) or name in ("", "..") or Path(name).name != name:
        raise ValueError(f"{path}: {shown(name)} is not a file of the model folder")
    return str(folder / name)


def _class(name: str, path: str) -> type[Described]:
    """Return the described class of a stable name, or of a name with its module from before names were stable."""
    if not isinstance(name, str):
        raise ValueError(f"{path or 'model'}: {shown(name)} is not the name of a class")
    if "." in name and not any(importable(name).startswith(f"{package}.") for package in packages()):
        raise ValueError(
            f"{path or 'model'}: {shortened(repr(name))} is not a class of this project or a registered package "
            f"({', '.join(packages())})"
        )
    own_name = name.rpartition(".")[2]
    modules = _modules(packages()).get(own_name, [])
    candidates = [getattr(importlib.import_module(module), own_name) for module in modules]
    kinds = [kind for kind in candidates if isinstance(kind, type) and issubclass(kind, Described)]
    if not kinds:
        raise ValueError(
            f"{path or 'model'}: {shortened(repr(name))} is not a class that a model folder may name; if it is one of "
            "your own, name the package or module that has it: dragoman --package PATH"
        )
    if len(kinds) > 1:
        where = ", ".join(kind.__module__ for kind in kinds)
        raise ValueError(f"{path or 'model'}: {name!r} is the name of several classes (in {where}): rename one")
    return kinds[0]


def named(name: str) -> type[Described]:
    """Return the described class of a name.

    Raises:
        ValueError: if there is none, or more than one.
    """
    return _class(name, "")


def modules_of(description: Any) -> set[str]:
    """Return the modules of the classes in a description."""
    if isinstance(description, list):
        return {module for inside in description for module in modules_of(inside)}
    if not isinstance(description, dict):
        return set()
    module_here = {_class(description["class"], "").__module__} if _is_object(description) else set()
    return module_here | {module for inside in description.values() for module in modules_of(inside)}


def packages() -> tuple[str, ...]:
    """Return the packages whose described classes a model folder may name: this project's and registered ones."""
    return (*PACKAGES, *_registered(), *_here)


def register(name: str) -> None:
    """Let model folders name the described classes of a package or module, in this process.

    Raises:
        ValueError: if it cannot be found.
    """
    if name not in packages():
        _here[name] = _place(name)


def place_of(package: str) -> Path | None:
    """Return the folder or file of a package that was registered for this process, else None."""
    return _here.get(package)


def _place(name: str) -> Path:
    spec = find_spec(name)
    if spec is None:
        raise ValueError(f"no package or module {name!r}")
    return Path([*(spec.submodule_search_locations or ()), spec.origin or ""][0])


def use_package(path: Path) -> None:
    """Register a package or module that is not installed by its folder or file, so that it can be imported.

    Raises:
        UsageError: if there is none, or another one of its name is found first.
    """
    if not path.is_dir() and not (path.is_file() and path.suffix == ".py"):
        raise UsageError(f"--package {path}: neither a folder nor a module (*.py)")
    path = path.resolve()
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))
    place = _place(path.stem)
    if place.resolve() != path:
        raise UsageError(f"--package {path}: hidden by {place}: give it another name")
    register(path.stem)


@cache
def _registered() -> tuple[str, ...]:
    return tuple(point.value for point in entry_points(group=GROUP))


@cache
def _modules(names: tuple[str, ...]) -> dict[str, list[str]]:
    """Return the modules that define a class, by the name of the class; nothing is imported to find them."""
    by_class: dict[str, list[str]] = {}
    for name in names:
        for module, file in _files(name):
            for kind in re.findall(r"^class (\w+)", file.read_text(encoding="utf-8"), re.MULTILINE):
                by_class.setdefault(kind, []).append(module)
    # A package without __init__.py may lie in several folders, and have a module of one name in each.
    return {kind: list(dict.fromkeys(modules)) for kind, modules in by_class.items()}


def _files(name: str) -> Iterator[tuple[str, Path]]:
    """Yield name and file of each module of a package, or of a module alone."""
    spec = find_spec(name)
    if spec is None:
        raise ValueError(f"{name}: registered as a package of described classes, but cannot be found")
    if spec.submodule_search_locations is None:
        yield name, Path(spec.origin or "")
        return
    for folder in map(Path, spec.submodule_search_locations):
        for file in sorted(folder.rglob("*.py")):
            parts = [name, *file.relative_to(folder).with_suffix("").parts]
            yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), file
