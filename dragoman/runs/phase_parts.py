"""A part of a phase, done by a process that knows nothing of the others: ``dragoman run RECIPE --shard 2/8``.

Phases that write manifests row by row can be divided so (shared/phases/sharded.py): an array of jobs needs no group of
machines that start together. The last part that is done runs the recipe on, as far as that phase.
"""

from __future__ import annotations

from pathlib import Path

from dragoman.runs.prechecks import check_values
from dragoman.runs.running import begin, finished_phases, run_recipe, unfinished
from dragoman.shared.errors import UsageError
from dragoman.shared.machine.files import locked
from dragoman.shared.machine.workspace import PhaseRecord, Workspace
from dragoman.shared.phases.sharded import Sharded
from dragoman.shared.recipe.recipe import Recipe
from dragoman.shared.recipe.run_keys import RUN_OPTIONS


def run_part(recipe: Recipe, *, number: int, of: int, command: str = "") -> list[int]:
    """Do a part of the first phase of a recipe that is not finished.

    Args:
        recipe: a loaded recipe.
        number: of this process, from 0.
        of: how many there are.
        command: how it was started, for the record.

    Returns:
        The numbers of the processes that have yet to finish; if there are none, the phase is finished.

    Raises:
        UsageError: if that phase cannot be divided, or a phase before it is to be done; as :func:`run_recipe`.
    """
    recipe.check()
    names, done = recipe.phases, finished_phases(recipe)
    todo = [name for name in names if name not in done]
    if not todo:
        return []
    output, name = Path(recipe.value("output_folder")), todo[0]
    if not issubclass(recipe.plan[name].kind, Sharded):
        raise UsageError(f"--shard: {output} goes on with {name}, which cannot be divided: run it without --shard")
    options = {key: recipe.options[key] for key in RUN_OPTIONS}
    workspace = Workspace(output=output, seed=recipe.value("seed"), command=command, **options)
    if workspace.world > 1:
        raise UsageError("--shard is for processes that know nothing of each other, not for those of torchrun")
    check_values(recipe, workspace.device, [name])
    waits = output / f".{name}.lock"
    with locked(waits):  # parts that are started together look at the same record
        begun = begin(recipe.plan, name, workspace, done)
        if begun is not None:
            PhaseRecord(output, name).write(status="running", **begun.state, seconds=begun.seconds)
    if begun is None:
        return []
    assert isinstance(begun.phase, Sharded)
    waiting = begun.phase.run_part(workspace, number, of)
    with locked(waits):
        if not waiting and name in unfinished(recipe):  # two may have been the last
            run_recipe(recipe, until=name, command=command)
    return waiting
