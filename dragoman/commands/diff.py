"""``dragoman diff``: two runs side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from dragoman.commands.tested import Tested, check_same_test, common_metrics, pairs_of_tests, tests_of
from dragoman.reporting.significance import SAMPLES, SEED, TRIALS, Comparison, compare
from dragoman.reporting.tables import aligned
from dragoman.shared.errors import DataError
from dragoman.shared.evaluation.scoring import check_metrics
from dragoman.shared.recipe.recipe import Recipe

#: Keys in which any two runs differ.
PLACES = {"output_folder"}


def diff_runs(
    first: Path, second: Path, *, metrics: Sequence[str] = (), show: int = 5, phase: str | None = None
) -> str:
    """Compare two evaluated runs on the test sets that they share.

    Args:
        first: output folder of a run, A.
        second: of another, B.
        metrics: by which to compare; by default those that both were scored by.
        show: how many of the sentences that differ most.
        phase: the evaluation to read, where a run has several.

    Returns:
        Per test set a table of scores with significance, and sentences; then the keys in which the recipes differ.

    Raises:
        DataError: if a run was not evaluated, they share no test set, or one of that name differs between them.
        UsageError: for an unknown metric, or several evaluations of one test set.
    """
    check_metrics(metrics)
    tests = tests_of(first, phase), tests_of(second, phase)
    pairs = pairs_of_tests(*tests)
    if not pairs:
        raise DataError(
            f"{first} was tested on {', '.join(tests[0])}, {second} on {', '.join(tests[1])}: nothing to compare"
        )
    parts = [f"A  {first}\nB  {second}"]
    for run, tests_of_run, shared in zip("AB", tests, zip(*pairs, strict=True), strict=True):
        only = [split for split, test in tests_of_run.items() if test not in shared]
        if only:
            parts.append(f"only {run} was tested on {', '.join(only)}")
    for pair in pairs:
        check_same_test(*pair)
        parts.append(_diff_test(pair, metrics or common_metrics(pair), show))
    parts.append(_diff_recipes(first, second))
    return "\n\n".join(parts)


def _diff_test(pair: tuple[Tested, Tested], metrics: Sequence[str], show: int) -> str:
    first, second = pair
    scorer = first.scorer([*metrics, "chrf"])
    counts, others = first.count(scorer), second.count(scorer)
    comparisons = [compare(*both) for both in zip(counts[:-1], others[:-1], strict=True)]
    row = first.any_row
    lines = len(first.outputs.ids)
    names = first.split if first.split == second.split else f"{first.split} (A) = {second.split} (B)"
    title = f"== {names}: {lines} lines in {row['language']}, corpus {row['corpus']}"
    parts = [f"{title}\n\n{render_comparisons(comparisons, names=('A', 'B'))}"]
    parts.append("\n".join(f"{item.metric}: {item.signature}" for item in comparisons))
    chrf, other = (item[-1].formula(item[-1].values) for item in (counts, others))
    parts.append(_sentences(first, second, chrf, other, show))
    return "\n\n".join(parts)


def _sentences(first: Tested, second: Tested, chrf: np.ndarray, other: np.ndarray, show: int) -> str:
    """Return the sentences with the largest difference in sentence chrF, and a line that says how many there are."""
    one, two = first.outputs, second.outputs
    differing = [i for i in range(len(one.ids)) if one.hypotheses[i] != two.hypotheses[i]]
    differing.sort(key=lambda i: -abs(chrf[i] - other[i]))
    better = sum(chrf[i] > other[i] for i in differing)
    worse = sum(chrf[i] < other[i] for i in differing)
    parts = [
        f"{len(differing)} of {len(one.ids)} outputs differ; by sentence chrF, A is better in {better} and B in {worse}"
    ]
    for i in differing[:show]:
        texts = {"source": one.sources[i]}
        texts |= {f"reference {n}" if n else "reference": lines[i] or "" for n, lines in enumerate(one.references)}
        texts |= {f"A {chrf[i]:5.1f}": one.hypotheses[i], f"B {other[i]:5.1f}": two.hypotheses[i]}
        body = "\n".join(f"    {name:12}{text}" for name, text in texts.items() if text or name[0] in "AB")
        parts.append(f"{one.ids[i]}  {chrf[i] - other[i]:+.1f}\n{body}")
    return "\n\n".join(parts)


def render_comparisons(comparisons: Sequence[Comparison], names: tuple[str, str] = ("system", "baseline")) -> str:
    """Return a table with a line per metric, and a line that says how it was made."""
    one, other = names
    rows = [["metric", one, other, "difference", "95 % from", "to", "p (bs)", "p (ar)", f"{one} is"]]
    for item in comparisons:
        numbers = [f"{item.value:.2f}", f"{item.baseline:.2f}", f"{item.difference:+.2f}"]
        numbers += [f"{item.low:+.2f}", f"{item.high:+.2f}", f"{item.p_bootstrap:.4f}", f"{item.p_randomisation:.4f}"]
        rows.append([item.metric, *numbers, item.verdict])
    method = f"bs: paired bootstrap, {SAMPLES} resamples; ar: paired approximate randomisation, {TRIALS} trials"
    return f"{aligned(rows)}\n{method}; seed {SEED}, as in sacreBLEU"


# -- recipes --------------------------------------------------------------------------------------------------------


def _diff_recipes(first: Path, second: Path) -> str:
    files = [run / "recipe.yaml" for run in (first, second)]
    missing = [str(file) for file in files if not file.is_file()]
    if missing:
        return f"no recipes to compare: {', '.join(missing)} missing"
    keys = differing_keys(*(Recipe.load(file).flat() for file in files))
    return render_keys(keys, ("A", "B")) if keys else "the recipes have the same keys and values"


def differing_keys(first: Mapping[str, str], second: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Return the keys in which two recipes differ (see :meth:`Recipe.flat`), with both values; "" where it is not."""
    keys = dict.fromkeys([*first, *second])
    pairs = {key: (first.get(key, ""), second.get(key, "")) for key in keys if key not in PLACES}
    return {key: pair for key, pair in pairs.items() if pair[0] != pair[1]}


def render_keys(keys: Mapping[str, tuple[str, str]], names: tuple[str, str]) -> str:
    """Return a table of keys that differ."""
    return aligned([["key", *names], *([key, *values] for key, values in keys.items())])
