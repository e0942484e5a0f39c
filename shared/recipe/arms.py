"""Arms of an experiment: changes of a recipe that have a name.

    arms:
        frozen: {masked_model_rates: 0.0}
        none: {kd_weight: 0, phases.fit.initialise: []}
        low: {base: base_low.yaml, updates: 700}

An arm is laid over its recipe as a recipe is over its base: it may name bases of its own, which come first, bring keys
and phases, and further ``arms`` that have a meaning with it alone. A key with dots gives one value, as on the command
line. ``--arm low+none`` lays one over the other. The run has a folder of its own, whose name each arm is put into,
unless the arm gives ``results_folder`` another value, and the folder lies elsewhere by that. Whatever the command line
gives beside comes later.

Arms of a base are arms of all recipes over it; ``none: null`` takes one away. A recipe that another one runs has the
arm that ``phases.NAME.arm`` names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from reprlib import repr as shown

from dragoman.shared.errors import UsageError
from dragoman.shared.recipe.locations import ARMS, BASE
from dragoman.shared.recipe.resolve import Resolver, override
from dragoman.shared.recipe.run_keys import name_run
from dragoman.shared.recipe.tree import OF_ARM, Node, nearest

#: What stands between arms that are laid over each other.
PLUS = "+"


def take_arms(root: Node) -> Node:
    """Take the arms out of a recipe or an arm: a mapping of their names to them, which may be empty.

    Raises:
        UsageError: for an arm that is no mapping of keys to values.
    """
    node = root.value.pop(ARMS, Node({}))
    if not isinstance(node.value, dict) or node.tag:
        node.refuse("is a mapping of the arms' names to the keys that they change")
    arms = {name: arm for name, arm in node.value.items() if arm.value is not None}
    for arm in arms.values():
        if not isinstance(arm.value, dict) or arm.tag or not arm.value:
            arm.refuse("an arm is a mapping of keys to the values that it gives them")
        for key in ("output_folder", "seed"):
            if key in arm.value:
                arm.value[key].refuse("an arm has this from its recipe; its folder is named after it")
    return replace(node, value=arms)


def names_of_arms(arms: Node) -> Iterator[str]:
    """Yield the names of arms, and of those that they bring along."""
    for name, arm in arms.value.items():
        yield name
        yield from (f"{name}{PLUS}{inner}" for inner in names_of_arms(arm.value.get(ARMS, Node({}))))


def lay_arms(
    root: Node, arms: Node, chosen: Node | None, lay: Callable[[Node, Node], None], *, placed: bool = False
) -> list[Node]:
    """Lay arms over a recipe, give the run a folder of theirs, and return the values of their keys.

    Args:
        root: the recipe; changed.
        arms: its arms.
        chosen: the names of those to lay, joined by :data:`PLUS`; None for none.
        lay: lays the bases that a node names over a recipe.
        placed: who runs the recipe says where all results go, so that an arm's own place for them does not count.

    Raises:
        UsageError: for an arm that the recipe does not have, or keys.
    """
    if chosen is None:
        return []
    given = []
    for name in chosen.value.split(PLUS) if isinstance(chosen.value, str) else [chosen.value]:
        if name not in arms.value:
            hint = nearest(str(name), arms.value) if arms.value else ": the recipe has no arms"
            raise UsageError(f"{chosen.place}: {chosen.key} {shown(name)}: no such arm{hint}")
        arm = _placed(arms.value[name], name)
        results, folder = root.value.get("results_folder"), _output(root)
        if BASE in arm.value:
            lay(root, arm.value.pop(BASE))
        arms = replace(arms, value=arms.value | take_arms(root).value | take_arms(arm).value)
        given += [*_laid(root, arm)]
        if placed or root.value.get("results_folder") is results or _output(root) == folder:
            name_run(root, name, "--arm")
    return given


def _laid(root: Node, arm: Node) -> Iterator[Node]:
    """Give keys of a recipe the values of an arm; yield them."""
    for key, node in arm.value.items():
        if "." in key or key.replace("-", "_") in root.value:
            override(root, key, node)
        else:
            node.own = True  # so that it has to be of use
            root.value[key] = node
        yield node


def _output(root: Node) -> object:
    """Return the folder of the run as it is now."""
    folder = root.value.get("output_folder")
    return None if folder is None else Resolver(root, lenient=True).resolve(folder).value


def _placed(node: Node, name: str) -> Node:
    """Return a tree whose places say that they are of an arm, with the keys that it has in the recipe."""
    value = node.value
    if isinstance(value, dict):
        value = {key: _placed(child, name) for key, child in value.items()}
    elif isinstance(value, list):
        value = [_placed(child, name) for child in value]
    key = node.key.removeprefix(f"{ARMS}.{name}.")
    return replace(node, value=value, key=key, place=f"{OF_ARM}{name} ({node.place})")
