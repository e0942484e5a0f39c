"""Trains a recipe with several values of a key, such as the number of sentence pairs; tabulates and plots its scores.

    python -m benchmarks.volume low_pairs 100 300 1000 3000 almanac/mt_from_mrasp --out volume.png
    python -m benchmarks.volume low_pairs 100 300 1000 3000 almanac/mt_from_mrasp --phases.fit.initialise "[]"
        --output_folder "!ref <results_folder>/mt_low/<seed>"

Each value needs a folder of its own; Almanac's recipes of pairs have the number in it. What is done is not done again.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from dragoman.commands.runs import Tested, tests_of
from dragoman.runs.running import is_finished
from dragoman.shared.errors import DataError, UsageError
from dragoman.shared.evaluation.tables import aligned
from dragoman.shared.machine.files import replaced_file
from dragoman.shared.recipe.recipe import Recipe


def runs(key: str, values: Sequence[str], words: Sequence[str]) -> dict[str, Recipe]:
    """Return the recipe for each value of the key.

    Args:
        key: of the recipe.
        values: as on the command line.
        words: the recipe and its overrides.

    Raises:
        UsageError: if two values would run in the same folder.

    """
    recipes = {value: Recipe.load(words[0], [*words[1:], f"--{key}", value]) for value in values}
    folders = {recipe.value("output_folder") for recipe in recipes.values()}
    if len(folders) < len(recipes):
        raise UsageError(
            f"{words[0]}: two values of {key} would run in the same folder: put <{key}> into output_folder"
        )
    return recipes


def train(key: str, recipes: Mapping[str, Recipe], words: Sequence[str]) -> None:
    """Run the recipes that are not finished, one after the other.

    Raises:
        DataError: naming the run that failed.

    """
    for value, recipe in recipes.items():
        if is_finished(recipe):
            continue
        command = [sys.executable, "-m", "dragoman", "run", *words, f"--{key}", value]
        if subprocess.run(command, check=False).returncode:
            raise DataError(f"{key} {value}: the run in {recipe.value('output_folder')} failed")


def table(key: str, tests: Mapping[str, Mapping[str, Tested]], metric: str) -> str:
    """Return the scores as text: a line for each value, a column for each test set.

    Args:
        key: the heading of the first column.
        tests: by value of the key and test set.
        metric: the name of the score.

    Raises:
        DataError: naming a test set without this score.

    """
    found = scores(key, tests, metric)
    lines = [[value, *(f"{by_value[value]:.2f}" for by_value in found.values())] for value in tests]
    return aligned([[key, *found], *lines])


def scores(key: str, tests: Mapping[str, Mapping[str, Tested]], metric: str) -> dict[str, dict[str, float]]:
    """Return the scores by test set and value of the key; raise a DataError that names a test set without them."""
    splits = list(dict.fromkeys(split for tested in tests.values() for split in tested))
    for value, tested in tests.items():
        lacking = [split for split in splits if split not in tested or metric not in tested[split].rows]
        if lacking:
            raise DataError(f"{key} {value}: no {metric} on {', '.join(lacking)}")
    return {
        split: {value: float(tested[split].rows[metric]["value"]) for value, tested in tests.items()}
        for split in splits
    }


def plot(key: str, found: Mapping[str, Mapping[str, float]], metric: str, path: Path) -> None:
    """Draw a curve for each test set as PNG: the score over the values of the key, on a logarithmic scale.

    Args:
        key: what the horizontal axis says.
        found: scores by test set and value; the values are positive numbers.
        metric: what the vertical axis says.
        path: of the picture; replaced when the new one is complete.

    Raises:
        UsageError: for a value that is no positive number.

    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4.5), dpi=130, layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    for split, by_value in found.items():
        axes.plot([_number(key, value) for value in by_value], [*by_value.values()], marker="o", label=split)
    values = [_number(key, value) for by_value in found.values() for value in by_value]
    axes.set_xscale("log")
    axes.set_xticks(sorted({*values}), labels=[f"{value:g}" for value in sorted({*values})])
    axes.set_xticks([], minor=True)
    axes.set_xlabel(key)
    axes.set_ylabel(metric)
    axes.legend()
    axes.grid(alpha=0.3)
    with replaced_file(path) as temporary:
        figure.savefig(temporary, format="png")


def _number(key: str, value: str) -> float:
    try:
        number = float(value)
    except ValueError:
        number = 0.0
    if number <= 0:
        raise UsageError(f"{key} {value}: only positive numbers can be drawn on an axis")
    return number


def main(arguments: Sequence[str] | None = None) -> None:
    """Train, print the table and draw the picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("key")
    parser.add_argument("values", nargs="+")
    parser.add_argument("--metric", default="bleu")
    parser.add_argument("--out", type=Path, default=None, help="a PNG of the scores over the values")
    parser.add_argument("--phase", default=None, help="the evaluation to read, if the recipe has several")
    known, overrides = parser.parse_known_args(arguments)
    *values, recipe = known.values
    words = [recipe, *overrides]
    recipes = runs(known.key, values, words)
    train(known.key, recipes, words)
    tests = {value: tests_of(Path(one.value("output_folder")), known.phase) for value, one in recipes.items()}
    print(table(known.key, tests, known.metric))
    if known.out is not None:
        plot(known.key, scores(known.key, tests, known.metric), known.metric, known.out)


if __name__ == "__main__":
    main()
