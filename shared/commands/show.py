"""``dragoman show``: a recipe with its bases in one piece."""

from __future__ import annotations

from collections.abc import Sequence

from shared.recipe.recipe import Recipe


def print_recipe(recipe: str, overrides: Sequence[str], *, phase: str | None = None, changed: bool = False) -> None:
    """Print a recipe with its bases and overrides, and for each line the file and line that it comes from.

    Args:
        recipe: a file, or the name of an installed recipe.
        overrides: ``--key value ...``.
        phase: print only what this phase is built from.
        changed: print only what the recipe itself and the overrides say, not its bases.

    Raises:
        UsageError: naming file, line, key and value.

    """
    print(Recipe.load(recipe, overrides).shown(phase, changed=changed), end="")
