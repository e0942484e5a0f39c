"""A model folder in words: what it reads and writes, its parts and their sizes, where it comes from.

Only the description and the header of the weights are read, so that a model of any size is described at once.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

from torch import nn

from shared.corpus.fields import Field, TextField
from shared.exchange.card import task_of
from shared.machine.records import read_record
from shared.nn.symbols import CTC
from shared.phases.averaging import AVERAGED
from shared.run.announcing import with_packages
from shared.systems.model_folder import WEIGHTS
from shared.systems.reading_model import ReadingModel
from shared.systems.system import System

#: The languages of a text that are named; of more, the number is.
MOST_LANGUAGES = 8


def summary(folder: str | Path) -> str:
    """Return what a model folder holds: a sentence, a table, and the commands for its tasks.

    Raises:
        DataError: naming the file, if it is no model folder, or its weights do not fit its description.

    """
    folder = Path(folder)
    system, header = ReadingModel.planned(folder)
    types = sorted({str(tensor.dtype).removeprefix("torch.") for tensor in header.values()})
    table = {
        "reads": list(_reads(system)),
        "writes": list(_writes(system)) if isinstance(system, System) else [],
        "symbols": list(_symbols(system)),
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
        return f"sound, {_named(sources)}" if sources else "sound"
    return f"text, {_named(targets if field.side == 'target' and targets else sources)}"


def _named(codes: Sequence[str]) -> str:
    return ", ".join(codes) if len(codes) <= MOST_LANGUAGES else f"{len(codes)} languages"


def _symbols(system: ReadingModel) -> Iterator[str]:
    told = dict.fromkeys(field.tokenizer for field in system.text_fields())
    seen: set[str] = set()
    for tokenizer in told:
        if tokenizer.fingerprint not in seen:
            seen.add(tokenizer.fingerprint)
            yield f"{tokenizer.size:,} ({type(tokenizer).__name__})"


def _parts(model: nn.Module) -> Iterator[str]:
    """Tell the size of each part that has parameters; those that parts share are counted for the first."""
    owner: dict[int, str] = {}
    for name, part in _named_parts(model):
        if next(part.parameters(), None) is None:
            continue
        own = [parameter for parameter in part.parameters() if id(parameter) not in owner]
        shared = sorted({owner[id(parameter)] for parameter in part.parameters() if id(parameter) in owner})
        owner |= {id(parameter): name for parameter in own}
        layers = getattr(part, "layers", None)
        stack = f", {len(layers)} layer{'s' * (len(layers) > 1)}" if isinstance(layers, nn.ModuleList) else ""
        beside = f"; shares those of {', '.join(shared)}" if shared else ""
        yield f"{name}: {sum(parameter.numel() for parameter in own):,} ({type(part).__name__}{stack}){beside}"


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
        words = ["dragoman", "run", told["recipe"], "--seed", str(told.get("seed"))]
        for key, value in told.get("keys", {}).items():
            words += [f"--{key}", value if isinstance(value, str) else json.dumps(value)]
        yield shlex.join(words)
    updates = ", ".join(map(str, told.get("updates", [])))
    yield f"the {told.get('averaging', '')} checkpoints, averaged: updates {updates}"


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
