"""Translating a manifest and scoring the result: the one path that validation, tests and the command share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from shared.corpus.loader import Loader
from shared.corpus.manifest import Manifest
from shared.corpus.stream import Budget
from shared.errors import DataError, UsageError
from shared.evaluation.alarms import Alarm, detect
from shared.evaluation.scores import METRICS, Score, score
from shared.files import replaced_file
from shared.generator import Hypothesis
from shared.progress import progress_bar
from shared.search.search import AnySearch
from shared.system import System
from shared.workspace import Workspace

ONE_LINE = str.maketrans("\t\n\r", "   ")


@dataclass(frozen=True)
class Evaluation:
    """What a system made of a manifest, in the manifest's order.

    Attributes:
        hypotheses: the best hypothesis of every row.
        references: the reference texts.
        sources: the source texts ("" where a row has none).
        scores: the metrics that were asked for.
        alarms: what looks wrong with the outputs as a whole.

    """

    ids: list[str]
    hypotheses: list[str]
    references: list[str]
    sources: list[str]
    scores: list[Score]
    alarms: list[Alarm]

    def write(self, path: Path) -> None:
        """Write a table (TSV) of ids, hypotheses, references and sources; tabs and line ends in them become spaces."""
        with replaced_file(path) as temporary, open(temporary, "w", encoding="utf-8", newline="\n") as file:
            file.write("id\thypothesis\treference\tsource\n")
            for row in zip(self.ids, self.hypotheses, self.references, self.sources, strict=True):
                file.write("\t".join(text.translate(ONE_LINE) for text in row) + "\n")


def check_metrics(metrics: Sequence[str]) -> None:
    """Raise a UsageError if a metric is unknown."""
    for metric in metrics:
        if metric not in METRICS:
            raise UsageError(f"unknown metric {metric!r}; known are {', '.join(METRICS)}")


@torch.inference_mode()
def translate_manifest(
    system: System, manifest: Manifest, *, search: AnySearch, budget: Budget, workspace: Workspace
) -> list[list[Hypothesis]]:
    """Translate every row of a manifest; nothing is filtered out, and the manifest's order is kept.

    Raises:
        UsageError: if the system is a language model.

    """
    if not system.inputs:
        raise UsageError("this is a language model: it reads nothing that could be translated")
    results: list[list[Hypothesis] | None] = [None] * len(manifest)
    was_training = system.training
    system.eval()
    with progress_bar(enabled=workspace.show_progress) as bar:
        task = bar.add_task("translating", total=len(manifest), status="")
        for batch, rows in Loader.evaluation(manifest, system.inputs, budget, workspace.workers):
            with workspace.autocast():
                found = system.translate_batch(batch.to(system.device), search)
            for row, hypotheses in zip(rows, found, strict=True):
                results[row] = hypotheses
            bar.advance(task, len(rows))
    system.train(was_training)
    missing = sum(result is None for result in results)
    if missing:
        raise DataError(f"{manifest.path}: {missing} of {len(manifest)} rows were not translated")
    return [result for result in results if result is not None]


def evaluate_system(
    system: System,
    manifest: Manifest,
    *,
    search: AnySearch,
    budget: Budget,
    metrics: list[str],
    workspace: Workspace,
) -> Evaluation:
    """Translate a manifest and score the best hypotheses against the column that the system was trained to write.

    Raises:
        DataError: if a row has no reference, naming the row; if there are no rows, or several languages to score.

    """
    name, column = system.output_name, system.output.column
    ids, references, sources, languages = [], [], [], set()
    for row in (manifest[i] for i in range(len(manifest))):
        if row[column] is None:
            raise DataError(f"{manifest.path}: row {row['id']!r} has no {column} to score against")
        ids.append(row["id"])
        references.append(row[column])
        sources.append(row["source_text"] or "")
        languages.add(row[f"{system.output.side}_language"])
    if len(languages) != 1 or None in languages:
        found = f"references in {sorted(map(str, languages))}" if languages else "no rows"
        raise DataError(f"{manifest.path}: holds {found}; references in one language are what can be scored")
    translated = translate_manifest(system, manifest, search=search, budget=budget, workspace=workspace)
    hypotheses = [best[0].texts[name] for best in translated]
    scores = score(hypotheses, references, languages.pop(), metrics)
    copies = sources if column != "source_text" else None  # a transcript is its source
    alarms = detect(hypotheses, references=references, sources=copies)
    return Evaluation(ids, hypotheses, references, sources, scores, alarms)
