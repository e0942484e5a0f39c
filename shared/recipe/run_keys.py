"""Keys of every recipe: the options of a run, its output folder and its seed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from shared.recipe.tree import Node

#: Keys that every recipe knows: their type, default, and meaning.
OPTIONS: dict[str, tuple[type, Any, str]] = {
    "device": (str, "auto", "auto, cpu, cuda, cuda:1, mps"),
    "precision": (str, "auto", "auto (bf16 on GPUs that have it), fp32, bf16, fp16"),
    "compile": (bool, False, "compile the layers"),
    "deterministic": (bool, False, "only algorithms that give the same bits each time; slower on GPUs"),
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
RUN_OPTIONS = ("device", "precision", "compile", "deterministic", "debug", "noprogressbar", "workers")


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
