"""The phase that tests a model as a simultaneous translator: it hears each recording in real time, chunk by chunk."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Annotated, Any

import torch

from dragoman.shared.batches.manifest import Manifest, Row
from dragoman.shared.batches.stream import Budget
from dragoman.shared.described import describe
from dragoman.shared.errors import DataError
from dragoman.shared.evaluation.resegment import resegment_text, rows_of_recordings
from dragoman.shared.evaluation.scores import Score
from dragoman.shared.evaluation.scoring import TestSet, check_metrics
from dragoman.shared.generator import Hypothesis
from dragoman.shared.machine.files import replaced_file
from dragoman.shared.machine.progress import progress_bar
from dragoman.shared.machine.workspace import Workspace
from dragoman.shared.phases.evaluating import MeasureManifests
from dragoman.shared.ranges import NonNegativeInt, PositiveFloat, Range
from dragoman.shared.search.search import AnySearch
from dragoman.shared.sound.audio import SAMPLE_RATE, probe, read_audio, samples
from dragoman.shared.systems.system import System
from dragoman.simultaneous.hearing import heard_in, pieces_of
from dragoman.simultaneous.latency import Timed, latencies, timed, words_of, write_log
from dragoman.simultaneous.listening import Emission, Listener, Policy
from dragoman.simultaneous.live_talk import listen


class Simulate(MeasureManifests):
    """Translate test manifests while their recordings are heard; score the outputs, and how long they lag behind.

    Writes ``<folder>.<split>.tsv`` (see shared/evaluation/outputs.py), ``<folder>.<split>.instances.log`` (when each
    word was written, in SimulEval's format) and a line per score to ``results.jsonl`` of the run's folder: the metrics,
    and "al", "laal", "dal", "laal_ca", "yaal" and "yaal_ca" in milliseconds and "ap" (see latency.py). One recording is
    heard after the other, so that the time of computing is that of a single listener.

    With ``talks``, the recordings are heard whole and divided at their pauses. Outputs are cut to the rows' references;
    the latencies of these parts have names with "long_". The log then has a line for each recording, and with
    ``<folder>.<split>.segments.json`` and ``<folder>.<split>.references.txt`` it is what ``omnisteval longform`` reads.

    Args:
        model: a model folder.
        manifests: the tests, as paths or patterns.
        policy: says what is certain (see policies.py).
        chunk: seconds from one translation to the next.
        search: how to translate.
        metrics: of the outputs: "bleu", "chrf", ...
        limit: how many rows of each manifest are heard, or recordings with ``talks``, from the first; 0: all.
        talks: whether recordings are heard whole.
        maximum_seconds: what a sentence of a talk lasts at most; see
            :class:`~dragoman.simultaneous.live_talk.LiveTalk`.
        pause: seconds without speech that end a sentence of a talk.

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
        talks: bool = False,
        maximum_seconds: PositiveFloat = 20.0,
        pause: PositiveFloat = 0.6,
    ) -> None:
        check_metrics(metrics)
        super().__init__(model=model, manifests=manifests, budget=Budget(rows=1))
        self.policy = policy
        self.search = search
        self.metrics = list(metrics)
        self.chunk = chunk
        self.limit = limit
        self.talks = talks
        self.maximum_seconds = maximum_seconds
        self.pause = pause

    def measure(
        self, system: System, manifest: Manifest, name: str, workspace: Workspace
    ) -> tuple[list[Score], dict[str, Any]]:
        """Return metrics and latencies."""
        recordings = list(rows_of_recordings(manifest).values()) if self.talks else [[n] for n in range(len(manifest))]
        if self.limit:
            recordings = recordings[: self.limit]
        manifest = manifest.select([number for numbers in recordings for number in numbers])
        ends = [0, *accumulate(map(len, recordings))]
        test = TestSet(system, manifest, self.metrics)
        references = [reference or "" for reference in test.outputs.references[0]]
        whole: list[Timed] = []
        parts: list[Timed] = []
        with progress_bar(enabled=workspace.show_progress) as bar:
            task = bar.add_task("listening", total=len(recordings), status="")
            for first, end in pairwise(ends):
                rows = [manifest[number] for number in range(first, end)]
                hear = self._talk if self.talks else self._row
                heard = timed(hear(system, rows[0]), test.language, source=rows[0]["audio"])
                whole.append(replace(heard, source_length=1000 * probe(rows[0]["audio"])) if self.talks else heard)
                parts += self._cut(whole[-1], rows, references[first:end], test.language)
                bar.advance(task)
        evaluation = test.evaluate(
            [{n: Hypothesis([], 0.0, {test.text: one.prediction}) for n, one in enumerate(parts)}]
        )
        for alarm in evaluation.alarms:
            workspace.log.warning("%s: %s", name, alarm)
        table = workspace.folder / f"{name}.tsv"
        evaluation.outputs.write(table)
        write_log(workspace.folder / f"{name}.instances.log", whole if self.talks else parts, evaluation.language)
        if self.talks:
            _write_segments(workspace.folder / name, manifest, references)
        how = {
            "outputs": str(table.relative_to(workspace.output)),
            "language": evaluation.language,
            "search": describe(self.search),
            "policy": describe(self.policy),
            "chunk": self.chunk,
        }
        if self.talks:
            how["talks"] = {"maximum_seconds": self.maximum_seconds, "pause": self.pause}
        prefix = "long_" if self.talks else ""
        return [*evaluation.all_scores, *latencies(parts, evaluation.language, prefix=prefix)], how

    def _listener(self, system: System, row: Row) -> Listener:
        return Listener(
            system,
            self.policy,
            search=self.search,
            source_language=row["source_language"],
            target_language=row["target_language"],
        )

    def _row(self, system: System, row: Row) -> Iterator[Emission]:
        if not row["audio"]:
            raise DataError(f"row {row['id']!r} has no audio to be heard")
        waveform = torch.from_numpy(read_audio(row["audio"], row["start"] or 0.0, row["duration"]))
        listener, size = self._listener(system, row), samples(self.chunk)
        for begin in range(0, len(waveform), size):
            yield listener.hear(waveform[begin : begin + size], last=begin + size >= len(waveform))

    def _talk(self, system: System, row: Row) -> Iterable[Emission]:
        size, _ = pieces_of(self.chunk)
        chunks = heard_in(Path(row["audio"]), size)
        begin = partial(self._listener, system, row)
        return listen(begin, chunks, maximum_seconds=self.maximum_seconds, pause=self.pause, chunk=self.chunk)

    def _cut(self, whole: Timed, rows: list[Row], references: list[str], language: str) -> list[Timed]:
        """Cut the output of a recording to its rows; each part's times count from the beginning of the row's sound."""
        if not self.talks:
            return [replace(whole, reference=references[0])]
        spans = [(1000 * (row["start"] or 0.0), 1000 * row["duration"]) for row in rows]
        last = max(start + length for start, length in spans)
        lines = resegment_text(whole.prediction, references, language)
        ends = [0, *accumulate(len(words_of(line, language)) for line in lines)]
        return [
            whole.part(line, slice(first, end), start, length, reference, end=last - start)
            for line, (first, end), (start, length), reference in zip(
                lines, pairwise(ends), spans, references, strict=True
            )
        ]


def _write_segments(path: Path, manifest: Manifest, references: list[str]) -> None:
    """Write when each row is said, as MuST-C's yaml has it, in JSON, and beside it the references, a line each."""
    segments = [{"wav": row["audio"], "offset": row["start"] or 0.0, "duration": row["duration"]} for row in manifest]
    texts = {".segments.json": json.dumps(segments, ensure_ascii=False, indent=0) + "\n"}
    texts[".references.txt"] = "".join(" ".join(reference.split()) + "\n" for reference in references)
    for ending, text in texts.items():
        with replaced_file(path.with_name(path.name + ending)) as temporary:
            temporary.write_text(text, encoding="utf-8")
