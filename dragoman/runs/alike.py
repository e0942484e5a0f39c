"""Processes of one run that differ: refused at the start, by name, before they wait for each other or mix work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dragoman.runs.announcing import versions
from dragoman.shared.errors import UsageError, shortened
from dragoman.shared.machine.device import Machine
from dragoman.shared.machine.processes import gather, on_main
from dragoman.shared.machine.workspace import Workspace


def check_machines(workspace: Workspace, recipe: str) -> None:
    """Refuse processes with other software, settings or another recipe; all call it together.

    Args:
        workspace: of the run.
        recipe: its text, resolved.

    Raises:
        UsageError: on rank 0, naming the first that differs; on the others, EndedElsewhere.
    """
    told = {
        "the software": versions(),
        "the kind of device": workspace.device.partition(":")[0],
        "the precision": workspace.precision,
        "sharding": workspace.sharding,
        "the seed": str(workspace.seed),
        "the output folder": str(workspace.output),
    }
    check_alike(told | {f"line {n} of the recipe": line for n, line in enumerate(recipe.splitlines(), 1)}, workspace)


def check_manifests(marks: Mapping[str, str], workspace: Workspace) -> None:
    """Refuse processes whose manifests hold other rows; all call it together.

    Args:
        marks: the fingerprints of this process's manifests, by path.
        workspace: of the run.

    Raises:
        UsageError: as :func:`check_machines`.
    """
    check_alike({f"the manifest {path}": mark for path, mark in marks.items()}, workspace)


def check_alike(told: Mapping[str, str], machine: Machine) -> None:
    """Refuse processes that do not say the same; all call it together.

    Raises:
        UsageError: as :func:`check_machines`.
    """
    every = gather(dict(told), machine)

    def refuse() -> None:
        if wrong := differing(every):
            raise UsageError(wrong)

    on_main(refuse, machine)


def differing(every: Sequence[Mapping[str, str]]) -> str:
    """Say what the first process is that differs from process 0, and in what; nothing if none does."""
    for rank, told in enumerate(every):
        for name in [*every[0], *(name for name in told if name not in every[0])]:
            ours, theirs = every[0].get(name), told.get(name)
            if ours != theirs:
                return f"processes 0 and {rank} of {len(every)} differ: {name} is {_said(ours)} and {_said(theirs)}"
    return ""


def _said(value: str | None) -> str:
    return "missing" if value is None else shortened(repr(value))
