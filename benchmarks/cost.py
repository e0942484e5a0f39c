"""Costs of translation, against the length of sentences, the beam, the batch and the vocabulary.

    python -m benchmarks.cost [--threads 1] [--repeats 3] [--device cuda] [--out benchmarks/cost]

A Transformer base (6+6 layers, 512/2048) of random weights translates 16 sentences of 16 tokens into 16 tokens with a
beam of 5 and 32,000 symbols; then one of these numbers after the other is changed. ``OUT.json`` holds the CPU seconds
(seconds, on a GPU) and the bytes that a translation needs beside the weights; ``OUT.svg`` a plot each with its slope,
and ``OUT.md`` a table. A slope is that of the logarithms, over the larger half of the points: 1 where cost grows as the
work does.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import os
import sys
import time
from dataclasses import asdict, dataclass, replace
from math import log
from pathlib import Path
from statistics import median
from typing import Any

import torch

from benchmarks import worker
from benchmarks.side_by_side import machine
from benchmarks.tables import table
from dragoman.shared.batch import Batch
from dragoman.shared.nn.embeddings import TextEmbedding
from dragoman.shared.nn.heads import OutputProjection
from dragoman.shared.nn.layer import Layer
from dragoman.shared.nn.linear import store_for_search
from dragoman.shared.nn.positions import SinusoidalPositions
from dragoman.shared.nn.transformer import Decoder, Encoder
from dragoman.shared.nn.translator import Translator
from dragoman.shared.padded import Padded
from dragoman.shared.search import BeamSearch, Rules

PADDING, END = 1, 2
WIDTH, INNER, HEADS, LAYERS = 512, 2048, 8, 6


@dataclass(frozen=True)
class Point:
    """A setting in which translation is measured.

    Attributes:
        length: tokens of each source and each output.
        beam: K.
        batch: sentences.
        vocabulary: V.

    """

    length: int = 16
    beam: int = 5
    batch: int = 16
    vocabulary: int = 32000


#: What is changed, and to which numbers.
AXES: dict[str, list[int]] = {
    "length": [4, 8, 16, 32, 64],
    "beam": [1, 2, 4, 8, 16],
    "batch": [1, 2, 4, 8, 16, 32, 64],
    "vocabulary": [1000, 4000, 16000, 64000, 256000],
}


def translator(vocabulary: int) -> Translator:
    """Build a model of random weights."""
    torch.manual_seed(1)
    source, target = (
        TextEmbedding(vocabulary=vocabulary, width=WIDTH, padding=PADDING, positions=SinusoidalPositions(width=WIDTH))
        for _ in range(2)
    )
    shape = {"width": WIDTH, "heads": HEADS, "feedforward": INNER}
    return Translator(
        embeddings={"source": source},
        encoder=Encoder(layer=Layer(**shape), layers=LAYERS),
        target_embedding=target,
        decoder=Decoder(layer=Layer(**shape, memories=["source"]), layers=LAYERS),
        projection=OutputProjection(width=WIDTH, vocabulary=vocabulary),
    ).eval()


@torch.inference_mode()
def measured(model: Translator, point: Point, device: str, repeats: int) -> dict[str, float]:
    """Return the seconds and the bytes of a translation."""
    tokens = torch.randint(4, point.vocabulary, (point.batch, point.length))
    batch = Batch({"source": Padded(tokens, torch.full((point.batch,), point.length))}).to(device)
    start = Padded(torch.full((point.batch, 1), END), torch.ones(point.batch, dtype=torch.int64)).to(device)
    search = BeamSearch(beam=point.beam, rules=Rules(minimum_length=point.length, maximum_length=point.length))
    seconds, used = [], []
    for _ in range(
        repeats + 1
    ):  # the first is for warming up, and finds the memory that it needs still to be asked for
        before, clock = memory(device, begin=True), now(device)
        search.search(model, batch, prefix=start, end=END, padding=PADDING)
        seconds.append(now(device) - clock)
        used.append(memory(device) - before)
    return {"seconds": median(seconds[1:]), "bytes": max(used)}


def now(device: str) -> float:
    """Return CPU seconds of this process, or on a GPU seconds once it has done what it was told."""
    if device == "cpu":
        return time.process_time()
    torch.cuda.synchronize()
    return time.perf_counter()


def memory(device: str, begin: bool = False) -> int:
    """Return the most memory since ``begin``."""
    if device != "cpu":
        if begin:
            torch.cuda.reset_peak_memory_stats()
        return torch.cuda.max_memory_allocated()
    if begin:
        gc.collect()
        if sys.platform == "linux":
            ctypes.CDLL(None).malloc_trim(0)  # what was freed goes back to the system
        worker.forget_peak_memory()
    return worker.peak_memory()


def slope(xs: list[int], ys: list[float]) -> float:
    """Return the slope of log y over log x by least squares, over the larger half of the points."""
    half = min(len(xs) // 2, len(xs) - 2)
    pairs = [(log(x), log(max(y, 1e-9))) for x, y in zip(xs[half:], ys[half:], strict=True)]
    mean_x, mean_y = (sum(values) / len(pairs) for values in zip(*pairs, strict=True))
    return sum((x - mean_x) * (y - mean_y) for x, y in pairs) / sum((x - mean_x) ** 2 for x, _ in pairs)


def plot(found: dict[str, list[dict[str, float]]], path: Path, unit: str) -> None:
    """Draw time and memory against each axis, both logarithmic."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    pyplot.rcParams |= {"svg.fonttype": "none", "svg.hashsalt": "cost"}
    figure, places = pyplot.subplots(2, len(found), figsize=(3.2 * len(found), 5.6), constrained_layout=True)
    for column, (axis, points) in enumerate(found.items()):
        xs = [int(point["value"]) for point in points]
        for row, (kind, label) in enumerate((("seconds", unit), ("bytes", "MB beside the weights"))):
            ys = [point[kind] / (1e6 if kind == "bytes" else 1) for point in points]
            place = places[row][column]
            place.loglog(xs, ys, "o-", color="#20639b")
            place.set_title(f"slope {slope(xs, ys):.2f}", fontsize=10)
            place.set_xticks(xs, [f"{x // 1000}k" if x >= 1000 else str(x) for x in xs], minor=False)
            place.set_yticks([ys[0], ys[-1]], [f"{ys[0]:.3g}", f"{ys[-1]:.3g}"])
            place.minorticks_off()
            place.set_xlabel(axis)
            place.set_ylabel(label if column == 0 else "")
            place.grid(True, alpha=0.25)
    figure.savefig(path, metadata={"Date": None})


def written(result: dict[str, Any], name: str) -> str:
    """Write a result as Markdown."""
    host = result["machine"]
    lines = [
        "# What translation costs",
        "",
        *(__doc__ or "").split("\n\n")[2].splitlines(),
        "",
        f"![plots]({name}.svg)",
        "",
    ]
    rows = [["axis", "from", "to", "seconds", "slope", "MB", "slope"]]
    for axis, points in result["points"].items():
        xs = [int(point["value"]) for point in points]
        cells = [axis, f"{xs[0]:,}", f"{xs[-1]:,}"]
        for kind, scale in (("seconds", 1.0), ("bytes", 1e6)):
            ys = [point[kind] / scale for point in points]
            cells += [f"{ys[0]:.3g} to {ys[-1]:.3g}", f"{slope(xs, ys):.2f}"]
        rows.append(cells)
    place = (
        f"{host['processor']} ({', '.join(host.get('vectors', []))})" if result["device"] == "cpu" else result["device"]
    )
    load = f", load {result['load']}" if "load" in result else ""
    lines += [
        *table(rows),
        "",
        f"{place}, {result['threads']} threads, torch {result['torch']}, {result['unit']}{load}.",
    ]
    return "\n".join([*lines, ""])


def main() -> None:
    """Measure, and write all three files."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "cost")
    given = parser.parse_args()
    if given.device == "cuda" and not torch.cuda.is_available():
        parser.error("--device cuda needs a GPU that torch can use; this machine has none")
    torch.set_num_threads(given.threads)
    before = os.getloadavg()[0]
    found: dict[str, list[dict[str, float]]] = {}
    for axis, values in AXES.items():
        found[axis] = []
        for value in values:
            point = replace(Point(), **{axis: value})
            if axis == "vocabulary" or value == values[0]:
                model = translator(point.vocabulary).to(given.device)
                store_for_search(model)  # as the commands do
            result = measured(model, point, given.device, given.repeats)
            found[axis].append({"value": value} | result)
            print(f"{axis} {value}: {result['seconds']:.3f} s, {result['bytes'] / 1e6:.0f} MB", flush=True)
    unit = "CPU seconds" if given.device == "cpu" else "seconds"
    name = given.device if given.device == "cpu" else torch.cuda.get_device_name()
    result = {"machine": machine(), "device": name, "threads": given.threads, "torch": torch.__version__, "unit": unit}
    result["load"] = " to ".join(f"{load:.1f}" for load in sorted((before, os.getloadavg()[0])))
    result |= {"default": asdict(Point()), "points": found}
    given.out.with_suffix(".json").write_text(json.dumps(result, indent=1) + "\n")
    show(result, given.out)


def show(result: dict[str, Any], out: Path) -> None:
    """Write the plots and the table of a result."""
    plot(result["points"], out.with_suffix(".svg"), result["unit"])
    out.with_suffix(".md").write_text(written(result, out.name))


if __name__ == "__main__":
    main()
