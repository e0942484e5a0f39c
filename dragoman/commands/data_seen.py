"""The data that a run and the runs before it have learned from, the minutes of training, and the parameters learned."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dragoman.shared.batches.manifest import Manifest
from dragoman.shared.errors import DataError
from dragoman.shared.machine.workspace import PhaseRecord, strings
from dragoman.shared.recipe.recipe import Recipe
from dragoman.shared.recipe.resolve import within

if TYPE_CHECKING:
    from dragoman.shared.training.fit import Fit

SOUND, SOURCE, TARGET = "samples", "source_text", "target_text"
#: What rows are called of which just this is read.
KINDS = {
    frozenset({SOUND, SOURCE, TARGET}): "triples",
    frozenset({SOUND, TARGET}): "recordings with translations",
    frozenset({SOUND, SOURCE}): "recordings with transcripts",
    frozenset({SOUND}): "recordings",
    frozenset({SOURCE, TARGET}): "text pairs",
}


def data_seen(recipe: Recipe) -> str:
    """Return the rows and hours of all training manifests, by what was read of them; "" if nothing was trained.

    A manifest that several phases read counts once, with all that any of them reads.

    Raises:
        DataError: if a manifest is not there, and as :func:`trainings`.
        UsageError: as :func:`trainings`.
    """
    read: dict[Path, set[str]] = defaultdict(set)
    manifests: dict[Path, Manifest] = {}
    for owner, phase in trainings(recipe):
        for stream in _built(owner, phase).streams:
            columns = {column for field in stream.fields.values() for column in _columns(field)}
            for manifest in stream.manifests:
                manifests[manifest.path] = manifest
                read[manifest.path] |= columns
    rows: dict[str, int] = defaultdict(int)
    seconds: dict[str, float] = defaultdict(float)
    for path, columns in read.items():
        kind = KINDS.get(frozenset(columns & {SOUND, SOURCE, TARGET}), "texts")
        rows[kind] += len(manifests[path])
        seconds[kind] += float(np.sum(manifests[path].column("duration"))) if SOUND in columns else 0.0
    shown = []
    for kind in (*KINDS.values(), "texts"):
        hours = f" ({seconds[kind] / 3600:.1f} h)" if seconds[kind] else ""
        shown += [f"{rows[kind]:,} {kind}{hours}"] if rows[kind] else []
    return ", ".join(shown)


def learning_parameters(recipe: Recipe) -> float | None:
    """Return how many million parameters the last training of a recipe changes; None if it tunes no part of them."""
    from dragoman.shared.training.fit import Fit

    phases = [phase for phase in recipe.phases if recipe.plan[phase].inner is None and recipe.plan[phase].kind is Fit]
    fit = _built(recipe, phases[-1]) if phases else None
    if fit is None or fit.optimizer.tuning is None:
        return None
    fit.optimizer.tuning.apply(fit.objective)
    return sum(parameter.numel() for parameter in fit.objective.parameters() if parameter.requires_grad) / 1e6


def training_minutes(recipe: Recipe) -> float:
    """Return the minutes that all phases took that train."""
    records = (PhaseRecord(Path(owner.value("output_folder")), phase).read() for owner, phase in trainings(recipe))
    return sum(float(record.get("seconds", 0.0)) for record in records) / 60


def trainings(
    recipe: Recipe, *, last: str | None = None, seen: set[tuple[str, str]] | None = None
) -> Iterator[tuple[Recipe, str]]:
    """Yield the phases that train, each once, with its recipe.

    They are those of the recipe, of the recipes that it runs and whose results it uses, and of other runs from whose
    folders it reads: what has led to that folder.

    Args:
        recipe: the recipe.
        last: yield only phases that lead to this one.
        seen: folder and name of phases to leave out; those that are yielded are added.

    Raises:
        DataError: if a folder that is read is of a run that is not where its recipe says, or has lost the phase.
        UsageError: if the recipe of such a run cannot be read.
    """
    from dragoman.shared.training.fit import Fit

    seen = set() if seen is None else seen
    output = _output(recipe)
    phases = recipe.phases if last is None else _leading_to(recipe, last)
    new = [phase for phase in phases if (output, phase) not in seen]
    seen |= {(output, phase) for phase in new}
    for phase in new:
        inner = recipe.plan[phase].inner
        if inner is not None:
            if any(_reads(recipe, other, phase) for other in phases if other != phase):
                yield from trainings(inner, seen=seen)
        else:
            if recipe.plan[phase].kind is Fit:
                yield recipe, phase
            for other, name in _other_runs(recipe, phase):
                yield from trainings(other, last=name, seen=seen)


def _leading_to(recipe: Recipe, last: str) -> list[str]:
    """Return a phase and the earlier ones that it needs, in order, but for tokenizers."""
    wanted: list[str] = []
    for phase in reversed(recipe.phases):
        if phase == last or any(_reads(recipe, later, phase) for later in wanted):
            wanted.insert(0, phase)
    return wanted


def _reads(recipe: Recipe, reader: str, phase: str) -> bool:
    """Tell whether a phase reads what another has written, or the recipe that the other runs; but for tokenizers."""
    from dragoman.shared.phases.pieces import TrainTokenizer

    inner, texts = recipe.plan[phase].inner, {*strings(recipe.plan[reader].plain)}
    if inner is None:
        folder = f"{_output(recipe)}/{phase}"
        return recipe.plan[phase].kind is not TrainTokenizer and any(within(text, folder) for text in texts)
    written = [name for name in inner.phases if inner.plan[name].kind is not TrainTokenizer]
    return any(within(text, f"{_output(inner)}/{name}") for text in texts for name in written)


def _other_runs(recipe: Recipe, phase: str) -> Iterator[tuple[Recipe, str]]:
    """Yield the recipes of other runs that a phase reads from, with the phase there; not those that the recipe runs."""
    outputs = [_output(recipe), *(_output(inner) for name in recipe.phases if (inner := recipe.plan[name].inner))]
    for text in sorted({*strings(recipe.plan[phase].plain)}):
        written = None if any(within(text, place) for place in outputs) else _written_by(Path(text))
        if written is None:
            continue
        folder, name = written
        other = Recipe.load(folder / "recipe.yaml")
        if Path(_output(other)).resolve() != folder.resolve():
            raise DataError(f"{text}: is read, but the run in {folder} says that its folder is {_output(other)}")
        if name not in other.phases:
            raise DataError(f"{text}: is read, but {folder / 'recipe.yaml'} has no phase {name!r} any more")
        yield other, name


def _written_by(path: Path) -> tuple[Path, str] | None:
    """Return the folder of the run and the name of the phase that have written a path; None if there is no record."""
    for inside, folder in pairwise((path, *path.parents)):
        # Path.is_file raises an error for texts too long to be a path, which a regular expression may be.
        if os.path.isfile(PhaseRecord(folder, inside.name).path) and os.path.isfile(folder / "recipe.yaml"):
            return folder, inside.name
    return None


def _output(recipe: Recipe) -> str:
    return os.path.normpath(recipe.value("output_folder"))


def _built(recipe: Recipe, phase: str) -> Fit:
    """Return a phase without memory for its parameters."""
    import torch

    with torch.device("meta"):
        fit: Fit = recipe.plan[phase].build()
    return fit


def _columns(field: Any) -> Iterator[str]:
    """Yield the columns of rows that a field reads, "samples" for sound; also those of fields inside it."""
    inner = [*getattr(field, "fields", {}).values()]
    inner += [getattr(field, name) for name in ("field", "target") if hasattr(field, name)]  # a table's target
    for one in inner:
        yield from _columns(one)
    if not inner:
        yield SOUND if field.unit == SOUND else field.column
