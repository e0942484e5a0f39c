"""``dragoman rescore``: the score that a model gives to given outputs."""

from __future__ import annotations

from pathlib import Path

from dragoman.commands.input_files import lines
from dragoman.commands.loading import load_models, workspace_for
from dragoman.commands.options import ModelOptions
from dragoman.commands.score import print_scores
from dragoman.runs.running import log_to_terminal
from dragoman.shared.batches.manifest import Manifest
from dragoman.shared.batches.stream import translation_budget
from dragoman.shared.errors import UsageError
from dragoman.shared.evaluation.rescoring import perplexity, rescore, write_rescored


def rescore_manifest(
    model: Path, manifest: Path, *, outputs: Path | None, out: Path | None, models: ModelOptions
) -> None:
    """Print the perplexity of given outputs, and write the score of each if ``out`` is given."""
    log_to_terminal()
    if models.lm is not None and out is None:
        raise UsageError("--lm: combined scores are not probabilities, so there is no perplexity to print: give --out")
    workspace = workspace_for(Path(), models, "rescore")
    opened = Manifest.open(manifest)
    texts = None if outputs is None else list(lines([outputs]))
    system = load_models(model, models, workspace)
    rescored = rescore(system, opened, texts=texts, budget=translation_budget(models.batch_size), workspace=workspace)
    if out is not None:
        write_rescored(rescored, out)
    if models.lm is None:
        print_scores([perplexity(rescored, system.output.tokenizer.fingerprint)], str(outputs or manifest))
