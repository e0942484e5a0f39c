"""Recipes that a recipe runs as phases of its own (``dragoman.runs.RunRecipe``), and what happens without one.

``--phases.asr.updates 600`` gives a key of the recipe that phase ``asr`` runs, ``--phases.asr null`` switches it off:
what would have been initialised from its models is trained from scratch.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from dragoman.shared.recipe.resolve import Resolver, within
from dragoman.shared.recipe.tree import Node, plain

INITIALISE = "!new:shared.training.initialise.Initialise"
#: The output folder of a debug run ends in this.
DEBUG = "-debug"
#: A recipe inside a recipe inside ... more often than this never ends.
DEEPEST = 8
#: All recipes that one runs, and that those run; those of this project are at most 17.
MOST_INSIDE = 200


class Loaded(Protocol):
    """A recipe, as far as the one around it asks."""

    @property
    def used_keys(self) -> set[str]:
        """The names of its top-level keys that are of use."""
        ...

    def value(self, key: str, *, lenient: bool = False) -> Any:
        """Return the plain value of a top-level key."""
        ...


Inner = TypeVar("Inner", bound=Loaded)


class Above(NamedTuple, Generic[Inner]):
    """The recipes around one that a phase runs."""

    names: tuple[str, ...]
    load: Callable[..., Inner]


def load_inner(written: Node, resolved: Node, above: Above[Inner]) -> Inner:
    """Load the recipe that a phase runs; its keys bear the places where this recipe gives them.

    Raises:
        UsageError: as :meth:`dragoman.shared.recipe.recipe.Recipe.load`, or if recipes run each other without end.
    """
    if len(above.names) > DEEPEST:
        written.refuse(f"recipes run each other without end: {' -> '.join(above.names)}")
    arguments = resolved.value if isinstance(resolved.value, dict) else {}
    if "recipe" not in arguments or not isinstance(arguments["recipe"].value, str):
        written.refuse(f"{resolved.path} needs the name or file of a recipe: recipe: almanac/st")
    overrides = arguments.get("overrides", Node({}))
    if not isinstance(overrides.value, dict) or overrides.tag:
        overrides.refuse("overrides are a mapping of keys to values, or a list of mappings and of !ref <groups>")
    places = (overrides.source or overrides).value
    named = [(key, node, places.get(key, node)) for key, node in overrides.value.items()]
    given = {key: Node(n.value, n.tag, at.place, at.key, own=at.own, bare=at.bare) for key, n, at in named}
    if any(node.given for node in given.values()):
        for node in given.values():  # what is handed on may have become useless by what the user gives
            node.own = node.given
    return above.load(arguments["recipe"].value, given, above=above.names)


def few(inside: list[str], node: Node) -> list[str]:
    """Return what there is of each recipe inside another, if they are not too many; else name a node.

    Raises:
        UsageError: for more than ``MOST_INSIDE``.
    """
    if len(inside) > MOST_INSIDE:
        node.refuse(f"the recipe runs more than {MOST_INSIDE} others")
    return inside


def arguments_of(phase: Node, build: Callable[[Node], Any]) -> dict[str, Any]:
    """Return what a phase that runs a recipe is built from: objects stay nodes, and the other recipe builds its own."""
    overrides = phase.value.get("overrides", Node({}))
    given = {key: node if _makes_objects(node) else build(node) for key, node in overrides.value.items()}
    return {"recipe": build(phase.value["recipe"]), "overrides": given}


def _makes_objects(node: Node) -> bool:
    return any(inside.tag.startswith(("!new:", "!name:", "!module:")) for inside in node.walk())


# -- groups of keys --------------------------------------------------------------------------------------------------


def without_groups(written: Node, resolved: Node, above: Above[Any]) -> Node:
    """Return a phase that runs a recipe with its overrides as one mapping, if they are a list.

    A list holds mappings, whose keys the other recipe has to know, and groups: references to mappings
    (``!ref <same_data>``). Of a group it is given the keys that it uses and whose values would be others without.

    Args:
        written: the phase.
        resolved: the same with its references followed.
        above: the recipes around it.

    Raises:
        UsageError: if something in the list is no mapping.
    """
    overrides = resolved.value.get("overrides", Node({}))
    if not isinstance(overrides.value, list) or overrides.tag:
        return resolved
    keys: dict[str, Node] = {}
    shared: dict[str, Node] = {}
    references = [item.tag == "!ref" for item in (overrides.source or overrides).value]
    for mapping, is_group in zip(overrides.value, references, strict=True):
        if not isinstance(mapping.value, dict) or mapping.tag:
            mapping.refuse("is neither a mapping of keys to values nor a reference to one")
        origins = dict((mapping.source or mapping).items())
        for key, node in mapping.value.items():
            origin = origins.get(key, node)
            placed = Node(node.value, node.tag, origin.place, origin.key, own=not is_group, bare=origin.bare)
            (shared if is_group else keys)[key] = placed
    while True:
        phase = Node(resolved.value | {"overrides": Node(dict(keys))}, resolved.tag, resolved.place, resolved.key)
        inner = load_inner(written, phase, above)
        used = inner.used_keys
        more = {
            key: node
            for key, node in shared.items()
            if key not in keys and key in used and inner.value(key, lenient=True) != plain(node)
        }
        if not more:
            return phase
        keys |= more


# -- debug runs ------------------------------------------------------------------------------------------------------


def debug_folder(folder: str) -> str:
    """Return the folder of a debug run, beside that of the real one."""
    folder = os.path.normpath(folder)
    return folder if folder.endswith(DEBUG) else folder + DEBUG


def debugged_elsewhere(path: str) -> str:
    """Return where a debug run has left what is not at a path; else the path.

    That run is none of a recipe inside this one: what an arm begins with may be another run's.
    """
    if os.sep not in path or next(glob.iglob(path), None) is not None:
        return path
    run = os.path.dirname(path)
    while run.strip(os.sep):
        if os.path.isfile(os.path.join(run + DEBUG, "recipe.yaml")):
            return os.path.join(run + DEBUG, os.path.relpath(path, run))
        run = os.path.dirname(run)
    return path


def debugging(resolved: Node) -> Node:
    """Return a phase that runs a recipe as one that debugs it."""
    overrides = resolved.value.get("overrides", Node({}))
    debug = Node(True, place=resolved.place, key="debug")
    named = Node(overrides.value | {"debug": debug}, overrides.tag, overrides.place, overrides.key, overrides.own)
    if overrides.source is not None:
        named.source = overrides.source
    return Node(resolved.value | {"overrides": named}, resolved.tag, resolved.place, resolved.key, source=resolved)


# -- what is switched off --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SwitchedOff:
    """A recipe that is not run, because its phase is null.

    Attributes:
        node: the null.
        name: the phase's name.
        folder: the output folder that the recipe would have.
        fresh: the parameters that would have been initialised from it.
    """

    node: Node
    name: str
    folder: str
    fresh: list[str]

    def refuse_reading(self, resolved: Iterable[Node]) -> None:
        """Refuse what reads from the recipe's folder and is not there.

        Raises:
            UsageError: naming the key that reads.
        """
        for node in resolved:
            if isinstance(node.value, str) and within(node.value, self.folder) and not os.path.exists(node.value):
                node.refuse(f"{node.value} is not there, and phase {self.name!r}, which makes it, is switched off")

    def __str__(self) -> str:
        """Say what follows."""
        start = f": trained from scratch: {', '.join(self.fresh)}" if self.fresh else ""
        return f"{self.name}: switched off{start}"


def switch_off(root: Node, above: Above[Any], given: Iterable[Node]) -> list[SwitchedOff]:
    """Take what is initialised from recipes whose phases are null out of a tree.

    Args:
        root: the tree; changed.
        above: the recipes around what its phases run: those around it, and itself.
        given: the values of overrides: what is to be initialised from a folder that is one of them stays, and so does
            what the command line itself initialises.

    Returns:
        What is switched off.
    """
    phases = root.value.get("phases")
    if phases is None or not isinstance(phases.value, dict):
        return []
    nulls = {name: node for name, node in phases.value.items() if node.off is not None}
    if not nulls:
        return []
    whole = {name: node.off or node for name, node in phases.value.items()}
    resolver = Resolver(Node({**root.value, "phases": Node(whole)}), lenient=True)
    for node in whole.values():
        resolver.resolve(node)
    named = [place for node in given if isinstance(place := resolver.resolve(node).value, str)]
    off = []
    for name, node in nulls.items():
        assert node.off is not None
        phase = without_groups(node.off, resolver.resolve(node.off), above)
        folder = load_inner(node.off, phase, above).value("output_folder", lenient=True)
        kept = any(within(place, folder) for place in named)
        fresh = [] if kept else [*_initialised(root, resolver, folder)]
        off.append(SwitchedOff(node, name, folder, fresh))
    return off


def _initialised(root: Node, resolver: Resolver, folder: str) -> Iterator[str]:
    """Take what copies parameters from models in a folder out of all lists; yield which parameters.

    What the user writes on the command line stays: the model may be there already.
    """
    for parent in [node for node in root.walk() if isinstance(node.value, list)]:
        for item in [item for item in parent.value if item.tag == INITIALISE and "folder" in item.value]:
            source = resolver.resolve(item.value["folder"]).value
            if not item.given and isinstance(source, str) and within(source, folder):
                parent.value.remove(item)
                yield from dict(resolver.resolve(item.value["parts"]).items()) if "parts" in item.value else ()
