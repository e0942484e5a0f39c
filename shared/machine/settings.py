"""Memory and settings of a process that computes; nothing is set when a module is imported."""

from __future__ import annotations

import ctypes
import platform
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from dragoman.shared.errors import DataError

TRIM_THRESHOLD, MMAP_MAX = -1, -4  # their numbers in malloc.h


#: What torch says where an allocation failed outside of its own allocator: on a CPU, and in CUDA's libraries.
NO_MEMORY = ("allocate memory", "out of memory", "ALLOC_FAILED")


def is_out_of_memory(error: BaseException) -> bool:
    """Tell whether an error means that memory was not enough, of a CPU or of a GPU."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and any(said in str(error) for said in NO_MEMORY)


@contextmanager
def enough_memory(message: str) -> Iterator[None]:
    """Turn the many errors that mean too little memory into one.

    Raises:
        DataError: with the message, if memory was not enough.
    """
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        raise DataError(message) from error


def prepare_process(device: str | torch.device) -> None:
    """Set what this process needs to compute quickly on a device; called by what trains and what loads models."""
    keep_freed_memory(device)
    if torch.device(device).type == "cuda":
        # On Hopper and Blackwell torch asks cuDNN first, which makes a plan for each new shape, in tenths of a second,
        # and keeps it for ever. Batches of training, and the steps of a search, are new shapes; torch's other kernels
        # take any.
        torch.backends.cuda.enable_cudnn_sdp(False)
        warnings.filterwarnings("ignore", "TensorFloat32 tensor cores")  # the key tf32 says whether they are wanted


def keep_freed_memory(device: str | torch.device = "cpu") -> bool:
    """Let a process that computes on a CPU keep what it frees; return whether it does, and its C library knows how.

    glibc gives each large block back to the system when it is freed. A step, of training or of search, would then ask
    for what it has just freed again, and the system clears that page by page: five to ten per cent of a step's time.
    """
    if torch.device(device).type != "cpu" or platform.libc_ver()[0] != "glibc":
        return False
    library = ctypes.CDLL(None)
    library.malloc_trim(0)  # what has been freed by now was needed to make a model ready, and may never be again
    return bool(library.mallopt(MMAP_MAX, 0)) and bool(library.mallopt(TRIM_THRESHOLD, 2**31 - 1))
