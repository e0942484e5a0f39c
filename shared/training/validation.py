"""Validation during training: the loss on held-out data, and its translations scored exactly as the test will be."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import zip_longest

import torch
from torch import nn

from dragoman.shared.annotations import Checked
from dragoman.shared.batches.fields import Field
from dragoman.shared.batches.find import find_manifests
from dragoman.shared.batches.loader import Loader
from dragoman.shared.batches.manifest import Manifest
from dragoman.shared.batches.stream import Budget, Stream
from dragoman.shared.errors import DataError, UsageError
from dragoman.shared.evaluation.scoring import TestSet, check_metrics, translate_share
from dragoman.shared.generator import Hypothesis
from dragoman.shared.machine.workspace import Workspace
from dragoman.shared.nn.state import evaluating
from dragoman.shared.objectives.objective import Objective
from dragoman.shared.ranges import NonNegativeInt, PositiveInt
from dragoman.shared.search.search import AnySearch
from dragoman.shared.systems.system import System

LOWER_IS_BETTER = {"loss", "wer", "cer", "ter", "wer_raw", "cer_raw"}


#: Sum, count and weight of a part of the loss of one batch.
Part = tuple[float, float, float]


@dataclass(frozen=True)
class Share:
    """The results of one process.

    Attributes:
        losses: for each manifest, the parts of the loss of each of the process's batches.
        texts: for each manifest, the texts of the best hypothesis by row number and name; empty without a search.
    """

    losses: list[list[dict[str, Part]]]
    texts: list[dict[int, Hypothesis]]


@dataclass(frozen=True)
class Validated:
    """The scores of one validation; ``score`` is the metric that checkpoints are ranked by, higher is better."""

    values: dict[str, float]
    score: float

    def __str__(self) -> str:
        """Return the scores on one line."""
        return ", ".join(f"{name} {value:.{3 if name == 'loss' else 1}f}" for name, value in self.values.items())


class Validation(Checked):
    """Validate on a manifest.

    Args:
        manifests: the held-out data, as paths or patterns; scores of several are averaged.
        stream: the name of the stream whose task is validated; by default the first.
        fields: what the loss is computed on; by default the fields of that stream, without their noise. Where the
            noise is the task, they are given with it: a row then has the same noise in every validation.
        budget: how large a batch may be.
        search: how to translate, or None to compute the loss only.
        metrics: scores of the output: "bleu", "chrf", "ter", "wer", "cer" and others (shared/evaluation/metrics.py).
        texts: scores of further texts that the system writes in the same pass, by the text's name: ``{"transcript":
            ["wer"]}``; their values are called "transcript.wer".
        metric: what checkpoints are ranked by: "loss", one of ``metrics``, or one of ``texts``, such as
            "transcript.wer".
        reads: the inputs that are read to translate, if not those that the system names.
        writes: the text that is written, if not the one that the system names.
        every: updates between validations.
        first: the first update at which to validate.
        patience: number of validations without a better score before training stops; 0: never.
        limit: number of rows to use, from the first; 0: all.
    """

    def __init__(
        self,
        *,
        manifests: list[str],
        budget: Budget,
        stream: str | None = None,
        fields: dict[str, Field] | None = None,
        search: AnySearch | None = None,
        metrics: list[str] | None = None,
        texts: dict[str, list[str]] | None = None,
        metric: str = "loss",
        reads: list[str] | None = None,
        writes: str | None = None,
        every: PositiveInt = 1000,
        first: NonNegativeInt = 0,
        patience: NonNegativeInt = 0,
        limit: NonNegativeInt = 0,
    ) -> None:
        metrics = list(metrics or [])
        check_metrics(metrics, texts)
        named = [*metrics, *(f"{text}.{name}" for text, names in (texts or {}).items() for name in names)]
        if named and search is None:
            raise UsageError(f"metrics {named} need a search")
        if metric != "loss" and metric not in named:
            raise UsageError(f"metric must be loss or one of metrics {named}, not {metric!r}")
        self.manifests = list(manifests)
        self.budget = budget
        self.stream = stream
        self.fields = fields
        self.search = search
        self.metrics = metrics
        self.texts = dict(texts or {})
        self.metric = metric
        self.reads = reads
        self.writes = writes
        self.every = every
        self.first = first
        self.patience = patience
        self.limit = limit

    def due(self, update: int) -> bool:
        """Tell whether to validate after an update."""
        return update >= self.first and update % self.every == 0

    def out_of_patience(self, scores: Mapping[int, float], forgiven: int = 0) -> bool:
        """Tell whether the best of all scores so far lies ``patience`` validations back.

        Args:
            scores: by update, in their order; the one at the end of a training that went on later does not count.
            forgiven: the update up to which validations without a better score do not count.
        """
        scores = {update: score for update, score in scores.items() if self.due(update)}
        best = max(scores, key=lambda update: scores[update], default=0)
        return 0 < self.patience <= sum(update > max(best, forgiven) for update in scores)

    def chosen(self, streams: list[Stream]) -> Stream:
        """Return the stream whose task is validated.

        Raises:
            UsageError: if there is none of that name.
        """
        if self.stream is None:
            return streams[0]
        named = [stream for stream in streams if stream.name == self.stream]
        if not named:
            names = ", ".join(stream.name for stream in streams)
            raise UsageError(f"validation: there is no stream {self.stream!r}, only {names}")
        return named[0]

    def check(self, objective: Objective, streams: list[Stream]) -> None:
        """Refuse, before training starts, a validation that could not be done.

        Raises:
            UsageError: if there is no stream of its name, or nothing to translate with.
        """
        self.chosen(streams)
        if self.search is not None:
            self._at_task(objective.system)

    def share(self, objective: Objective, stream: Stream, workspace: Workspace) -> Share:
        """Compute the loss of a stream's task, and translate: this process's share of the batches.

        Raises:
            DataError: if there is no row to validate on, or a row cannot be read.
        """
        manifests = self._open(workspace)
        losses: list[list[dict[str, Part]]] = []
        texts: list[dict[int, Hypothesis]] = []
        with evaluating(objective):
            for manifest in manifests:
                losses.append(self._losses(objective, stream, manifest, workspace))
            if self.search is not None:
                texts = self.translate(self._at_task(objective.system), manifests, workspace)
        return Share(losses, texts)

    def judge(self, shares: list[Share], objective: Objective, workspace: Workspace) -> Validated:
        """Add up the losses of all processes, in the order of the batches, and score their translations.

        Raises:
            DataError: if the score is not a finite number, or translations cannot be scored.
        """
        loss, means = _mean_loss([share.losses for share in shares])
        values = {"loss": loss}
        for problem in objective.alarms(means):
            workspace.log.warning("%s: %s", workspace.phase, problem)
        if self.search is not None:
            texts = [share.texts for share in shares]
            values |= self._scores(self._at_task(objective.system), self._open(workspace), texts, workspace)
        return self._ranked(values)

    def measure(self, system: nn.Module, workspace: Workspace) -> Validated | None:
        """Score the translations of a model by itself, in this process alone; None if the loss is what counts.

        Raises:
            DataError: as :meth:`judge`.
            UsageError: if it writes no such text.
        """
        if self.search is None or self.metric == "loss":
            return None
        alone = replace(workspace, world=1)
        manifests, task = self._open(workspace), self._at_task(system)
        with evaluating(system):
            texts = self.translate(task, manifests, alone)
        return self._ranked(self._scores(task, manifests, [texts], alone))

    def shown(self, score: float) -> str:
        """Return the metric with the value that has a score: "wer 12.5" for -12.5."""
        return str(Validated({self.metric: self._score(score)}, score))

    def _score(self, value: float) -> float:
        """Return a value of the metric as a score, or a score as the value."""
        return -value if self.metric.rpartition(".")[2] in LOWER_IS_BETTER else value

    def translate(self, system: System, manifests: list[Manifest], workspace: Workspace) -> list[dict[int, Hypothesis]]:
        """Return the texts of this process's share of each manifest, which are scored."""
        assert self.search is not None
        return [
            translate_share(system, manifest, search=self.search, budget=self.budget, workspace=workspace)
            for manifest in manifests
        ]

    def references(self, manifest: Manifest) -> Manifest:
        """Return the manifest that has the references for what :meth:`translate` writes of one."""
        return manifest

    def _scores(
        self, system: System, manifests: list[Manifest], texts: list[list[dict[int, Hypothesis]]], workspace: Workspace
    ) -> dict[str, float]:
        """Score what all processes have translated, given by process and manifest."""
        values: dict[str, float] = {}
        for number, manifest in enumerate(manifests):
            for text, metrics in {"": self.metrics, **self.texts}.items():
                evaluation = TestSet(system, self.references(manifest), metrics, text).evaluate(
                    [texts_of_manifest[number] for texts_of_manifest in texts]
                )
                for score in evaluation.scores:
                    name = f"{text}.{score.name}" if text else score.name
                    values[name] = values.get(name, 0.0) + score.value / len(manifests)
                for alarm in [] if workspace.debug else evaluation.alarms:
                    workspace.log.warning("%s: %s: %s", workspace.phase, manifest.path, alarm)
        return values

    def _ranked(self, values: dict[str, float]) -> Validated:
        value = values[self.metric]
        if not math.isfinite(value):
            raise DataError(f"validation on {', '.join(self.manifests)}: {self.metric} is {value}")
        return Validated(values, self._score(value))

    def _at_task(self, system: nn.Module) -> System:
        if not isinstance(system, System):
            raise UsageError(f"validation: {getattr(system, 'purpose', 'no translator')}, so metric must be loss")
        return system.for_task(reads=self.reads, writes=self.writes)

    def _open(self, workspace: Workspace) -> list[Manifest]:
        limit = 2 if workspace.debug else self.limit
        manifests = [Manifest.open(path) for path in find_manifests(self.manifests)]
        manifests = [m.select(range(min(limit, len(m)))) if limit else m for m in manifests]
        if not any(map(len, manifests)):
            raise DataError(f"{', '.join(self.manifests)}: holds no rows to validate on")
        return manifests

    def _losses(
        self, objective: Objective, stream: Stream, manifest: Manifest, workspace: Workspace
    ) -> list[dict[str, Part]]:
        fields = self.fields
        if fields is None:
            fields = {name: field.evaluating() for name, field in stream.fields.items()}
        parts = []
        with torch.inference_mode():
            for batch, _ in Loader.evaluation(
                manifest, fields, self.budget, workspace.workers, rank=workspace.rank, world=workspace.world
            ):
                batch = replace(batch.to(workspace.device), stream=stream.name)
                with workspace.autocast():
                    parts.append(objective(objective.prepare(batch)).parts)
        # Only now is the device waited for.
        return [{name: (float(t.sum), float(t.count), t.weight) for name, t in terms.items()} for terms in parts]


def _mean_loss(ranks: list[list[list[dict[str, Part]]]]) -> tuple[float, dict[str, float]]:
    """Return the loss and the means of its parts over all batches, given by rank and manifest, dealt out in turn."""
    sums: dict[str, float] = {}
    counts: dict[str, float] = {}
    weights: dict[str, float] = {}
    for shares in zip(*ranks, strict=True):
        for batches in zip_longest(*shares, fillvalue=dict[str, Part]()):
            for batch in batches:
                for name, (total, count, weight) in batch.items():
                    sums[name] = sums.get(name, 0.0) + total
                    counts[name] = counts.get(name, 0.0) + count
                    weights[name] = weight
    means = {name: sums[name] / max(1.0, counts[name]) for name in sums}
    return sum(weights[name] * sums[name] / max(1.0, counts[name]) for name in sums), means
