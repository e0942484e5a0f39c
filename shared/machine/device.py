"""The machine: the device that a process computes on, how precisely, and its place among other processes."""

from __future__ import annotations

import logging
import os
import shutil
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from dragoman.shared.errors import UsageError
from dragoman.shared.machine.digits import whole_number
from dragoman.shared.machine.memory import check_workers

if TYPE_CHECKING:
    import torch

#: The names of torch's types in which products are computed, by precision; None for those of the parameters.
TYPES = {"fp32": None, "bf16": "bfloat16", "fp16": "float16", "int8": "int8"}
PRECISIONS = ("auto", *TYPES)


@dataclass(kw_only=True)
class Machine:
    """The device, the precision and the processes that a run computes with.

    Attributes:
        device: "auto", "cpu", "cuda", "cuda:1", "mps"; of several processes, each has the GPU of its local rank.
        precision: "fp32", "bf16", "fp16", or "auto": bf16 on GPUs that have it, else fp32; on a CPU also "int8", for
            searches with a trained model.
        tf32: multiply float32 on a GPU by TF32, where it has that: 10 bits of mantissa, float32's range.
        compile: compile layers and losses (torch.compile); "auto" becomes True on a GPU of CUDA where that can be done.
        memory_share: of a GPU's memory, which an update in passes may take (see shared/training/passes.py).
        deterministic: use only algorithms that give the same bits each time; an operation without one is an error.
        sharding: "fsdp" divides parameters, gradients and moments among the processes (shared/training/fsdp.py),
            "hybrid" among those of each machine; "none": each has all.
        workers: processes that read data beside the training process.
        rank: this process's number among ``world`` processes (set by torchrun).
        world: the number of processes.

    Raises:
        UsageError: for a device that is not there, an unknown precision, or too many workers.
    """

    device: str = "auto"
    precision: str = "auto"
    tf32: bool = False
    compile: bool | str = "auto"
    memory_share: float = 0.9
    deterministic: bool = False
    sharding: str = "none"
    workers: int = 1
    rank: int = field(default_factory=lambda: int(os.environ.get("RANK", "0")))
    world: int = field(default_factory=lambda: int(os.environ.get("WORLD_SIZE", "1")))

    def __post_init__(self) -> None:
        if self.precision not in PRECISIONS:
            raise UsageError(f"precision must be one of {', '.join(PRECISIONS)}, not {self.precision!r}")
        check_workers(self.workers)
        if not 0 < self.memory_share <= 1:
            raise UsageError(f"memory_share must be above 0 and at most 1, not {self.memory_share}")
        self.device = _device(self.device, several=self.world > 1)
        if self.sharding not in ("none", "fsdp", "hybrid"):
            raise UsageError(f"sharding must be none, fsdp or hybrid, not {self.sharding!r}")
        if self.compile not in (True, False, "auto"):
            raise UsageError(f"compile must be auto, True or False, not {self.compile!r}")
        if self.compile == "auto":
            self.compile = self.device.startswith("cuda") and _can_compile()
        if self.precision == "auto":
            import torch

            on_gpu = self.device.startswith("cuda") and torch.cuda.is_bf16_supported(including_emulation=False)
            self.precision = "bf16" if on_gpu else "fp32"
        if self.precision == "int8" and self.device != "cpu":
            raise UsageError(f"precision int8 is for a CPU, not for {self.device}: --device cpu, or --precision bf16")

    @property
    def main(self) -> bool:
        """True in the process that writes."""
        return self.rank == 0

    @property
    def autocast_dtype(self) -> torch.dtype | None:
        """The type that :meth:`autocast` multiplies in, or int8 for matrices that are stored so; else None."""
        import torch

        name = TYPES[self.precision]
        return None if name is None else getattr(torch, name)

    def autocast(self) -> AbstractContextManager[Any]:
        """Return the context in which forward passes run."""
        return autocast(self.device.split(":")[0], self.autocast_dtype)


def autocast(kind: str, dtype: torch.dtype | None) -> AbstractContextManager[Any]:
    """Return the context in which a kind of device multiplies in a type; nothing is cast for None, and for int8."""
    if dtype is None:
        return nullcontext()
    import torch

    return nullcontext() if dtype == torch.int8 else torch.autocast(kind, dtype=dtype)


def _can_compile() -> bool:
    """Tell whether torch.compile can make kernels for a GPU; say what is missing."""
    missing = [] if find_spec("triton") else ["the package triton"]
    missing += [] if any(map(shutil.which, filter(None, (os.environ.get("CC"), "gcc", "clang")))) else ["a C compiler"]
    if missing:
        logging.getLogger("dragoman").warning(
            "compile: auto: nothing is compiled, which is slower: %s cannot be found", " and ".join(missing)
        )
    return not missing


def precision_of(dtype: torch.dtype | None) -> str:
    """Return the precision whose products are computed in a type; None for that of the parameters."""
    import torch

    return next(precision for precision, name in TYPES.items() if dtype is (name and getattr(torch, name)))


def _device(name: str, *, several: bool) -> str:
    """Return the full name of a device, with the number of a GPU.

    Raises:
        UsageError: if there is no such device.
    """
    if name == "cpu":
        return name
    kind, colon, number = name.partition(":")
    if kind not in ("auto", "cpu", "cuda", "mps") or (
        colon and not (kind == "cuda" and whole_number(number) is not None)
    ):
        raise UsageError(f"device must be auto, cpu, cuda, cuda:N or mps, not {name!r}")
    import torch

    if kind == "auto":
        kind = "cuda" if torch.cuda.is_available() else "cpu"
    if kind == "cuda":
        if colon and several:
            raise UsageError(f"device {name!r}: several processes cannot share a GPU; say cuda")
        index = int(number) if colon else int(os.environ.get("LOCAL_RANK", "0"))
        if index >= torch.cuda.device_count():
            raise UsageError(f"device {name!r}: there is no GPU {index}; torch sees {torch.cuda.device_count()}")
        return f"cuda:{index}"
    if kind == "mps" and not torch.backends.mps.is_available():
        raise UsageError("device 'mps' is not available on this machine")
    return kind
