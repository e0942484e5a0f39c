"""``dragoman evaluate``: translate manifests and score the output."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

from shared.commands.loading import load_models, workspace_for
from shared.commands.options import ModelOptions, SearchOptions
from shared.commands.score import print_scores
from shared.commands.searching import fitting, search_for
from shared.corpus.manifest import Manifest
from shared.corpus.stream import translation_budget
from shared.errors import UsageError
from shared.evaluation.scoring import check_metrics, evaluate_system
from shared.machine.processes import join, leave, together
from shared.phases.testing import Evaluate
from shared.run.running import log_to_terminal


def evaluate_manifests(
    model: Path,
    manifests: list[Path],
    *,
    metrics: list[str],
    out: Path | None,
    limit: int,
    search: SearchOptions,
    models: ModelOptions,
) -> None:
    """Translate manifests, print the scores, and write hypotheses and results if ``out`` is given."""
    log_to_terminal()
    check_metrics(metrics)
    if out is not None and limit:
        raise UsageError("--limit is for a quick look: without --out, since no part of a test is a result")
    search_for(search)
    budget = translation_budget(models.batch_size)
    workspace = workspace_for(out or Path(), models, "evaluate")
    system = load_models(model, models, workspace, ctc=search.ctc)
    search = fitting(search, system)
    chosen = search_for(search, tokenizer=system.output.tokenizer)
    phase = Evaluate(
        model=str(model),
        manifests=[str(p) for p in manifests],
        search=chosen,
        budget=budget,
        metrics=metrics,
        ensemble=[str(p) for p in models.ensemble or []],
        language_model=None if models.lm is None else str(models.lm),
        lm_weight=models.lm_weight,
        ctc=search.ctc,
    )
    joined = join(workspace)  # under torchrun, the processes share the rows
    with workspace.locked() if out is not None else nullcontext(), together(workspace):
        for path in manifests:
            if out is not None:
                evaluation = phase.evaluate(system, path, workspace)
            else:
                manifest = Manifest.open(path)
                manifest = manifest.select(range(min(limit, len(manifest)))) if limit else manifest
                evaluation = evaluate_system(
                    system, manifest, search=chosen, budget=budget, metrics=metrics, workspace=workspace
                )
                for alarm in evaluation.alarms:
                    workspace.log.warning("%s: %s", path, alarm)
            if workspace.main:
                print_scores(evaluation.all_scores, str(path))
    if joined:
        leave()
