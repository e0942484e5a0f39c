"""The reach of a recipe, which is code: its paths are imported and called, so that what it may name is bounded.

It reaches this project's parts, ``torch.nn`` and ``torch.optim``, packages that are registered (entry points of the
groups ``dragoman.corpora`` and ``dragoman.packages``, ``dragoman --package``), and modules of its own: beside it, and
in the folders of its key ``modules``. What counts is where a thing is defined, not the way to it: that a module of ours
imports ``os`` does not make ``os`` ours. ``--trust-recipe`` lifts the bound.
"""

from __future__ import annotations

import inspect
import os
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.metadata import entry_points
from importlib.util import find_spec
from typing import Any

from dragoman.shared.described import packages
from dragoman.shared.moved import HOME, importable
from dragoman.shared.recipe.tree import Node

#: What every recipe reaches: all that those of this project use is there. Registered packages come to it. Of the room
#: that starts runs, it is the phase that runs a recipe, and its module.
OPEN = (
    "dragoman.shared",
    "dragoman.mt",
    "dragoman.st",
    "dragoman.almanac",
    "dragoman.preparing",
    "dragoman.runs.RunRecipe",
    "dragoman.runs.nested",
    "dragoman.simultaneous",
    "torch.nn",
    "torch.optim",
)
#: What reads recipes and deletes folders is no part of one.
CLOSED = tuple(f"dragoman.shared.{room}" for room in ("described", "machine", "moved", "recipe"))
#: The call that a reference to an attribute becomes, ``<tokenizer.size>``.
ATTRIBUTE = "!apply:getattr"
GROUP = "dragoman.corpora"


@dataclass(frozen=True)
class Reach:
    """The reach of one recipe.

    Attributes:
        folders: of its own modules.
        trusts: nothing is refused.
    """

    folders: tuple[str, ...] = ()
    trusts: bool = False

    @staticmethod
    def inside(folders: Sequence[str], trusts: bool) -> Reach:
        """Return the reach of a recipe: what those around it reach, and its own."""
        around = _now()
        return Reach((*around.folders, *folders), trusts or around.trusts)

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Let what is imported meanwhile, and the recipes that are loaded, have this reach."""
        before = _REACH.set(self)
        try:
            yield
        finally:
            _REACH.reset(before)


_REACH: ContextVar[Reach] = ContextVar("reach")


def _now() -> Reach:
    return _REACH.get(Reach())


def check_path(node: Node) -> None:
    """Refuse a path beyond the reach, before anything of it is imported.

    Raises:
        UsageError: naming the option that allows it.
    """
    if _now().trusts:
        return
    if node.tag == ATTRIBUTE:
        _check_attribute(node)
    elif not _is_open(importable(node.path)) or any(part.startswith("__") for part in node.path.split(".")):
        _refuse(node, node.path)


def check_object(node: Node, way: str, thing: Any) -> None:
    """Refuse what a node's path, or its beginning ``way``, has led to, if that is defined beyond the reach.

    Raises:
        UsageError: naming where it is defined.
    """
    if _now().trusts or not _is_open(way):  # "torch", on the way to torch.nn
        return
    if inspect.ismodule(thing):
        place: str | None = thing.__name__
    elif callable(thing):
        place = getattr(thing, "__module__", None)
        if inspect.isbuiltin(thing) and way.startswith("torch.nn.") and _is_within(place or "torch", ("torch",)):
            return  # in C
    else:
        return
    if not _is_open(place or ""):
        _refuse(node, f"{way}, which is of {place or 'no module'},")


def _check_attribute(node: Node) -> None:
    """Refuse an attribute of a module, and one that Python itself gives to objects."""
    if not (isinstance(node.value, list) and len(node.value) == 2 and isinstance(node.value[1].value, str)):
        _refuse(node, "getattr")
    owner, name = node.value
    if owner.tag.startswith(("!module:", "!name:")) or name.value.startswith("__"):
        _refuse(node, f"the attribute {name.value!r} of {owner.tag or 'a value'}")


def _refuse(node: Node, what: str) -> None:
    node.refuse(
        f"a recipe may not name {what}: it reaches this project, torch.nn, torch.optim, registered packages, and "
        "modules beside it or in its folders 'modules: [...]'; if you have read it and trust it, add --trust-recipe"
    )


def _is_open(path: str) -> bool:
    if _is_within(path, CLOSED):
        return False
    return _is_within(path, (*OPEN, *packages(), *_readers())) or _is_own(path.partition(".")[0])


@lru_cache(maxsize=4096)
def _is_within(path: str, places: tuple[str, ...]) -> bool:
    return any(path == place or path.startswith(place + ".") for place in places)


@cache
def _readers() -> tuple[str, ...]:
    """Return the packages that have registered readers of corpora."""
    tops = {point.module.partition(".")[0] for point in entry_points(group=GROUP)}
    return tuple(tops - {HOME})  # those of ours are readers in rooms that are open


def _is_own(top: str) -> bool:
    """Tell whether a module is in one of the recipe's folders, and not one that is installed."""
    folders = {os.path.realpath(folder) for folder in _now().folders}
    if not folders or not top or top in sys.stdlib_module_names or top.startswith("__"):
        return False
    try:
        spec = find_spec(top)
    except ValueError:  # a module that somebody has put together
        return False
    places = [] if spec is None else [*(spec.submodule_search_locations or filter(None, [spec.origin]))]
    beside = {os.path.dirname(os.path.realpath(place)) for place in places}
    return bool(places) and beside <= folders and not any(map(_is_installed, beside))


def _is_installed(folder: str) -> bool:
    paths = sysconfig.get_paths()
    return folder in {os.path.realpath(paths[name]) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
