"""The phase that tests a model as a simultaneous translator: it hears each recording in real time, chunk by chunk."""

from __future__ import annotations

from typing import Annotated, Any

import torch

from dragoman.shared.batches.manifest import Manifest, Row
from dragoman.shared.batches.stream import Budget
from dragoman.shared.described import describe
from dragoman.shared.errors import DataError
from dragoman.shared.evaluation.scores import Score
from dragoman.shared.evaluation.scoring import TestSet, check_metrics
from dragoman.shared.generator import Hypothesis
from dragoman.shared.machine.progress import progress_bar
from dragoman.shared.machine.workspace import Workspace
from dragoman.shared.phases.evaluating import MeasureManifests
from dragoman.shared.ranges import NonNegativeInt, Range
from dragoman.shared.search.search import AnySearch
from dragoman.shared.sound.audio import SAMPLE_RATE, read_audio, samples
from dragoman.shared.systems.system import System
from dragoman.simultaneous.latency import Timed, latencies, words_of, write_log
from dragoman.simultaneous.listening import Listener, Policy


class Simulate(MeasureManifests):
    """Translate test manifests while their recordings are heard; score the outputs, and how long they lag behind.

    Writes ``<folder>.<split>.tsv`` (see shared/evaluation/outputs.py), ``<folder>.<split>.instances.log`` (when each
    word was written, in SimulEval's format) and a line per score to ``results.jsonl`` of the run's folder: the metrics,
    and "al", "laal", "dal" and "laal_ca" in milliseconds and "ap" (see latency.py). One recording is
    heard after the other, so that the time of computing is that of a single listener.

    Args:
        model: a model folder.
        manifests: the tests, as paths or patterns.
        policy: says what is certain (see policies.py).
        chunk: seconds from one translation to the next.
        search: how to translate.
        metrics: of the outputs: "bleu", "chrf", ...
        limit: how many rows of each manifest are heard, from the first; 0: all.

    Raises:
        UsageError: for an unknown metric.
    """

    def __init__(
        self,
        *,
        model: str,
        manifests: list[str],
        policy: Policy,
        search: AnySearch,
        metrics: list[str],
        chunk: Annotated[float, Range(least=1 / SAMPLE_RATE)] = 0.5,
        limit: NonNegativeInt = 0,
    ) -> None:
        check_metrics(metrics)
        super().__init__(model=model, manifests=manifests, budget=Budget(rows=1))
        self.policy = policy
        self.search = search
        self.metrics = list(metrics)
        self.chunk = chunk
        self.limit = limit

    def measure(
        self, system: System, manifest: Manifest, name: str, workspace: Workspace
    ) -> tuple[list[Score], dict[str, Any]]:
        """Return metrics and latencies."""
        if self.limit:
            manifest = manifest.select(range(min(self.limit, len(manifest))))
        test = TestSet(system, manifest, self.metrics)
        timed = []
        with progress_bar(enabled=workspace.show_progress) as bar:
            task = bar.add_task("listening", total=len(manifest), status="")
            for number in range(len(manifest)):
                reference = test.outputs.references[0][number] or ""
                timed.append(self._heard(system, manifest[number], reference, test.language))
                bar.advance(task)
        evaluation = test.evaluate(
            [{n: Hypothesis([], 0.0, {test.text: one.prediction}) for n, one in enumerate(timed)}]
        )
        for alarm in evaluation.alarms:
            workspace.log.warning("%s: %s", name, alarm)
        table = workspace.folder / f"{name}.tsv"
        evaluation.outputs.write(table)
        write_log(workspace.folder / f"{name}.instances.log", timed)
        how = {
            "outputs": str(table.relative_to(workspace.output)),
            "language": evaluation.language,
            "search": describe(self.search),
            "policy": describe(self.policy),
            "chunk": self.chunk,
        }
        return [*evaluation.all_scores, *latencies(timed, evaluation.language)], how

    def _heard(self, system: System, row: Row, reference: str, language: str) -> Timed:
        if not row["audio"]:
            raise DataError(f"row {row['id']!r} has no audio to be heard")
        waveform = torch.from_numpy(read_audio(row["audio"], row["start"] or 0.0, row["duration"]))
        listener = Listener(
            system,
            self.policy,
            search=self.search,
            source_language=row["source_language"],
            target_language=row["target_language"],
        )
        size, delays, elapsed = samples(self.chunk), [], []
        for begin in range(0, len(waveform), size):
            emission = listener.hear(waveform[begin : begin + size], last=begin + size >= len(waveform))
            count = len(words_of(emission.text, language))
            delays += [round(1000 * emission.heard, 3)] * count
            elapsed += [round(1000 * emission.elapsed, 3)] * count
        return Timed(listener.text, delays, elapsed, reference, row["audio"], 1000 * len(waveform) / SAMPLE_RATE)
