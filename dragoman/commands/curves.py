"""``dragoman seeds --over KEY=VALUE,VALUE``: scores over the values of a key, such as the number of sentence pairs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dragoman.commands.seeds import Arm, arms_of, common_folder, folder, run_seeds
from dragoman.commands.tested import common_metrics
from dragoman.reporting.tables import aligned
from dragoman.shared.errors import UsageError
from dragoman.shared.evaluation.plots import COLOURS, INK, SIZE, dress
from dragoman.shared.machine.extras import present
from dragoman.shared.machine.files import replaced_file


def run_curve(recipe: str, overrides: Sequence[str], *, over: str, into: Path | None = None, **options: Any) -> bool:
    """Run a recipe, and its control if there is one, for each value of a key over several seeds; print and draw curves.

    For each value it does what :func:`run_seeds` does. Where runs with different values would have one folder, each has
    one of its own, named after the value. Tables of the means over seeds by value are printed, and drawn for values
    that are numbers: ``curve-KEY.png`` in ``into``, or else in the folder that all runs stand in.

    Args:
        recipe: name or file.
        overrides: further keys.
        over: the key and its values, "low_pairs=100,300,1000".
        into: see :func:`run_seeds`; by default the results of each value are by themselves.
        options: the other arguments of :func:`run_seeds`.

    Returns:
        Whether all runs came to their end.

    Raises:
        UsageError: if ``over`` is not of that form, and as :func:`run_seeds`.
        DataError: as :func:`run_seeds`.
    """
    key, _, listed = over.partition("=")
    values = [value.strip() for value in listed.split(",")]
    if not key or not all(values) or len({*values}) < max(2, len(values)):
        raise UsageError(f"--over must be KEY=VALUE,VALUE,... with two values or more, each once, not {over!r}")
    arguments = {value: [*overrides, f"--{key}", value] for value in values}
    loaded: dict[str, Any] = {name: options.get(name) for name in ("arm", "against")} | {"seeds": options["seeds"]}
    arms = {value: arms_of(recipe, words, **loaded) for value, words in arguments.items()}
    if len({folder(each.any_recipe) for both in arms.values() for each in both}) < sum(map(len, arms.values())):
        arguments = {value: [*words, "--run", f"{key}-{value}"] for value, words in arguments.items()}
        arms = {value: arms_of(recipe, words, **loaded) for value, words in arguments.items()}
    complete = True
    for value, words in arguments.items():
        print(f"\n== {key} {value} ==")
        complete = run_seeds(recipe, words, into=into, **options) and complete
    curves = dict(_curves(arms, options.get("phase")))
    for (split, metric), points in curves.items():
        print(f"\n{metric} on {split}, mean and deviation over seeds\n{aligned(_table(key, values, points))}")
    place = into or common_folder(each for both in arms.values() for each in both)
    _draw(key, curves, place / f"curve-{key}.png")
    return complete


#: By the label of an arm and the value of the key: the scores of all seeds.
Points = dict[str, dict[str, list[float]]]


def _curves(arms: dict[str, list[Arm]], phase: str | None) -> Iterator[tuple[tuple[str, str], Points]]:
    """Yield the scores by test set and metric, for tests and metrics that all runs have."""
    tests = {(arm.label, value): arm.tests(phase) for value, both in arms.items() for arm in both}
    first, *others = tests.values()
    for split in (split for split in first if all(split in other for other in others)):
        tested = {place: [*by_split[split].values()] for place, by_split in tests.items()}
        for metric in common_metrics([one for several in tested.values() for one in several]):
            points: Points = {}
            for (label, value), several in tested.items():
                points.setdefault(label, {})[value] = [float(one.rows[metric]["value"]) for one in several]
            yield (split, metric), points


def _table(key: str, values: Sequence[str], points: Points) -> list[list[str]]:
    table = [[key, *(heading for label in points for heading in (label, "deviation"))]]
    for value in values:
        cells = []
        for by_value in points.values():
            scores = by_value[value]
            spread = f"{np.std(scores, ddof=1):.2f}" if len(scores) > 1 else ""
            cells += [f"{np.mean(scores):.2f}", spread]
        table.append([value, *cells])
    return table


def _draw(key: str, curves: dict[tuple[str, str], Points], path: Path) -> None:
    """Draw the first metric of each test, if the values of the key are numbers."""
    metric = next((metric for _, metric in curves), "")
    panels: dict[str, list[Curve]] = {}
    for (split, name), points in curves.items():
        for label, by_value in points.items() if name == metric else ():
            try:
                drawn = sorted((float(value), scores) for value, scores in by_value.items())
            except ValueError:
                print(f"\nnot drawn: {', '.join(by_value)} are no numbers")
                return
            panels.setdefault(split, []).append(Curve(label, drawn))
    if plot_curves(panels, path, x=key, y=metric):
        print(f"\ndrawn in {path}")


class Curve(NamedTuple):
    """A curve of means: its label, and the scores of several seeds by the value that they were measured at."""

    label: str
    points: Sequence[tuple[float, Sequence[float]]]


def plot_curves(panels: Mapping[str, Sequence[Curve]], path: Path, *, x: str, y: str) -> bool:
    """Draw means over seeds, with bars from the lowest to the highest, as PNG; tell whether it was drawn.

    Args:
        panels: curves by the title of their panel.
        path: of the PNG.
        x: what the values are of; their axis is logarithmic if they are above 0.
        y: what the scores are of.
    """
    if not panels or not present("matplotlib", "plots", "curves are not drawn"):
        return False
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 3.2 * len(panels)), dpi=130, layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    for axis, (title, curves) in zip(figure.subplots(len(panels), 1, squeeze=False)[:, 0], panels.items(), strict=True):
        for number, curve in enumerate(curves):
            places = [value for value, _ in curve.points]
            means = [float(np.mean(scores)) for _, scores in curve.points]
            below = [mean - min(scores) for mean, (_, scores) in zip(means, curve.points, strict=True)]
            above = [max(scores) - mean for mean, (_, scores) in zip(means, curve.points, strict=True)]
            style: Any = {"color": COLOURS[number % len(COLOURS)], "marker": "o", "markersize": 4, "capsize": 3}
            axis.errorbar(places, means, yerr=[below, above], label=curve.label, **style)
        if all(value > 0 for curve in curves for value, _ in curve.points):
            axis.set_xscale("log")
        axis.set_title(title, loc="left", color=INK, fontsize=SIZE)
        axis.set_xlabel(x, color=INK, fontsize=SIZE)
        axis.set_ylabel(y, color=INK)
        axis.legend(frameon=False, fontsize=SIZE)
        dress(axis)
    with replaced_file(path) as temporary:
        figure.savefig(temporary, format="png")
    return True
