"""Arms of an experiment: changes of a recipe that have a name.

    arms:
        frozen: {masked_model_rates: 0.0}
        none: {kd_weight: 0, phases.fit.initialise: []}

``--arm none`` gives the keys these values, as the command line would, and the run a folder of its own. Whatever the
command line gives beside comes later. Arms of a base are arms of all recipes over it; ``none: null`` takes one away.
A recipe that another one runs has the arm that ``phases.NAME.arm`` names.
"""

from __future__ import annotations

from dataclasses import replace
from reprlib import repr as shown

from dragoman.shared.errors import UsageError
from dragoman.shared.recipe.resolve import override
from dragoman.shared.recipe.run_keys import name_run
from dragoman.shared.recipe.tree import OF_ARM, Node, nearest

ARMS = "arms"


def take_arms(root: Node) -> Node:
    """Take the arms out of a recipe: a mapping of their names to them, which may be empty.

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


def lay_arm(root: Node, arms: Node, chosen: Node | None) -> list[Node]:
    """Give keys of a recipe the values of an arm, and the run the arm's folder; return the values.

    Raises:
        UsageError: for an arm that the recipe does not have, or keys.
    """
    if chosen is None:
        return []
    name = chosen.value
    if not isinstance(name, str) or name not in arms.value:
        hint = nearest(str(name), arms.value) if arms.value else ": the recipe has no arms"
        raise UsageError(f"{chosen.place}: {chosen.key} {shown(name)}: no such arm{hint}")
    given = {key: _placed(node, name) for key, node in arms.value[name].value.items()}
    for key, node in given.items():
        override(root, key, node)
    name_run(root, name, "--arm")
    return [*given.values()]


def _placed(node: Node, name: str) -> Node:
    """Return a tree whose places say that they are of an arm."""
    value = node.value
    if isinstance(value, dict):
        value = {key: _placed(child, name) for key, child in value.items()}
    elif isinstance(value, list):
        value = [_placed(child, name) for child in value]
    return replace(node, value=value, place=f"{OF_ARM}{name} ({node.place})")
