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
from shared.corpus.stream import Budget, translation_budget
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


def translate_shown(
    system: System,
    rows: list[dict[str, Any]],
    *,
    hidden: set[int],
    search: AnySearch,
    batch_size: int,
    progress: Callable[[int, int], None] | None = None,
) -> list[list[Hypothesis]]:
    """Return the hypotheses of all rows in order; those that are hidden from the model have empty output.

    Args:
        system: it translates at the precision that it was set to.
        rows: as of a manifest.
        hidden: the numbers of rows that the model does not see, such as silence.
        search: how to find outputs.
        batch_size: how many rows are translated at a time, at most.
        progress: called with the number of rows that are done and that of all that are shown.

    """
    shown = [number for number in range(len(rows)) if number not in hidden]
    results = [[system.empty_output()] for _ in rows]
    found = translate_rows(
        system,
        [rows[number] for number in shown],
        search=search,
        budget=translation_budget(batch_size),
        autocast=system.autocast,
    )
    for done, (number, hypotheses) in enumerate(found, start=1):
        results[shown[number]] = hypotheses
        if progress is not None:
            progress(done, len(shown))
    return results


def selected(rows: Rows, numbers: np.ndarray) -> Rows:
    """Return some rows, in the order of their numbers."""
    return rows.select(numbers) if isinstance(rows, Manifest) else [rows[number] for number in numbers.tolist()]
