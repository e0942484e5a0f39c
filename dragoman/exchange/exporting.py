"""The command ``dragoman export``: a model folder in another engine's format, and what that changes."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path

from dragoman.exchange.ctranslate2 import CTranslate2System, export, export_whisper
from dragoman.exchange.huggingface import hf_export
from dragoman.exchange.huggingface.hf_like import export_like
from dragoman.exchange.transformers_engine.lm_export import (
    export_adapter,
    export_language_model,
    holds_language_model,
)
from dragoman.shared.batches.manifest import Manifest
from dragoman.shared.batches.stream import Budget
from dragoman.shared.errors import DataError, UsageError
from dragoman.shared.evaluation.scoring import Evaluation, evaluate_system
from dragoman.shared.machine.workspace import Workspace
from dragoman.shared.systems.system import System

LINES_AT_A_TIME = 32


def export_ctranslate2(
    model: Path, out: Path, *, quantization: str, compare: list[Path], limit: int, like: Path | None
) -> None:
    """Write a model for CTranslate2; translate manifests with both, and say how many lines differ and how they score.

    Args:
        model: a model folder.
        out: where to write.
        quantization: how weights are stored.
        compare: manifests to translate.
        limit: the number of rows of each, from its beginning; 0: all.
        like: of a Whisper, the folder that it was imported from; of a text translator None.

    Raises:
        UsageError: for manifests to compare with Whisper.
    """
    if like is not None:
        if compare or limit:
            raise UsageError("--compare and --limit are for text translators")
        export_whisper(model, like, out, quantization=quantization)
        print(f"{out}: Whisper, {quantization}, {_megabytes(out)}; faster_whisper.WhisperModel loads it")
        return
    manifests = {path: Manifest.open(path) for path in compare}  # whatever is wrong with them is said first
    export(model, out, quantization=quantization)
    print(f"{out}: {quantization}, {_megabytes(out)}")
    if not manifests:
        return
    native, exported = System.load(model), CTranslate2System.open(out)
    for path, manifest in manifests.items():
        rows = manifest.select(range(min(limit, len(manifest)))) if limit else manifest
        ours, theirs = _evaluate(native, rows), _evaluate(exported, rows)
        differing = sum(a != b for a, b in zip(ours.outputs.hypotheses, theirs.outputs.hypotheses, strict=True))
        bleu = f"BLEU {ours.scores[0].value:.2f} here, {theirs.scores[0].value:.2f} there"
        print(f"{path}: {differing} of {len(rows)} outputs differ; {bleu} ({ours.scores[0].signature})")


def _megabytes(folder: Path) -> str:
    return f"{sum(file.stat().st_size for file in folder.rglob('*') if file.is_file()) / 1e6:.1f} MB"


def _evaluate(system: System, manifest: Manifest) -> Evaluation:
    workspace = Workspace(output=Path(), precision="fp32", device="cpu")
    if not len(manifest):
        raise DataError(f"{manifest.path}: holds no rows to compare")
    return evaluate_system(
        system,
        manifest,
        search=system.default_search(),
        budget=Budget(rows=LINES_AT_A_TIME),
        metrics=["bleu"],
        workspace=workspace,
    )


def _plain(write: Callable[[Path, Path, Path | None], list[str]]) -> Callable[..., None]:
    """Return the export to a format without CTranslate2's options; the lines that ``write`` returns are printed.

    Raises:
        UsageError: for options of the other format.
    """

    @wraps(write)
    def export_plain(
        model: Path, out: Path, *, quantization: str, compare: list[Path], limit: int, like: Path | None
    ) -> None:
        if quantization != "float32" or compare or limit:
            raise UsageError("--quantization, --compare and --limit are for --format ctranslate2")
        for line in write(model, out, like):
            print(f"{out}: {line}")

    return export_plain


@_plain
def export_huggingface(model: Path, out: Path, like: Path | None) -> list[str]:
    """Write a model in Hugging Face's layout, or as the folder ``like`` with other weights; return the class there."""
    if like is None:
        return hf_export.export(model, out)
    return (export_language_model if holds_language_model(model) else export_like)(model, like, out)


@_plain
def export_peft(model: Path, out: Path, like: Path | None) -> list[str]:
    """Write what a language model learned as an adapter of peft beside ``like``; return what has no place in it.

    Raises:
        UsageError: for a model that is no such language model, or without the folder.
    """
    if like is None or not holds_language_model(model):
        raise UsageError("--format peft is for language models, with the folder that they were imported from as --like")
    return export_adapter(model, like, out)


#: By the names that the command knows.
FORMATS = {"ctranslate2": export_ctranslate2, "huggingface": export_huggingface, "peft": export_peft}
