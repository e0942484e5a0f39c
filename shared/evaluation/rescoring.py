"""Log-probabilities of given outputs under a model.

Legend: B batch, T target.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from dragoman.shared.batches.fields import Rows
from dragoman.shared.batches.loader import Loader
from dragoman.shared.batches.manifest import Manifest
from dragoman.shared.batches.stream import Budget
from dragoman.shared.errors import DataError, UsageError
from dragoman.shared.evaluation.outputs import ONE_LINE
from dragoman.shared.evaluation.scores import Score
from dragoman.shared.generator import Scorer
from dragoman.shared.machine.files import replaced_file
from dragoman.shared.machine.progress import progress_bar
from dragoman.shared.machine.workspace import Workspace
from dragoman.shared.nn.state import evaluating
from dragoman.shared.search.forced import forced_scores
from dragoman.shared.systems.system import System


@dataclass(frozen=True)
class Rescored:
    """One output.

    Attributes:
        id: of its row.
        total: sum of the log-probabilities (nats) of its tokens, the end symbol among them.
        tokens: how many those are.
        text: what was scored.
    """

    id: str
    total: float
    tokens: int
    text: str

    @property
    def mean(self) -> float:
        """The mean log-probability of a token: what beam search calls the score, with a length penalty of 1."""
        return self.total / self.tokens


@torch.inference_mode()
def score_rows(
    system: System, rows: Rows, *, budget: Budget, autocast: Callable[[], AbstractContextManager[Any]], workers: int = 0
) -> Iterator[tuple[int, float, int]]:
    """Yield number, sum of log-probabilities and number of tokens of the text that each row has for output.

    Raises:
        DataError: if a row has no text, or one that is too long for the model.
        UsageError: if the system has no decoder.
    """
    model = system.model
    if not isinstance(model, Scorer):
        raise UsageError("this model has no decoder that could score outputs")
    name = "output"
    with evaluating(system):
        for batch, numbers in Loader.evaluation(rows, {**system.input_fields, name: system.scored}, budget, workers):
            batch = batch.to(system.device)
            with autocast():
                scores = forced_scores(model, batch, batch[name], start_symbols=system.start_symbols, field=name)
            totals = scores.values.double().sum(1).tolist()
            yield from zip(numbers.tolist(), totals, scores.lengths.tolist(), strict=True)


def rescore(
    system: System, manifest: Manifest, *, texts: Sequence[str] | None, budget: Budget, workspace: Workspace
) -> list[Rescored]:
    """Score the outputs of a manifest's rows, in the manifest's order.

    Args:
        system: a translator, recogniser or language model.
        manifest: what the system reads.
        texts: the outputs, one a row; by default the column that the system was trained to write.
        budget: how large a batch may be.
        workspace: precision, device and progress bar.

    Raises:
        DataError: if there are not as many texts as rows, a row has no text, or one that is too long for the model.
        UsageError: if the system has no decoder.
    """
    column = system.scored.column
    if texts is not None and len(texts) != len(manifest):
        raise DataError(f"{manifest.path}: has {len(manifest)} rows, but there are {len(texts)} outputs")
    rows: Rows = manifest
    if texts is not None:
        rows = [dict(row) | {column: text} for row, text in zip(manifest, texts, strict=True)]
    results: list[Rescored | None] = [None] * len(manifest)
    with progress_bar(enabled=workspace.show_progress) as bar:
        task = bar.add_task("scoring", total=len(manifest), status="")
        for number, total, tokens in score_rows(
            system, rows, budget=budget, autocast=workspace.autocast, workers=workspace.workers
        ):
            results[number] = Rescored(str(rows[number]["id"]), total, tokens, rows[number][column])
            bar.advance(task)
    wrong = [result.id for result in results if result is not None and math.isnan(result.total)]
    if wrong:
        raise DataError(f"{manifest.path}: the model's log-probabilities are not numbers for row {wrong[0]!r}")
    return [result for result in results if result is not None]


def perplexity(rescored: Sequence[Rescored], tokenizer: str) -> Score:
    """Return exp(- sum of log-probabilities / tokens) over all outputs; only equal tokenizers compare.

    Raises:
        DataError: if there are no outputs.
    """
    if not rescored:
        raise DataError("there are no outputs to score")
    tokens = sum(one.tokens for one in rescored)
    mean = sum(one.total for one in rescored) / tokens
    value = math.exp(-mean) if -mean <= math.log(sys.float_info.max) else math.inf
    signature = f"perplexity|per:token|end:yes|tokens:{tokens}|tokenizer:{tokenizer}"
    return Score("perplexity", value, signature, len(rescored))


def write_rescored(rescored: Sequence[Rescored], path: Path) -> None:
    """Write a table (TSV) of ids, sums, tokens, means and texts; tabs and line ends in texts become spaces."""
    with replaced_file(path) as temporary, open(temporary, "w", encoding="utf-8", newline="\n") as file:
        file.write("id\tsum\ttokens\tmean\ttext\n")
        for one in rescored:
            id, text = one.id.translate(ONE_LINE), one.text.translate(ONE_LINE)
            file.write(f"{id}\t{one.total:.4f}\t{one.tokens}\t{one.mean:.6f}\t{text}\n")
