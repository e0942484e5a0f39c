"""Tensors that processes divide: each writes its rows of them into files of its own, and reads its own.

A file ``moments-00003-of-00008.safetensors`` holds "number.key" for each moment of each parameter, by its number in the
optimiser, and ``objective-00003-of-00008.safetensors`` parameters by name. Rows are divided as torch's ``chunk`` does
it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from dragoman.shared.errors import DataError
from dragoman.shared.machine.files import replaced_file

#: How the names of files begin.
PARAMETERS, MOMENTS = "objective-", "moments-"
#: The number of a part of all rows, and how many there are.
Part = tuple[int, int]


class Joined(Mapping[str, Tensor]):
    """Tensors by name, given in pieces; what has several is put together each time that it is asked for."""

    def __init__(self, pieces: Mapping[str, Sequence[Tensor]]) -> None:
        self.pieces = pieces

    def __getitem__(self, name: str) -> Tensor:
        """Return a whole tensor."""
        pieces = self.pieces[name]
        return pieces[0] if len(pieces) == 1 else torch.cat([*pieces])

    def rows(self, name: str, part: Part) -> Tensor:
        """Return a part's rows of a tensor, which alone are read."""
        rows, before = -(-sum(map(len, self.pieces[name])) // part[1]), 0
        begin, found = part[0] * rows, []
        for piece in self.pieces[name]:
            found.append(piece[max(begin - before, 0) : max(begin + rows - before, 0)])
            before += len(piece)
        return torch.cat(found)

    def like(self) -> dict[str, Tensor]:
        """Return the same tensors; those that have several pieces without values, on the meta device."""

        def empty(own: Sequence[Tensor]) -> Tensor:
            return own[0].new_empty((sum(map(len, own)), *own[0].shape[1:]), device="meta")

        return {name: own[0] if len(own) == 1 else empty(own) for name, own in self.pieces.items()}

    def __iter__(self) -> Iterator[str]:
        """Return the names one by one."""
        return iter(self.pieces)

    def __len__(self) -> int:
        """Return how many tensors there are."""
        return len(self.pieces)


def save_part(folder: Path, kind: str, tensors: dict[str, Tensor], part: Part) -> tuple[Path, str]:
    """Write a part's rows of tensors; return the file and its digest.

    Raises:
        DataError: if the disk is full or cannot be written.
    """
    place = folder / f"{kind}{part[0]:05d}-of-{part[1]:05d}.safetensors"
    try:
        with replaced_file(place) as temporary:
            save_file(tensors, temporary)
        return place, digest(place)
    except (OSError, SafetensorError) as error:
        problem = f"{place}: a part of the checkpoint could not be written ({error}); the last checkpoint is intact"
        raise DataError(problem) from error


def read_parts(files: Sequence[Path]) -> dict[str, list[Tensor]]:
    """Return the pieces of each tensor, in the order of files; mapped: what is not looked at takes no memory."""
    written = [load_file(file) for file in files]
    return {name: [tensors[name] for tensors in written] for name in (written[0] if written else ())}


def moments_apart(state: Mapping[int, dict[str, Any]]) -> tuple[dict[str, Tensor], dict[int, dict[str, Any]]]:
    """Return an optimiser's moments as they are written, and what is a single number, such as the count of steps."""
    moments = {f"{n}.{key}": value for n, own in state.items() for key, value in own.items() if value.ndim}
    return moments, {n: {key: value for key, value in own.items() if not value.ndim} for n, own in state.items()}


def read_moments(files: Sequence[Path], state: dict[int, dict[str, Any]], part: Part) -> None:
    """Put a part's rows into the state of an optimiser: of files in their order, or of the whole moments in it."""
    written = Joined(read_parts(files) or {name: [value] for name, value in moments_apart(state)[0].items()})
    for name in written:
        number, _, key = name.partition(".")
        state[int(number)][key] = written.rows(name, part)


def digest(file: Path) -> str:
    """Return a digest of what is in a file."""
    with open(file, "rb") as content:
        return hashlib.file_digest(content, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
