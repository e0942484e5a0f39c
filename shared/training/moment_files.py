"""The optimiser's moments where processes divide them: each writes its rows of them, and reads its own.

A file ``moments-00003-of-00008.safetensors`` holds "number.key" for each moment of each parameter, by its number in the
optimiser. Rows are divided as torch's ``chunk`` does it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from dragoman.shared.errors import DataError
from dragoman.shared.machine.files import replaced_file

#: How the names of files begin.
MOMENTS = "moments-"
#: The number of a part of all rows, and how many there are.
Part = tuple[int, int]


def save_moments(folder: Path, state: dict[int, dict[str, Tensor]], part: Part) -> dict[int, dict[str, Tensor]]:
    """Write a part's rows of moments, by number and key; return what is a single number, such as the count of steps.

    Raises:
        DataError: if the disk is full or cannot be written.
    """
    moments = {f"{number}.{key}": value for number, own in state.items() for key, value in own.items() if value.ndim}
    place = folder / f"{MOMENTS}{part[0]:05d}-of-{part[1]:05d}.safetensors"
    try:
        with replaced_file(place) as temporary:
            save_file(moments, temporary)
    except (OSError, SafetensorError) as error:
        raise DataError(
            f"{place}: the moments could not be written ({error}); the last checkpoint is intact"
        ) from error
    return {number: {key: value for key, value in own.items() if not value.ndim} for number, own in state.items()}


def read_moments(files: Sequence[Path], state: dict[int, dict[str, Any]], part: Part) -> None:
    """Put a part's rows into the state of an optimiser: of files in their order, or of the whole moments in it."""
    written = [load_file(file) for file in files]  # mapped: what is not asked for takes no memory
    if not written:
        written = [{f"{n}.{key}": value for n, own in state.items() for key, value in own.items() if value.ndim}]
    for name in written[0]:
        number, _, key = name.partition(".")
        pieces = [tensors[name] for tensors in written]
        rows, before = -(-sum(map(len, pieces)) // part[1]), 0
        begin, found = part[0] * rows, []
        for piece in pieces:
            found.append(piece[max(begin - before, 0) : max(begin + rows - before, 0)])
            before += len(piece)
        state[int(number)][key] = torch.cat(found)
