"""Keys of every recipe: the options of a run, its output folder and its seed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from reprlib import repr as shown
from typing import Any, Literal

from dragoman.shared.errors import UsageError
from dragoman.shared.recipe.inner import DEBUG
from dragoman.shared.recipe.tree import COMMAND_LINE, Node

#: Keys that every recipe knows: their type, default, and meaning.
OPTIONS: dict[str, tuple[Any, Any, str]] = {
    "device": (str, "auto", "auto, cpu, cuda, cuda:1, mps"),
    "precision": (str, "auto", "auto (bf16 on GPUs that have it), fp32, bf16, fp16"),
    "tf32": (bool, False, "fp32 products of 10 bits of mantissa, on GPUs that have TF32: several times as fast"),
    "compile": (bool | Literal["auto"], "auto", "compile layers and losses: auto (on GPUs), True, False"),
    "memory_share": (float, 0.9, "of a GPU's memory, which an update in passes may take (passes: auto)"),
    "deterministic": (bool, False, "only algorithms that give the same bits each time; slower on GPUs"),
    "sharding": (str, "none", "fsdp: processes share parameters, gradients and moments; hybrid: on each machine"),
    "grad_accumulation_factor": (int, 1, "batches per update and process"),
    "max_grad_norm": (float, 0.0, "the norm that gradients are clipped to; 0: none"),
    "debug": (bool, False, "two updates and two batches of everything, in a folder of its own (OUTPUT-debug)"),
    "noprogressbar": (bool, False, "log lines instead of a progress bar"),
    "workers": (int, 1, "processes that read data beside the training process"),
}
#: Keys that the run itself reads; the other options have to be referred to by a phase.
RUN_KEYS: dict[str, type] = {"output_folder": str, "seed": int}
#: The place of values that no file gives.
DEFAULT = "default"
RUN_OPTIONS = tuple(option for option in OPTIONS if option not in ("grad_accumulation_factor", "max_grad_norm"))
#: Keys that say where and how something is run, not what; so do those that end in _folder, but for other runs' folders,
#: and those of trackers, whatever phase has them.
NOT_OF_A_RESULT = ("seed", "device", "memory_share", "sharding", "noprogressbar", "workers", "output_folder")


def add_defaults(root: Node) -> None:
    """Give a recipe the options and the seed that no file of it sets."""
    for option, (_, default, meaning) in OPTIONS.items():
        root.value.setdefault(option, Node(default, place=DEFAULT, key=option, own=False, comment=meaning))
    root.value.setdefault("seed", Node(1, place=DEFAULT, key="seed", own=False))


def name_folder(root: Node, path: Path) -> None:
    """Give a recipe that has inherited its output folder from another one a folder of its own."""
    folder = root.value.get("output_folder")
    if folder is not None and not folder.own and isinstance(folder.value, str) and folder.tag in ("", "!ref"):
        named = f"{folder.value.rstrip('/')}-{path.stem}"
        root.value["output_folder"] = Node(named, folder.tag, folder.place, folder.key, own=False)


def name_run(root: Node, name: str | None, option: str = "--run") -> None:
    """Give a run, if it has a name, a folder of its own beside that of the recipe (``--run NAME``, ``--arm NAME``).

    Raises:
        UsageError: for a name that no folder should have, or a recipe whose folder is not text.
    """
    if name is None:
        return
    if not re.fullmatch(r"[^\W_][\w.-]{0,63}", name) or name.endswith(DEBUG):
        wanted = f"letters and digits, then also . _ and -, at most 64, not ending in {DEBUG}"
        raise UsageError(f"{COMMAND_LINE}: {option} {shown(name)}: becomes a part of a folder's name: {wanted}")
    folder = root.value.get("output_folder")
    if folder is None or not isinstance(folder.value, str) or folder.tag not in ("", "!ref"):
        raise UsageError(
            f"{COMMAND_LINE}: {option} {name}: the recipe's output_folder is no text that it could be put into"
        )
    root.value["output_folder"] = replace(folder, value=folder_of_run(folder.value, name, "<seed>"))


def folder_of_run(folder: str, name: str, seed: str) -> str:
    """Return the folder of a named run: results/mt/1 becomes results/mt-NAME/1, where 1 is the seed."""
    around, slash, last = folder.rstrip("/").rpartition("/")
    return f"{around}-{name}/{last}" if slash and last.startswith(seed) else f"{folder.rstrip('/')}-{name}"


def keys_of_a_result(changed: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of the keys with other values (``Recipe.changed``) that say what is run."""
    return {
        key: value
        for key, value in changed.items()
        if key not in NOT_OF_A_RESULT and "trackers" not in key.split(".") and not _place(key, value)
    }


def _place(key: str, value: Any) -> bool:
    """Tell whether a key is a place alone; the folder of another run says which model is read."""
    return key.endswith("_folder") and "<results_folder>" not in str(value)
