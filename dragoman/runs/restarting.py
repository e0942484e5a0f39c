"""Throwing away the work of phases that are to be done again, and of those that read from them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from dragoman.shared.errors import UsageError
from dragoman.shared.machine.files import discard_folder
from dragoman.shared.machine.workspace import Phase, PhaseRecord, Workspace, strings
from dragoman.shared.recipe.planned import PlannedPhase
from dragoman.shared.recipe.recipe import Plan, Recipe
from dragoman.shared.recipe.resolve import within
from dragoman.shared.recipe.tree import nearest


def check_phase(recipe: Recipe, name: str, *, inside: bool = False) -> None:
    """Refuse a name that is none of a recipe's phases; inside: "asr.fit" is phase ``fit`` of the recipe of ``asr``.

    Raises:
        UsageError: if there is no such phase.
    """
    first, dot, rest = name.partition(".")
    if first not in recipe.phases or (dot and not inside):
        meant = nearest(name, recipe.phases, few=0)
        raise UsageError(f"{recipe.source}: no phase {name!r}{meant}; its phases are {', '.join(recipe.phases)}")
    if dot:
        inner = recipe.plan[first].inner
        if inner is None:
            raise UsageError(f"{recipe.source}: phase {first!r} runs no recipe, so that there is no phase {name!r}")
        check_phase(inner, rest, inside=True)


def restart(plan: Plan, workspace: Workspace, names: Sequence[str]) -> None:
    """Throw away the work of phases ("asr.fit": of the recipe that ``asr`` runs), and of those that read from them.

    Raises:
        UsageError: if another run holds the folder of a recipe that this one runs.
    """
    for phase in plan.values():
        wanted = [name.partition(".")[2] for name in names if name.partition(".")[0] == phase.name]
        if wanted and phase.inner is not None:
            chosen = phase.inner.phases if "" in wanted else wanted
            place = Workspace(output=Path(phase.inner.value("output_folder")), device="cpu")
            with place.locked():
                restart(phase.inner.plan, place, chosen)
    discard(plan, workspace, {name.partition(".")[0] for name in names})


def discard(plan: Plan, workspace: Workspace, again: Collection[str], *, keep: str | None = None) -> None:
    """Throw away what phases of one recipe have written, and those that read from them; ``keep`` loses nothing itself.

    First all records say so, the later phases' before the earlier ones': a kill leaves nothing that seems finished.
    """
    again = affected(plan, workspace.output, again)
    discarded = [name for name in plan if name in again and name != keep]
    for name in reversed(discarded):
        PhaseRecord(workspace.output, name).write(status="discarded")
    for name in discarded:
        discard_folder(workspace.output / name)
        PhaseRecord(workspace.output, name).remove()


def affected(plan: Plan, output: Path, again: Collection[str]) -> set[str]:
    """Return the phases whose work is lost when that of some is: these, and those that read from them."""
    reached, places_of = {*again}, dict[str, list[str]]()
    for name, phase in plan.items():
        state = PhaseRecord(output, name).read()
        if state.get("status") == "discarded" or reached.intersection(reads(phase, places_of)):
            reached.add(name)
        places_of[name] = places(output, name, state)
    return reached


def built_from(phase: PlannedPhase[Recipe]) -> dict[str, dict[str, Any]]:
    """Return what a phase is built from as plain data, but for arguments that change nothing of what it makes."""
    [(tag, arguments)] = phase.plain.items()
    return {tag: _without(arguments, phase.kind)}


def _without(value: Any, kind: type[Phase]) -> Any:
    """Leave out the keys of plain data that do not count, and the mappings that hold nothing else."""
    if isinstance(value, list):
        return [_without(item, kind) for item in value]
    if not isinstance(value, dict):
        return value
    kept = {key: _without(inside, kind) for key, inside in value.items() if counts(key, inside, kind)}
    return {key: inside for key, inside in kept.items() if inside != {} or value[key] == {}}


def counts(key: str, value: Any, kind: type[Phase]) -> bool:
    """Tell whether a value, the last part of whose key names an argument, matters for what a kind of phase makes."""
    last = key.rpartition(".")[2]
    if key.startswith("!"):  # what has a tag is an object
        return True
    return last not in kind.aside and (last not in kind.later or value != kind.later[last])


def reads(phase: PlannedPhase[Recipe], places_of: Mapping[str, list[str]]) -> list[str]:
    """Return the earlier phases, given with the places they write to, that a phase reads from."""
    texts = list(strings(built_from(phase)))
    return [
        earlier
        for earlier, places_there in places_of.items()
        if any(within(text, place) for text in texts for place in places_there)
    ]


def places(output: Path, name: str, state: Mapping[str, Any]) -> list[str]:
    """Return the places that a phase writes to: its folder, and what its record names."""
    return [str(output / name), *state.get("outputs", [])]
