"""The phase that runs another recipe."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from dragoman.runs.running import intention, run_recipe
from dragoman.shared.machine.workspace import Phase, Workspace
from dragoman.shared.recipe.recipe import Recipe
from dragoman.shared.recipe.run_keys import RUN_OPTIONS


class RunRecipe(Phase):
    """Run another recipe, in its own folder; what of it is done already is skipped.

    Args:
        recipe: its name or file.
        overrides: its keys that are to have other values. In a recipe this may also be a list of mappings and of
            references to groups of keys (``!ref <same_data>``): of a group, the other recipe takes what it has. A
            value of a recipe may be an object (``corpus: !ref <corpus>``): the other recipe builds its own of it, one
            for each key that names it.
    """

    aside: ClassVar[tuple[str, ...]] = ("trackers",)

    def __init__(self, *, recipe: str, overrides: dict[str, Any] | None = None) -> None:
        self.recipe = Recipe.load(recipe, overrides or {}, handed_on=True)

    def outputs(self) -> list[Path]:
        """Name the other recipe's folder."""
        return [Path(self.recipe.value("output_folder"))]

    def run(self, workspace: Workspace) -> None:
        """Run it with this run's device, precision and other options."""
        options = {key: getattr(workspace, key) for key in (*RUN_OPTIONS, "keep_time")}
        if workspace.main:
            workspace.log.info("%s: %s", workspace.phase, intention(self.recipe))
        run_recipe(self.recipe, command=workspace.command, options=options | {"inside": workspace.title})
