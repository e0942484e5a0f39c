"""The curve: a readable picture of what the rows say, also of few or odd rows."""

from __future__ import annotations

import matplotlib.image
import numpy as np
import pytest
from matplotlib.figure import Figure

from shared.evaluation.plots import plot_training

TRAINING = [
    {"update": u, "loss": 9 - u / 100, "parts": {"cross_entropy": 8.0, "accuracy": 0.1}, "lr": 1e-3}
    for u in range(25, 500, 25)
]
VALIDATION = [{"update": u, "validation": {"loss": 9 - u / 110, "bleu": u / 10}} for u in range(100, 500, 100)]


@pytest.mark.parametrize(
    "rows",
    [
        TRAINING + VALIDATION,
        TRAINING[:1],
        VALIDATION[:1],
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
