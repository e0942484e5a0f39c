"""``dragoman show``: a recipe with its bases in one piece, or what a model folder holds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from dragoman.commands.summary import summary
from dragoman.shared.errors import UsageError
from dragoman.shared.recipe.recipe import Recipe


def show_target(target: str, overrides: Sequence[str], *, phase: str | None = None, changed: bool = False) -> None:
    """Print a recipe with its bases, and for each line the file and line that it comes from; or what a model holds.

    Args:
        target: a file, or the name of an installed recipe; or a model folder.
        overrides: ``--key value ...`` of a recipe.
        phase: print only what this phase is built from.
        changed: print only what the recipe itself and the overrides say, not its bases.

    Raises:
        UsageError: naming file, line, key and value; if a model folder is given with options of recipes.
        DataError: if a folder holds no model.
    """
    if not Path(target).is_dir() or target in {name for name, _ in Recipe.list()}:
        print(Recipe.load(target, overrides).shown(phase, changed=changed), end="")
        return
    if overrides or phase is not None or changed:
        raise UsageError(f"{target}: is a folder, and --phase, --changed and keys are for recipes")
    print(summary(target), end="")
