"""Throwing away the work of phases that are to be done again, and of those that read from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from shared.errors import UsageError
from shared.machine.files import discard_folder
from shared.machine.workspace import PhaseRecord, Workspace, strings
from shared.recipe.recipe import Recipe
from shared.recipe.resolve import within
from shared.recipe.tree import nearest


def check_phase(recipe: Recipe, name: str, *, inside: bool = False) -> None:
    """Refuse a name that is none of a recipe's phases.

    Args:
        recipe: the recipe.
        name: "fit"; or "asr.fit", phase ``fit`` of the recipe that phase ``asr`` runs.
        inside: whether the second form may be used.

    Raises:
        UsageError: if there is no such phase.

    """
    first, dot, rest = name.partition(".")
    if first not in recipe.phases or (dot and not inside):
        meant = nearest(name, recipe.phases, few=0)
        raise UsageError(f"{recipe.source}: no phase {name!r}{meant}; its phases are {', '.join(recipe.phases)}")
    if dot:
        inner = recipe.inner(first)
        if inner is None:
            raise UsageError(f"{recipe.source}: phase {first!r} runs no recipe, so that there is no phase {name!r}")
        check_phase(inner, rest, inside=True)


def restart(recipe: Recipe, workspace: Workspace, names: Sequence[str]) -> None:
    """Throw away the work of phases, and of those that read from them.

    Args:
        recipe: the recipe.
        workspace: its run, whose folder this process holds.
        names: the phases; "asr.fit" is one of the recipe that phase ``asr`` runs, "asr" all of them.

    Raises:
        UsageError: if another run holds the folder of a recipe that this one runs.

    """
    for phase in recipe.phases:
        wanted = [name.partition(".")[2] for name in names if name.partition(".")[0] == phase]
        inner = recipe.inner(phase) if wanted else None
        if inner is not None:
            chosen = inner.phases if "" in wanted else wanted
            place = Workspace(output=Path(inner.value("output_folder")), device="cpu")
            with place.locked():
                restart(inner, place, chosen)
    discard(recipe, workspace, {name.partition(".")[0] for name in names})


def discard(recipe: Recipe, workspace: Workspace, again: set[str], *, keep: str | None = None) -> None:
    """Throw away what phases of one recipe have written, and those that read from them.

    First all records say so, the later phases' before the earlier ones': a kill leaves nothing that seems finished.

    Args:
        recipe: the recipe.
        workspace: its run.
        again: the phases; those that read from them are added.
        keep: one of them that loses nothing itself.

    """
    known: dict[str, list[str]] = {}
    for name in recipe.phases:
        state = PhaseRecord(workspace.output, name).read()
        if state.get("status") == "discarded" or again.intersection(reads(recipe, name, known)):
            again.add(name)
        known[name] = places(workspace.output, name, state)
    discarded = [name for name in recipe.phases if name in again and name != keep]
    for name in reversed(discarded):
        PhaseRecord(workspace.output, name).write(status="discarded")
    for name in discarded:
        discard_folder(workspace.output / name)
        PhaseRecord(workspace.output, name).remove()


def reads(recipe: Recipe, name: str, known: Mapping[str, list[str]]) -> list[str]:
    """Return the earlier phases, given with the places they write to, that a phase reads from."""
    texts = list(strings(recipe.plain(name)))
    return [
        earlier for earlier, found in known.items() if any(within(text, place) for text in texts for place in found)
    ]


def places(output: Path, name: str, state: Mapping[str, Any]) -> list[str]:
    """Return the places that a phase writes to: its folder, and what its record names."""
    return [str(output / name), *state.get("outputs", [])]
