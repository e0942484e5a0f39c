"""The phase that measures terms of an objective on test data: what a model without output can be judged by."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import torch

from dragoman.shared.batches.fields import Field
from dragoman.shared.batches.find import find_manifests
from dragoman.shared.batches.loader import Loader
from dragoman.shared.batches.manifest import Manifest
from dragoman.shared.batches.stream import Budget
from dragoman.shared.errors import UsageError
from dragoman.shared.evaluation.results import split_name
from dragoman.shared.evaluation.scores import Score
from dragoman.shared.machine.processes import MainPhase
from dragoman.shared.machine.workspace import Stopwatch, Workspace
from dragoman.shared.nn.state import evaluating, load_exactly
from dragoman.shared.nn.weights import load_tensors
from dragoman.shared.objectives.objective import Objective
from dragoman.shared.phases.evaluating import forget_earlier, opened, record_scores
from dragoman.shared.systems.model_folder import WEIGHTS


class MeasureTerms(MainPhase):
    """Compute terms of an objective on test manifests with the parameters of a model folder.

    Writes a line per manifest and term to ``results.jsonl`` of the run's folder: 100 times sum / count, a percentage
    for a share such as an accuracy. What is drawn at random is the same in each measurement: what a field draws, for
    each row; what the objective draws, for each batch.

    Args:
        objective: whose system has the folder's parameters.
        model: a model folder.
        manifests: the tests, as paths or patterns.
        fields: what the objective reads of a row.
        terms: names of the terms.
        budget: how large a batch may be.

    Raises:
        UsageError: without terms.
    """

    measures: ClassVar[bool] = True

    def __init__(
        self,
        *,
        objective: Objective,
        model: str,
        manifests: list[str],
        fields: dict[str, Field],
        terms: list[str],
        budget: Budget,
    ) -> None:
        if not terms:
            raise UsageError("terms must name at least one term of the objective")
        self.objective = objective
        self.model = Path(model)
        self.manifests = list(manifests)
        self.fields = dict(fields)
        self.terms = list(terms)
        self.budget = budget

    def work(self, workspace: Workspace) -> None:
        """Measure on every manifest."""
        forget_earlier(workspace)
        objective = self.objective.to(workspace.device)
        file = self.model / WEIGHTS
        load_exactly(objective.system, load_tensors(file, workspace.device), str(file))
        for path in find_manifests(self.manifests):
            stopwatch = Stopwatch()
            manifest = opened(path, workspace)
            scores = self._scores(objective, manifest, workspace)
            record_scores(scores, split_name(path), manifest, self.model, workspace, stopwatch, {})
            workspace.log.info("%s: %s measured", workspace.phase, split_name(path))

    @torch.inference_mode()
    def _scores(self, objective: Objective, manifest: Manifest, workspace: Workspace) -> list[Score]:
        sums, counts = dict.fromkeys(self.terms, 0.0), dict.fromkeys(self.terms, 0.0)
        torch.manual_seed(workspace.seed)
        with evaluating(objective):
            for batch, _ in Loader.evaluation(manifest, self.fields, self.budget, workspace.workers):
                with workspace.autocast():
                    parts = objective(objective.prepare(batch.to(workspace.device))).parts
                for name in self.terms:
                    if name not in parts:
                        raise UsageError(f"the objective has no term {name!r}, only {', '.join(parts)}")
                    sums[name] += float(parts[name].sum)
                    counts[name] += float(parts[name].count)
        read = "+".join(self.fields)
        return [
            Score(
                name,
                100 * sums[name] / max(1.0, counts[name]),
                f"{name}|count:{counts[name]:g}|read:{read}",
                len(manifest),
            )
            for name in self.terms
        ]
