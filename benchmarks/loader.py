"""Speed of one loader worker against the speed of the training step, on the data of any prepared recipe.

    dragoman run almanac/st --until tokenizer
    python benchmarks/loader.py almanac/st [--batches 20] [--updates 3] [--json FILE] [--key value ...]

For each stream: rows a second that one worker (one process, one thread) reads and makes batches of, in all and by
field (decoding a recording, resampling it for speed perturbation, tokenising a text, changing its words), also
without what is random in it (no perturbation, no noise); that one training process uses here; and that a large GPU
would use at most: the floating point operations of a row's forward and backward pass, counted on the first batch, at
``--flops`` a second, by default those of 45 % of an H200's 989 TFLOP/s in bf16. Where "workers" is above the recipe's
key of that name, training waits for data.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from dragoman.commands.batch_size import training_phase
from dragoman.shared.batch import Batch
from dragoman.shared.batches.loader import Loader
from dragoman.shared.batches.randomness import generator
from dragoman.shared.batches.stream import Stream
from dragoman.shared.machine.workspace import Workspace
from dragoman.shared.recipe.recipe import Recipe
from dragoman.shared.recipe.run_keys import RUN_OPTIONS
from dragoman.shared.training.fit import Fit
from dragoman.shared.training.history import Meter
from dragoman.shared.training.update import Learner


def delivered(stream: Stream, seed: int, count: int) -> tuple[list[Batch], dict[str, float]]:
    """Return batches, and rows a second: in all, once the first is there, and by field alone, also without noise."""
    loader = Loader(streams=[stream], seed=seed)
    plan = loader.plan(0)
    arriving = loader.epoch(0)
    batches = [next(arriving)]
    clock = time.perf_counter()
    batches += islice(arriving, count - 1)
    rates = {"all": sum(len(batch) for batch in batches[1:]) / (time.perf_counter() - clock)}
    located = [stream.locate(row) for index in range(len(batches)) for row in plan.step(index).rows.tolist()]
    table = [manifest[index] for manifest, index in located]
    fields = dict(stream.fields)
    for name, field in stream.fields.items():
        if (plain := field.evaluating()) is not field:
            fields[f"{name} without noise"] = plain
    for name, field in fields.items():
        field(table[0], generator(seed))
        clock = time.perf_counter()
        for row in table:
            field(row, generator(seed, str(row["id"]), name))
        rates[name] = len(table) / (time.perf_counter() - clock)
    return batches, rates


def eaten(fit: Fit, batches: list[Batch], workspace: Workspace) -> float:
    """Return the rows a second that updates use; the first batch is for warming up."""
    objective = fit.objective.to(workspace.device)
    learner = Learner(objective, objective, fit.optimizer.build(objective), fit.max_grad_norm)
    learner.at(1, fit.schedule(1))
    clock = 0.0
    for number, batch in enumerate(batches):
        learner.update([batch], Meter(), workspace)
        if number == 0 and workspace.device.startswith("cuda"):
            torch.cuda.synchronize()
        clock = clock or time.perf_counter()
    if workspace.device.startswith("cuda"):
        torch.cuda.synchronize()
    return sum(len(batch) for batch in batches[1:]) / (time.perf_counter() - clock)


def of_linear(x: Sequence[int], weight: Sequence[int], *_: object, **__: object) -> int:
    """Return the operations of a product with a matrix, which torch does not count where oneDNN does it."""
    return 2 * math.prod(x) * weight[0]


def counted(fit: Fit, batch: Batch, workspace: Workspace) -> float:
    """Return the floating point operations of a row's matrix products, forward and backward."""
    objective = fit.objective.to(workspace.device)
    counter = FlopCounterMode(display=False, custom_mapping={torch.ops.mkldnn._linear_pointwise: of_linear})
    with counter, sdpa_kernel(SDPBackend.MATH):  # the fused kernels of attention are not counted
        objective(batch.to(workspace.device)).total().backward()
    objective.zero_grad(set_to_none=True)
    return counter.get_total_flops() / len(batch)


def main() -> None:
    """Measure, print a table, and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("recipe")
    parser.add_argument("--batches", type=int, default=20, help="to load")
    parser.add_argument("--updates", type=int, default=3, help="on the first of them")
    parser.add_argument("--flops", type=float, default=0.45 * 989e12, help="a second, of the GPU to feed")
    parser.add_argument("--json", type=Path)
    arguments, overrides = parser.parse_known_args()
    recipe = Recipe.load(arguments.recipe, overrides)
    phase = training_phase(recipe)
    options = {key: recipe.options[key] for key in RUN_OPTIONS}
    workspace = Workspace(Path(recipe.value("output_folder")), phase=phase, **options)
    torch.set_num_threads(1)
    results = []
    fit = recipe.plan[phase].build()
    for stream in fit.streams:
        batches, rates = delivered(stream, workspace.seed, arguments.batches)
        work = counted(fit, batches[0], workspace)
        used = eaten(fit, batches[: arguments.updates + 1], workspace)
        tokens = [batch["target"].lengths.sum().item() for batch in batches if "target" in batch]
        audio = [batch["speech"].lengths.sum().item() / 16000 for batch in batches if "speech" in batch]
        rows = sum(len(batch) for batch in batches)
        result = {
            "stream": stream.name,
            "rows": rows,
            "seconds_of_audio_per_row": round(sum(audio) / rows, 2),
            "target_tokens_per_row": round(sum(tokens) / rows, 1),
            "delivered_rows_per_second": {name: round(rate) for name, rate in rates.items()},
            "used_rows_per_second": round(used, 1),
            "device": workspace.device,
            "workers": round(used / rates["all"], 3),
            "flops_per_row": work,
            "gpu_flops_per_second": arguments.flops,
            "workers_for_gpu": round(arguments.flops / work / rates["all"], 1),
        }
        results.append(result)
        parts = ", ".join(f"{name} {rate:,.0f}" for name, rate in rates.items() if name != "all")
        size = f"{result['seconds_of_audio_per_row']} s of audio and {result['target_tokens_per_row']} target tokens"
        print(f"stream {stream.name!r}: {rows:,} rows of {size}")
        print(f"  one worker delivers {rates['all']:,.0f} rows/s ({parts} alone)")
        print(f"  training on {workspace.device} uses {used:,.1f} rows/s: {result['workers']} workers")
        print(
            f"  a GPU of {arguments.flops / 1e12:,.0f} TFLOP/s uses at most {arguments.flops / work:,.0f} rows/s "
            f"of {work / 1e9:,.1f} GFLOP: {result['workers_for_gpu']} workers"
        )
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
