"""A training step of COSTT with and without CTC shrinking, by turns, on the recordings of a finished run.

    python -m benchmarks.shrinking almanac/costt [--key value ...] [--batches 40] [--threads 2]

The parameters are those of the run's model and stay as they are (the learning rate is 0), so that all steps shrink as
the trained model does. On each batch both arms take a step, each first every other time. Printed are the seconds of
both, their ratio with a 95 % interval of a bootstrap over batches, and S'/S, the mean length of the shrunk states over
that of all states.
"""

from __future__ import annotations

import argparse
import time
from itertools import chain, count, islice
from pathlib import Path

import numpy as np
import torch

from benchmarks.side_by_side import cores
from dragoman.shared.batch import Batch
from dragoman.shared.batches.loader import Loader
from dragoman.shared.nn.state import load_exactly
from dragoman.shared.objectives import TaskObjective
from dragoman.shared.recipe.recipe import Recipe
from dragoman.shared.systems.system import System
from dragoman.shared.training.fit import Fit
from dragoman.st.costt import SHRUNK, Costt
from dragoman.st.tandem import ACOUSTIC

SAMPLES = 2000  # of the bootstrap
WARM_UP = 2  # batches that are not timed
ARMS = {"with shrinking": True, "without": False}


def main() -> None:
    """Print what both arms take."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("recipe", help="a recipe whose model is a Costt, and whose run is finished")
    parser.add_argument("--batches", type=int, default=40)
    parser.add_argument("--threads", type=int, default=cores())
    arguments, overrides = parser.parse_known_args()
    torch.set_num_threads(arguments.threads)
    recipe = Recipe.load(arguments.recipe, overrides)
    fit: Fit = recipe.plan["fit"].build()
    objective = fit.objective
    if not isinstance(objective, TaskObjective) or not isinstance(objective.model, Costt):
        parser.error(f"the model of {arguments.recipe} is no Costt")
    folder = Path(recipe.value("output_folder")) / "average" / "model"
    load_exactly(objective.system, System.load(folder).state_dict(), str(folder))
    loader = Loader(streams=fit.streams, seed=1)
    epochs = chain.from_iterable(map(loader.epoch, count()))
    batches = list(islice(epochs, arguments.batches + WARM_UP))
    taken = measured(objective, fit.optimizer.build(objective), batches)
    report(taken, kept_share(objective.model, batches))


def measured(objective: TaskObjective, optimizer: torch.optim.Optimizer, batches: list[Batch]) -> np.ndarray:
    """Return the seconds of a step, (batches, arms): forward and backward pass, and the optimiser's."""
    objective.train()
    seconds = np.zeros((len(batches), len(ARMS)))
    for number, batch in enumerate(batches):
        counts = objective.counts(batch)
        arms = list(enumerate(ARMS.values()))
        for arm, shrinking in arms if number % 2 else reversed(arms):
            objective.model.shrinking = shrinking
            start = time.perf_counter()
            objective(batch).total(counts).backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            seconds[number, arm] = time.perf_counter() - start
    return seconds[WARM_UP:]


@torch.inference_mode()
def kept_share(model: Costt, batches: list[Batch]) -> float:
    """Return S'/S over all recordings."""
    model.eval()
    model.shrinking = True
    lengths = {ACOUSTIC: 0, SHRUNK: 0}
    for batch in batches:
        encoding = model.encode(batch)
        for tap in lengths:
            lengths[tap] += int(model.tap(encoding, tap).lengths.sum())
    return lengths[SHRUNK] / lengths[ACOUSTIC]


def report(seconds: np.ndarray, share: float) -> None:
    """Print the medians, the ratio of sums with its interval, and the share."""
    for name, median in zip(ARMS, np.median(seconds, axis=0), strict=True):
        print(f"{name:15} {median:.3f} s a step (median of {len(seconds)} batches)")
    drawn = np.random.default_rng(1).integers(len(seconds), size=(SAMPLES, len(seconds)))
    sums = seconds[drawn].sum(axis=1)
    low, high = np.percentile(sums[:, 0] / sums[:, 1], [2.5, 97.5])
    with_shrinking, without = seconds.sum(axis=0)
    print(f"with / without  {with_shrinking / without:.3f} (95 % {low:.3f} to {high:.3f})")
    print(f"S'/S            {share:.3f}")


if __name__ == "__main__":
    main()
