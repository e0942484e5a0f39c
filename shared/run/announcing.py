"""The first and the last line of a run's log: machine and versions; the model that it leaves and how to use it."""

from __future__ import annotations

import platform
import shlex
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

from shared.described import place_of
from shared.evaluation.results import commit, hardware
from shared.exchange.card import task_of
from shared.machine.workspace import Workspace
from shared.systems.model_folder import CONFIG
from shared.systems.reading_model import ReadingModel


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
        own = version("dragoman")
    except PackageNotFoundError:  # run from a checkout that is not installed
        own = "(not installed)"
    code = commit()
    at = "" if code == "none" else f" at commit {code[:12]}{'+' if code.endswith('+') else ''}"
    cuda = f", CUDA {torch.version.cuda}" if torch.version.cuda and torch.cuda.is_available() else ""
    return f"dragoman {own}{at}, Python {platform.python_version()}, torch {torch.__version__}{cuda}"


def ending(output: Path, phases: Sequence[str]) -> str | None:
    """Return the last line of a run's log: the model folder that its last phases wrote, and a command that uses it.

    Args:
        output: the folder of the run.
        phases: the names of its phases, in their order.

    """
    found = [folder for name in phases if (folder := output / name / "model" / CONFIG).is_file()]
    if not found:
        return None
    folder = found[-1].parent
    with torch.device("meta"):
        system = ReadingModel.from_description(folder)
    return f"the model is in {folder}; to use it: {with_packages(task_of(system, folder).command, system)}"


def with_packages(command: str, system: ReadingModel) -> str:
    """Return a command with the option --package for each package of the user's own that a system is made of."""
    tops = {type(part).__module__.partition(".")[0] for part in system.modules()}
    own = [shlex.quote(str(place)) for top in sorted(tops) if (place := place_of(top))]
    return command.replace("dragoman", "dragoman" + "".join(f" --package {place}" for place in own), 1)
