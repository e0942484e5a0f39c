"""Models that other people's settings describe: compared with their weights before they take memory, and built."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from torch import Tensor, nn

from dragoman.shared.errors import DataError, UsageError, one_line
from dragoman.shared.machine.memory import refuse_over
from dragoman.shared.nn.embeddings import TextEmbedding
from dragoman.shared.nn.heads import OutputProjection, TiedProjection
from dragoman.shared.nn.weights import described_by, size_of

#: Parameters that a model may have beyond a small multiple of its weights.
SLACK = 10**6

Model = TypeVar("Model", bound=nn.Module)


def built(build: Callable[[], Model], tensors: Mapping[str, Tensor], path: Path) -> Model:
    """Build a model, after it was planned without memory.

    Args:
        build: makes it, with fresh parameters.
        tensors: its weights.
        path: of the file with the settings.

    Raises:
        DataError: naming the file, if the model has far more tensors or parameters than its weights, needs more memory
            than is available, or cannot be built.
    """
    try:
        with described_by(path, tensors):
            plan = build()
    except DataError:
        raise
    except (UsageError, ValueError, TypeError, RuntimeError, OverflowError) as error:
        raise DataError(f"{path}: describes no network that can be built ({one_line(error)[:300]})") from error
    described, stored = (sum(tensor.numel() for tensor in some) for some in (plan.parameters(), tensors.values()))
    if described > 4 * stored + SLACK:
        raise DataError(f"{path}: describes {described:,} parameters, and its weights are {stored:,}")
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


def projection_of(embedding: TextEmbedding, *, tied: Any, **bias: bool) -> TiedProjection | OutputProjection:
    """Build the map to the symbols of an embedding: by its own matrix, or by another one."""
    if tied:
        return TiedProjection(embedding=embedding, **bias)
    return OutputProjection(width=embedding.width, vocabulary=embedding.vocabulary, **bias)
