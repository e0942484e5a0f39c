"""``dragoman evaluate``: translate manifests and score the output."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import fields, replace
from pathlib import Path

from dragoman.commands.loading import load_models, workspace_for
from dragoman.commands.model_options import ModelOptions
from dragoman.commands.score import print_scores
from dragoman.commands.search_options import ChoosingOptions
from dragoman.commands.searching import fitting, search_for
from dragoman.commands.talk_options import DivisionOptions
from dragoman.commands.text_options import names_of
from dragoman.commands.whole_talks import evaluate_talks
from dragoman.runs.running import log_to_terminal
from dragoman.shared.batches.manifest import Manifest
from dragoman.shared.batches.stream import translation_budget
from dragoman.shared.errors import UsageError
from dragoman.shared.evaluation.scoring import check_metrics, evaluate_system
from dragoman.shared.machine.processes import join, leave, together
from dragoman.shared.phases.evaluating import Evaluate
from dragoman.shared.sound.segmentation import check_segmenter, named_segmenter
from dragoman.shared.systems.model_folder import model_folder


def metrics_by_text(words: Sequence[str]) -> dict[str, list[str]]:
    """Return the metrics of further texts that ``--text NAME:METRICS`` asks for.

    Raises:
        UsageError: for one that is written in another way.
    """
    by_text = {}
    for word in words:
        name, mark, metrics = word.partition(":")
        if not (name and mark and metrics):
            raise UsageError(f"--text {word}: name a text and its metrics, such as transcript:wer,cer")
        by_text[name] = names_of(metrics)
    return by_text


def check_options(*, out: Path | None, limit: int, talks: bool, division: DivisionOptions) -> None:
    """Refuse options that do not go together, by UsageError."""
    if out is not None and limit:
        raise UsageError("--limit does not apply with --out: the score of part of a test set is not a result")
    if talks and (out is not None or limit):
        raise UsageError("--talks translates whole recordings and prints their scores: --out and --limit do not apply")
    check_segmenter(division.segmenter)
    for field in fields(division):
        if not talks and getattr(division, field.name) != field.default:
            option = f"--{field.name.replace('_', '-')}"
            raise UsageError(f"{option} applies with --talks: the rows of a manifest have their times")


def evaluate_manifests(
    model: Path,
    manifests: list[Path],
    *,
    metrics: list[str],
    texts: dict[str, list[str]],
    out: Path | None,
    limit: int,
    talks: bool,
    division: DivisionOptions,
    search: ChoosingOptions,
    models: ModelOptions,
) -> None:
    """Translate manifests, print the scores, and write hypotheses and results if ``out`` is given."""
    log_to_terminal()
    check_metrics(metrics, texts)
    check_options(out=out, limit=limit, talks=talks, division=division)
    search_for(search)
    if search.samples > 1 and not search.chooses:
        raise UsageError(f"--samples {search.samples} needs --mbr or --rerank: one output of each row is scored")
    model = model_folder(model)  # results name it, and note how it was averaged
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
        ctc_weight=models.ctc_weight,
        reads=models.inputs,
        writes=models.writes,
        texts=texts,
    )
    joined = join(workspace)  # under torchrun, the processes share the rows
    with workspace.locked() if out is not None else nullcontext(), together(workspace):
        for path in manifests:
            if talks:
                evaluation, *further = evaluate_talks(
                    system,
                    Manifest.open(path),
                    search=chosen,
                    metrics=metrics,
                    workspace=workspace,
                    batch_size=models.batch_size,
                    segmenter=named_segmenter(
                        division.segmenter, margin=division.speech_margin, longest_pause=division.longest_pause
                    ),
                    maximum_seconds=division.maximum_seconds,
                    texts=texts,
                )
                evaluation = replace(evaluation, further=further)
            elif out is not None:
                evaluation = phase.evaluate(system, path, workspace)
            else:
                manifest = Manifest.open(path)
                manifest = manifest.select(range(min(limit, len(manifest)))) if limit else manifest
                evaluation = evaluate_system(
                    system, manifest, search=chosen, budget=budget, metrics=metrics, workspace=workspace, texts=texts
                )
            if out is None:  # with a folder, the phase says them
                for alarm in (alarm for one in evaluation.by_text for alarm in one.alarms):
                    workspace.log.warning("%s: %s", path, alarm)
            if workspace.main:
                for one in evaluation.by_text:
                    print_scores(one.all_scores, f"{path} ({one.text})" if len(system.texts) > 1 else str(path))
    if joined:
        leave()
