"""The first and the last line of a run's log: machine and versions; the model that it leaves and how to use it."""

from __future__ import annotations

import platform
import shlex
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

from dragoman.runs.task import task_of
from dragoman.shared.batches.manifest import Manifest
from dragoman.shared.described import describe, modules_of, place_of
from dragoman.shared.evaluation.results import commit, hardware
from dragoman.shared.machine.workspace import PhaseRecord, Workspace
from dragoman.shared.recipe.planned import PlannedPhase
from dragoman.shared.recipe.recipe import Plan, Recipe
from dragoman.shared.recipe.tree import arguments_in
from dragoman.shared.systems.model_folder import CONFIG
from dragoman.shared.systems.reading_model import ReadingModel
from dragoman.shared.systems.system import System


def beginning(workspace: Workspace) -> str:
    """Return the first line of a run's log: device, precision, versions."""
    processes = f", {workspace.world} processes" if workspace.world > 1 else ""
    where = f"device {workspace.device} ({hardware(workspace.device)}){processes}, precision {workspace.precision}"
    return f"{where}{_faster(workspace)}; {versions()}"


def _faster(workspace: Workspace) -> str:
    """Return a hint at half precision for a GPU that has nothing else below single precision."""
    single = workspace.device.startswith("cuda") and workspace.precision == "fp32"
    if not single or torch.cuda.is_bf16_supported(including_emulation=False):
        return ""
    return " (this GPU has no bfloat16: --precision fp16 may be faster)"


def versions() -> str:
    """Return the versions of what computes."""
    try:
        number = version("dragoman")
    except PackageNotFoundError:  # run from a checkout that is not installed
        number = "(not installed)"
    code = commit()
    at = "" if code == "none" else f" at commit {code[:12]}{'+' if code.endswith('+') else ''}"
    cuda = f", CUDA {torch.version.cuda}" if torch.version.cuda and torch.cuda.is_available() else ""
    return f"dragoman {number}{at}, Python {platform.python_version()}, torch {torch.__version__}{cuda}"


def ending(plan: Plan, output: Path, phases: Sequence[str]) -> str | None:
    """Return the last line of a run's log: the model folder that its last phases wrote, and what to do with it."""
    configs = [folder for name in phases if (folder := output / name / "model" / CONFIG).is_file()]
    if not configs:
        return None
    folder = configs[-1].parent
    if _is_pretrained(plan, phases):
        return f"the model is in {folder}; {_after_pretraining(_planned(folder), folder)}"
    return usage(folder, _direction(output, phases))


def usage(folder: Path, direction: tuple[str, str] | None = None) -> str:
    """Return a line that says where a model is, and a command that uses it, for a direction that it has learned."""
    system = _planned(folder)
    return f"the model is in {folder}; to use it: {with_packages(task_of(system, folder, direction).command, system)}"


def with_packages(command: str, system: ReadingModel) -> str:
    """Return a command with the option --package for each package of the user's own that a system is made of."""
    tops = {module.partition(".")[0] for module in modules_of(describe(system))}
    places = [shlex.quote(str(place)) for top in sorted(tops) if (place := place_of(top))]
    return command.replace("dragoman", "dragoman" + "".join(f" --package {place}" for place in places), 1)


def _planned(folder: Path) -> ReadingModel:
    with torch.device("meta"):
        return ReadingModel.from_description(folder)


def _is_pretrained(plan: Plan, phases: Sequence[str]) -> bool:
    """Tell whether the last training had another task than its model's: it is validated on inputs of its own alone."""
    validations = [plan[name].arguments.get("validation") for name in phases if _trains(plan[name])]
    last = arguments_in(validations[-1]) if validations else {}
    return bool(last.get("fields")) and not last.get("metrics")


def _trains(phase: PlannedPhase[Recipe]) -> bool:
    return {"streams", "validation"} <= phase.arguments.keys()


def _after_pretraining(system: ReadingModel, folder: Path) -> str:
    """Say what a model is good for that does not do its task yet."""
    codes = getattr(system, "target_languages", [])
    if not isinstance(system, System) or "source" not in system.reads or len(codes) < 2:
        return f"it is there to begin training with: dragoman show {shlex.quote(str(folder))}"
    pair = f"--source_language {codes[0]} --target_language {codes[1]}"
    finetune = f"dragoman run text/finetune --model_folder {shlex.quote(str(folder))} --data_folder PAIRS {pair}"
    return f"it restores texts, and does not translate yet; to teach it: {with_packages(finetune, system)}"


def _direction(output: Path, phases: Sequence[str]) -> tuple[str, str] | None:
    """Return the languages of the first row of what the last training has read; None if that is not known."""
    trained = [name for name in phases if (output / name / "checkpoints").is_dir()]
    paths = [*PhaseRecord(output, trained[-1]).read().get("manifests", {})] if trained else []
    if not paths or not Path(paths[0]).is_file():
        return None
    row = Manifest.open(paths[0])[0]
    source, target = row["source_language"], row["target_language"] or row["source_language"]
    return (source, target) if source and target else None
