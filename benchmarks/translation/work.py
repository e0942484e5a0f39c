"""The inputs of every arm of benchmarks/translation, and the comparison of its answers. For any Python from 3.10 on.

A worker calls :func:`work` with what translates one batch. The first worker (ours) leaves its hypotheses in the folder,
and how many rows its decoder saw at each step; every other one says how many of its own are the same.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.worker import serve

torch: Any = sys.modules.get("torch")  # of those that compute with it, which import it first

END = 2
BEAM = 5
LONGEST = 200


@dataclass(frozen=True)
class Task:
    """The work of one arm.

    Attributes:
        folder: where the models and the inputs of this kind are.
        inputs: token ids, the end symbol behind them, or waveforms (N,) float32 in [-1, 1].
        batch: inputs at a time.
        length: tokens of every output, its end symbol not counted; 0: the model decides.
        device: "cpu" or "cuda".
        dtype: "float32" or "bfloat16", for those that can choose.
        variant: of the model's files, where there are several.
        checks: the name of the file of answers.

    """

    folder: Path
    inputs: list[Any]
    batch: int
    length: int
    device: str
    dtype: str
    variant: str
    checks: str

    def batches(self) -> list[list[int]]:
        """Return the rows of each batch, the longest inputs first."""
        order = sorted(range(len(self.inputs)), key=lambda row: -len(self.inputs[row]))
        return [order[start : start + self.batch] for start in range(0, len(order), self.batch)]


def arguments() -> Task:
    """Read the command line, and the inputs that it names."""
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=["text", "speech"])
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--inputs", type=int, default=0, help="number of inputs; 0: all")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--length", type=int, default=0)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--variant", default="")
    given = parser.parse_args()
    folder = given.folder / given.kind
    inputs = texts(folder) if given.kind == "text" else waveforms(folder)
    inputs = some_batches(inputs, given.inputs, given.batch) if given.inputs else inputs
    checks = f"answers-{given.device}-{len(inputs)}-{given.batch}-{given.length}.json"
    return Task(folder, inputs, given.batch, given.length, given.device, given.dtype, given.variant, checks)


def some_batches(inputs: list[Any], number: int, batch: int) -> list[Any]:
    """Return this many inputs: batches of all of them sorted by length, evenly spaced, which are as full as those."""
    order = sorted(inputs, key=len)
    groups = [order[start : start + batch] for start in range(0, len(order), batch)]
    wanted = min(len(groups), -(-number // batch))
    chosen = [groups[(2 * place + 1) * len(groups) // (2 * wanted)] for place in range(wanted)]
    return [row for group in chosen for row in group][:number]


def texts(folder: Path) -> list[list[int]]:
    """Read token ids."""
    return list(json.loads((folder / "sources.json").read_text()))


def waveforms(folder: Path) -> list[np.ndarray]:
    """Read waveforms."""
    ends = np.cumsum(np.load(folder / "samples.npy"))
    return np.split(np.load(folder / "waveforms.npy").astype(np.float32) / 2**15, ends[:-1])


def threads() -> int:
    """Return how many threads the harness gives."""
    return int(os.environ.get("OMP_NUM_THREADS", "1"))


def work(
    task: Task,
    versions: dict[str, str],
    translate: Callable[[Sequence[Any]], list[list[int]]],
    *,
    first: Callable[[list[list[int]]], dict[str, Any]] | None = None,
    facts: dict[str, Any] | None = None,
) -> None:
    """Serve.

    Args:
        task: what to do.
        versions: of what does it.
        translate: inputs of a batch to the token ids of their best outputs, with or without the end symbol.
        first: of the arm that others are compared with: from its outputs to what all need to know, such as "flops".
        facts: more to say when ready.

    """

    def all_of_it() -> list[list[int]]:
        found: list[list[int]] = [[] for _ in task.inputs]
        for rows in task.batches():
            for row, tokens in zip(rows, translate([task.inputs[row] for row in rows])):  # noqa: B905 (Python 3.10)
                found[row] = plain(tokens, task.length)
        return found

    def setup() -> tuple[dict[str, Any], Callable[[], dict[str, Any]]]:
        file = task.folder / task.checks
        found = all_of_it()
        said: dict[str, Any] = {"versions": versions, **(facts or {})}
        if first is not None:
            common = {"flops": 0, **first(found)}
            file.write_text(json.dumps({"outputs": found, "common": common}))
        content = json.loads(file.read_text())
        same = sum(one == other for one, other in zip(found, content["outputs"]))  # noqa: B905
        said |= content["common"] | {"tokens": sum(map(len, found)) / len(found)}
        said["said"] = (
            f"{same} of {len(found)} outputs are those of the first arm, {said['tokens']:.1f} tokens in the mean"
        )

        def repeat() -> dict[str, Any]:
            all_of_it()
            return {"work": len(task.inputs), **memory_of_gpu(task.device)}

        return said, repeat

    serve(setup)


def memory_of_gpu(device: str) -> dict[str, int]:
    """Return the most memory of the GPU that torch had, if that is what computes; 0 of what else does: unknown."""
    if device != "cuda":
        return {}
    return {"peak_memory": 0 if torch is None else torch.cuda.max_memory_allocated()}


def plain(tokens: Sequence[int], length: int) -> list[int]:
    """Return the tokens before the end symbol; of outputs of a given length, its first `length` tokens."""
    tokens = list(tokens)
    tokens = tokens[: tokens.index(END)] if END in tokens else tokens
    return tokens[:length] if length else tokens
