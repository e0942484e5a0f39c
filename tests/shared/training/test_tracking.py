"""Trackers get what TensorBoard gets; they change nothing, and one that fails ends no training."""

import sys
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace

import pytest

from shared.corpus.stream import Budget
from shared.errors import UsageError
from shared.recipe.recipe import Recipe
from shared.run.running import run_recipe
from shared.training.history import History
from shared.training.tracking import MLflow, Trackers, Wandb
from shared.training.validation import Validation


class Kept:
    """Keeps what it gets; ``fails`` names the method that raises."""

    def __init__(self, fails=""):
        self.fails, self.got, self.begun, self.closed = fails, [], [], 0

    def begin(self, folder):
        self._may_fail("begin")
        self.begun.append(folder)

    def track(self, values, update):
        self._may_fail("track")
        self.got.append((update, values))

    def close(self):
        self._may_fail("close")
        self.closed += 1

    def _may_fail(self, name):
        if name == self.fails:
            raise ConnectionError("the server is down")


def library(monkeypatch, name, **contents):
    """Put a module of this name where imports find it."""
    module = ModuleType(name)
    module.__dict__.update(contents, __spec__=ModuleSpec(name, None))
    monkeypatch.setitem(sys.modules, name, module)


def test_losses_and_scores_reach_a_tracker(world, workspace):
    tracker, place = Kept(), workspace()
    validation = Validation(manifests=[str(world.manifest)], budget=Budget(rows=16), every=30)
    world.fit(updates=30, validation=validation, trackers=[tracker]).run(place)
    assert (tracker.begun, tracker.closed) == ([place.folder], 1)
    rows = History(place.folder).rows()
    assert [update for update, _ in tracker.got] == [row["update"] for row in rows] == [25, 30, 30]
    assert tracker.got[0][1]["train/cross_entropy"] == rows[0]["parts"]["cross_entropy"]
    assert tracker.got[0][1]["train/lr"] == rows[0]["lr"]
    assert tracker.got[-1][1] == {"validation/loss": rows[-1]["validation"]["loss"]}


@pytest.mark.parametrize("options", [{"debug": True}, {"rank": 1, "world": 2}])
def test_trials_and_other_processes_are_not_tracked(world, workspace, options):
    tracker, place = Kept(), workspace(**options)
    trackers = Trackers([] if place.debug else [tracker], place.log.warning)
    history = History(place.folder, writing=place.main, trackers=trackers)
    if place.debug:
        world.fit(trackers=[tracker]).run(place)
    else:
        history.cut(0)
        history.add({"update": 1, "lr": 0.1})
        history.close()
    assert (tracker.begun, tracker.got, tracker.closed) == ([], [], 0)


def test_a_tracker_that_fails_is_left_out(tmp_path):
    warnings, well = [], Kept()
    trackers = Trackers([Kept("track"), well, Kept("close")], warnings.append)
    trackers.begin(tmp_path)
    for update in (1, 2):
        trackers.track({"train/loss": 1.0}, update)
    trackers.close()
    assert len(well.got) == 2 and well.closed == 1
    assert warnings == ["the tracker Kept has failed and gets nothing any more: the server is down"] * 2
    with pytest.raises(UsageError, match="the tracker Kept cannot begin: the server is down"):
        Trackers([Kept("begin")], warnings.append).begin(tmp_path)


def test_the_name_of_a_library_is_no_tracker(world):
    with pytest.raises(UsageError, match=r"trackers: 'wandb' is no tracker: .* !new:shared.training.tracking.Wandb or"):
        world.fit(trackers=["wandb"])


def test_wandb_is_called_as_it_asks(tmp_path, monkeypatch):
    calls = []
    run = SimpleNamespace(
        define_metric=lambda *given, **named: calls.append(("define", given, named)),
        log=lambda values: calls.append(("log", values)),
        finish=lambda: calls.append("finish"),
    )
    library(monkeypatch, "wandb", init=lambda **named: calls.append(named) or run)
    for _ in range(2):  # the second start goes on with the same run
        tracker = Wandb(project="talks", mode="offline")
        tracker.begin(tmp_path)
        tracker.track({"train/loss": 2.5}, 25)
        tracker.close()
    first, define, log, finish, second, *_ = calls
    assert first == second and len(first.pop("id")) == 32
    assert first == {
        "project": "talks", "name": str(tmp_path), "resume": "allow", "dir": str(tmp_path), "mode": "offline",
    }  # fmt: skip
    assert define == ("define", ("*",), {"step_metric": "update"})
    assert (log, finish) == (("log", {"train/loss": 2.5, "update": 25}), "finish")


@pytest.mark.parametrize("known", [None, SimpleNamespace(experiment_id="7")])
def test_mlflow_is_called_as_it_asks(tmp_path, monkeypatch, known):
    calls = []

    class Client:
        def __init__(self, tracking_uri):
            calls.append(tracking_uri)

        def get_experiment_by_name(self, name):
            return known

        def create_experiment(self, name):
            return f"new {name}"

        def create_run(self, experiment, run_name):
            calls.append((experiment, run_name))
            return SimpleNamespace(info=SimpleNamespace(run_id="r1"))

        def log_metric(self, run, name, value, step):
            calls.append((run, name, value, step))

        def set_terminated(self, run):
            calls.append(run)

    library(monkeypatch, "mlflow", MlflowClient=Client)
    for _ in range(2):
        tracker = MLflow(experiment="talks", uri="there")
        tracker.begin(tmp_path)
        tracker.track({"train/loss": 2.5, "train/lr": 0.1}, 25)
        tracker.close()
    values = [("r1", "train/loss", 2.5, 25), ("r1", "train/lr", 0.1, 25), "r1"]
    begun = (known.experiment_id if known else "new talks", str(tmp_path))
    assert calls == ["there", begun, *values, "there", *values]


@pytest.mark.parametrize(("kind", "options"), [(Wandb, {"project": "p"}), (MLflow, {"experiment": "e"})])
def test_a_library_that_is_missing_is_named(monkeypatch, kind, options):
    monkeypatch.setattr("shared.training.tracking.find_spec", lambda name: None)
    with pytest.raises(UsageError, match=rf"pip install 'dragoman\[{kind.__name__.lower()}\]'"):
        kind(**options)


def test_a_recipe_names_trackers():
    keys = {"source_language": "en", "target_language": "de"}
    named = "[!new:shared.training.tracking.Wandb {project: talks}]"
    recipe = Recipe.load("own/mt", {"data_folder": "there", "trackers": named} | keys)
    recipe.check()
    [fit] = recipe.plain("fit").values()
    assert fit["trackers"] == [{"!new:shared.training.tracking.Wandb": {"project": "talks"}}]


def test_other_trackers_are_no_other_training(tmp_path):
    """The record of a phase does not know them: runs from before there were any go on, too."""
    file = tmp_path / "one.yaml"
    phase = "!new:tests.shared.running_parts.Tracked {updates: 2}"
    file.write_text(f"output_folder: {tmp_path}/out\nphases:\n    fit: {phase}\n")
    run_recipe(Recipe.load(file))
    before = (tmp_path / "out" / "state" / "fit.json").read_text()
    run_recipe(Recipe.load(file, {"phases.fit.trackers": ["a"]}))
    assert (tmp_path / "out" / "work.txt").read_text() == "fit1 fit2 "
    assert (tmp_path / "out" / "state" / "fit.json").read_text() == before
    with pytest.raises(UsageError, match=r"other keys: phases.fit.rate nothing \(now 2.0\); to keep"):
        run_recipe(Recipe.load(file, {"phases.fit.trackers": ["a"], "phases.fit.rate": 2.0}))
    run_recipe(Recipe.load(file, {"phases.fit.trackers": ["b"], "phases.fit.updates": 3}))
    assert (tmp_path / "out" / "work.txt").read_text() == "fit1 fit2 fit3 "
