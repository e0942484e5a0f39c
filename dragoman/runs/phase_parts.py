"""A part of a phase, done by a process that knows nothing of the others: ``dragoman run RECIPE --shard 2/8``.

Phases that write manifests row by row can be divided so (shared/phases/sharded.py): an array of jobs needs no group of
machines that start together. The last part that is done runs the recipe on, as far as that phase.
"""

from __future__ import annotations

import time
from contextlib import ExitStack

from dragoman.runs.prechecks import check_values
from dragoman.runs.running import algorithms, begin, finished_phases, run_recipe, unfinished, workspace_of
from dragoman.shared.errors import UsageError
from dragoman.shared.machine.files import locked
from dragoman.shared.machine.stopping import Interrupted
from dragoman.shared.machine.workspace import InUse, PhaseRecord
from dragoman.shared.phases.sharded import Sharded
from dragoman.shared.recipe.recipe import Recipe

#: How often the last part looks, once a second, whether the others have left the folder.
LOOKS = 60


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
        Interrupted: after Ctrl-C.
    """
    recipe.check()
    names, done = recipe.phases, finished_phases(recipe)
    todo = [name for name in names if name not in done]
    if not todo:
        return []
    workspace, name = workspace_of(recipe, command), todo[0]
    output = workspace.output
    if not issubclass(recipe.plan[name].kind, Sharded):
        if any(issubclass(recipe.plan[one].kind, Sharded) for one in done):  # a job that is started once more
            workspace.log.info("the parts are put together; without --shard, the run goes on with %s", name)
            return []
        raise UsageError(f"--shard: {output} goes on with {name}, which cannot be divided: run it without --shard")
    if workspace.world > 1:
        raise UsageError("--shard is for processes that know nothing of each other, not for those of torchrun")
    check_values(recipe, workspace.device, [name])
    waits = output / f".{name}.lock"
    with ExitStack() as at_work:
        with locked(waits):  # parts that are started together look at the same record
            at_work.enter_context(workspace.locked(part=True))
            begun = begin(recipe.plan, name, workspace, done)
            if begun is None:
                return []
            PhaseRecord(output, name).write(status="running", **begun.state, seconds=begun.seconds)
        assert isinstance(begun.phase, Sharded)
        try:
            with algorithms(workspace):
                waiting = begun.phase.run_part(workspace, number, of)
        except KeyboardInterrupt as error:
            raise Interrupted(f"{output}: stopped in {name}; the same command goes on from there") from error
    with locked(waits):
        for _ in range(LOOKS):
            if waiting or name not in unfinished(recipe):  # two may have been the last
                break
            try:
                run_recipe(recipe, until=name, command=command)
            except InUse:  # by one that is about to end, or makes the same once more, and will find all there
                time.sleep(1)
    return waiting
