"""Weights in files of the format safetensors: what a file holds by its header, and its tensors."""

from __future__ import annotations

import json
import mmap
import os
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn import init
from torch.nn.modules.module import register_module_parameter_registration_hook
from torch.overrides import TorchFunctionMode

from dragoman.shared.errors import DataError, one_line

#: The types of tensors that models hold, by their names in a header.
TYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}


#: The functions that write what is drawn by chance into a tensor, which they return; others of torch.nn.init call them.
DRAWING = {Tensor.uniform_, Tensor.normal_, init.uniform_, init.normal_, init.kaiming_uniform_}


class Undrawn(TorchFunctionMode):
    """While it is entered, nothing is drawn by chance: what a new model's parameters hold is undefined.

    For models that are filled from a file: parameters take no memory before they are written, which the system gives
    page by page, and on the meta device torch's normal distribution would load its compiler.
    """

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Call a function of torch, or return the tensor that it would write to."""
        kwargs = kwargs or {}
        if func in DRAWING:
            return args[0] if args else kwargs["tensor"]
        return func(*args, **kwargs)


def header_of(path: Path) -> dict[str, Tensor]:
    """Return the tensors of a file by name, on the meta device: shapes and types without values.

    Raises:
        DataError: naming the file, if it is cut short, its header is damaged, or a tensor has another type than TYPES.
    """
    tensors: dict[str, Tensor] = {}
    with _readable(path), safe_open(path, "pt") as file:
        for name in file.keys():  # noqa: SIM118 (it is no dictionary)
            part = file.get_slice(name)
            if part.get_dtype() not in TYPES:
                raise DataError(f"{path}: {name} is of type {part.get_dtype()}, and models hold {', '.join(TYPES)}")
            tensors[name] = torch.empty(part.get_shape(), dtype=TYPES[part.get_dtype()], device="meta")
    return tensors


def load_tensors(path: Path, device: str | torch.device = "cpu") -> dict[str, Tensor]:
    """Return the tensors of a file by name.

    Raises:
        DataError: as :func:`header_of`.
    """
    header_of(path)
    with _readable(path):
        return load_file(path, device=str(device))


class WeightsFile(Mapping[str, Tensor]):
    """The tensors of a file by name, on the CPU, the largest first.

    The file is opened once; each tensor is read when it is asked for, and takes memory, and a place among open files,
    only as long as the caller keeps it. (Those of safetensors' own reader hold on to all that it has read.)

    Args:
        path: of the file.

    Raises:
        DataError: as :func:`header_of`; from reading, too.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._header = path, header_of(path)
        with _readable(path):
            self._file = os.open(path, os.O_RDONLY)
            weakref.finalize(self, os.close, self._file)
            start = 8 + (length := int.from_bytes(os.pread(self._file, 8, 0), "little"))
            entries = json.loads(os.pread(self._file, length, 8))
        self._starts = {name: start + entries[name]["data_offsets"][0] for name in self._header}

    def __getitem__(self, name: str) -> Tensor:
        """Map a tensor, which may be changed without changing the file."""
        like, start = self._header[name], self._starts[name]
        if not like.numel():
            return torch.empty_like(like, device="cpu")
        before = start % mmap.ALLOCATIONGRANULARITY
        how = {"flags": mmap.MAP_PRIVATE, "prot": mmap.PROT_READ | mmap.PROT_WRITE, "offset": start - before}
        with _readable(self._path):
            content = mmap.mmap(self._file, before + like.nbytes, **how)
        return torch.frombuffer(content, dtype=like.dtype, count=like.numel(), offset=before).view(like.shape)

    def __iter__(self) -> Iterator[str]:
        """Return the names, that of the largest tensor first."""
        return iter(sorted(self._header, key=lambda name: -self._header[name].nbytes))

    def __len__(self) -> int:
        """Return how many tensors there are."""
        return len(self._header)


def size_of(module: nn.Module) -> int:
    """Return how many bytes the parameters and buffers of a module take, or would take if it is on the meta device."""
    tensors = {id(tensor): tensor for tensor in (*module.parameters(), *module.buffers())}
    return sum(tensor.nbytes for tensor in tensors.values())


@contextmanager
def described_by(path: Path, tensors: Mapping[str, Tensor]) -> Iterator[None]:
    """Stop the construction of a described model, on the meta device, that has far more parameters than its weights.

    Raises:
        DataError: with both figures, when the block has made too many.
    """
    # Some parameters are registered twice: where they are shared, or replaced once the module is there.
    limit = 4 * len(tensors) + 100
    made = 0

    def count(module: nn.Module, name: str, parameter: object) -> None:
        nonlocal made
        made += parameter is not None
        if made > limit:
            raise DataError(f"{path}: describes more than {limit} tensors, and its weights are {len(tensors)}")

    hook = register_module_parameter_registration_hook(count)
    try:
        with torch.device("meta"), Undrawn():
            yield
    finally:
        hook.remove()


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    try:
        yield
    except (SafetensorError, OSError, RuntimeError, ValueError) as error:
        raise DataError(f"{path}: not a readable weights file ({one_line(error)})") from error
