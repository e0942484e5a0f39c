"""``dragoman rescore``: the score that a model gives to given outputs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from dragoman.commands.contrasts import Contrast, preferences, read_contrasts
from dragoman.commands.input_files import lines
from dragoman.commands.loading import load_models, workspace_for
from dragoman.commands.model_options import ModelOptions
from dragoman.commands.score import print_scores
from dragoman.runs.running import log_to_terminal
from dragoman.shared.batches.manifest import Manifest
from dragoman.shared.batches.stream import translation_budget
from dragoman.shared.errors import UsageError
from dragoman.shared.evaluation.rescoring import perplexity, rescore, write_rescored
from dragoman.shared.systems.inputs import chosen_languages
from dragoman.shared.systems.system import System

#: What challenge sets are called.
CONTRASTS = (".json", ".tsv")


def rescore_manifest(
    model: Path,
    manifest: Path,
    *,
    outputs: Path | None,
    languages: tuple[str | None, str | None],
    mean: bool,
    out: Path | None,
    models: ModelOptions,
) -> None:
    """Print the perplexity of given outputs, and write the score of each if ``out`` is given.

    Of a challenge set (``dragoman/commands/contrasts.py``), print how often the reference is preferred.

    Args:
        model: the folder.
        manifest: of the rows; or a challenge set.
        outputs: lines to score instead of the manifest's own texts.
        languages: of a challenge set, where the model has several.
        mean: whether a challenge set compares means over tokens, not sums.
        out: the table to write.
        models: further ones, and the machine.

    Raises:
        DataError: if the file cannot be read, or there are not as many outputs as rows.
        UsageError: if the model has no decoder, or options do not fit what is scored.
    """
    log_to_terminal()
    pairs = manifest.suffix in CONTRASTS
    if models.lm is not None and out is None and not pairs:
        raise UsageError("--lm: combined scores are not probabilities, so there is no perplexity to print: give --out")
    if pairs and outputs is not None:
        raise UsageError(f"--outputs does not apply: {manifest} is a challenge set, which has its texts")
    if not pairs and (mean or languages != (None, None)):
        raise UsageError(f"--mean and languages are for challenge sets (*{', *'.join(CONTRASTS)}), not for {manifest}")
    workspace = workspace_for(Path(), models, "rescore")
    contrasts = read_contrasts(manifest) if pairs else []
    opened = None if pairs else Manifest.open(manifest)
    texts = None if outputs is None else list(lines([outputs]))
    system = load_models(model, models, workspace)
    with TemporaryDirectory() as place:
        if opened is None:
            rows = contrast_rows(contrasts, system, languages)
            opened = Manifest.write(Path(place) / "contrasts.arrow", rows)
        rescored = rescore(
            system, opened, texts=texts, budget=translation_budget(models.batch_size), workspace=workspace
        )
    if out is not None:
        write_rescored(rescored, out)
    if pairs:
        print_scores(preferences(contrasts, [one.mean if mean else one.total for one in rescored]), str(manifest))
    elif models.lm is None:
        print_scores([perplexity(rescored, system.output.tokenizer.fingerprint)], str(outputs or manifest))


def contrast_rows(
    contrasts: Sequence[Contrast], system: System, languages: tuple[str | None, str | None]
) -> Iterator[dict[str, str]]:
    """Yield a row of a manifest for each text of a challenge set: the references are ID/0, wrong ones ID/1 and so on.

    Raises:
        UsageError: if the system does not write translations of text, or a language is unknown or has to be named.
    """
    if list(system.reads) != ["source"] or system.output.column != "target_text":
        raise UsageError("a challenge set is for a model that reads text and writes its translation")
    codes = system.source_languages, system.target_languages
    source, target = chosen_languages(*languages, codes=codes, side="target")
    for one in contrasts:
        for number, text in enumerate(one.texts):
            sides = {"source_text": one.source, "target_text": text}
            yield {"id": f"{one.id}/{number}", **sides, "source_language": source, "target_language": target}
