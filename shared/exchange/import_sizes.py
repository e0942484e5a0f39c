"""Models that other people's settings describe, compared with their weights before they take memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from torch import Tensor, nn

from shared.errors import DataError, UsageError
from shared.machine.memory import refuse_over
from shared.nn.weights import described_by, size_of

Model = TypeVar("Model", bound=nn.Module)


def built(build: Callable[[], Model], tensors: Mapping[str, Tensor], path: Path) -> Model:
    """Build a model, after it was planned without memory.

    Args:
        build: makes it, with fresh parameters.
        tensors: its weights.
        path: of the file with the settings.

    Raises:
        DataError: naming the file, if the model has far more tensors than its weights, or needs more memory than is
            available.

    """
    try:
        with described_by(path, tensors):
            plan = build()
    except UsageError as error:
        raise DataError(f"{path}: {error}") from error
    refuse_over(size_of(plan), f"{path}: the model that it describes", error=DataError)
    return build()


def check_rows(rows: int, tensors: Mapping[str, Tensor], path: Path) -> None:
    """Refuse a vocabulary that no tensor has rows for, before it is made.

    Raises:
        DataError: naming the file with the settings.

    """
    longest = max((len(tensor) for tensor in tensors.values() if tensor.dim()), default=0)
    if rows > longest:
        raise DataError(f"{path}: vocab_size is {rows}, but no tensor of the weights has more than {longest} rows")
