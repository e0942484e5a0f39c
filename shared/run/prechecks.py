"""Checks of a recipe before its first phase, and before each long one."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from fnmatch import fnmatch
from pathlib import Path

import torch

from shared.corpus.find import find_manifests
from shared.errors import DataError, UsageError, one_line
from shared.machine.memory import refuse_over
from shared.machine.workspace import Phase, PhaseRecord, strings
from shared.recipe.recipe import Recipe
from shared.recipe.tree import plain
from shared.recipe.values import LookedAt, Trial, is_overflow
from shared.run.running import keys_of_a_result


def check_values(recipe: Recipe, device: str, names: Sequence[str] | None = None, written: Sequence[Path] = ()) -> None:
    """Try the values of every phase, on a device without memory, and look for the manifests that phases read.

    Those of the recipes that it runs are tried as well. What earlier phases have yet to write is missing, and says
    nothing about the values.

    Args:
        recipe: a checked recipe.
        device: where it is to run.
        names: the phases that are to run; by default all of them.
        written: files and folders that other recipes' phases will have written before.

    Raises:
        UsageError: for a value that the constructor of some object refuses, a library that is not installed, or more
            memory than the device has.
        DataError: for a file, folder or manifest that an unfinished phase reads, that does not exist, and that no phase
            writes.

    """
    tried = {name: _tried(recipe, name) for name in recipe.phases}
    output = Path(recipe.value("output_folder"))
    phases = {name: trial.result for name, trial in tried.items() if trial.result is not None}
    written = [*written, output, *(folder for phase in phases.values() for folder in _outputs(phase))]
    for name in recipe.phases:
        inner = recipe.inner(name)
        if inner is not None:
            check_values(inner, device, written=written)
    todo = [name for name in names or recipe.phases if PhaseRecord(output, name).read().get("status") != "finished"]
    if len(phases) == len(tried):  # else there are places that are not known yet
        for name in todo:
            check_readable(tried[name], written)
    check_manifests(phases, todo)
    for name in todo:
        if name in phases:
            _check_machine(phases[name], _described(recipe, name), device)


def _tried(recipe: Recipe, name: str) -> Trial:
    try:
        with torch.device("meta"):
            return recipe.try_values(name)
    except (RuntimeError, OverflowError) as error:
        if not is_overflow(error):
            raise
        problem = f"has tensors of more elements than can be counted ({one_line(error)})"
        raise UsageError(f"{_described(recipe, name)}: {problem}") from error


def _check_machine(phase: Phase, what: str, device: str) -> None:
    try:
        phase.check_libraries()
        needed = phase.memory_needed()
    except LookedAt:
        return
    refuse_over(needed, what, device)


def _described(recipe: Recipe, name: str) -> str:
    given = "".join(f" --{key} {value}" for key, value in keys_of_a_result(recipe).items())
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


def check_manifests(phases: Mapping[str, Phase], todo: Container[str]) -> None:
    """Refuse a manifest that does not exist, in a folder of manifests whose writer will not write it.

    Args:
        phases: those that could be built, by name, in their order.
        todo: the names of those that are not finished.

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
                        f"its corpus has only {written} (--phases.{name} null leaves the phase out)"
                    )
        try:
            promised = phase.manifests_to_write()
        except LookedAt:  # it reads a corpus that is not there yet
            promised = []
        if promised:
            folders |= {folder: (name, promised) for folder in phase.outputs()}


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
