"""One phase, whose references have been followed, is checked and becomes an object."""

from __future__ import annotations

from typing import Any

from shared.recipe.construct import Refused, construct
from shared.recipe.inner import arguments_of
from shared.recipe.signatures import check_tree, locate
from shared.recipe.tree import INNER, Node, to_yaml


def check_phase(resolved: Node, written: Node, seen: set[int]) -> None:
    """Check every path, argument and type of a phase; imports what it names, and builds nothing.

    Args:
        resolved: the phase with its references followed.
        written: the phase in the recipe, which messages name.
        seen: filled with what has been checked, which is not checked again.

    Raises:
        UsageError: naming file, line, key and value.

    """
    if not resolved.tag.startswith("!new:"):
        written.refuse("a phase is an object: !new:path")
    if not hasattr(locate(resolved), "run"):
        written.refuse(f"{resolved.path} is not a phase: it has no run()")
    check_tree(resolved, seen)


def build_phase(resolved: Node, written: Node) -> Any:
    """Build a phase with all that it refers to; see :func:`check_phase`.

    Raises:
        UsageError: where a constructor refuses a value.
        DataError: from constructors that read files.

    """
    try:
        return locate(resolved)(**arguments_of(resolved, _built)) if resolved.tag == INNER else _built(resolved)
    except Refused as refusal:
        at = [node for node in resolved.walk() if node.tag == refusal.tag]
        where = at[0] if len(at) == 1 else written
        where.refuse(f"{refusal.tag}: {' '.join(str(refusal.error).split())}", refusal.error)


def _built(node: Node) -> Any:
    return construct(to_yaml(Node({"phase": node}), exact=True))["phase"]
