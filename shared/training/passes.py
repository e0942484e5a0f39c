"""The passes of an update: the recipe says how much an update is, the machine in how many passes it is computed."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Literal

import torch

from dragoman.shared.batches.loader import Loader
from dragoman.shared.batches.stream import Stream
from dragoman.shared.errors import DataError
from dragoman.shared.machine.files import replaced_file
from dragoman.shared.machine.processes import gather
from dragoman.shared.machine.workspace import Workspace

Passes = int | Literal["auto"]

#: What a CPU computes at once: more makes nothing quicker there, and takes memory.
ON_A_CPU = {"tokens": 16_384, "samples": 480 * 16_000}
#: Rows count where a budget has them, because length is not what they cost: Whisper reads 30 s for a clip of one.
ROWS_ON_A_CPU = 16
#: Where a run keeps what was found on a GPU.
FILE = "passes.json"


def passes_on_cpu(streams: Sequence[Stream]) -> int:
    """Return the passes of an update on a CPU, of the stream that needs the most."""
    limits = ((field.unit, stream.budget.of(field)) for stream in streams for field in stream.fields.values())
    needed = [math.ceil(limit / ON_A_CPU[unit]) for unit, limit in limits if limit is not None]
    needed += [math.ceil(stream.budget.rows / ROWS_ON_A_CPU) for stream in streams if stream.budget.rows is not None]
    return max(needed, default=1)


def passes_of(setting: Passes, loader: Loader, workspace: Workspace, *, attempt: Callable[[], None]) -> int:
    """Return in how many passes each process computes an update.

    On a GPU, ``auto`` tries 1, 2, 4, ... until the largest one fits, and keeps the number in the folder of the phase:
    a run that goes on with the same memory takes it from there.

    Args:
        setting: their number, or "auto".
        loader: of the training, whose ``passes`` are set to what is tried.
        workspace: of the training, whose ``memory_share`` of the GPU may be used.
        attempt: computes the largest batches of the loader.

    Raises:
        DataError: if a row alone does not fit.
    """
    if setting != "auto":
        return setting
    device = torch.device(workspace.device)
    if device.type != "cuda":
        return passes_on_cpu(loader.streams)
    memory = torch.cuda.get_device_properties(device).total_memory
    share = workspace.memory_share
    place, found = workspace.folder / FILE, {"memory": memory, "share": share, "processes": workspace.world}
    kept = _kept(place, found)
    if kept is None:
        kept = _search(loader, attempt, lambda: torch.cuda.max_memory_reserved(device) <= share * memory, device)
        kept = max(gather(kept, workspace))  # processes share each batch, and have to agree
        if workspace.main:
            with replaced_file(place) as temporary:
                temporary.write_text(json.dumps(found | {"passes": kept}) + "\n", encoding="utf-8")
    return kept


def _search(loader: Loader, attempt: Callable[[], None], fits: Callable[[], bool], device: torch.device) -> int:
    """Return the first power of two that fits."""
    most = max(int(stream.table.capacities.max()) for stream in loader.streams)
    for passes in _doubled(most):
        loader.passes = passes
        torch.cuda.reset_peak_memory_stats(device)
        try:
            attempt()
        except DataError:
            if passes >= most:
                raise
        else:
            if fits() or passes >= most:
                return passes
        torch.cuda.empty_cache()
    raise AssertionError("the last number either fits or is refused")


def _doubled(most: int) -> Iterator[int]:
    """Yield 1, 2, 4, ..., the last not below ``most``."""
    for power in count():
        yield 2**power
        if 2**power >= most:
            return


def _kept(place: Path, expected: dict[str, float]) -> int | None:
    """Return what a run has found before, on a machine that is alike."""
    try:
        record = json.loads(place.read_text(encoding="utf-8"))
        passes = record.pop("passes")
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return passes if record == expected and isinstance(passes, int) and passes > 0 else None
