"""Shapes and padding of the batches of an epoch, by the grid of their sizes.

    python -m benchmarks.shapes [--rows 250000] [--grids 0 4 8 16]

Rows have the lengths of benchmarks/plan.py. Batches hold 400 s of speech or 4,096 tokens of either side, as the recipes
of one process have them; or 3,200 s and 25,000 tokens, which are computed in eight passes (docs/training.md). For each,
the table has the number of batches, or of their parts, in an epoch; how many of their shapes differ (rows, length of
each field); how many of 100 in the next epoch have one of these; and the share of padding of each field.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.plan import streams, write
from dragoman.shared.batches.loader import Loader
from dragoman.shared.batches.stream import Budget, Stream

#: Seconds and tokens of a batch, and in how many passes it is computed; None: at once.
SIZES = [(400.0, 4096, None), (3200.0, 25_000, 8)]


def line(stream: Stream, passes: int | None) -> str:
    """Return the figures of two epochs."""
    loader, table = Loader(streams=[stream], seed=1, passes=passes), stream.table
    first, second = loader.computed(0)[0], loader.computed(1)[0]
    known = {*map(tuple, first.shapes(table.padded).tolist())}
    of_second = np.vstack([np.diff(second.bounds), second.longest(table.padded)]).T.tolist()
    again = sum(tuple(shape) in known for shape in of_second) / len(second)
    padding = "  ".join(f"{share:5.1%}" for share in first.padding(table.lengths, table.padded))
    return f"{len(first):>8,} {len(known):>7,} {again:>6.0%}   {padding}"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=250_000)
    parser.add_argument("--grids", type=int, nargs="+", default=[0, 4, 8, 16], help="0: none")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder), arguments.rows)
        print("stream        batch  passes  grid  batches  shapes  again   padding")
        for seconds, tokens, passes in SIZES:
            for size, kind, number in ((f"{seconds:g} s", "speech", 0), (f"{tokens:,}", "text", 1)):
                for grid in arguments.grids:
                    stream = streams(Path(folder))[number]
                    stream.budget = Budget(
                        seconds=seconds if kind == "speech" else None,
                        tokens=tokens if kind == "text" else None,
                        grid=grid or None,
                    )
                    print(
                        f"{kind:<8} {size:>10}  {passes or 1:>6}  {grid or '-':>4} {line(stream, passes)}", flush=True
                    )


if __name__ == "__main__":
    main()
