"""The places of recipes: files and installed ones, the bases that they are laid over, and modules beside them."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import reduce
from importlib.machinery import PathFinder
from importlib.resources import files
from importlib.util import find_spec
from itertools import takewhile
from pathlib import Path

from dragoman.shared.errors import UsageError
from dragoman.shared.moved import HOME, PACKAGES
from dragoman.shared.recipe.resolve import merge
from dragoman.shared.recipe.tree import INNER, Node, nearest, read

#: The key that names folders of modules.
MODULES = "modules"
#: The key that names the recipes that one is laid over.
BASE = "base"
#: The key of the arms (arms.py).
ARMS = "arms"
#: The most files that a recipe is made of; those of this project have at most 12.
MOST_BASES = 100


def is_base(path: Path) -> bool:
    """Tell whether a file of recipes/ holds what recipes share, and is none itself."""
    return path.stem == "base" or path.stem.startswith("base_") or path.parent.name == "base"


def installed() -> list[tuple[str, Path]]:
    """Return name and file of every YAML file of the installed recipes."""
    folder = _installed_folder()
    return [(path.relative_to(folder).with_suffix("").as_posix(), path) for path in sorted(folder.rglob("*.yaml"))]


def _installed_folder() -> Path:
    return Path(str(files("dragoman.recipes")))


def find(source: str | Path) -> tuple[Path, str, str]:
    """Return a recipe's file, how to show it, and its name.

    Raises:
        UsageError: if there is none, with the nearest name.
    """
    path = Path(source)
    if path.is_file():
        file, folder = path.resolve(), _installed_folder().resolve()
        name = file.relative_to(folder).with_suffix("").as_posix() if file.is_relative_to(folder) else path.stem
        return path, str(source), name
    installed_recipe = _installed_one(str(source))
    if installed_recipe is None:
        recipes = [name for name, file in installed() if not is_base(file)]
        raise UsageError(f"no recipe {str(source)!r}: neither a file nor an installed recipe{nearest(source, recipes)}")
    name, file = installed_recipe
    return file, f"recipes/{name}.yaml", name


def _installed_one(source: str) -> tuple[str, Path] | None:
    """Return the installed recipe of a name: own/mt, own/mt.yaml or recipes/own/mt.yaml."""
    name = source.removeprefix("recipes/").removesuffix(".yaml")
    file = _installed_folder() / f"{name}.yaml"
    return (name, file) if name == os.path.normpath(name) and ".." not in file.parts and os.path.isfile(file) else None


def header(path: Path) -> str:
    """Return the comment lines at the top of a file."""
    lines = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            break
        lines.append(line[1:].strip())
    return "\n".join(lines)


def title(path: Path) -> str:
    """Return what a file's header says before its first empty line or command, on one line."""
    return " ".join(takewhile(lambda line: line and not line.startswith("dragoman "), header(path).split("\n")))


# -- bases ----------------------------------------------------------------------------------------------------------


class Layers:
    """A recipe and its bases; a base that is reached in several ways lies below all that name it.

    Args:
        path: the recipe's file.
        shown: how messages name it.

    Attributes:
        folders: those whose modules the recipe and its bases may name.
    """

    def __init__(self, path: Path, shown: str) -> None:
        self.folders: list[str] = []
        self._recipe = path, shown
        self._by_file: dict[Path, Node] = {}

    def read(self) -> Node:
        """Return the recipe laid over its bases."""
        _read_layers(*self._recipe, self.folders, self._by_file, above=[])
        return reduce(merge, self._by_file.values())

    def lay(self, root: Node, named: Node) -> None:
        """Lay further recipes, which a node names as :data:`BASE` does, over the recipe's tree, which is changed."""
        path, shown = self._recipe
        before = len(self._by_file)
        for base in _several(named):
            _read_layers(*_find_base(base, path, shown), self.folders, self._by_file, above=[path.resolve()])
        root.value = reduce(merge, [*self._by_file.values()][before:], root).value


def _several(node: Node | None) -> list[Node]:
    """Return what a key names that may be a list or one value."""
    return [] if node is None else node.value if isinstance(node.value, list) else [node]


def _read_layers(path: Path, shown: str, folders: list[str], layers: dict[Path, Node], above: Sequence[Path]) -> None:
    """Read a recipe and the bases that have not been read; add them to the layers, the lowest first.

    Args:
        path: the file.
        shown: how messages name it.
        folders: filled as those of :class:`Layers`.
        layers: filled with the recipes by their files.
        above: the recipes that have this one as a base.
    """
    file = path.resolve()
    if file in above:
        raise UsageError(f"{shown}: base recipes include each other in a circle")
    if file in layers:
        return
    if len(above) + len(layers) == MOST_BASES:
        raise UsageError(f"{shown}: the recipe has more than {MOST_BASES} bases")
    root = read(path, shown, own=not above)
    folders += [folder for folder in _module_folders(path, root) if folder not in folders]
    for base in _several(root.value.pop(BASE, None)):
        _read_layers(*_find_base(base, path, shown), folders, layers, [*above, file])
    _find_inner(root, path, shown)
    _find_bases_of_arms(root, path, shown)
    layers[file] = root


def _find_inner(root: Node, path: Path, shown: str) -> None:
    """Let the phases that run a recipe beside this one name it as it is seen from the working directory."""
    phases = [recipe.value["phases"].value for recipe in _with_arms(root) if "phases" in recipe.value]
    laid_over = [phase for each in phases if isinstance(each, dict) for phase in each.values()]
    nodes = [node for node in root.walk() if node.tag == INNER] + [phase for phase in laid_over if not phase.tag]
    for node in nodes:
        inner = node.value.get("recipe") if isinstance(node.value, dict) else None
        if inner and isinstance(inner.value, str) and (path.parent / inner.value).is_file():
            inner.value = os.path.normpath(Path(shown).parent / inner.value)


def _find_bases_of_arms(root: Node, path: Path, shown: str) -> None:
    """Let arms name their bases as they may be named in any folder."""
    for arm in _with_arms(root):
        if BASE in arm.value:
            found = _anywhere(arm.value[BASE], path, shown)
            arm.value[BASE] = found if isinstance(arm.value[BASE].value, list) else found.value[0]


def _with_arms(root: Node) -> Iterator[Node]:
    """Yield a recipe without its bases, its arms, and theirs."""
    yield root
    arms = root.value.get(ARMS, Node({})).value
    for arm in arms.values() if isinstance(arms, dict) else []:
        if isinstance(arm.value, dict):
            yield from _with_arms(arm)


def _anywhere(named: Node, path: Path, shown: str) -> Node:
    """Return the bases that a node of a recipe names as they may be named in any folder."""
    found, folder = [], _installed_folder().resolve()
    for base in _several(named):
        file = _find_base(base, path, shown)[0].resolve()
        is_installed = file.is_relative_to(folder)
        place = file.relative_to(folder).with_suffix("").as_posix() if is_installed else str(file)
        found.append(replace(base, value=place))
    return replace(named, value=found)


def _find_base(base: Node, path: Path, shown: str) -> tuple[Path, str]:
    """Return the file that a recipe names as its base, and how to show it."""
    if base.tag or not isinstance(base.value, str):
        base.refuse("base names a recipe file, seen from this one, or an installed recipe, or a list of these")
    file = path.parent / base.value
    if file.is_file():
        return file, os.path.normpath(Path(shown).parent / base.value)
    installed_recipe = _installed_one(base.value)
    if installed_recipe is None:
        beside = [other.name for other in path.parent.glob("*.yaml") if other.resolve() != path.resolve()]
        names = [*beside, *(name for name, _ in installed())]
        base.refuse(
            f"no file {base.value!r} beside the recipe, and no installed recipe of this name"
            f"{nearest(base.value, names, few=0)}"
        )
    return installed_recipe[1], f"recipes/{installed_recipe[0]}.yaml"


def bases(source: str | Path) -> dict[str, Node]:
    """Return the key ``base`` of a recipe, as it may be given in any folder; empty if it has none."""
    path, shown, _ = find(source)
    named = read(path, shown).value.get(BASE)
    return {} if named is None else {BASE: _anywhere(named, path, shown)}


# -- modules --------------------------------------------------------------------------------------------------------


def _module_folders(path: Path, root: Node) -> list[str]:
    """Return the folders whose modules a recipe may name: its own, and those of its key ``modules``."""
    folders = [] if path.resolve().is_relative_to(_installed_folder().resolve()) else [path.resolve().parent]
    for node in _several(root.value.pop(MODULES, None)):
        if node.tag or not isinstance(node.value, str):
            node.refuse(f"{MODULES} is a list of folders, seen from the recipe")
        folder = (path.parent / node.value).resolve()
        if not folder.is_dir():
            node.refuse(f"no folder {str(folder)!r}")
        folders.append(folder)
    return [str(folder) for folder in folders]


def add_to_path(folders: Sequence[str]) -> None:
    """Let modules of folders be imported, here and in processes started from here; what is installed comes first."""
    sys.path.extend(folder for folder in folders if folder not in sys.path)


def check_not_hidden(root: Node, folders: Sequence[str]) -> None:
    """Refuse a tree that names a module beside its recipe, where another one of this name would be taken.

    Raises:
        UsageError: naming both.
    """
    for node, top in _modules_named(root):
        for folder in folders:
            beside, taken = PathFinder.find_spec(top, [folder]), find_spec(top)
            if (
                beside is None or beside.origin is None or taken is None
            ):  # a mere folder hides nothing and is not hidden
                continue
            if os.path.realpath(beside.origin) != os.path.realpath(taken.origin or ""):
                node.refuse(f"{node.path}: {beside.origin} is hidden by {taken.origin or top}: give it another name")


def folders_of_modules(root: Node, folders: Sequence[str]) -> list[str]:
    """Return those of the folders that hold a module which a tree names."""
    tops = {top for _, top in _modules_named(root)}
    return [folder for folder in folders if any(PathFinder.find_spec(top, [folder]) for top in tops)]


def _modules_named(root: Node) -> Iterator[tuple[Node, str]]:
    seen = {HOME, *PACKAGES}
    for node in root.walk():
        top = node.path.partition(".")[0]
        if "." in node.path and top.isidentifier() and top not in seen:
            seen.add(top)
            yield node, top
