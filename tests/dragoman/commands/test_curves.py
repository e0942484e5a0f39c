"""Curves of ``dragoman seeds --over``: what is drawn. What is run and printed: test_seeds.py."""

from matplotlib.figure import Figure

from dragoman.commands.curves import Curve, plot_curves


def test_curves_are_means_with_bars_over_seeds(tmp_path, monkeypatch):
    save, figures = Figure.savefig, []
    monkeypatch.setattr(Figure, "savefig", lambda self, *a, **k: (figures.append(self), save(self, *a, **k))[1])
    curves = [Curve("A", [(100, [1.0, 3.0]), (1000, [4.0, 8.0, 9.0])]), Curve("B", [(100, [5.0])])]
    assert plot_curves({"x/test": curves, "y": [Curve("C", [(0, [1.0])])]}, tmp_path / "c.png", x="pairs", y="bleu")
    assert (tmp_path / "c.png").is_file()
    first, second = figures[0].axes
    drawn = {bars.get_label(): bars for bars in first.containers}
    assert [*drawn] == ["A", "B"] and drawn["A"].lines[0].get_xydata().tolist() == [[100, 2], [1000, 7]]
    [bars] = drawn["A"].lines[2]
    assert [segment.tolist() for segment in bars.get_segments()] == [[[100, 1], [100, 3]], [[1000, 4], [1000, 9]]]
    assert (first.get_xscale(), second.get_xscale()) == ("log", "linear")
    assert (first.get_xlabel(), first.get_ylabel(), first.get_title(loc="left")) == ("pairs", "bleu", "x/test")
    assert not plot_curves({}, tmp_path / "d.png", x="", y="") and not (tmp_path / "d.png").exists()
