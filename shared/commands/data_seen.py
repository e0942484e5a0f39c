"""The data that a run has learned from and the time that took, with the runs whose models it uses; how much learned."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from shared.corpus.manifest import Manifest
from shared.machine.workspace import PhaseRecord
from shared.recipe.recipe import Recipe

if TYPE_CHECKING:
    from shared.training.fit import Fit

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
        DataError: if a manifest is not there.

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
    from shared.training.fit import Fit

    own = [phase for phase in recipe.phases if recipe.inner(phase) is None and recipe.phase_type(phase) is Fit]
    fit = _built(recipe, own[-1]) if own else None
    if fit is None or fit.optimizer.tuning is None:
        return None
    fit.optimizer.tuning.apply(fit.objective)
    return sum(parameter.numel() for parameter in fit.objective.parameters() if parameter.requires_grad) / 1e6


def training_minutes(recipe: Recipe) -> float:
    """Return the minutes that all phases took that train."""
    records = (PhaseRecord(Path(owner.value("output_folder")), phase).read() for owner, phase in trainings(recipe))
    return sum(float(record.get("seconds", 0.0)) for record in records) / 60


def trainings(recipe: Recipe, seen: set[str] | None = None) -> Iterator[tuple[Recipe, str]]:
    """Yield the phases that train, each with its recipe: its own, and those of the recipes whose results it uses."""
    from shared.training.fit import Fit

    seen = set() if seen is None else seen
    for phase in recipe.phases:
        inner = recipe.inner(phase)
        if inner is None:
            if recipe.phase_type(phase) is Fit:
                yield recipe, phase
        elif _is_used(recipe, phase, inner) and (folder := str(inner.value("output_folder"))) not in seen:
            seen.add(folder)
            yield from trainings(inner, seen)


def _is_used(recipe: Recipe, phase: str, inner: Recipe) -> bool:
    """Tell whether another phase reads what the recipe of a phase has written, its tokenizer apart."""
    from shared.phases.pieces import TrainTokenizer

    pieces = "|".join(re.escape(name) for name in inner.phases if inner.phase_type(name) is TrainTokenizer)
    written = re.compile(re.escape(f"{inner.value('output_folder')}/") + (f"(?!({pieces})/)" if pieces else ""))
    others = [json.dumps(recipe.plain(other), default=str) for other in recipe.phases if other != phase]
    return any(written.search(other) for other in others)


def _built(recipe: Recipe, phase: str) -> Fit:
    """Return a phase without memory for its parameters."""
    import torch

    with torch.device("meta"):
        fit: Fit = recipe.build(phase)
    return fit


def _columns(field: Any) -> Iterator[str]:
    """Yield the columns of rows that a field reads, "samples" for sound; also those of fields inside it."""
    inner = [*getattr(field, "fields", {}).values(), *([field.field] if hasattr(field, "field") else [])]
    for one in inner:
        yield from _columns(one)
    if not inner:
        yield SOUND if field.unit == SOUND else field.column
