"""Large arrays of a run, which one process computes and writes, and all map: a machine holds them once.

The system lets go of what is mapped where memory is short, and reads it again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from dragoman.shared.machine.files import locked, replaced_folder

#: Rows of a stream from which on its table and plans are mapped: those of fewer take less than 30 MB, and are computed
#: in less time than several processes need to agree on who does it.
SMALLEST_MAPPED = 1_000_000

#: Rows that are computed at a time, so that what is needed on the way takes less memory than the result.
BLOCK = 1 << 18


def is_large(rows: int) -> bool:
    """Tell whether what is computed of so many rows is to be mapped."""
    return rows >= SMALLEST_MAPPED


def blocks(total: int) -> Iterator[slice]:
    """Yield the slices of ``BLOCK`` rows, the last one of fewer, that ``total`` rows consist of."""
    return (slice(start, min(start + BLOCK, total)) for start in range(0, total, BLOCK))


def mapped(
    folder: Path, name: str, compute: Callable[[], tuple[Mapping[str, np.ndarray], Any]]
) -> tuple[dict[str, np.ndarray], Any]:
    """Return what ``compute`` does, arrays by name and plain data beside them, from the folder ``folder / name``.

    The first process that asks writes it, and others wait for that. So the folder must be one that all see, and in
    which nothing of this name is left that was computed from anything else.

    Returns:
        The arrays, read-only, and the plain data as JSON keeps it.
    """
    place = folder / name
    with locked(folder / f".{name}.lock"):
        if not place.is_dir():
            arrays, beside = compute()
            with replaced_folder(place, lasting=False) as temporary:
                for key, array in arrays.items():
                    np.save(temporary / f"{key}.npy", array)
                (temporary / "beside.json").write_text(json.dumps(beside), encoding="utf-8")
            del arrays
    # As plain arrays: parts of them are sent to workers, which have no file.
    arrays = {path.stem: np.asarray(np.load(path, mmap_mode="r")) for path in place.glob("*.npy")}
    return arrays, json.loads((place / "beside.json").read_text(encoding="utf-8"))
