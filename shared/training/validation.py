"""Validation during training: the loss on held-out data, and its translations scored exactly as the test will be."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from shared.corpus.find import find_manifests
from shared.corpus.loader import Loader
from shared.corpus.manifest import Manifest
from shared.corpus.stream import Budget, Stream
from shared.errors import DataError, UsageError
from shared.evaluation.evaluate import check_metrics, evaluate_system
from shared.objectives.objective import Objective
from shared.search.search import AnySearch
from shared.workspace import Workspace

LOWER_IS_BETTER = {"loss", "wer", "cer", "ter", "wer_raw", "cer_raw"}


@dataclass(frozen=True)
class Validated:
    """The scores of one validation; ``score`` is the metric that checkpoints are ranked by, higher is better."""

    values: dict[str, float]
    score: float

    def __str__(self) -> str:
        """Return the scores on one line."""
        return ", ".join(f"{name} {value:.{3 if name == 'loss' else 1}f}" for name, value in self.values.items())


class Validation:
    """Validate on a manifest.

    Args:
        manifests: the held-out data, as paths or patterns; scores of several are averaged.
        budget: how large a batch may be.
        search: how to translate, or None to compute the loss only.
        metrics: scores of the translations: "bleu", "chrf", "ter", "wer", "cer".
        metric: what checkpoints are ranked by: "loss" or one of ``metrics``.
        every: updates between validations.
        first: the first update at which to validate.
        patience: stop after so many validations without a better score; 0 never stops.
        limit: use only the first so many rows (0: all of them).

    """

    def __init__(
        self,
        *,
        manifests: list[str],
        budget: Budget,
        search: AnySearch | None = None,
        metrics: list[str] | None = None,
        metric: str = "loss",
        every: int = 1000,
        first: int = 0,
        patience: int = 0,
        limit: int = 0,
    ) -> None:
        metrics = list(metrics or [])
        check_metrics(metrics)
        if metrics and search is None:
            raise UsageError(f"metrics {metrics} need a search")
        if metric != "loss" and metric not in metrics:
            raise UsageError(f"metric must be loss or one of metrics {metrics}, not {metric!r}")
        if every < 1 or patience < 0 or limit < 0:
            raise UsageError(f"need every >= 1, patience >= 0, limit >= 0, not {every}, {patience}, {limit}")
        self.manifests, self.budget, self.search = list(manifests), budget, search
        self.metrics, self.metric = metrics, metric
        self.every, self.first, self.patience, self.limit = every, first, patience, limit

    def due(self, update: int) -> bool:
        """Tell whether to validate after an update."""
        return update >= self.first and update % self.every == 0

    def out_of_patience(self, scores: list[float]) -> bool:
        """Tell whether the best of all scores so far lies ``patience`` validations back."""
        return self.patience > 0 and len(scores) - 1 - scores.index(max(scores)) >= self.patience

    def run(self, objective: Objective, stream: Stream, workspace: Workspace) -> Validated:
        """Compute the loss with the stream's fields, translate, score.

        Raises:
            DataError: if there is no row, or the score is not a finite number.

        """
        limit = 2 if workspace.debug else self.limit
        manifests = [Manifest.open(path) for path in find_manifests(self.manifests)]
        manifests = [m.select(range(min(limit, len(m)))) if limit else m for m in manifests]
        if not any(map(len, manifests)):
            raise DataError(f"{', '.join(self.manifests)}: holds no rows to validate on")
        objective.eval()
        values = {"loss": self._loss(objective, stream, manifests, workspace)}
        for manifest in manifests:
            if self.search is None:
                continue
            evaluation = evaluate_system(
                objective.system,
                manifest,
                search=self.search,
                budget=self.budget,
                metrics=self.metrics,
                workspace=workspace,
            )
            for found in evaluation.scores:
                values[found.name] = values.get(found.name, 0.0) + found.value / len(manifests)
            for alarm in evaluation.alarms:
                workspace.log.warning("%s: %s: %s", workspace.phase, manifest.path, alarm)
        objective.train()
        score = values[self.metric]
        if not math.isfinite(score):
            raise DataError(f"validation on {', '.join(self.manifests)}: {self.metric} is {score}")
        return Validated(values, -score if self.metric in LOWER_IS_BETTER else score)

    def _loss(self, objective: Objective, stream: Stream, manifests: list[Manifest], workspace: Workspace) -> float:
        fields = {name: field.evaluating() for name, field in stream.fields.items()}
        sums: dict[str, torch.Tensor] = {}
        counts: dict[str, torch.Tensor] = {}
        weights: dict[str, float] = {}
        with torch.inference_mode():
            for manifest in manifests:
                for batch, _ in Loader.evaluation(manifest, fields, self.budget, workspace.workers):
                    with workspace.autocast():
                        loss = objective(objective.prepare(batch.to(workspace.device)))
                    for name, term in loss.parts.items():
                        sums[name] = sums.get(name, 0.0) + term.sum.double()
                        counts[name] = counts.get(name, 0) + term.count
                        weights[name] = term.weight
        return sum(weights[name] * float(sums[name]) / max(1.0, float(counts[name])) for name in sums)
