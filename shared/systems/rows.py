"""From rows to hypotheses: the one path that validation, tests, generated data, users' inputs and commands share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from shared.corpus.fields import Rows, blank_rows
from shared.corpus.loader import Loader
from shared.corpus.manifest import Manifest
from shared.corpus.stream import Budget
from shared.errors import UsageError
from shared.generator import Hypothesis
from shared.nn.state import evaluating
from shared.search.search import AnySearch

if TYPE_CHECKING:
    from shared.systems.system import System


def translate_rows(
    system: System,
    rows: Rows,
    *,
    search: AnySearch,
    budget: Budget,
    autocast: Callable[[], AbstractContextManager[Any]] = nullcontext,
    workers: int = 0,
    rank: int = 0,
    world: int = 1,
) -> Iterator[tuple[int, list[Hypothesis]]]:
    """Yield number and hypotheses of every row in the share of one of ``world`` processes.

    Rows without content come first, with empty output and unseen by the model; then the others, longest first.

    Args:
        system: in any mode; it translates in eval mode.
        rows: a manifest or a list of rows.
        search: how to find outputs.
        budget: the size of a batch.
        autocast: returns the context in which the model computes.
        workers: processes that read and tokenise; 0 does it in this one.
        rank: number of this process among those that share the rows.
        world: how many those are.

    Raises:
        DataError: naming the row, if it lacks what the system reads or cannot be read.
        UsageError: if the system is a language model.

    """
    if not system.inputs:
        raise UsageError("this is a language model: it reads nothing that could be translated")
    fields = system.input_fields
    blank = blank_rows(fields, rows)
    for number in np.flatnonzero(blank)[rank::world].tolist():
        yield number, [system.empty_output()]
    shown = np.flatnonzero(~blank)
    some = selected(rows, shown) if blank.any() else rows
    with evaluating(system):
        for batch, numbers in Loader.evaluation(some, fields, budget, workers, rank=rank, world=world):
            with autocast(), torch.inference_mode():
                found = system.translate_batch(batch.to(system.device), search)
            yield from zip(shown[numbers].tolist(), found, strict=True)


def selected(rows: Rows, numbers: np.ndarray) -> Rows:
    """Return some rows, in the order of their numbers."""
    return rows.select(numbers) if isinstance(rows, Manifest) else [rows[number] for number in numbers.tolist()]
