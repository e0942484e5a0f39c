"""Tests of whether one system is better than another, or whether another test set or other seeds might say otherwise.

Two systems on one test set (:func:`compare`), both tests as in sacreBLEU, with its random numbers:

- Paired bootstrap resampling (Koehn 2004): the test set is drawn anew, with replacement, and both systems are scored on
  what was drawn. p is the share of resamples whose absolute difference lies above the mean of them all by at least the
  difference measured. The interval holds the middle 95 % of the resampled differences.
- Paired approximate randomisation (Riezler and Maxwell 2005): the two outputs of each sentence are swapped by the toss
  of a coin. p is the share of trials whose absolute difference is at least the difference measured.

One thing is not as in sacreBLEU: "at least", where it counts "more". Without ties, as is usual, the numbers are its
own; with ties (TER of small test sets) p is larger, and of identical outputs it is 1, not 0.001. The bootstrap's p, of
absolute differences, is nearly one-sided: of two equal systems it calls one better in 11 of 100 cases, not 5. A verdict
therefore needs both tests.

Several seeds of two systems (:func:`compare_seeds`): the hierarchical bootstrap. A resample draws sentences (the same
for all systems, as above) and, for each of the two, as many seeds as it has, with replacement. Few seeds that are drawn
from vary less than the seeds they stand for, by (R - 1) / R for R of them; the deviations are stretched by the root of
its inverse (Rao and Wu 1988). p is two-sided: the share of resamples whose difference lies at least as far from the
mean of them all as the difference measured lies from 0. Where seeds vary much more than the test set's size explains,
three or five a side still give a verdict too often (10 of 100 cases; two, 19; one seed, 79).

Legend: N resamples, S sentences, K counts of a sentence, M systems, R seeds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from dragoman.shared.errors import DataError
from dragoman.shared.evaluation.counts import COMPOSED, Counts

SAMPLES = 1000
TRIALS = 10_000
SEED = 12345  # sacreBLEU's
LEVEL = 0.05
NO_DIFFERENCE = "no significant difference"
BLOCK = 1 << 24  # sentences drawn at a time


@dataclass(frozen=True)
class Comparison:
    """One system against another by one metric.

    Attributes:
        metric: its name.
        signature: how the scores were computed.
        value: the system's score.
        baseline: the other's.
        low: lower end of the 95 % interval of their difference.
        high: upper end.
        p_bootstrap: of the paired bootstrap.
        p_randomisation: of the paired approximate randomisation.
        higher_is_better: which way the metric improves.
    """

    metric: str
    signature: str
    value: float
    baseline: float
    low: float
    high: float
    p_bootstrap: float
    p_randomisation: float
    higher_is_better: bool

    @property
    def difference(self) -> float:
        """The system's score less the other's."""
        return self.value - self.baseline

    @property
    def verdict(self) -> str:
        """Return "better", "worse" or "no significant difference": both tests have to agree."""
        return verdict(self.difference, max(self.p_bootstrap, self.p_randomisation), self.higher_is_better)


@dataclass(frozen=True)
class SeedComparison:
    """One system, trained with several seeds, against another.

    Attributes:
        metric: its name.
        signature: how the scores were computed.
        values: the system's score by seed, in the order given.
        baselines: the other's.
        low: lower end of the 95 % interval of the difference of means.
        high: upper end.
        p: of the hierarchical bootstrap.
        higher_is_better: which way the metric improves.
    """

    metric: str
    signature: str
    values: list[float]
    baselines: list[float]
    low: float
    high: float
    p: float
    higher_is_better: bool

    @property
    def difference(self) -> float:
        """The mean of the system's scores less that of the other's."""
        return float(np.mean(self.values) - np.mean(self.baselines))

    @property
    def verdict(self) -> str:
        """Return "better", "worse" or "no significant difference"."""
        return verdict(self.difference, self.p, self.higher_is_better)


def verdict(difference: float, p: float, higher_is_better: bool) -> str:
    """Say what a difference means at the level of 0.05."""
    if p >= LEVEL or difference == 0:
        return NO_DIFFERENCE
    return "better" if (difference > 0) == higher_is_better else "worse"


def compare(system: Counts, baseline: Counts, *, samples: int = SAMPLES, trials: int = TRIALS) -> Comparison:
    """Compare what a metric counted in the outputs of two systems on one test set.

    Raises:
        DataError: if the counts are not of one metric and one number of sentences.
    """
    p_bootstrap, low, high = paired_bootstrap(system, baseline, samples=samples)
    return Comparison(
        metric=system.metric,
        signature=system.signature,
        value=system.score,
        baseline=baseline.score,
        low=low,
        high=high,
        p_bootstrap=p_bootstrap,
        p_randomisation=paired_randomisation(system, baseline, trials=trials),
        higher_is_better=system.higher_is_better,
    )


def paired_bootstrap(system: Counts, baseline: Counts, *, samples: int = SAMPLES) -> tuple[float, float, float]:
    """Return p, and the ends of the 95 % interval of the difference, of the paired bootstrap."""
    _check([system, baseline])
    first, second = bootstrap([system, baseline], samples=samples)
    sizes = np.abs(first - second)
    low, high = interval(first - second)
    return share_of_extremes(sizes - sizes.mean(), abs(system.score - baseline.score)), low, high


def paired_randomisation(system: Counts, baseline: Counts, *, trials: int = TRIALS) -> float:
    """Return p of the paired approximate randomisation."""
    _check([system, baseline])
    sizes = np.abs(randomise(system, baseline, trials=trials))
    return share_of_extremes(sizes, abs(system.score - baseline.score))


def compare_seeds(systems: Sequence[Counts], baselines: Sequence[Counts], *, samples: int = SAMPLES) -> SeedComparison:
    """Compare two systems of which each was trained with several seeds, on one test set.

    Args:
        systems: what a metric counted in the outputs of each seed.
        baselines: the same of the other system; their number may differ. With one seed each, what seeds do to the
            scores stays unknown, and only sentences are drawn.
        samples: resamples of the bootstrap.

    Raises:
        DataError: if the counts are not of one metric and one number of sentences.
    """
    return compare_means([systems], [baselines], samples=samples)


def compare_means(
    systems: Sequence[Sequence[Counts]], baselines: Sequence[Sequence[Counts]], *, samples: int = SAMPLES
) -> SeedComparison:
    """Compare the mean over several test sets, such as directions of translation, of two systems with several seeds.

    Sentences are drawn in each test set by themselves, and seeds for all test sets together: a seed that is good in one
    direction is that seed in all others.

    Args:
        systems: for each test set, what a metric counted in the outputs of each seed, in the same order of seeds.
        baselines: the same of the other system; the number of seeds may differ.
        samples: resamples of the bootstrap.

    Raises:
        DataError: if the counts of a test set are not of one metric and one number of sentences, or the test sets of
            different metrics.
    """
    values = []
    for arm in (systems, baselines):
        values.append(np.mean([[counts.score for counts in seeds] for seeds in arm], axis=0))
    drawn = []
    for number, (mine, theirs) in enumerate(zip(systems, baselines, strict=True)):
        _check([*mine, *theirs])
        if mine[0].metric != systems[0][0].metric:
            raise DataError(f"cannot take the mean of {systems[0][0].metric} and {mine[0].metric}")
        drawn.append(bootstrap([*mine, *theirs], samples=samples, test=number))
    scores = np.mean(drawn, axis=0)  # (seeds of both, N)
    rng = np.random.default_rng([SEED, 1])
    first = len(systems[0])
    means = [_mean_of_drawn(part, rng) for part in (scores[:first], scores[first:])]
    differences = means[0] - means[1]
    low, high = interval(differences)
    observed = abs(float(np.mean(values[0]) - np.mean(values[1])))
    return SeedComparison(
        metric=systems[0][0].metric,
        signature=systems[0][0].signature,
        values=values[0].tolist(),
        baselines=values[1].tolist(),
        low=low,
        high=high,
        p=share_of_extremes(np.abs(differences - differences.mean()), observed),
        higher_is_better=systems[0][0].higher_is_better,
    )


def _mean_of_drawn(scores: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return the mean score (N,) of R seeds drawn from R, by resample; scores (R, N)."""
    seeds, samples = scores.shape
    if seeds == 1:
        return scores[0]
    drawn = np.take_along_axis(scores, rng.integers(seeds, size=(seeds, samples)), axis=0).mean(axis=0)
    mean = scores.mean(axis=0)
    return mean + (drawn - mean) * np.sqrt(seeds / (seeds - 1))


def bootstrap(systems: Sequence[Counts], *, samples: int = SAMPLES, test: int = 0) -> np.ndarray:
    """Return the scores of systems on resampled test sets, the same ones for all; (M, N).

    ``test`` is the number of the test set where several are drawn independently.
    """
    sentences = len(systems[0].values)
    rng = np.random.default_rng([SEED, 2, test] if test else SEED)

    def draw(rows: int) -> np.ndarray:
        chosen = rng.choice(sentences, size=(rows, sentences), replace=True)
        return np.stack([np.bincount(row, minlength=sentences) for row in chosen]).astype(np.float64)

    parts = [[c.formula(times @ c.values) for c in systems] for times in _blocks(draw, samples, sentences)]
    return np.concatenate(parts, axis=1)


def randomise(system: Counts, baseline: Counts, *, trials: int = TRIALS) -> np.ndarray:
    """Return the differences of scores, (N,), when outputs are swapped by the toss of a coin."""
    sentences = len(system.values)
    rng = np.random.default_rng(SEED)
    total = system.values.sum(axis=0) + baseline.values.sum(axis=0)
    apart = baseline.values - system.values
    differences = []

    def draw(rows: int) -> np.ndarray:
        return rng.integers(2, size=(rows, sentences), dtype=bool).astype(np.float64)

    for swapped in _blocks(draw, trials, sentences):
        first = system.values.sum(axis=0) + swapped @ apart
        differences.append(system.formula(first) - system.formula(total - first))
    return np.concatenate(differences)


def share_of_extremes(values: np.ndarray, observed: float) -> float:
    """Return the share of values that reach what was observed, which is counted as one of them."""
    return float((np.sum(values >= observed) + 1) / (len(values) + 1))


def interval(values: np.ndarray) -> tuple[float, float]:
    """Return the ends of the middle 95 %."""
    low, high = np.quantile(values, [0.025, 0.975])
    return float(low), float(high)


def _blocks(draw: Callable[[int], np.ndarray], rows: int, sentences: int) -> Iterator[np.ndarray]:
    """Yield ``rows`` rows in blocks that fit in memory."""
    size = max(1, BLOCK // sentences)
    for start in range(0, rows, size):
        yield draw(min(size, rows - start))


def _check(counts: Sequence[Counts]) -> None:
    first = counts[0]
    for other in counts[1:]:
        # Which of the texts were composed for it is no matter of how a score is computed.
        if other.signature.removesuffix(COMPOSED) != first.signature.removesuffix(COMPOSED):
            raise DataError(
                f"cannot compare {first.metric} ({first.signature}) with {other.metric} ({other.signature})"
            )
        if len(other.values) != len(first.values):
            raise DataError(f"cannot compare scores of {len(first.values)} sentences with those of {len(other.values)}")
