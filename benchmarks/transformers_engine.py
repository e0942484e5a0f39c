"""Beam search of the engine for transformers' models beside `generate`: the same weights, on the CPU, by turns.

    python -m benchmarks.transformers_engine [--kind text] [--width 1024] [--layers 12] [--beam 5] [--rounds 10] ...

The model is SeamlessM4T v2 with random weights, by default of about the width of the published one and half its layers,
which reads sentences (or hears sounds, --kind speech) and writes outputs of a fixed length. Both arms are processes of
their own (benchmarks/transformers_engine_arm.py) with the same module of the library; outputs and scores must be the
same before anything is timed. It prints, of medians over rounds, how many times quicker the engine is, with a 95 %
interval, and the peak of memory beside that of generate. Wall time means something on an idle machine only.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from typing import Any

from benchmarks.side_by_side import Arm, Benchmark, run
from benchmarks.tables import ratio, seconds_of

NUMBERS = {"width": 1024, "layers": 12, "vocabulary": 32000, "sentences": 8, "length": 24, "output": 24, "beam": 5}


def compared(work: dict[str, Any]) -> Benchmark:
    """Return the comparison of a piece of work."""
    arms = [
        Arm(name, ["-m", "benchmarks.transformers_engine_arm", name, json.dumps(work)], ours=name == "engine")
        for name in ("engine", "generate")
    ]
    return Benchmark("transformers_engine", "beam search through the engine for transformers", "target tokens", arms)


def main(words: Sequence[str] | None = None) -> None:
    """Print the two ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kind", default="text", choices=["text", "speech"])
    for name, usual in NUMBERS.items():
        parser.add_argument(f"--{name}", type=int, default=usual)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--threads", type=int, default=1)
    given = vars(parser.parse_args(words))
    rounds, threads = given.pop("rounds"), given.pop("threads")
    arms = run(compared(given), rounds=rounds, threads=threads)["arms"]
    ours, theirs = arms["engine"], arms["generate"]
    middle, least, most = ratio(seconds_of(theirs), seconds_of(ours))
    print(f"time of generate / time of the engine: {middle:.2f} ({least:.2f} to {most:.2f})")
    peaks = [max(turn["peak_memory"] for turn in arm["repetitions"]) for arm in (ours, theirs)]
    print(f"peak memory: engine {peaks[0] / 2**20:,.0f} MB, generate {peaks[1] / 2**20:,.0f} MB", end="")
    print(f", ratio {peaks[1] / peaks[0]:.2f}")


if __name__ == "__main__":
    main()
