"""The Python interface of dragoman: the functions behind ``dragoman.load``, ``run`` and ``evaluate``."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from shared.corpus.manifest import Manifest
from shared.corpus.stream import translation_budget
from shared.evaluation.scoring import Evaluation, check_metrics, evaluate_system
from shared.machine.device import Machine, precision_of
from shared.machine.workspace import Workspace
from shared.recipe.recipe import Recipe
from shared.run.running import run_recipe
from shared.search.search import AnySearch
from shared.systems.combining import load_combined
from shared.systems.system import System

try:
    __version__ = version("dragoman")
except PackageNotFoundError:  # a checkout that is on the path without being installed
    __version__ = "0+unknown"


def load(
    folder: str | Path,
    *,
    device: str = "auto",
    precision: str = "auto",
    ensemble: Sequence[str | Path] = (),
    language_model: str | Path | None = None,
    lm_weight: float = 0.0,
    ctc: bool = False,
    reads: Sequence[str] | None = None,
    writes: str | None = None,
) -> System:
    """Load a model folder to translate with; as fast as the command ``dragoman translate``.

    Its matrices are stored as searches read them best; use :meth:`System.load` to go on training or to save it again.

    Args:
        folder: a model folder, for example ``results/.../average/model``.
        device: "auto", "cpu", "cuda", "cuda:1", "mps".
        precision: "fp32", "bf16", "fp16", or "auto": bf16 on GPUs that have it, else fp32.
        ensemble: model folders whose probabilities are averaged with the model's.
        language_model: the model folder of a language model that takes part in the search.
        lm_weight: its weight.
        ctc: translate through the model's CTC head.
        reads: the inputs that are read ("speech", "source"), if the model was trained on several; by default those
            that the folder names.
        writes: the text that is written ("translation", "transcript"), if it was trained to write several by turns.

    Returns:
        The system: ``translate`` gives texts, ``hypotheses`` gives n-best lists with scores.

    Raises:
        DataError: if a folder is not a model folder.
        UsageError: if the device is not available, or the models do not fit together.

    """
    machine = Machine(device=device, precision=precision)
    return load_combined(
        Path(folder),
        machine.device,
        autocast_dtype=machine.autocast_dtype,
        ensemble=[Path(other) for other in ensemble],
        language_model=None if language_model is None else Path(language_model),
        lm_weight=lm_weight,
        ctc=ctc,
        reads=reads,
        writes=writes,
    )


def run(recipe: str | Path, *, restart: Sequence[str] = (), until: str | None = None, **keys: Any) -> Path:
    """Run a recipe, as ``dragoman run`` does: finished phases are skipped, an interrupted one goes on.

    Args:
        recipe: a file, or the name of an installed recipe ("own/mt").
        restart: phases to do again from the start.
        until: the last phase to run.
        **keys: keys of the recipe with other values; dotted ones as ``**{"model.encoder.layers": 2}``.

    Returns:
        The folder of the run.

    Raises:
        DataError: if data cannot be read or training fails.
        UsageError: for an unknown key or phase, or a value of the wrong type; naming the nearest known one.

    """
    words = [word for key, value in keys.items() for word in (f"--{key}", str(value))]
    command = shlex.join(["dragoman", "run", str(recipe), *words])
    return run_recipe(Recipe.load(recipe, keys), restart=restart, until=until, command=command).output


def evaluate(
    model: str | Path | System,
    manifest: str | Path | Manifest,
    *,
    metrics: Sequence[str] = ("bleu", "chrf", "ter"),
    texts: Mapping[str, list[str]] | None = None,
    search: AnySearch | None = None,
    batch_size: int = 16,
    device: str = "auto",
    precision: str = "auto",
) -> Evaluation:
    """Translate a manifest with a model and score the output, exactly as recipes do.

    Args:
        model: a model folder, or a system from :func:`load`, which keeps its device and precision.
        manifest: a manifest (``*.arrow``) or its path.
        metrics: of the output: "bleu", "chrf", "ter", "wer", "cer" and others (shared/evaluation/metrics.py).
        texts: metrics of further texts that the model writes in the same pass, by name: ``{"transcript": ["wer"]}``;
            their evaluations are in ``further``.
        search: how to translate; by default beam search with a beam of 5.
        batch_size: rows of typical length that are translated at a time; it does not change the output.
        device: where to run, if ``model`` is a folder.
        precision: likewise.

    Returns:
        Scores with signatures, hypotheses, and alarms.

    Raises:
        DataError: if a file cannot be read or lacks what the model reads.
        UsageError: for an unknown metric or device.

    """
    check_metrics(metrics, texts)
    opened = manifest if isinstance(manifest, Manifest) else Manifest.open(Path(manifest))
    system = model if isinstance(model, System) else load(model, device=device, precision=precision)
    machine = Workspace(
        output=Path(),
        device="mps" if system.device.type == "mps" else str(system.device),  # which numbers the only one there is
        precision=precision_of(system.autocast_dtype),
        noprogressbar=True,
        workers=0,
    )
    return evaluate_system(
        system,
        opened,
        search=search or system.default_search(),
        budget=translation_budget(batch_size),
        metrics=list(metrics),
        workspace=machine,
        texts=texts,
    )
