"""The training curve, drawn for people: losses and scores over updates, on one page."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dragoman.shared.machine.extras import present
from dragoman.shared.machine.files import replaced_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Of all text but titles, in points.
SIZE = 8
INK, GRID = "#333333", "#e4e4e4"
COLOURS = ["#2f6db3", "#d1652d", "#3c8d5a", "#8659a8", "#b53f5c", "#7a6a4f"]
HIDDEN = {"ctc_infeasible"}  # parts that are counts, not losses
#: Parts that are no losses either, by the end of their names: each kind has a panel of its own.
MEASURES = ("accuracy", "perplexity")


def plot_training(rows: Sequence[dict[str, Any]], path: Path, title: str = "") -> None:
    """Draw a training run as PNG: losses, accuracy and perplexity, scores on the development data, the learning rate.

    What there are no rows of is left out.

    Args:
        rows: of history.jsonl: ``{"update", "loss", "parts": {name: mean}, "lr"}`` for training and
            ``{"update", "validation": {"loss": ..., "bleu": ...}}`` for validations, in any order.
        path: of the PNG; replaced when the new one is complete. Nothing is drawn if there are no rows.
        title: above the curves.
    """
    if not rows:
        return
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    rows = sorted(rows, key=lambda row: row["update"])
    training = [row for row in rows if "loss" in row]
    validations = [{"update": row["update"], **row["validation"]} for row in rows if row.get("validation")]
    scores = sorted({name for row in validations for name in row} - {"update", "loss"})
    names = sorted({name for row in training for name in row.get("parts", {})} - HIDDEN)
    measures = [[name for name in names if name.endswith(measure)] for measure in MEASURES]
    panels = [True, *map(bool, measures), bool(scores), any("lr" in row for row in training)]
    heights = [height for height, wanted in zip((3.2, 1.6, 1.6, 2.6, 1.3), panels, strict=True) if wanted]
    figure = Figure(figsize=(8, 0.9 + sum(heights)), dpi=130, layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    grid = figure.subplots(len(heights), 1, sharex=True, squeeze=False, gridspec_kw={"height_ratios": heights})
    axes: list[Axes] = list(grid[:, 0])
    remaining = iter(axes)
    _draw_losses(next(remaining), training, validations, [name for name in names if not name.endswith(MEASURES)])
    for measure, drawn in zip(MEASURES, measures, strict=True):
        if drawn:
            _draw_measure(next(remaining), training, drawn, measure)
    if scores:
        _draw_scores(next(remaining), validations, scores)
    if panels[-1]:
        _draw_rate(next(remaining), training)
    for axis in axes:
        dress(axis)
    axes[-1].set_xlabel("updates", color=INK, fontsize=SIZE)
    axes[-1].set_xlim(left=0, right=max(1, rows[-1]["update"]) * 1.02)
    if title:
        axes[0].set_title(title, loc="left", color=INK, fontsize=11, fontweight="bold")
    with replaced_file(path) as temporary, warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")  # a title in a script that the font lacks
        figure.savefig(temporary, format="png")


def _draw_losses(
    axis: Axes, training: list[dict[str, Any]], validations: list[dict[str, Any]], names: list[str]
) -> None:
    """Draw the total loss broad and pale, its parts thin and above it, the development loss with points."""
    drawn = []
    if len(names) > 1:
        for name, colour in zip(names, _cycle(2), strict=False):
            points = [(row["update"], row["parts"][name]) for row in training if name in row.get("parts", {})]
            _draw(axis, points, color=colour, linewidth=1, zorder=3, label=f"train: {name.replace('_', ' ')}")
            drawn += points
    points = [(row["update"], row["loss"]) for row in training]
    axis.plot(*_columns(points), color=COLOURS[0], linewidth=4, alpha=0.45, marker=_marker(points), label="train: loss")
    drawn += points
    points = [(row["update"], row["loss"]) for row in validations if "loss" in row]
    axis.plot(*_columns(points), color=COLOURS[1], linewidth=1.8, marker="o", markersize=3.5, label="dev: loss")
    drawn += points
    values = [value for _, value in drawn if value == value and abs(value) != float("inf")]
    if values and min(values) > 0 and max(values) > 20 * min(values):
        from matplotlib.ticker import LogLocator, NullLocator, StrMethodFormatter

        axis.set_yscale("log")
        axis.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axis.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
        axis.yaxis.set_minor_locator(NullLocator())
    axis.set_ylabel("loss", color=INK)
    axis.legend(frameon=False, fontsize=SIZE, labelcolor=INK)


def _draw_measure(axis: Axes, training: list[dict[str, Any]], names: list[str], measure: str) -> None:
    """Draw what training reports beside its losses, all of one kind."""
    for name, colour in zip(names, _cycle(2), strict=False):
        points = [(row["update"], row["parts"][name]) for row in training if name in row.get("parts", {})]
        _draw(axis, points, color=colour, linewidth=1.4, label=f"train: {name.replace('_', ' ')}")
    axis.set_ylim(bottom=0)
    axis.set_ylabel(measure, color=INK)
    axis.legend(frameon=False, fontsize=SIZE, labelcolor=INK)


def _draw_scores(axis: Axes, validations: list[dict[str, Any]], names: list[str]) -> None:
    """Draw each score, with its last value written beside it."""
    for name, colour in zip(names, _cycle(2), strict=False):
        points = [(row["update"], row[name]) for row in validations if name in row]
        label = name.replace("_", " ").upper().replace("CHRF", "chrF2").replace("SPBLEU", "spBLEU")
        _draw(axis, points, color=colour, linewidth=1.8, marker="o", markersize=3.5, label=label)
        update, value = points[-1]
        axis.annotate(
            f"{value:.1f}",
            (update, value),
            xytext=(0, 5),
            textcoords="offset points",
            ha="center",
            fontsize=SIZE,
            color=colour,
        )
    axis.margins(y=0.18)
    axis.set_ylabel("score on dev", color=INK)
    axis.legend(frameon=False, fontsize=SIZE, labelcolor=INK)


def _draw_rate(axis: Axes, training: list[dict[str, Any]]) -> None:
    points = [(row["update"], row["lr"]) for row in training if "lr" in row]
    _draw(axis, points, color="#888888", linewidth=1.4)
    axis.set_ylim(bottom=0)
    axis.ticklabel_format(axis="y", style="sci", scilimits=(-3, 3))
    axis.set_ylabel("learning rate", color=INK)


def _draw(axis: Axes, points: list[tuple[float, float]], **style: Any) -> None:
    """Draw a curve; over another of the same points it is dashed, so that both are seen, and one point is a dot."""
    hidden = any(np.asarray(line.get_xydata()).tolist() == [[*point] for point in points] for line in axis.lines)
    axis.plot(*_columns(points), linestyle="--" if hidden else "-", **{"marker": _marker(points), **style})


def _marker(points: list[tuple[float, float]]) -> str:
    return "o" if len(points) == 1 else ""


def _columns(points: list[tuple[float, float]]) -> tuple[list[float], list[float]]:
    return [x for x, _ in points], [y for _, y in points]


def _cycle(start: int) -> list[str]:
    """Return many colours, from the one numbered ``start`` on."""
    return [COLOURS[(start + number) % len(COLOURS)] for number in range(20)]


def dress(axis: Axes) -> None:
    """Give a panel its grid, colours and sizes."""
    axis.grid(True, color=GRID, linewidth=0.8)
    axis.set_axisbelow(True)
    axis.yaxis.label.set_fontsize(SIZE)
    axis.yaxis.get_offset_text().set(fontsize=SIZE, color=INK)
    axis.tick_params(colors=INK, which="both", labelsize=SIZE, length=0)
    for side, spine in axis.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color("#bbbbbb")


def plot_points(points: Sequence[tuple[float, float, str, str]], path: Path) -> None:
    """Draw words as points on a plane, PNG: x, y, the word, and the language, which chooses the colour."""
    if not present("matplotlib", "plots", "pictures of words are not drawn"):
        return
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 6), dpi=130, layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    axis = figure.subplots()
    languages = list(dict.fromkeys(language for *_, language in points))
    for number, language in enumerate(languages):
        places = [(x, y) for x, y, _, code in points if code == language]
        colour = COLOURS[number % len(COLOURS)]
        axis.scatter([x for x, _ in places], [y for _, y in places], s=12, color=colour, label=language)
    for x, y, word, _ in points:
        axis.annotate(word, (x, y), xytext=(3, 3), textcoords="offset points", fontsize=7, color=INK)
    axis.legend(frameon=False)
    dress(axis)
    with replaced_file(path) as temporary, warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")
        figure.savefig(temporary, format="png")
