"""The curve: a readable picture of what the rows say, also of few or odd rows."""

from __future__ import annotations

import matplotlib.image
import matplotlib.text
import numpy as np
import pytest
from matplotlib.figure import Figure

from dragoman.shared.evaluation.plots import plot_points, plot_training

TRAINING = [
    {"update": u, "loss": 9 - u / 100, "parts": {"cross_entropy": 8.0, "accuracy": 0.1}, "lr": 1e-3}
    for u in range(25, 500, 25)
]
VALIDATION = [{"update": u, "validation": {"loss": 9 - u / 110, "bleu": u / 10}} for u in range(100, 500, 100)]


@pytest.mark.parametrize(
    "rows",
    [
        TRAINING + VALIDATION,
        pytest.param(TRAINING[:1], marks=pytest.mark.slow),
        pytest.param(VALIDATION[:1], marks=pytest.mark.slow),
        [{"update": 25, "loss": float("nan"), "parts": {}, "lr": 0.0}],
        [*TRAINING, {"update": 300, "validation": {"loss": 3.0}}],
    ],
)
def test_draws_a_picture(tmp_path, rows):
    path = tmp_path / "folder" / "training.png"
    plot_training(rows, path, title="almanac/st 日本")
    picture = matplotlib.image.imread(path)
    assert picture.shape[1] > 800 and np.unique(picture[..., :3].reshape(-1, 3), axis=0).shape[0] > 50
    assert [file.name for file in path.parent.iterdir()] == ["training.png"]


def test_nothing_is_drawn_without_rows(tmp_path):
    plot_training([], tmp_path / "training.png")
    assert not (tmp_path / "training.png").exists()


@pytest.fixture
def figures(monkeypatch):
    """The figures that are saved."""
    saved = []
    save = Figure.savefig
    monkeypatch.setattr(Figure, "savefig", lambda self, *a, **k: (saved.append(self), save(self, *a, **k))[1])
    return saved


def test_the_curves_are_the_rows(tmp_path, figures):
    plot_training([*VALIDATION, *TRAINING[::-1]], tmp_path / "training.png")
    losses, accuracy, scores, rate = figures[0].axes
    lines = {line.get_label(): line.get_xydata().tolist() for line in (*losses.lines, *scores.lines)}
    assert lines["train: loss"] == [[row["update"], row["loss"]] for row in TRAINING]
    assert lines["dev: loss"] == [[row["update"], row["validation"]["loss"]] for row in VALIDATION]
    assert lines["BLEU"] == [[row["update"], row["validation"]["bleu"]] for row in VALIDATION]
    assert accuracy.lines[0].get_ydata().tolist() == [0.1] * len(TRAINING)
    assert rate.lines[0].get_ydata().tolist() == [1e-3] * len(TRAINING)


def test_scores_are_named_as_people_write_them(tmp_path, figures):
    names = {"bleu": "BLEU", "spbleu": "spBLEU", "chrf": "chrF2", "chrf++": "chrF2++", "bleu_lc": "BLEU LC"}
    for name, label in names.items():
        plot_training([{"update": 25, "validation": {name: 5.0}}], tmp_path / "training.png")
        assert label in [line.get_label() for axis in figures[-1].axes for line in axis.lines]


def test_accuracy_and_perplexity_are_drawn_apart_from_losses(tmp_path, figures):
    parts = {"contrastive": 3.5, "diversity": 0.1, "code_perplexity": 70.0, "ctc_infeasible": 0.1}
    parts |= {"accuracy": 0.2, "mt.accuracy": 0.6}
    plot_training([{"update": 25, "loss": 3.5, "parts": parts}], tmp_path / "training.png")
    drawn = {axis.get_ylabel(): [line.get_label() for line in axis.lines] for axis in figures[0].axes}
    assert drawn == {
        "loss": ["train: contrastive", "train: diversity", "train: loss", "dev: loss"],
        "accuracy": ["train: accuracy", "train: mt.accuracy"],
        "perplexity": ["train: code perplexity"],
    }


def shown_sizes(figure):
    """Return the sizes of all text that is drawn, in points."""
    figure.canvas.draw()
    return {
        text.get_fontsize() for text in figure.findobj(matplotlib.text.Text) if text.get_text() and text.get_visible()
    }


def test_all_text_has_one_size_on_a_logarithmic_axis_too(tmp_path, figures):
    for smallest in (0.1, 4.0):  # two decades, and less than one
        rows = [{"update": u, "loss": 100.0 / u + smallest, "parts": {}, "lr": 1e-5 * u} for u in range(1, 200, 5)]
        plot_training(rows + VALIDATION, tmp_path / "training.png")
        losses = figures[-1].axes[0]
        assert losses.get_yscale() == "log"
        assert shown_sizes(figures[-1]) == {8.0}
        labels = [label.get_text() for label in losses.get_yticklabels()]
        assert "10" in labels and not any("$" in label for label in labels)


def test_no_curve_is_hidden_by_another(tmp_path, figures):
    """The only part of a loss is the loss: it is thin and above; two of the same values are told apart by dashes."""
    parts = {"cross_entropy": 2.0, "other": 2.0}
    rows = [{"update": u, "loss": 2.0, "parts": parts} for u in (25, 50)]
    plot_training(rows, tmp_path / "training.png")
    first, second, total, _ = figures[0].axes[0].lines
    assert first.get_linewidth() < total.get_linewidth() and first.get_zorder() > total.get_zorder()
    assert [line.get_linestyle() for line in (first, second)] == ["-", "--"]
    assert second.get_zorder() > total.get_zorder()


def test_one_point_is_a_dot(tmp_path, figures):
    plot_training(TRAINING[:1], tmp_path / "training.png")
    lines = [line for axis in figures[0].axes for line in axis.lines if len(line.get_xydata())]
    assert len(lines) == 3 and all(line.get_marker() == "o" for line in lines)


def test_words_are_points_in_the_colours_of_their_languages(tmp_path, figures):
    words = [(0.0, 1.0, "dog", "en"), (2.0, 3.0, "Hund", "de"), (4.0, 5.0, "cat", "en")]
    words += [(9.0, float(n), "x", f"l{n}") for n in range(5)]
    plot_points(words, tmp_path / "folder" / "words.png")
    assert matplotlib.image.imread(tmp_path / "folder" / "words.png").shape[:2] == (780, 1040)
    axis = figures[0].axes[0]
    drawn = {dots.get_label(): dots.get_offsets().tolist() for dots in axis.collections}
    assert drawn["en"] == [[0.0, 1.0], [4.0, 5.0]] and drawn["de"] == [[2.0, 3.0]]
    assert [note.get_text() for note in axis.texts] == [word for *_, word, _ in words]
    assert [note.xy for note in axis.texts] == [(x, y) for x, y, *_ in words]
    assert {note.xyann for note in axis.texts} == {(3, 3)} and {note.get_fontsize() for note in axis.texts} == {7.0}
    colours = [tuple(dots.get_facecolor()[0]) for dots in axis.collections]
    assert len({*colours}) == 6 and colours[6] == colours[0]
    assert [text.get_text() for text in axis.get_legend().get_texts()] == list(drawn)
    assert {int(dots.get_sizes()[0]) for dots in axis.collections} == {12}


def test_panels_have_their_heights_and_axes_their_limits(tmp_path, figures):
    plot_training(TRAINING + VALIDATION, tmp_path / "a.png", title="almanac")
    figure = figures[0]
    assert figure.get_size_inches().tolist() == pytest.approx([8, 0.9 + 3.2 + 1.6 + 2.6 + 1.3])
    assert figure.axes[0].get_gridspec().get_height_ratios() == [3.2, 1.6, 2.6, 1.3]
    assert figure.axes[-1].get_xlim() == (0.0, 475 * 1.02) and figure.axes[-1].get_xlabel() == "updates"
    assert [axis.get_ylim()[0] for axis in (figure.axes[1], figure.axes[3])] == [0.0, 0.0]
    assert [axis.get_ylabel() for axis in figure.axes] == ["loss", "accuracy", "score on dev", "learning rate"]
    assert figure.axes[0].get_title(loc="left") == "almanac"
    assert [note.get_text() for note in figure.axes[2].texts] == ["40.0"] and figure.axes[2].texts[0].xy == (400, 40.0)
    plot_training([{"update": 0, "loss": 1.0}], tmp_path / "b.png")
    assert figures[1].axes[0].get_xlim() == (0.0, 1.02) and len(figures[1].axes) == 1
    assert figures[1].axes[0].get_title(loc="left") == ""
    for axis in figure.axes:
        assert [side for side, spine in axis.spines.items() if spine.get_visible()] == ["left", "bottom"]
        assert all(line.get_visible() for line in axis.get_xgridlines()) and axis.get_axisbelow() is True


@pytest.mark.parametrize(("losses", "scale"), [((1, 20), "linear"), ((1, 21), "log"), ((0, 21), "linear")])
def test_losses_of_many_sizes_are_drawn_on_a_logarithmic_axis(losses, scale, tmp_path, figures):
    rows = [{"update": u, "loss": float(loss)} for u, loss in enumerate((*losses, float("inf"), float("nan")))]
    plot_training(rows, tmp_path / "a.png")
    assert figures[0].axes[0].get_yscale() == scale
