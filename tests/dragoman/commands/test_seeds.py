"""Seeds: every run once, failures reported, and tables of numbers that are known."""

from __future__ import annotations

import numpy as np
import pytest

import dragoman.commands.curves
import dragoman.commands.seeds
from dragoman import DataError, Recipe, UsageError
from dragoman.commands.curves import run_curve
from dragoman.commands.seeds import run_seeds
from dragoman.runs.running import run_recipe
from dragoman.shared.evaluation.results import read
from tests.dragoman.commands import pretending
from tests.dragoman.commands.pretending import LINES, RECIPE
from tests.small import refuses


def comparisons(folder, metric=None):
    """Return the rows of a table that compare two recipes."""
    rows = [row for row in read(folder / "results.jsonl") if row.get("kind") == "comparison"]
    return [row for row in rows if metric in (None, row["metric"])]


@pytest.fixture
def recipes(tmp_path, monkeypatch):
    """Two recipes, the first better than the second; they are run in this process."""
    started = []
    popen = dragoman.commands.seeds.subprocess.Popen

    def run(words, **options):
        if "dragoman" not in words:
            return popen(words, **options)
        arguments = words[words.index("run") + 1 :]
        started.append(arguments[-1])

        class Process:
            def wait(self):
                try:
                    run_recipe(Recipe.load(arguments[0], arguments[1:]))
                except (DataError, UsageError):
                    return 1
                return 0

        return Process()

    monkeypatch.setattr(dragoman.commands.seeds.subprocess, "Popen", run)
    for name, share in (("good", 0.1), ("poor", 0.4)):
        text = RECIPE.format(folder=tmp_path / "runs", name=name, share=share, module=pretending.__name__)
        (tmp_path / f"{name}.yaml").write_text(text.replace("output_folder: ", "output_folder: !ref "))
    return tmp_path / "good.yaml", tmp_path / "poor.yaml", started


def test_mean_and_spread(recipes, tmp_path, capsys):
    good, _, started = recipes
    assert run_seeds(str(good), [], seeds=[1, 2, 3])
    out = capsys.readouterr().out
    values = []
    for seed in (1, 2, 3):
        [row] = [r for r in read(tmp_path / "runs" / "good" / str(seed) / "results.jsonl") if r["metric"] == "wer"]
        values.append(row["value"])
    [line] = [line.split() for line in out.splitlines() if line.startswith("wer")]
    mean = sum(values) / 3
    deviation = (sum((value - mean) ** 2 for value in values) / 2) ** 0.5
    assert line == ["wer", *(f"{v:.2f}" for v in values), f"{mean:.2f}", f"{deviation:.2f}"]
    rows = read(tmp_path / "runs" / "good" / "results.jsonl")
    collected = {r["seed"]: r["value"] for r in rows if r["metric"] == "wer"}
    assert collected == dict(zip((1, 2, 3), values, strict=True))
    assert f"| wer | 3 | {mean:.1f} ± {deviation:.1f} |" in (tmp_path / "runs" / "good" / "RESULTS.md").read_text()
    assert started == ["1", "2", "3"]
    assert run_seeds(str(good), [], seeds=[1, 2, 3, 4]) and started == ["1", "2", "3", "4"]  # what is there stays
    with pytest.raises(DataError, match="no run was completed"):  # its folder holds that of other keys
        run_seeds(str(good), ["--share", "0.3"], seeds=[1])


def test_results_of_debugging_are_in_a_folder_of_their_own(recipes, tmp_path, capsys):
    good, poor, _ = recipes
    assert run_seeds(str(good), ["--debug"], seeds=[1, 2])
    assert run_seeds(str(good), ["--debug"], seeds=[1, 2], against=str(poor))
    assert run_curve(str(good), ["--debug"], over="share=0.2,0.3", seeds=[1, 2])
    tables = {path.parent.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("RESULTS.md")}
    assert {"runs/good-debug", "runs-debug"} <= tables and not {"runs", "runs/good"} & tables
    assert "results.jsonl" not in {path.name for path in (tmp_path / "runs" / "good").iterdir()}


def test_tests_in_several_directions_are_a_table_of_sources_by_targets(recipes, tmp_path, capsys):
    good, _, _ = recipes
    assert run_seeds(str(good), ["--splits", "[de-en/test, en-de/test, de-fr/test]"], seeds=[1, 2])
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    [mean] = {line[3] for line in lines if line[:1] == ["wer"]}
    shown = f"{float(mean):.1f}"
    place = lines.index("A: wer on test, sources by targets".split())
    rows = [["de", "en", "fr", "mean"], ["de", shown, shown, shown], ["en", shown, shown], ["mean", *[shown] * 4]]
    assert lines[place + 1 : place + 5] == rows


def test_means_over_directions_are_compared_and_kept(recipes, tmp_path, capsys):
    good, poor, _ = recipes
    splits = ["--splits", "[de-en/test, en-de/test, de-fr/test, fr-de/test, en-fr/test]"]
    against = f"{poor} --splits '{splits[1]}'"
    assert run_seeds(str(good), splits, seeds=[1, 2, 3], against=against, into=tmp_path / "table")
    out = capsys.readouterr().out
    place = out.splitlines().index("A against B on test, mean of 5 directions")
    shown = {line.split()[0]: line.split() for line in out.splitlines()[place + 2 : place + 4]}
    found = read(tmp_path / "table" / "results.jsonl")
    [of_one] = [row for row in comparisons(tmp_path / "table", "wer") if row["split"] == "de-en/test"]
    [row] = [r for r in found if r.get("kind") == "comparison of means" and r["metric"] == "wer"]
    assert row["split"] == "de-en/test, de-fr/test, en-de/test, en-fr/test, fr-de/test" and row["lines"] == 5 * LINES
    assert row["value"] == of_one["value"] == pytest.approx(float(shown["wer"][1]))  # the outputs are the same in all
    assert row["low"] > of_one["low"] and row["high"] < of_one["high"]  # sentences are drawn in each by themselves
    assert (row["against"], row["seeds"], row["p"] < 0.05) == ("poor", [1, 2, 3], True)
    text = (tmp_path / "table" / "RESULTS.md").read_text()
    [line] = [line for line in text.splitlines() if line.startswith("| good |") and "| wer |" in line]
    assert f", {row['value']:+.1f} better | poor splits=" in line


def test_against_another_recipe(recipes, tmp_path, capsys):
    good, poor, started = recipes
    assert run_seeds(str(good), [], seeds=[1, 2, 3], against=str(poor), into=tmp_path / "table", command="dragoman x")
    assert started == ["1", "1", "2", "2", "3", "3"]
    out = capsys.readouterr().out
    lines = [line.split() for line in out.splitlines()]
    assert ["share", "0.1", "0.4"] in lines and "WARNING" not in out
    rows = read(tmp_path / "table" / "results.jsonl")
    found = {row["metric"]: row for row in comparisons(tmp_path / "table")}
    assert [line[-1] for line in lines if line and line[0] in found][-2:] == ["better", "better"]
    assert found["wer"]["value"] < 0 < found["bleu"]["value"] and found["wer"]["p"] < 0.05
    assert found["wer"]["against"] == "poor" and "p seed 1  p seed 2  p seed 3" in out
    single = [r for r in rows if "kind" not in r and r["metric"] == "wer"]
    means = [np.mean([r["value"] for r in single if r["recipe"] == recipe]) for recipe in ("good", "poor")]
    assert found["wer"]["value"] == pytest.approx(means[0] - means[1], abs=0.02)
    text = (tmp_path / "table" / "RESULTS.md").read_text()
    assert f", {found['wer']['value']:+.1f} better | poor |" in text

    assert run_seeds(str(good), [], seeds=[1, 2, 3], against=str(poor), into=tmp_path / "table", command="dragoman x")
    assert (tmp_path / "table" / "RESULTS.md").read_text() == text and len(started) == 6


def test_against_an_arm(recipes, tmp_path, capsys):
    good, poor, started = recipes
    into = tmp_path / "table"
    assert run_seeds(str(good), ["--batch", "7"], seeds=[1, 2], against="careless", into=into)
    assert len(started) == 4 and (tmp_path / "runs" / "good-careless" / "2" / "recipe.yaml").is_file()
    assert ["share", "0.1", "0.5"] in [line.split() for line in capsys.readouterr().out.splitlines()]
    found = comparisons(into)
    compared = {(r["recipe"], r.get("arm"), r["against"], r["against_arm"]) for r in found}
    assert compared == {("good", None, "good", "careless")}
    assert all(r["keys"] == r["against_keys"] == {"batch": 7} and r["p"] < 0.05 for r in found)
    lines = (into / "RESULTS.md").read_text().splitlines()
    cells = [[cell.strip() for cell in line.split("|")[1:5]] for line in lines if "| bleu |" in line]
    assert ["good", "careless", "batch=7", "bleu"] in cells
    assert any("better | careless batch=7 |" in line for line in lines)
    assert run_seeds(str(good), [], seeds=[1, 2], arm="half", against=f"{poor} --arm careless", into=into)
    compared = "arm", "against", "against_arm"
    assert tuple(comparisons(into)[-1][key] for key in compared) == ("half", "poor", "careless")
    assert "WARNING: batches differ" in capsys.readouterr().out
    assert run_seeds(str(good), [], seeds=[1, 2], arm="half", against="careless+half", into=into)
    assert (tmp_path / "runs" / "good-careless-half" / "2" / "recipe.yaml").is_file()
    assert tuple(comparisons(into)[-1][key] for key in compared) == ("half", "good", "careless+half")


def test_the_same_against_itself_is_no_better(recipes, tmp_path, capsys):
    good, _, _ = recipes
    against = f"{good} --output_folder '!ref {tmp_path}/again/<seed>'"
    assert run_seeds(str(good), [], seeds=[1, 2], against=against, into=tmp_path)
    assert [(row["value"], row["p"]) for row in comparisons(tmp_path)] == [(0, 1)] * 2
    out = capsys.readouterr().out
    assert "the recipes have the same keys and values" in out
    ends = [line.split()[4:7] for line in out.splitlines() if line.endswith("no significant difference")]
    assert ends == [["1.0000"] * 3] * 2  # of all seeds, and of each


def test_a_failed_seed_is_reported_and_others_go_on(recipes, tmp_path, capsys):
    good, poor, _ = recipes
    assert run_seeds(str(good), [], seeds=[1, 2, 3], against=f"{poor} --fails 2", into=tmp_path) is False
    out = capsys.readouterr().out
    assert f"FAILED: B, seed 2 (its log: {tmp_path / 'runs' / 'poor' / '2' / 'log.txt'})" in out
    [row] = comparisons(tmp_path, "wer")
    assert (row["seeds"], row["against_seeds"]) == ([1, 2, 3], [1, 3])
    assert "p seed 1  p seed 3" in out
    refuses(DataError, "no run was completed", run_seeds, str(good), ["--fails", "7"], seeds=[7])


@pytest.mark.parametrize(
    ("own", "said"),
    [
        ("--updates 20", "updates differ"),
        ("--updates 20", "batches of the first stream: 10 and 20"),
        ("--batch 6", "batches differ"),
        ("--phases.evaluate.streams '[{}, {weight: 4.0}]'", "batches of the first stream: 10 and 2"),
        ("--phases.evaluate.objective '{encoder: {layers: 4}, below: [{layers: 2}]}'", "layers: 0 and 6"),
        ("--phases.evaluate.objective '{encoder: {layers: 4}, convolutions: {layers: [8, 16]}}'", "layers: 0 and 4"),
    ],
)
def test_unequal_arms_are_warned_of(recipes, capsys, own, said):
    good, poor, _ = recipes
    run_seeds(str(good), [], seeds=[1, 2], against=f"{poor} {own}")
    assert f"WARNING: {said}, so that a difference of scores" in capsys.readouterr().out


def test_wrong_usage_is_refused_before_anything_runs(recipes, tmp_path):
    good, elsewhere = str(recipes[0]), ["--output_folder", str(tmp_path / "x")]
    refuses(UsageError, "must be different numbers, not 1,1", run_seeds, good, [], seeds=[1, 1])
    refuses(UsageError, "put <seed> into output_folder", run_seeds, good, elsewhere, seeds=[1, 2])
    refuses(UsageError, "both recipes would run in", run_seeds, good, [], seeds=[1], against=f"{good} --updates 5")
    refuses(UsageError, "widht", run_seeds, good, ["--widht", "5"], seeds=[1, 2])
    refuses(UsageError, "neither a file nor an installed recipe", run_seeds, good, [], seeds=[1], against="carless")
    why = "recipes/almanac/lass.yaml: phases evaluate, wrong_masks test the same manifests: choose one with --phase"
    refuses(UsageError, why, run_seeds, "almanac/lass", [f"--results_folder={tmp_path}/results"], seeds=[1])
    assert {path.name for path in tmp_path.iterdir()} == {"good.yaml", "poor.yaml"}


def test_a_curve_over_a_key_has_the_means_of_each_value(recipes, tmp_path, capsys, monkeypatch):
    good, _, started = recipes
    drawn = []
    plot = lambda panels, path, **axes: drawn.append((panels, path, axes)) or True  # noqa: E731
    monkeypatch.setattr(dragoman.commands.curves, "plot_curves", plot)
    assert run_curve(str(good), [], over="share=0.2, 0.8,0.5", seeds=[1, 2], against="half --updates 5")
    lines = capsys.readouterr().out.splitlines()
    place = lines.index("wer on x/test, mean and deviation over seeds")
    table = {row[0]: row[1:] for row in map(str.split, lines[place + 1 : place + 5]) if row}
    assert table["share"] == ["A", "deviation", "B", "deviation"] and [*table] == ["share", "0.2", "0.8", "0.5"]
    runs = {"0.2": "good-share-0.2", "0.8": "good-share-0.8", "0.5": "good-share-0.5"}
    for value, name in runs.items():
        rows = [row for seed in (1, 2) for row in read(tmp_path / "runs" / name / str(seed) / "results.jsonl")]
        first, second = (row["value"] for row in rows if row["metric"] == "wer")
        shown = [f"{(first + second) / 2:.2f}", f"{abs(first - second) / 2**0.5:.2f}"]
        assert table[value][:2] == shown and float(table[value][2]) > 0
    assert started == ["1", "1", "2", "2"] * 3
    [(panels, path, axes)] = drawn
    assert (path, axes) == (tmp_path / "runs" / "curve-share.png", {"x": "share", "y": "bleu"})
    [curves] = panels.values()
    assert [curve.label for curve in curves] == ["A", "B"]
    assert [value for value, _ in curves[0].points] == [0.2, 0.5, 0.8]
    means = [np.mean(scores) for _, scores in curves[0].points]
    assert means == sorted(means, reverse=True)  # the more lines are wrong, the lower


def test_runs_whose_folders_depend_on_the_key_are_those_of_the_recipe(recipes, tmp_path, capsys):
    good, _, started = recipes
    good.write_text(good.read_text().replace("/<seed>\n", "-<share>/<seed>\n"))
    assert run_seeds(str(good), ["--share", "0.3"], seeds=[1])
    assert run_curve(str(good), [], over="share=0.3,0.6", seeds=[1], into=tmp_path / "table")
    assert started == ["1", "1"] and (tmp_path / "runs" / "good-0.6" / "1").is_dir()
    assert {row["keys"]["share"] for row in read(tmp_path / "table" / "results.jsonl")} == {0.3, 0.6}
    assert (tmp_path / "table" / "curve-share.png").stat().st_size > 1000


@pytest.mark.parametrize("over", ["share", "share=", "share=1", "share=1,1", "=1,2", "share=1,,2"])
def test_what_is_no_curve_is_refused(recipes, over):
    refuses(UsageError, "--over must be KEY=VALUE,VALUE", run_curve, str(recipes[0]), [], over=over, seeds=[1])
