"""False alarms of the tests of dragoman/reporting/significance.py, on two equal recipes (docs/results.md).

    python benchmarks/false_alarms.py

Sentences have a level of their own, seeds another, and outputs of one seed scatter around the sum of both.
"""

import numpy as np

from dragoman.reporting.significance import LEVEL, compare_seeds, paired_bootstrap
from dragoman.shared.evaluation.counts import Counts, rate

PAIRS, SENTENCES, SAMPLES = 300, 200, 200


def outputs(level: np.ndarray, rng: np.random.Generator) -> Counts:
    edits = np.clip(rng.normal(level, 1.0), 0, 10)
    return Counts("wer", "simulated", np.stack([edits, np.full(len(edits), 10.0)], axis=1), rate)


def main() -> None:
    print("seeds  deviation  over seeds  one seed each")
    for seeds in (2, 3, 5):
        for deviation in (0.0, 0.1, 0.5):
            rng = np.random.default_rng(7)
            alarms = np.zeros(2)
            for _ in range(PAIRS):
                sentences = rng.normal(0, 1, SENTENCES)
                levels = rng.normal(5, deviation, 2 * seeds)
                runs = [outputs(level + sentences, rng) for level in levels]
                several = compare_seeds(runs[:seeds], runs[seeds:], samples=SAMPLES)
                single, _, _ = paired_bootstrap(runs[0], runs[seeds], samples=SAMPLES)
                alarms += (several.p < LEVEL, single < LEVEL)
            several_rate, single_rate = alarms / PAIRS
            print(f"{seeds:5}  {deviation:9}  {several_rate:10.1%}  {single_rate:13.1%}")


if __name__ == "__main__":
    main()
