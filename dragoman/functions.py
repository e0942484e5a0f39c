"""The Python interface of dragoman: the functions behind ``dragoman.load``, ``run`` and ``evaluate``."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dragoman.exchange import importing
from dragoman.placing.budgets import loader
from dragoman.runs.running import run_recipe
from dragoman.shared.batches.manifest import Manifest
from dragoman.shared.batches.stream import translation_budget
from dragoman.shared.evaluation.scoring import Evaluation, check_metrics, evaluate_system
from dragoman.shared.machine.device import Machine, precision_of
from dragoman.shared.machine.workspace import Workspace
from dragoman.shared.recipe.recipe import Recipe
from dragoman.shared.search.search import AnySearch
from dragoman.shared.systems.combining import load_combined
from dragoman.shared.systems.system import System
from dragoman.wording import speaks_python

import_model = speaks_python(importing.import_model)


@speaks_python
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
    memory: str | None = None,
) -> System:
    """Load a model folder to translate with; as fast as the command ``dragoman translate``.

    Its matrices are stored as searches read them best; use :meth:`System.load` to go on training or to save it again.

    Args:
        folder: a model folder, or that of a run (what :func:`run` returns), which stands for its last model.
        device: "auto", "cpu", "cuda", "cuda:1", "mps".
        precision: "fp32", "bf16", "fp16", or "auto": bf16 on GPUs that have it, else fp32; "int8" on a CPU: quicker,
            in a quarter of the memory, and rounded (shared/nn/int8.py).
        ensemble: further such folders, whose probabilities are averaged with the model's.
        language_model: the folder of a language model that takes part in the search.
        lm_weight: its weight.
        ctc: translate through the model's CTC head.
        reads: the inputs that are read ("speech", "source"), if the model was trained on several; by default those
            that the folder names.
        writes: the text that is written ("translation", "transcript"), if it was trained to write several by turns.
        memory: how many bytes of weights each device may hold, "0=20GB,1=20GB,cpu=60GB", for a model that is larger
            than the device; the rest is read from the folder each time.

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
        ensemble=[Path(other) for other in ([ensemble] if isinstance(ensemble, str | Path) else ensemble)],
        language_model=None if language_model is None else Path(language_model),
        lm_weight=lm_weight,
        ctc=ctc,
        reads=reads,
        writes=writes,
        load=loader(memory, machine, alone=not ensemble and language_model is None),
    )


@speaks_python
def run(recipe: str | Path, *, restart: str | Sequence[str] = (), until: str | None = None, **keys: Any) -> Path:
    """Run a recipe, as ``dragoman run`` does: finished phases are skipped, an interrupted one goes on.

    Args:
        recipe: a file, or the name of an installed recipe ("own/mt").
        restart: the phase to do again from the start, or several.
        until: the last phase to run.
        **keys: keys of the recipe with other values; dotted ones as ``**{"model.encoder.layers": 2}``. ``run="wide"``
            gives the run a folder of its own (``results/.../mt-wide/1``); ``trust_recipe=True`` lets the recipe run any
            code.

    Returns:
        The folder of the run; :func:`load` takes it.

    Raises:
        DataError: if data cannot be read or training fails.
        UsageError: for an unknown key or phase, or a value of the wrong type; naming the nearest known one.
    """
    restart = [restart] if isinstance(restart, str) else restart
    words = [word for key, value in keys.items() for word in (f"--{key}", str(value))]
    command = shlex.join(["dragoman", "run", str(recipe), *words])
    return run_recipe(Recipe.load(recipe, keys), restart=restart, until=until, command=command).output


@speaks_python
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
        model: the folder of a model or of a run, or a system from :func:`load`, which keeps its device and precision.
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
    metrics = [metrics] if isinstance(metrics, str) else list(metrics)
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
        metrics=metrics,
        workspace=machine,
        texts=texts,
    )
