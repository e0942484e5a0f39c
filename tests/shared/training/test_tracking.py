"""Trackers get what TensorBoard gets; they change nothing, and one that fails ends no training."""

import sys
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace

import pytest

from dragoman import DataError, Recipe, UsageError
from dragoman.runs.running import is_finished, run_recipe
from dragoman.shared.batches.stream import Budget
from dragoman.shared.recipe.run_keys import keys_of_a_result
from dragoman.shared.training import tracking
from dragoman.shared.training.history import History
from dragoman.shared.training.saving import Saver
from dragoman.shared.training.tracking import MLflow, Trackers, Wandb
from dragoman.shared.training.validation import Validation
from tests.small import refuses


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


def test_a_tracker_that_fails_is_left_out_and_ended(tmp_path):
    warnings, failing, well = [], Kept("track"), Kept()
    trackers = Trackers([failing, well, Kept("close")], warnings.append)
    trackers.begin(tmp_path)
    for update in (1, 2):
        trackers.track({"train/loss": 1.0}, update)
    trackers.close()
    assert len(well.got) == 2 and well.closed == failing.closed == 1
    said = ("has failed and gets nothing any more", "has failed at its end")
    assert warnings == [f"the tracker Kept {what}: the server is down" for what in said]
    begin = Trackers([begun := Kept(), Kept("begin")], [].append).begin
    refuses(UsageError, "the tracker Kept cannot begin: the server is down", begin, tmp_path)
    assert begun.closed == 1


@pytest.mark.parametrize("error", [DataError("the disk is full"), KeyboardInterrupt()])
def test_trackers_are_ended_after_an_error(world, workspace, monkeypatch, error):
    tracker = Kept()

    def fail(*_, **__):
        raise error

    monkeypatch.setattr(Saver, "save", fail)
    with pytest.raises(type(error)):
        world.fit(updates=2, trackers=[tracker]).run(workspace())
    assert (len(tracker.begun), tracker.closed) == (1, 1)


def test_trackers_have_names(world):
    [tracker] = world.fit(trackers="wandb").trackers
    assert (type(tracker), tracker.project, tracker.name, tracker.mode) == (Wandb, "dragoman", None, "online")
    first, second = world.fit(trackers=["mlflow", Wandb(project="p")]).trackers
    assert (type(first), first.experiment, second.project) == (MLflow, "dragoman", "p")
    assert world.fit().trackers == world.fit(trackers=[]).trackers == []
    said = r"is no tracker: give wandb, mlflow, or an object: \[!new:shared.training"
    for wrong in ("tensorboard", ["tensorboard"], [3]):
        refuses(UsageError, said, world.fit, trackers=wrong)


@pytest.mark.parametrize("given", ["wandb", "[wandb]", ["wandb"], "[wandb, mlflow]"])
def test_a_command_names_trackers_in_a_word(given, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("dragoman.shared.training.tracking.find_spec", lambda name: None)
    rows = "id\tsource_text\ttarget_text\n1\tone\teins\n"
    for split in ("train", "dev", "test"):
        (tmp_path / f"{split}.tsv").write_text(rows)
    keys = {"source_language": "en", "target_language": "de", "data_folder": ".", "trackers": given}
    recipe = Recipe.load("own/mt", keys)
    refuses(UsageError, r"needs the library wandb: pip install 'dragoman\[wandb\]'", run_recipe, recipe)


def test_wandb_is_called_as_it_asks(tmp_path, monkeypatch):
    calls = []
    run = SimpleNamespace(
        define_metric=lambda *given, **named: calls.append(("define", given, named)),
        log=lambda values: calls.append(("log", values)),
        finish=lambda: calls.append("finish"),
    )
    library(monkeypatch, "wandb", init=lambda **named: calls.append(named) or run)
    for project in ("talks", "talks", "other"):  # the second start goes on with the same run
        tracker = Wandb(project=project, mode="offline")
        tracker.begin(tmp_path)
        tracker.track({"train/loss": 2.5}, 25)
        tracker.close()
    first, define, log, finish, second, *_ = calls
    assert first == second and len(first.pop("id")) == 32
    assert calls[8]["project"] == "other" and calls[8]["id"] != second["id"]
    assert first == {
        "project": "talks", "name": str(tmp_path), "resume": "allow", "dir": str(tmp_path), "mode": "offline",
        "reinit": "create_new",
    }  # fmt: skip
    assert define == ("define", ("*",), {"step_metric": "update"})
    assert (log, finish) == (("log", {"train/loss": 2.5, "update": 25}), "finish")


@pytest.fixture
def mlflow(monkeypatch):
    """Put a library in place of MLflow's; ``calls`` is what it was asked, ``known`` the experiment that there is."""
    there = SimpleNamespace(calls=[], known=None, error=None)

    def wait():
        there.calls.append("waited")
        if there.error:
            raise there.error

    class Client:
        def __init__(self, tracking_uri):
            there.calls.append(tracking_uri)

        def get_experiment_by_name(self, name):
            return there.known

        def create_experiment(self, name):
            return f"new {name}"

        def create_run(self, experiment, run_name):
            there.calls.append((experiment, run_name))
            return SimpleNamespace(info=SimpleNamespace(run_id=f"r{len(there.calls)}"))

        def log_batch(self, run, metrics, synchronous):
            there.calls.append((run, [metric[:2] + metric[3:] for metric in metrics], synchronous))
            assert all(isinstance(metric[2], int) for metric in metrics)
            return SimpleNamespace(wait=wait)

        def set_terminated(self, run):
            there.calls.append(run)

    entities = ModuleType("mlflow.entities")
    entities.Metric = lambda *given: given
    monkeypatch.setitem(sys.modules, "mlflow.entities", entities)
    library(monkeypatch, "mlflow", MlflowClient=Client, get_tracking_uri=lambda: "by default", entities=entities)
    return there


@pytest.mark.parametrize("known", [None, SimpleNamespace(experiment_id="7")])
def test_mlflow_is_called_as_it_asks(tmp_path, mlflow, known):
    """All values of an update are one request, for which training does not wait."""
    mlflow.known = known
    for _ in range(2):
        tracker = MLflow(experiment="talks", uri="there")
        tracker.begin(tmp_path)
        tracker.track({"train/loss": 2.5, "validation/chrf++": 0.1}, 25)  # "+" is refused there
        tracker.close()
    values = [("r2", [("train/loss", 2.5, 25), ("validation/chrfpp", 0.1, 25)], False), "waited", "r2"]
    begun = (known.experiment_id if known else "new talks", str(tmp_path))
    assert mlflow.calls == ["there", begun, *values, "there", *values]


def test_another_server_or_experiment_gets_another_run(tmp_path, mlflow):
    for options in ({}, {"uri": "there"}, {"experiment": "other"}, {"uri": "by default"}):
        MLflow(**{"experiment": "talks"} | options).begin(tmp_path)
    begun = [call[0] for call in mlflow.calls if isinstance(call, tuple)]
    assert begun == ["new talks", "new talks", "new other"]
    assert len({file.read_text() for file in tmp_path.glob("mlflow.*.id")}) == 3


def test_what_mlflow_could_not_send_is_told_at_the_end(tmp_path, mlflow):
    warnings, mlflow.error = [], ConnectionError("the server is down")
    trackers = Trackers([MLflow(experiment="talks")], warnings.append)
    trackers.begin(tmp_path)
    trackers.track({"train/loss": 2.5}, 25)
    assert not warnings
    trackers.close()
    assert warnings == ["the tracker MLflow has failed at its end: the server is down"]
    assert mlflow.calls[-1] == "r2"


@pytest.mark.parametrize(("kind", "options"), [(Wandb, {"project": "p"}), (MLflow, {"experiment": "e"})])
def test_a_library_that_is_missing_is_named(monkeypatch, world, tmp_path, kind, options):
    """It is where training begins; what only builds a phase does without."""
    monkeypatch.setattr("dragoman.shared.training.tracking.find_spec", lambda name: None)
    fit = world.fit(trackers=[kind(**options)])
    library = kind.__name__.lower()
    said = rf"^the tracker needs the library {library}: pip install 'dragoman\[{library}\]'$"
    refuses(UsageError, said, fit.check_libraries)
    refuses(UsageError, said, Trackers(fit.trackers, [].append).begin, tmp_path)
    tracking.check_libraries([Kept()])


def test_a_library_that_is_missing_is_named_before_the_first_phase(monkeypatch, tmp_path):
    monkeypatch.setattr("dragoman.shared.training.tracking.find_spec", lambda name: None)
    file = tmp_path / "one.yaml"
    trackers = "[!new:shared.training.tracking.Wandb {project: p}]"
    phase = f"!new:tests.shared.running_parts.Tracked {{updates: 2, trackers: {trackers}}}"
    first = "!new:tests.shared.running_parts.Count {updates: 2}"
    file.write_text(f"output_folder: {tmp_path}/out\nphases:\n    first: {first}\n    fit: {phase}\n")
    recipe = Recipe.load(file)
    recipe.plan["fit"].build()
    refuses(UsageError, r"dragoman\[wandb\]", run_recipe, recipe)
    assert not (tmp_path / "out" / "work.txt").exists()


def test_a_recipe_names_trackers():
    keys = {"source_language": "en", "target_language": "de"}
    named = "[!new:shared.training.tracking.Wandb {project: talks}]"
    recipe = Recipe.load("own/mt", {"data_folder": "there", "trackers": named} | keys)
    recipe.check()
    [fit] = recipe.plan["fit"].plain.values()
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
    slow = Recipe.load(file, {"phases.fit.trackers": ["a"], "phases.fit.rate": 2.0})
    refuses(UsageError, r"other keys: phases.fit.rate nothing \(now 2.0\); to keep", run_recipe, slow)
    run_recipe(Recipe.load(file, {"phases.fit.trackers": ["b"], "phases.fit.updates": 3}))
    assert (tmp_path / "out" / "work.txt").read_text() == "fit1 fit2 fit3 "


def test_trackers_inside_of_a_phase_are_no_other_training(tmp_path):
    """Of a recipe that another runs, or of a phase that makes its Fit itself."""
    tracked = "tests.shared.running_parts.Tracked"
    (tmp_path / "inner.yaml").write_text(
        f"output_folder: {tmp_path}/in\nphases:\n    fit: !new:{tracked} {{updates: 2}}\n"
    )
    file = tmp_path / "outer.yaml"
    file.write_text(
        f"output_folder: {tmp_path}/out\nphases:\n"
        f"    asr: !new:dragoman.runs.RunRecipe {{recipe: {tmp_path}/inner.yaml}}\n"
        f"    tune: !new:tests.shared.running_parts.TrackedEach\n        fit: !name:{tracked} {{updates: 2}}\n"
    )
    run_recipe(Recipe.load(file))
    records = [tmp_path / "out" / "state" / f"{name}.json" for name in ("asr", "tune")]
    before = [record.read_text() for record in records]
    wandb = "[!new:shared.training.tracking.Wandb {project: p}]"
    given = {"phases.asr.phases.fit.trackers": wandb, "phases.tune.fit.trackers": wandb}
    recipe = Recipe.load(file, given)
    assert is_finished(recipe)
    run_recipe(recipe)
    assert [record.read_text() for record in records] == before
    assert keys_of_a_result(recipe.changed) == {}
    for key in ("phases.asr.phases.fit.rate", "phases.tune.fit.rate"):
        changed = Recipe.load(file, given | {key: 2.0})
        refuses(UsageError, rf"other keys: {key} nothing \(now 2.0\); to keep", run_recipe, changed)


def test_trackers_that_write_the_same_run(world):
    same = tracking._same
    assert same(Wandb(), Wandb()) and same(MLflow(uri="u"), MLflow(uri="u")) and not same(Wandb(), MLflow())
    for one, other in ((Wandb(project="a"), Wandb()), (Wandb(name="a"), Wandb()), (MLflow(uri="u"), MLflow()),
                       (MLflow(experiment="e"), MLflow())):  # fmt: skip
        assert not same(one, other)
    assert same(Wandb(mode="offline"), Wandb())
    both = tracking.check_trackers([Wandb(), Wandb(name="b"), "mlflow"])
    assert [type(one) for one in both] == [Wandb, Wandb, MLflow] and both[2].uri is None
    said = "^trackers: two MLflow would write the same run: leave one out$"
    refuses(UsageError, said, tracking.check_trackers, ["mlflow", MLflow()])
    refuses(UsageError, "two Wandb", world.fit, trackers=["wandb", Wandb()])


def test_an_interrupted_beginning_ends_what_has_begun(tmp_path):
    class Interrupted(Kept):
        def begin(self, folder):
            raise KeyboardInterrupt

    first, never = Kept("close"), Kept()
    with pytest.raises(KeyboardInterrupt):
        Trackers([first, Interrupted(), never], [].append).begin(tmp_path)
    assert first.begun == [tmp_path] and never.begun == [] and never.closed == 0
