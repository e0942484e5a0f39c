"""A model folder in words: what it reads and writes, its parts and their sizes, where it comes from.

Only the description and the header of the weights are read, so that a model of any size is described at once.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import nn

from dragoman.runs.announcing import with_packages
from dragoman.runs.task import task_of
from dragoman.shared.batches.fields import Field, TextField
from dragoman.shared.errors import UsageError
from dragoman.shared.machine.records import read_record
from dragoman.shared.nn.symbols import CTC
from dragoman.shared.phases.averaging import AVERAGED
from dragoman.shared.recipe.recipe import Recipe
from dragoman.shared.systems.model_folder import WEIGHTS, model_folder
from dragoman.shared.systems.reading_model import ReadingModel, named, vocabularies
from dragoman.shared.systems.system import System


def summary(folder: str | Path) -> str:
    """Return what a model folder holds: a sentence, a table, and the commands for its tasks.

    Raises:
        DataError: naming the file, if it is no model folder, or its weights do not fit its description.
    """
    folder = model_folder(folder)
    system, header = ReadingModel.planned(folder)
    types = sorted({str(tensor.dtype).removeprefix("torch.") for tensor in header.values()})
    table = {
        "reads": list(_reads(system)),
        "writes": list(_writes(system)) if isinstance(system, System) else [],
        "symbols": list(vocabularies(system)),
        "parameters": [f"{sum(p.numel() for p in system.parameters()):,} ({', '.join(types)})", *_parts(system.model)],
        "weights": [f"{(folder / WEIGHTS).stat().st_size / 1e6:,.1f} MB"],
        "trained by": list(_training(folder)),
        "began as": system.origin,
        "use": [with_packages(command, system) for command in _commands(system, folder)],
    }
    lines = [task_of(system, folder).sentence, ""]
    for title, cells in table.items():
        lines += [f"{title if number == 0 else '':12}{cell}" for number, cell in enumerate(cells)]
    return "\n".join(lines) + "\n"


def _reads(system: ReadingModel) -> Iterator[str]:
    for name, field in system.inputs.items():
        other = "" if name in system.reads else f"; by --reads {name}"
        yield f"{name}: {_kind(field, system.source_languages, [])}{other}"


def _writes(system: System) -> Iterator[str]:
    sides = system.source_languages, system.target_languages
    for name, field in system.texts.items():
        yield f"{name}: {_kind(field, *sides)}"
    for name, field in system.other_outputs.items():
        yield f"{name}: {_kind(field, *sides)}; by --writes {name}"
    if system.ctc_output is not None and CTC in getattr(system.model, "heads", {}):
        yield f"what the CTC head writes: {_kind(system.ctc_output, *sides)}; by --ctc"


def _kind(field: Field, sources: Sequence[str], targets: Sequence[str]) -> str:
    if not isinstance(field, TextField):
        return f"sound, {named(sources)}" if sources else "sound"
    return f"text, {named(targets if field.side == 'target' and targets else sources)}"


def _parts(model: nn.Module) -> Iterator[str]:
    """Tell the size of each part that has parameters; those that parts share are counted for the first."""
    owner: dict[int, str] = {}
    for name, part in _named_parts(model):
        if next(part.parameters(), None) is None:
            continue
        parameters = [parameter for parameter in part.parameters() if id(parameter) not in owner]
        shared = sorted({owner[id(parameter)] for parameter in part.parameters() if id(parameter) in owner})
        owner |= {id(parameter): name for parameter in parameters}
        layers = getattr(part, "layers", None)
        stack = f", {len(layers)} layer{'s' * (len(layers) > 1)}" if isinstance(layers, nn.ModuleList) else ""
        beside = f"; shares those of {', '.join(shared)}" if shared else ""
        yield f"{name}: {sum(parameter.numel() for parameter in parameters):,} ({type(part).__name__}{stack}){beside}"


def _named_parts(model: nn.Module, prefix: str = "") -> Iterator[tuple[str, nn.Module]]:
    for name, part in model.named_children():
        if isinstance(part, nn.ModuleDict):
            yield from _named_parts(part, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", part


def _training(folder: Path) -> Iterator[str]:
    note = folder / "averaged.json"
    if not note.is_file():
        return
    told = read_record(note, AVERAGED, "a note of what was averaged")
    if told.get("recipe"):
        yield shlex.join(_run(told, folder.parent.parent / "recipe.yaml"))
    updates = ", ".join(map(str, told.get("updates", [])))
    yield f"the {told.get('averaging', '')} checkpoints, averaged: updates {updates}"


def _run(told: Mapping[str, Any], written: Path) -> list[str]:
    """Return the command that trained a model; ``written`` is the recipe that its run wrote down, if that is there."""
    words = ["dragoman", "run", told["recipe"], *(["--arm", told["arm"]] if told.get("arm") else [])]
    words += ["--seed", str(told.get("seed"))]
    for key, value in told.get("keys", {}).items():
        words += [f"--{key}", value if isinstance(value, str) else json.dumps(value)]
    run, named = _loaded(str(written)), _loaded(told["recipe"], words[3:])
    if named is None:
        return words if run is None else ["dragoman", "run", str(written)]
    for key in named.placeholders:  # places, which no result depends on
        words += [f"--{key}", str(run.value(key, lenient=True)) if run and key in run.keys else key.upper()]
    return words


def _loaded(recipe: str, given: Sequence[str] = ()) -> Recipe | None:
    """Return a recipe; None for a file that is not here, or keys of another version."""
    try:
        return Recipe.load(recipe, given)
    except UsageError:
        return None


def _commands(system: ReadingModel, folder: Path) -> Iterator[str]:
    """Yield a command for each task: that of the folder first."""
    yield task_of(system, folder).command
    if not isinstance(system, System):
        return
    for name in system.inputs:
        if name not in system.reads:
            yield f"{task_of(system.for_task(reads=[name]), folder).command} --reads {name}"
    for name in system.other_outputs:
        yield f"{task_of(system.for_task(writes=name), folder).command} --writes {name}"
