"""``dragoman seeds``: one recipe, or two against each other, over several seeds."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dragoman.commands.data_seen import data_seen, learning_parameters, training_minutes
from dragoman.commands.diff import differing_keys, render_keys
from dragoman.commands.tested import Tested, check_same_test, common_metrics, tests_of
from dragoman.reporting import directions
from dragoman.reporting.collecting import collect
from dragoman.reporting.significance import (
    SAMPLES,
    SEED,
    SeedComparison,
    compare_means,
    compare_seeds,
    paired_bootstrap,
)
from dragoman.reporting.tables import MEANS, aligned
from dragoman.runs.running import is_finished
from dragoman.shared.errors import DataError, UsageError
from dragoman.shared.evaluation.results import commit, of_run
from dragoman.shared.machine.stopping import Interrupted
from dragoman.shared.phases.evaluating import Evaluate
from dragoman.shared.recipe.arms import PLUS
from dragoman.shared.recipe.inner import debug_folder
from dragoman.shared.recipe.recipe import Recipe
from dragoman.shared.recipe.run_keys import keys_of_a_result

#: What has to be equal in a comparison, by the names of the arguments of streams and phases.
EQUAL = {
    "updates": ("updates",),
    "data": ("manifests",),
    "batches": ("budget", "grad_accumulation_factor"),
}
#: A phase that trains has these arguments.
TRAINING = {"streams", "updates"}


@dataclass(frozen=True)
class Arm:
    """A recipe over several seeds.

    Attributes:
        label: what tables call it: "A", "B".
        words: the recipe and its overrides, as on the command line.
        recipes: by seed.
    """

    label: str
    words: list[str]
    recipes: dict[int, Recipe]

    @staticmethod
    def load(label: str, words: Sequence[str], seeds: Sequence[int]) -> Arm:
        """Load a recipe for each seed, and check it.

        Raises:
            UsageError: as :meth:`Recipe.check`, or if the folder of the run does not depend on the seed.
        """
        recipes = {seed: Recipe.load(words[0], [*words[1:], "--seed", str(seed)]) for seed in seeds}
        first = recipes[seeds[0]]
        first.check()
        folders = {folder(recipe) for recipe in recipes.values()}
        if len(folders) < len(seeds):
            raise UsageError(f"{first.source}: all seeds would run in {folders.pop()}: put <seed> into output_folder")
        return Arm(label, list(words), recipes)

    @property
    def any_recipe(self) -> Recipe:
        """The recipe with one of the seeds."""
        return next(iter(self.recipes.values()))

    def tests(self, phase: str | None) -> dict[str, dict[int, Tested]]:
        """Return what the runs that came to their end were tested on, by test set and seed; see :func:`tests_of`.

        Raises:
            DataError: if none did, or seeds were tested on different rows.
        """
        by_split: dict[str, dict[int, Tested]] = {}
        for seed, recipe in self.recipes.items():
            if is_finished(recipe):
                for split, tested in tests_of(folder(recipe), phase).items():
                    by_split.setdefault(split, {})[seed] = tested
        if not by_split:
            raise DataError(f"{shlex.join(self.words)}: no run was completed")
        for by_seed in by_split.values():
            first, *others = by_seed.values()
            for other in others:
                check_same_test(first, other)
        return by_split

    def named(self, name: str = "") -> dict[str, Any]:
        """Return what rows of results call it, under "recipe", "arm" and "keys", or ``name`` and two such keys."""
        prefix = f"{name}_" if name else ""
        recipe = self.any_recipe
        return {
            name or "recipe": recipe.name,
            f"{prefix}arm": recipe.arm,
            f"{prefix}keys": keys_of_a_result(recipe.changed),
        }

    def __str__(self) -> str:
        """Return label and words."""
        return f"{self.label}  {shlex.join(self.words)}"


def check_one_evaluation(recipe: Recipe) -> None:
    """Refuse, before hours of training, several evaluations of which nobody has said the one to compare."""
    by_tests: dict[str, list[str]] = {}
    for name, planned in recipe.plan.items():
        if planned.kind is Evaluate:
            by_tests.setdefault(str(planned.arguments["manifests"]), []).append(name)
    for names in by_tests.values():
        if len(names) > 1:
            raise UsageError(
                f"{recipe.source}: phases {', '.join(names)} test the same manifests: choose one with --phase"
            )


def _named(arm: str | None) -> list[str]:
    return [] if arm is None else ["--arm", arm]


def folder(recipe: Recipe) -> Path:
    """Return the folder of a recipe's run."""
    return Path(recipe.value("output_folder"))


def common_folder(arms: Iterable[Arm]) -> Path:
    """Return the folder that all runs stand in, for their results; of runs for debugging, one beside it."""
    recipes = [recipe for each in arms for recipe in each.recipes.values()]
    common = os.path.commonpath([folder(recipe).parent for recipe in recipes])
    return Path(debug_folder(common) if any(recipe.options["debug"] for recipe in recipes) else common)


def arms_of(
    recipe: str, overrides: Sequence[str], *, seeds: Sequence[int], arm: str | None, against: str | None
) -> list[Arm]:
    """Return a recipe with several seeds, and a control if there is one; the arguments are those of :func:`run_seeds`.

    Raises:
        UsageError: if seeds are not different numbers, or as :meth:`Arm.load`.
    """
    if not seeds or len(set(seeds)) < len(seeds):
        raise UsageError(f"seeds must be different numbers, not {','.join(map(str, seeds)) or 'none'}")
    arms = [Arm.load("A", [recipe, *overrides, *_named(arm)], seeds)]
    if against is not None:
        name, *keys = shlex.split(against) or [""]
        is_arm = name.partition(PLUS)[0] in arms[0].any_recipe.arms
        other = [recipe, *overrides, *_named(name)] if is_arm else [name, *overrides]
        arms.append(Arm.load("B", [*other, *keys], seeds))
    return arms


def run_seeds(
    recipe: str,
    overrides: Sequence[str],
    *,
    seeds: Sequence[int],
    arm: str | None = None,
    against: str | None = None,
    phase: str | None = None,
    into: Path | None = None,
    launcher: str = "",
    command: str = "",
) -> bool:
    """Run a recipe with several seeds, and a control if asked; print tables, and write them to results.

    Finished runs are kept as they are, interrupted ones go on, and one that fails does not keep the others from
    running.

    Args:
        recipe: name or file.
        overrides: keys for both recipes, as on the command line.
        seeds: all different.
        arm: one that the recipe names.
        against: another arm of the recipe, or another recipe; keys of its own may follow, and ``--arm``.
        phase: the evaluation to read, if the recipe has several.
        into: the folder of results.jsonl and RESULTS.md; by default the one that all runs stand in.
        launcher: how to start a run, if not as one process.
        command: how this was started, for the record.

    Returns:
        Whether all runs came to their end.

    Raises:
        UsageError: if recipes or seeds do not fit together.
        DataError: if no run of a recipe came to its end.
        Interrupted: after Ctrl-C; runs can go on from where they were.
    """
    arms = arms_of(recipe, overrides, seeds=seeds, arm=arm, against=against)
    if phase is None:
        for each in arms:
            check_one_evaluation(each.any_recipe)
    print("\n".join(map(str, arms)))
    if len(arms) == 2:
        check_arms(*arms)
    failed: list[str] = []
    for seed in seeds:  # all arms by seed: what is there after a while can be compared
        for each in arms:
            if not _run(each, seed, launcher):
                failed.append(f"{each.label}, seed {seed} (its log: {folder(each.recipes[seed]) / 'log.txt'})")
    print("".join(f"FAILED: {run}\n" for run in failed), end="")
    table = report(arms, phase=phase, into=into, command=command)
    print(f"\nwritten to {table}")
    return not failed


def report(arms: Sequence[Arm], *, phase: str | None, into: Path | None, command: str) -> Path:
    """Print what the finished runs of a recipe, and of its control if there is one, have scored; write it to results.

    Args:
        arms: one, or two to compare.
        phase: see :func:`run_seeds`, as are the others.
        into: the folder of the results.
        command: that was given.

    Returns:
        The path of RESULTS.md.

    Raises:
        DataError: if no run of an arm came to its end, or runs were not tested on the same.
    """
    tests = [each.tests(phase) for each in arms]
    rows = []
    for each, tested in zip(arms, tests, strict=True):
        for seed in _seeds(tested):
            recipe = each.recipes[seed]
            rows += [row | _trained(recipe) for row in of_run(folder(recipe))]
        for split, by_seed in tested.items():
            _print_spread(each.label, split, by_seed)
        _print_directions(each.label, tested)
    if len(arms) == 2:
        rows += [{"command": command, "commit": commit()} | row for row in _compare(arms, tests)]
    return collect(rows, into or common_folder(arms))


# -- running --------------------------------------------------------------------------------------------------------


def check_arms(first: Arm, second: Arm) -> None:
    """Print the keys in which two recipes differ, and warn of those that should not."""
    one, other = first.any_recipe, second.any_recipe
    clash = {folder(r) for r in first.recipes.values()} & {folder(r) for r in second.recipes.values()}
    if clash:
        raise UsageError(f"both recipes would run in {clash.pop()}: give one a folder of its own with --run NAME")
    keys = differing_keys(one.flat(), other.flat())
    print(render_keys(keys, (first.label, second.label)) if keys else "the recipes have the same keys and values")
    for what, names in EQUAL.items():
        mine, theirs = (list(_of_training(recipe, names)) for recipe in (one, other))
        if mine != theirs:
            print(f"WARNING: {what} differ, so that a difference of scores need not come from the method")
    for what, amounts in _amounts(one, other).items():
        if len({*amounts}) > 1:
            said = " and ".join(amounts)
            print(f"WARNING: {what}: {said}, so that a difference of scores need not come from the method")


def _of_training(recipe: Recipe, names: Sequence[str]) -> Iterator[Any]:
    """Yield the values that arguments of these names have in the phases that train, in order."""
    for phase in _trainings(recipe):
        yield from _values({name: value for name, value in phase.items() if name in (*TRAINING, *names)}, names)


def _trainings(recipe: Recipe) -> list[Mapping[str, Any]]:
    """Return the arguments of the phases that train."""
    return [phase.arguments for phase in recipe.plan.values() if phase.arguments.keys() >= TRAINING]


def _values(value: Any, names: Sequence[str]) -> Iterator[Any]:
    """Yield the values of these names in mappings and lists, in order; not those inside of such a value."""
    if isinstance(value, dict):
        for name, child in value.items():
            if name in names:
                yield child
            else:
                yield from _values(child, names)
    elif isinstance(value, list):
        for child in value:
            yield from _values(child, names)


def _amounts(*recipes: Recipe) -> dict[str, tuple[str, ...]]:
    """Return what the last trainings of recipes do, side by side: batches of the first stream, and layers.

    The first stream is that of the task that is tested: with another stream beside, as many updates are fewer of it.
    """
    found = []
    for last in (_trainings(recipe)[-1] for recipe in recipes if _trainings(recipe)):
        weights = [next(_values(stream, ["weight"]), 1.0) for stream in last["streams"]]
        batches = last["updates"] * last.get("grad_accumulation_factor", 1) * weights[0] / sum(weights)
        counted = _values(last.get("objective"), ["layers"])  # convolutions list theirs
        layers = sum(number for number in counted if isinstance(number, int))
        found.append({"batches of the first stream": f"{batches:,.0f}", "layers": f"{layers}"})
    return {what: tuple(amounts[what] for amounts in found) for what in found[0]} if len(found) == len(recipes) else {}


def _run(arm: Arm, seed: int, launcher: str) -> bool:
    """Run a recipe with a seed in a process of its own, unless it is finished; return whether it came to its end."""
    recipe = arm.recipes[seed]
    if is_finished(recipe):
        print(f"{arm.label}, seed {seed}: done before")
        return True
    print(f"{arm.label}, seed {seed}: running in {folder(recipe)}", flush=True)
    words = [*shlex.split(launcher), sys.executable, "-m", "dragoman", "run", *arm.words, "--seed", str(seed)]
    process = subprocess.Popen(words)
    try:
        return process.wait() == 0
    except KeyboardInterrupt as error:  # at Ctrl-C the terminal has told the run as well; a second signal is no more
        process.send_signal(signal.SIGTERM)
        process.wait()
        raise Interrupted(f"stopped in {folder(recipe)}; the same command goes on from there") from error


# -- reading --------------------------------------------------------------------------------------------------------


def _trained(recipe: Recipe) -> dict[str, Any]:
    """Return what a run has learned from, the minutes of all training that led to it, and how much was tuned."""
    data, learning = data_seen(recipe), learning_parameters(recipe)
    tuned = {} if learning is None else {"learning": round(learning, 2)}
    return {"data": data, "minutes": round(training_minutes(recipe), 1)} | tuned if data else {}


def _seeds(tests: Mapping[str, Mapping[int, Tested]]) -> list[int]:
    return sorted({seed for by_seed in tests.values() for seed in by_seed})


def _common(arm: Arm, tested: Tested) -> dict[str, Any]:
    row = tested.any_row
    kept = ("phase", "split", "lines", "corpus", "text", "reads", "writes")
    return arm.named() | {key: row[key] for key in kept if row.get(key)}


def _print_spread(label: str, split: str, by_seed: Mapping[int, Tested]) -> None:
    """Print the scores of each seed, mean and standard deviation."""
    tests = list(by_seed.values())
    table = [["metric", *(f"seed {seed}" for seed in by_seed), "mean", "deviation"]]
    for metric in common_metrics(tests):
        values = [float(tested.rows[metric]["value"]) for tested in tests]
        spread = f"{np.std(values, ddof=1):.2f}" if len(values) > 1 else ""
        table.append([metric, *(f"{value:.2f}" for value in values), f"{np.mean(values):.2f}", spread])
    print(f"\n{label} on {split}, {len(tests[0].outputs.ids)} lines\n{aligned(table)}")


def _print_directions(label: str, tests: Mapping[str, Mapping[int, Tested]]) -> None:
    """Print the means over seeds of test sets of one name in several directions, as tables of sources by targets."""
    for name, group in directions.by_name(tests).items():
        for metric in common_metrics([tested for split in group for tested in tests[split].values()]):
            values = {split: [tested.rows[metric]["value"] for tested in tests[split].values()] for split in group}
            scores = {split: float(np.mean(scores_of_split)) for split, scores_of_split in values.items()}
            print(f"\n{label}: {metric} on {name}, sources by targets\n{aligned(directions.table(scores))}")


# -- comparing ------------------------------------------------------------------------------------------------------


def _compare(arms: Sequence[Arm], tests: Sequence[Mapping[str, Mapping[int, Tested]]]) -> Iterator[dict[str, Any]]:
    """Print the comparison on each test set; yield a row of results for each metric."""
    shared = [split for split in tests[0] if split in tests[1]]
    if not shared:
        raise DataError(f"{arms[0].words[0]} and {arms[1].words[0]} were not tested on the same sets")
    for split in shared:
        mine, theirs = (by_split[split] for by_split in tests)
        first = next(iter(mine.values()))
        check_same_test(first, next(iter(theirs.values())))
        metrics = common_metrics([*mine.values(), *theirs.values()])
        scorer = first.scorer(metrics)
        counts, others = ({seed: t.count(scorer) for seed, t in by_split.items()} for by_split in (mine, theirs))
        paired = [seed for seed in mine if seed in theirs]
        table = [["metric", "difference", "95 % from", "to", "p", *(f"p seed {s}" for s in paired), "A is"]]
        for i in range(len(metrics)):
            result = compare_seeds([c[i] for c in counts.values()], [c[i] for c in others.values()])
            single = {seed: paired_bootstrap(counts[seed][i], others[seed][i])[0] for seed in paired}
            table.append(_line(result, single.values()))
            yield _common(arms[0], first) | _row(result, "comparison", arms[1], mine, theirs)
        print(f"\nA against B on {split}, {len(first.outputs.ids)} lines\n{aligned(table)}")
    yield from _compare_means(arms, tests, shared)
    print(
        f"\ndifference of means; interval and p of the hierarchical bootstrap over sentences and seeds, {SAMPLES} "
        f"resamples; p of a seed: paired bootstrap as in sacreBLEU; random seed {SEED}"
    )
    if min(map(len, (mine, theirs))) < 2:
        print("WARNING: one seed does not show the variation between seeds: run at least three")


def _compare_means(
    arms: Sequence[Arm], tests: Sequence[Mapping[str, Mapping[int, Tested]]], splits: Sequence[str]
) -> Iterator[dict[str, Any]]:
    """Print, for test sets of one name in several directions, the comparison of means over directions; yield rows."""
    for name, group in directions.by_name(splits).items():
        sets = [[by_split[split] for split in group] for by_split in tests]
        metrics = common_metrics([test for arm in sets for by_seed in arm for test in by_seed.values()])
        counted = [[[test.count(test.scorer(metrics)) for test in by_seed.values()] for by_seed in arm] for arm in sets]
        first = [next(iter(by_seed.values())) for by_seed in sets[0]]
        common = _common(arms[0], first[0])
        common["split"] = ", ".join(sorted(test.any_row["split"] for test in first))
        common["lines"] = sum(len(test.outputs.ids) for test in first)
        del common["corpus"]  # that of the first direction
        lines = [["metric", "difference", "95 % from", "to", "p", "A is"]]
        for i in range(len(metrics)):
            mine, theirs = ([[seed[i] for seed in seeds] for seeds in arm] for arm in counted)
            result = compare_means(mine, theirs)
            lines.append(_line(result, []))
            yield common | _row(result, MEANS, arms[1], sets[0][0], sets[1][0])
        print(f"\nA against B on {name}, mean of {len(group)} directions\n{aligned(lines)}")


def _line(result: SeedComparison, single: Iterable[float]) -> list[str]:
    numbers = [f"{result.difference:+.2f}", f"{result.low:+.2f}", f"{result.high:+.2f}", f"{result.p:.4f}"]
    return [result.metric, *numbers, *(f"{p:.4f}" for p in single), result.verdict]


def _row(
    result: SeedComparison, kind: str, against: Arm, seeds: Iterable[int], other_seeds: Iterable[int]
) -> dict[str, Any]:
    """Return what is kept of a comparison with another arm."""
    return {
        "value": round(result.difference, 2),
        "signature": f"hierarchical|bs:{SAMPLES}|seed:{SEED}",
        "low": round(result.low, 2),
        "high": round(result.high, 2),
        "p": round(result.p, 4),
        "kind": kind,
        **against.named("against"),
        "metric": result.metric,
        "seeds": list(seeds),
        "against_seeds": list(other_seeds),
    }
