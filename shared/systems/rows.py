"""From rows to hypotheses: the one path that validation, tests, generated data, users' inputs and commands share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import torch

from dragoman.shared.batch import Batch
from dragoman.shared.batches.fields import Rows, blank_rows
from dragoman.shared.batches.loader import Loader
from dragoman.shared.batches.manifest import Manifest
from dragoman.shared.batches.stream import Budget, translation_budget
from dragoman.shared.errors import DataError, UsageError
from dragoman.shared.generator import Hypothesis
from dragoman.shared.nn.speech import SpeechEmbedding
from dragoman.shared.nn.state import evaluating
from dragoman.shared.search.search import AnySearch, ByRows, Choosing
from dragoman.shared.sound.audio import read_audio, samples
from dragoman.shared.systems.reading_model import ReadingModel

#: The sound that a CPU reads at once with a model that brings all rows to one length.
SECONDS_OF_WINDOWS = 60.0


class RowTranslator(ReadingModel):
    """A model that writes hypotheses for what it reads."""

    @abstractmethod
    def translate_batch(self, batch: Batch, search: AnySearch) -> list[list[Hypothesis]]:
        """Return the hypotheses of each row of a batch on the model's device, the best first."""

    @abstractmethod
    def empty_output(self) -> Hypothesis:
        """Return the output of an input without content, which is not shown to the model."""


def translate_rows(
    system: RowTranslator,
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
        search: how to find outputs, and to choose among them.
        budget: the size of a batch, which is smaller where rows cost whole windows; see :func:`of_windows`.
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
    budget = of_windows(budget, system)
    finding = search.found_by if isinstance(search, Choosing) else search
    with evaluating(system):
        for batch, numbers in Loader.evaluation(some, fields, budget, workers, rank=rank, world=world):
            with autocast(), torch.inference_mode():
                batch, places = batch.to(system.device), numbers.tolist()
                if isinstance(finding, ByRows):
                    hypotheses = finding.translated(system, batch, [some[place] for place in places])
                else:
                    hypotheses = system.translate_batch(batch, finding)
                if isinstance(search, Choosing):
                    hypotheses = search.best(system, [some[place] for place in places], hypotheses)
            yield from zip(shown[numbers].tolist(), hypotheses, strict=True)


def of_windows(budget: Budget, system: ReadingModel) -> Budget:
    """Return the budget of a batch for a model that brings all sound to one length; others keep theirs.

    A clip of a second costs such a model as much as a whole window: Whisper base, 37 MB of the decoder's keys and
    values of the sound, and up to 62 MB of those of five outputs. Two windows of 30 s take a CPU 4 % more time than
    four.
    """
    windows = [part.window for part in system.modules() if isinstance(part, SpeechEmbedding) and part.window]
    if not windows or system.device.type != "cpu":
        return budget
    rows = max(1, samples(SECONDS_OF_WINDOWS) // max(windows))
    return Budget(rows=min(rows, budget.rows or rows), tokens=budget.tokens, seconds=budget.seconds)


def translate_shown(
    system: RowTranslator,
    rows: list[dict[str, Any]],
    hidden: set[int],
    search: AnySearch,
    *,
    batch_size: int,
    progress: Callable[[int, int], None] | None = None,
    unreadable: list[DataError] | None = None,
) -> list[list[Hypothesis]]:
    """Return the hypotheses of all rows in order; those that are hidden from the model have empty output.

    Args:
        system: it translates at the precision that it was set to.
        rows: as of a manifest.
        hidden: the numbers of rows that the model does not see, such as silence.
        search: how to find outputs.
        batch_size: how many rows are translated at a time, at most.
        progress: called with the number of rows that are done and that of all that are shown.
        unreadable: given this list, rows whose sound turns out to be broken have no hypotheses, and their errors are
            added to it.

    Raises:
        DataError: naming the row, if it cannot be read, without that list.
    """
    todo = [number for number in range(len(rows)) if number not in hidden]
    total, done = len(todo), 0
    results: list[list[Hypothesis]] = [
        [system.empty_output()] if number in hidden else [] for number in range(len(rows))
    ]
    while todo:
        shown = todo
        pairs = translate_rows(
            system,
            [rows[number] for number in shown],
            search=search,
            budget=translation_budget(batch_size),
            autocast=system.autocast,
        )
        try:
            for number, hypotheses in pairs:
                results[shown[number]] = hypotheses
                done += 1
                if progress is not None:
                    progress(done, total)
            return results
        except DataError:
            if unreadable is None:
                raise
            broken = {
                number: error for number in shown if not results[number] and (error := broken_sound(rows[number]))
            }
            if not broken:
                raise
            unreadable += broken.values()
            todo = [number for number in shown if not results[number] and number not in broken]
    return results


def broken_sound(row: Mapping[str, Any]) -> DataError | None:
    """Decode the recording of a row, if it has one, and return what is wrong with it."""
    try:
        if row["audio"] is not None:
            read_audio(row["audio"], row.get("start") or 0.0, row.get("duration"))
    except DataError as error:
        return error
    return None


def selected(rows: Rows, numbers: np.ndarray) -> Rows:
    """Return some rows, in the order of their numbers."""
    return rows.select(numbers) if isinstance(rows, Manifest) else [rows[number] for number in numbers.tolist()]
