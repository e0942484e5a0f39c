"""The plan of a recipe: its phases in order, each resolved once, which answer for themselves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Generic

from dragoman.shared.recipe.inner import Above, Inner, debugging, load_inner, without_groups
from dragoman.shared.recipe.reach import Reach
from dragoman.shared.recipe.resolve import Resolver
from dragoman.shared.recipe.signatures import check_phase, locate
from dragoman.shared.recipe.tree import INNER, Node, leaf_nodes, plain
from dragoman.shared.recipe.values import Builder, Trial


@dataclass(frozen=True)
class PlannedPhase(Generic[Inner]):
    """A phase as its recipe has it.

    Attributes:
        name: the phase's name.
        recipe: the name of its recipe.
        output: the folder of the run.
        written: what the recipe says.
        resolver: follows the references in it.
        above: the recipes around one that the phase runs.
        reach: of the recipe.
        debug: whether the run is one for debugging.
    """

    name: str
    recipe: str
    output: str
    written: Node = field(repr=False)
    resolver: Resolver = field(repr=False)
    above: Above[Inner] = field(repr=False)
    reach: Reach = field(repr=False)
    debug: bool = False

    @cached_property
    def node(self) -> Node:
        """The tree that the phase is built from: references followed, groups of keys for another recipe chosen."""
        resolved = self.resolver.resolve(self.written)
        if resolved.tag != INNER:
            return resolved
        chosen = without_groups(self.written, resolved, self.above)
        return debugging(chosen) if self.debug else chosen

    @cached_property
    def plain(self) -> dict[str, dict[str, Any]]:
        """The same as plain data; objects are ``{"!new:path": {arguments}}``."""
        data: dict[str, dict[str, Any]] = plain(self.node)
        return data

    @cached_property
    def arguments(self) -> dict[str, Any]:
        """The arguments of the phase, as plain data."""
        [arguments] = self.plain.values()
        return arguments

    @cached_property
    def inner(self) -> Inner | None:
        """The recipe that the phase runs, None if it runs none."""
        with self.reach.applied():
            return load_inner(self.written, self.node, self.above) if self.node.tag == INNER else None

    @cached_property
    def kind(self) -> Any:
        """The class of the phase, which is imported."""
        with self.reach.applied():
            return locate(self.node)

    def values(self) -> Sequence[tuple[str, str, str]]:
        """Return path inside the phase, value as text, and the key that sets it, of all that it is built from."""
        return [(path, text, node.key) for path, text, node in leaf_nodes(self.node)]

    def try_values(self) -> Trial:
        """Build what can be built before earlier phases have run.

        Raises:
            UsageError: for a path, argument or type that is wrong, and where a constructor refuses a value.
        """
        with self.reach.applied():
            check_phase(self.node, self.written, set())
            return Trial(self.node)

    def build(self) -> Any:
        """Build the phase with all that it refers to, and nothing else.

        What one reference names is one object, wherever in the phase it stands. Nothing is shared between phases.

        Raises:
            UsageError: as :meth:`try_values`.
            DataError: from constructors that read files.
        """
        with self.reach.applied():
            check_phase(self.node, self.written, set())
            return Builder().build(self.node)
