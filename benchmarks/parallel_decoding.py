"""Translators that write all words at once, beside those that write one after the other: BLEU, and time of a sentence.

    python -m benchmarks.parallel_decoding MANIFEST MODEL [MODEL ...] [--batch-size 1] [--rounds 3] [--sentences 200]

Each model is searched in each way that it has, in turns; the time is the median over the rounds, for a sentence of the
first rows of the manifest, as `dragoman translate --batch-size` would group them, less what loading takes.
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path

from dragoman.shared.batches.manifest import Manifest
from dragoman.shared.batches.stream import Budget
from dragoman.shared.evaluation.scoring import TestSet
from dragoman.shared.search import AnySearch, BeamSearch, CtcGreedySearch, CtcPrefixSearch, FillingSearch, GreedySearch
from dragoman.shared.systems.ctc_system import CtcSystem
from dragoman.shared.systems.rows import translate_rows
from dragoman.shared.systems.system import System


def searches(system: System) -> dict[str, AnySearch]:
    """Return the ways to search a system's outputs that are compared."""
    if isinstance(system, CtcSystem):
        return {"best path": CtcGreedySearch(), "10 prefixes": CtcPrefixSearch(beam=10)}
    if isinstance(system.default_search(), FillingSearch):
        return {f"{passes} iterations": FillingSearch(iterations=passes) for passes in (1, 4, 10)}
    return {"greedy": GreedySearch(), "beam 5": BeamSearch(beam=5)}


def main() -> None:
    """Translate in turns, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("manifest", type=Path)
    parser.add_argument("models", type=Path, nargs="+")
    parser.add_argument("--batch-size", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sentences", type=int, default=200)
    given = parser.parse_args()
    whole = Manifest.open(given.manifest)
    rows = whole.select(range(min(given.sentences, len(whole))))
    systems = {path: System.load(path).eval() for path in given.models}
    arms = [(path, name, search) for path, one in systems.items() for name, search in searches(one).items()]
    seconds: dict[tuple[Path, str], list[float]] = {(path, name): [] for path, name, _ in arms}
    scores = {}
    for _ in range(given.rounds):
        for path, name, search in arms:
            system = systems[path]
            started = time.perf_counter()
            found = dict(translate_rows(system, rows, search=search, budget=Budget(rows=given.batch_size)))
            seconds[path, name].append(time.perf_counter() - started)
            best = {number: hypotheses[0] for number, hypotheses in found.items()}
            scores[path, name] = TestSet(system, rows, ["bleu"]).evaluate([best]).scores[0]
    base = statistics.median(seconds[arms[0][0], arms[0][1]])
    print(f"{'ms':>8} {'times':>6} {'BLEU':>6}  model and search")
    for (path, name), times in seconds.items():
        middle = statistics.median(times)
        print(f"{1000 * middle / len(rows):8.1f} {base / middle:6.2f} {scores[path, name].value:6.1f}  {path} {name}")


if __name__ == "__main__":
    main()
