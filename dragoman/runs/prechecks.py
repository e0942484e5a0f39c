"""Checks of a recipe before its first phase, and before each long one."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import torch
from torch import nn

from dragoman.shared.batches.find import find_manifests
from dragoman.shared.errors import DataError, UsageError, one_line
from dragoman.shared.machine.memory import refuse_over
from dragoman.shared.machine.workspace import Phase, PhaseRecord, strings
from dragoman.shared.nn.weights import size_of
from dragoman.shared.preparing.held_out import DEV, TEST, TRAIN
from dragoman.shared.recipe.planned import PlannedPhase
from dragoman.shared.recipe.recipe import Recipe
from dragoman.shared.recipe.run_keys import keys_of_a_result
from dragoman.shared.recipe.tree import plain
from dragoman.shared.recipe.values import LookedAt, Trial, is_overflow


def check_values(
    recipe: Recipe, device: str, names: Sequence[str] | None = None, written: Sequence[Path] = ()
) -> list[Path]:
    """Try the values of every phase, on a device without memory, and look for the manifests that phases read.

    Those of the recipes that it runs are tried as well. What earlier phases have yet to write is missing, and says
    nothing about the values.

    Args:
        recipe: a checked recipe.
        device: where it is to run.
        names: the phases that are to run; by default all of them.
        written: files and folders that other recipes' phases will have written before.

    Returns:
        The files and folders that all of them will have written.

    Raises:
        UsageError: for a value that the constructor of some object refuses, a library that is not installed, or more
            memory than the device has.
        DataError: for a file, folder or manifest that an unfinished phase reads, that does not exist, and that no phase
            writes.
    """
    tried = try_values(recipe)
    output = Path(recipe.value("output_folder"))
    phases = {name: trial.result for name, trial in tried.items() if trial.result is not None}
    written = [*written, output, *(folder for phase in phases.values() for folder in _outputs(phase))]
    for planned in recipe.plan.values():
        if planned.inner is not None:
            written = check_values(planned.inner, device, written=written)
    todo = [name for name in names or recipe.phases if PhaseRecord(output, name).read().get("status") != "finished"]
    if len(phases) == len(tried):  # else there are places that are not known yet
        for name in todo:
            check_readable(tried[name], written)
    check_manifests(phases, todo, can_draw="split" in recipe.keys)
    if len(phases) == len(tried):
        for name in todo:
            check_all_there(name, phases[name], written)
    for name in todo:
        _check_machine(tried[name], _described(recipe, name), device)
    return list(written)


def try_values(recipe: Recipe) -> dict[str, Trial]:
    """Build what every phase is built of, on a device without memory, as far as nothing has run yet.

    Returns:
        What could be built, by phase.

    Raises:
        UsageError: for a value that the constructor of some object refuses.
    """
    return {name: _tried(recipe, phase) for name, phase in recipe.plan.items()}


def _tried(recipe: Recipe, phase: PlannedPhase[Recipe]) -> Trial:
    try:
        with torch.device("meta"):
            return phase.try_values()
    except (RuntimeError, OverflowError) as error:
        if not is_overflow(error):
            raise
        problem = f"has tensors of more elements than can be counted ({one_line(error)})"
        raise UsageError(f"{_described(recipe, phase.name)}: {problem}") from error


def _check_machine(trial: Trial, what: str, device: str) -> None:
    for _, part in trial.parts():
        check: Any = getattr(part, "check_libraries", None) if isinstance(part, nn.Module) else None
        if check is not None:  # of a model that cannot be built yet, too
            check()
    try:
        if trial.result is None:
            raise LookedAt
        trial.result.check_libraries()
        refuse_over(trial.result.memory_needed(), what, device)
    except LookedAt:  # a model whose vocabulary is not known yet: by its parts
        for node, part in trial.parts():
            if isinstance(part, nn.Module):
                refuse_over(size_of(part), f"{what}: {node.key}", device)


def _described(recipe: Recipe, name: str) -> str:
    given = f" --arm {recipe.arm}" if recipe.arm else ""
    given += "".join(f" --{key} {value}" for key, value in keys_of_a_result(recipe.changed).items())
    return f"{recipe.source}: phase {name!r}" + (f" with{given}" if given else "")


def check_readable(trial: Trial, written: Sequence[Path]) -> None:
    """Raise the first error about a file or folder that lies in no place that phases write to."""
    for node, error in trial.unreadable:
        if not any(_inside(Path(text), folder) for text in strings(plain(node)) for folder in written):
            raise error


def _outputs(phase: Phase) -> list[Path]:
    try:
        return phase.outputs()
    except LookedAt:
        return []


def check_all_there(name: str, phase: Phase, written: Sequence[Path]) -> None:
    """Refuse a manifest that does not exist and lies in no place that phases write to.

    Raises:
        DataError: naming the manifest and the phase.
    """
    for manifest in map(Path, phase.manifests):
        if not _exists(manifest) and not any(_inside(manifest, place) for place in written):
            raise DataError(
                f"{manifest}: phase {name!r} reads this manifest, which is not there, and no phase writes it"
            )


def check_manifests(phases: Mapping[str, Phase], todo: Container[str], *, can_draw: bool = False) -> None:
    """Refuse a manifest that does not exist, in a folder of manifests whose writer will not write it.

    Raises:
        DataError: naming the manifest, the phases, and what will be written.
    """
    folders: dict[Path, tuple[str, list[Path]]] = {}
    for name, phase in phases.items():
        for manifest in map(Path, phase.manifests if name in todo else ()):
            for folder, (writer, promised) in folders.items():
                if _inside(manifest, folder) and not _exists(manifest) and not _matches(manifest, promised):
                    written = ", ".join(str(path.relative_to(folder)) for path in promised)
                    raise DataError(
                        f"{manifest}: phase {name!r} reads this manifest, but phase {writer!r} will not write it: "
                        f"the data has only {written}; {_advice(name, phase, manifest, promised, can_draw)}"
                    )
        try:
            promised = phase.manifests_to_write()
        except LookedAt:  # it reads a corpus that is not there yet
            promised = []
        if promised:
            folders |= {folder: (name, promised) for folder in phase.outputs()}


def _advice(name: str, phase: Phase, manifest: Path, promised: list[Path], can_draw: bool) -> str:
    """Return what to do about a missing split."""
    split = manifest.stem
    if can_draw and split == TRAIN and len(promised) == 1:
        return "with --split 0.02 its one file is the training data, from which dev and test are drawn"
    if can_draw and split in (DEV, TEST):
        advice = f"put {split} beside the training data, or draw it from that with --split 0.02"
    else:
        advice = "put it there, or name another manifest"
    return advice + (f"; --phases.{name} null leaves the phase out" if phase.measures else "")


def _inside(manifest: Path, folder: Path) -> bool:
    return manifest.absolute().is_relative_to(folder.absolute())


def _exists(manifest: Path) -> bool:
    try:
        return bool(find_manifests([manifest]))
    except DataError:
        return False


def _matches(manifest: Path, promised: list[Path]) -> bool:
    pattern = str(manifest.absolute())
    return any(str(path.absolute()) == pattern or fnmatch(str(path.absolute()), pattern) for path in promised)
