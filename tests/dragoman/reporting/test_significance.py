"""Significance against sacreBLEU's own tests, loops by hand, and outputs of which the answer is known."""

from __future__ import annotations

import random

import numpy as np
import pytest
from sacrebleu.metrics import BLEU, CHRF, TER
from sacrebleu.significance import PairedTest

import dragoman.reporting.significance as significance
from dragoman.reporting.significance import SEED, bootstrap, compare, compare_means, compare_seeds, randomise
from dragoman.shared.errors import DataError
from dragoman.shared.evaluation.counts import Counts, rate
from dragoman.shared.evaluation.scores import TextScorer
from tests.small import refuses

WORDS = "the a cat dog old young man sat ran on under to by mat house tree with without hat".split()
METRICS = ["bleu", "chrf", "ter", "wer_raw"]


def outputs(seed, noise, lines=60):
    """References, and the same with a share of the words changed."""
    rng = random.Random(seed)
    references = [[rng.choice(WORDS) for _ in range(rng.randint(4, 12))] for _ in range(lines)]
    change = random.Random(repr(noise))
    hypotheses = [[change.choice(WORDS) if change.random() < noise else word for word in line] for line in references]
    return [" ".join(line) for line in hypotheses], [" ".join(line) for line in references]


def counts(hypotheses, references, metrics=METRICS):
    return dict(zip(metrics, TextScorer(references, "en", metrics).count(hypotheses), strict=True))


@pytest.mark.parametrize("noise", [0.21, 0.25, 0.3])
def test_the_numbers_are_sacrebleus(noise, monkeypatch):
    monkeypatch.delenv("SACREBLEU_SEED", raising=False)
    system, references = outputs(1, 0.2)
    baseline, _ = outputs(1, noise)
    ours, theirs = counts(system, references), counts(baseline, references)
    scorers = {"bleu": BLEU(), "chrf": CHRF(), "ter": TER()}
    found = {name: compare(ours[name], theirs[name], samples=200, trials=300) for name in scorers}
    for kind, attribute, number in (("bs", "p_bootstrap", 200), ("ar", "p_randomisation", 300)):
        systems = [("baseline", baseline), ("system", system)]
        _, expected = PairedTest(systems, scorers, [references], test_type=kind, n_samples=number)()
        for name, key in (("bleu", "BLEU"), ("chrf", "chrF2"), ("ter", "TER")):
            assert found[name].value == pytest.approx(expected[key][1].score)
            assert found[name].baseline == pytest.approx(expected[key][0].score)
            if name != "ter":
                assert getattr(found[name], attribute) == pytest.approx(expected[key][1].p_value, abs=1e-9)
            else:  # edits are few enough for ties, which sacreBLEU does not count
                assert getattr(found[name], attribute) >= expected[key][1].p_value
    trials = np.abs(randomise(ours["ter"], theirs["ter"], trials=300))
    above = np.sum(trials > abs(found["ter"].difference) + 1e-9)
    assert (above + 1) / 301 == pytest.approx(expected["TER"][1].p_value)


def test_word_error_rates_by_a_loop():
    """A resample at a time, a sentence at a time, with the same draws."""
    system, references = outputs(2, 0.2)
    baseline, _ = outputs(2, 0.24)
    ours, theirs = (counts(lines, references)["wer_raw"] for lines in (system, baseline))
    found = compare(ours, theirs, samples=150, trials=200)
    draws = np.random.default_rng(SEED).choice(60, size=(150, 60), replace=True)
    pairs = [[c.values.astype(int).tolist() for c in (ours, theirs)]][0]

    def wer(lines):
        return 100 * sum(edits for edits, _ in lines) / sum(words for _, words in lines)

    differences = [wer([pairs[0][i] for i in draw]) - wer([pairs[1][i] for i in draw]) for draw in draws]
    observed = abs(wer(pairs[0]) - wer(pairs[1]))
    mean = sum(map(abs, differences)) / 150
    assert found.p_bootstrap == (sum(abs(d) - mean >= observed for d in differences) + 1) / 151
    assert (found.low, found.high) == pytest.approx(tuple(np.percentile(differences, [2.5, 97.5])))
    coins = np.random.default_rng(SEED).integers(2, size=(200, 60), dtype=bool)
    extreme = 0
    for toss in coins:
        first = [pairs[1 if swap else 0][i] for i, swap in enumerate(toss)]
        second = [pairs[0 if swap else 1][i] for i, swap in enumerate(toss)]
        extreme += abs(wer(first) - wer(second)) >= observed - 1e-9
    assert found.p_randomisation == (extreme + 1) / 201


def test_known_answers():
    same, references = outputs(3, 0.2)
    for item in counts(same, references).values():
        result = compare(item, item)
        assert (result.p_bootstrap, result.p_randomisation, result.difference) == (1, 1, 0)
        assert result.verdict == "no significant difference"
    worse, _ = outputs(3, 0.5)
    for name, item in counts(same, references).items():
        result = compare(item, counts(worse, references)[name])
        assert result.p_bootstrap < 0.05 and result.p_randomisation < 0.05 and result.verdict == "better"
        assert (result.difference > 0) == (name in ("bleu", "chrf")) and result.low * result.high > 0
        assert compare(counts(worse, references)[name], item).verdict == "worse"
    other, _ = outputs(3, 0.200001)  # as good, by chance other words
    assert compare(counts(same, references)["chrf"], counts(other, references)["chrf"]).p_randomisation > 0.05


def test_blocks_do_not_matter(monkeypatch):
    system, references = outputs(4, 0.2)
    item = counts(system, references, ["chrf"])["chrf"]
    whole = bootstrap([item], samples=50)
    monkeypatch.setattr(significance, "BLOCK", 7 * 60)
    np.testing.assert_allclose(bootstrap([item], samples=50), whole)


def rates(edits):
    """Counts of a rate, of sentences of ten words each."""
    return Counts("wer", "s", np.stack([edits, np.full(len(edits), 10.0)], axis=1), rate)


def test_seeds_by_a_loop():
    rng = np.random.default_rng(0)
    systems = [rates(rng.integers(0, 5, 40)) for _ in range(3)]
    baselines = [rates(rng.integers(0, 6, 40)) for _ in range(2)]
    found = compare_seeds(systems, baselines, samples=100)
    draws = np.random.default_rng(SEED).choice(40, size=(100, 40), replace=True)
    seeds = np.random.default_rng([SEED, 1])
    chosen = seeds.integers(3, size=(3, 100)), seeds.integers(2, size=(2, 100))
    differences = []
    for n, draw in enumerate(draws):
        means = []
        for group, picks in zip((systems, baselines), chosen, strict=True):
            scores = [100 * sum(c.values[i, 0] for i in draw) / (10 * 40) for c in group]
            mean, drawn = sum(scores) / len(scores), sum(scores[p] for p in picks[:, n]) / len(scores)
            means.append(mean + (drawn - mean) * (len(scores) / (len(scores) - 1)) ** 0.5)
        differences.append(means[0] - means[1])
    middle = sum(differences) / 100
    assert found.p == (sum(abs(d - middle) >= abs(found.difference) for d in differences) + 1) / 101
    assert (found.low, found.high) == pytest.approx(tuple(np.percentile(differences, [2.5, 97.5])))
    assert found.difference == pytest.approx(np.mean(found.values) - np.mean(found.baselines))


def test_seeds_that_differ_take_certainty_away():
    """Three seeds that scatter by more than the systems differ prove nothing, however large the test set is."""
    errors = np.tile([0.0, 1.0, 2.0, 3.0], 500)
    steady = compare_seeds([rates(errors)] * 3, [rates(errors + 0.3)] * 3)
    assert steady.p < 0.01 and steady.verdict == "better"
    scattered = compare_seeds([rates(errors + n) for n in (0, 0.7, 1.4)], [rates(errors + n) for n in (0.3, 1, 1.7)])
    assert scattered.difference == pytest.approx(steady.difference) and scattered.verdict == "no significant difference"
    assert compare_seeds([rates(errors)], [rates(errors)]).p == 1


@pytest.mark.parametrize("spread", [0.0, 0.5])
def test_false_alarms_are_rare(spread):
    """Worlds in which both recipes are equally good: few of them may look otherwise."""
    rng = np.random.default_rng(7)
    alarms = 0
    for _ in range(150):
        level = rng.normal(3, spread, size=6)
        runs = [rates(np.clip(rng.normal(mean, 1.5, size=200), 0, 10)) for mean in level]
        alarms += compare_seeds(runs[:3], runs[3:], samples=200).p < 0.05
    assert alarms / 150 < 0.15  # of a bootstrap over sentences alone: more than a half, if seeds differ


def test_what_cannot_be_compared():
    system, references = outputs(5, 0.2)
    item = counts(system, references)
    refuses(DataError, "cannot compare bleu .* with chrf", compare, item["bleu"], item["chrf"])
    fewer = counts(system[:50], references[:50])
    refuses(DataError, "60 sentences with those of 50", compare, item["bleu"], fewer["bleu"])


def test_a_mean_over_directions_by_a_loop():
    """Each direction draws sentences of its own; seeds are drawn for all directions together."""
    sizes = (60, 40)

    def arm(noise):
        return [[counts(*outputs(10 * d + s, noise, n))["wer_raw"] for s in (1, 2, 3)] for d, n in enumerate(sizes)]

    arms = [arm(0.2), arm(0.3)]
    found = compare_means(*arms, samples=200)
    means = []
    for directions in arms:
        scores = np.zeros((3, 200))
        for direction, seeds in enumerate(directions):
            rng = np.random.default_rng(SEED if direction == 0 else [SEED, 2, direction])
            size = len(seeds[0].values)
            draws = rng.choice(size, size=(200, size), replace=True)
            for seed, counted in enumerate(seeds):
                for sample, rows in enumerate(draws):
                    scores[seed, sample] += counted.formula(counted.values[rows].sum(0)) / 2
        means.append(scores)
    rng = np.random.default_rng([SEED, 1])
    drawn = []
    for scores in means:
        picked = rng.integers(3, size=(3, 200))
        mean = np.array([np.mean([scores[picked[k, n], n] for k in range(3)]) for n in range(200)])
        drawn.append(scores.mean(0) + (mean - scores.mean(0)) * 1.5**0.5)
    differences = drawn[0] - drawn[1]
    assert [found.low, found.high] == pytest.approx(np.quantile(differences, [0.025, 0.975]))
    scores = [[np.mean([seeds[k].score for seeds in directions]) for k in range(3)] for directions in arms]
    assert (found.values, found.baselines) == (pytest.approx(scores[0]), pytest.approx(scores[1]))
    observed = abs(np.mean(scores[0]) - np.mean(scores[1]))
    assert found.p == (np.sum(np.abs(differences - differences.mean()) >= observed) + 1) / 201
    assert found.verdict == "better"


def test_a_mean_over_one_direction_is_the_comparison_on_it():
    systems = [counts(*outputs(1, 0.2 + 0.001 * s))["bleu"] for s in range(3)]
    baselines = [counts(*outputs(1, 0.25 + 0.001 * s))["bleu"] for s in range(3)]
    assert compare_means([systems], [baselines], samples=100) == compare_seeds(systems, baselines, samples=100)
    chrf = [counts(*outputs(1, 0.2))["chrf"]] * 3
    both = compare_means, [systems, chrf], [baselines, chrf]
    refuses(DataError, "cannot take the mean of bleu and chrf", *both, samples=10)
