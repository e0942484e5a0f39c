"""After early stopping, more patience or more updates go on, to the last bit as if they had been given at once."""

import dataclasses
import hashlib
import json

import pytest
import torch

from dragoman.shared.batches import mapped
from dragoman.shared.batches.stream import Budget
from dragoman.shared.objectives import CrossEntropy, EncoderDecoderObjective
from dragoman.shared.training.checkpoints import list_checkpoints
from dragoman.shared.training.history import History
from dragoman.shared.training.validation import Validation
from tests.shared.training import test_bad_runs
from tests.shared.training.test_bad_runs import files

dragoman, recipe = test_bad_runs.dragoman, test_bad_runs.recipe

#: The scores of validations, by update: the best one is the first until update 24.
SCORES = {4: 5.0, 8: 4.0, 12: 4.5, 16: 3.0, 20: 4.0, 24: 6.0, 28: 5.0, 32: 1.0, 36: 1.0}


class Told(EncoderDecoderObjective):
    """Knows the number of the update."""

    def at(self, update):
        self.update = update


class Scored(Validation):
    """Gives the scores above."""

    def judge(self, shares, objective, workspace):
        return dataclasses.replace(super().judge(shares, objective, workspace), score=SCORES[objective.update])


@pytest.fixture
def train(world, workspace):
    """Return a function that trains in a folder; it returns the update that the training ended with, and its state."""

    def run(name, *, patience, updates=36):
        validation = Scored(manifests=[str(world.manifest)], budget=Budget(rows=48), every=4, patience=patience)
        objective = Told(system=world.system(0.2), parts=[CrossEntropy(label_smoothing=0.1)])
        world.fit(objective=objective, updates=updates, validation=validation).run(workspace(name))
        last = list_checkpoints(workspace(name).folder / "checkpoints")[-1]
        rows = [row for row in History(workspace(name).folder).rows() if "score" in row]
        return last.update, last.tensors(), last.training()["optimizer"]["state"], rows

    return run


def assert_equal(one, other):
    assert one[0] == other[0] and one[3] == other[3]
    assert all(torch.equal(tensor, other[1][name]) for name, tensor in one[1].items())
    assert all(torch.equal(t, other[2][n][k]) for n, moments in one[2].items() for k, t in moments.items())


def test_more_patience_goes_on_to_the_last_bit(train):
    assert train("cut", patience=1)[0] == 8
    assert train("cut", patience=1)[0] == 8, "the same command has nothing left to do"
    assert train("cut", patience=3)[0] == 16
    assert_equal(train("cut", patience=5), whole := train("whole", patience=5))
    assert whole[0] == 36


def test_plans_that_are_mapped_train_and_go_on_to_the_last_bit(train, world, workspace, monkeypatch):
    """Plans that a killed start has left are not read by the next start."""
    plans = workspace("cut").folder / "plans"
    left = plans / f"table-{hashlib.blake2b(world.stream(8).name.encode(), digest_size=8).hexdigest()}"
    with monkeypatch.context() as patched:
        patched.setattr(mapped, "SMALLEST_MAPPED", 1)
        left.mkdir(parents=True)
        assert train("cut", patience=1)[0] == 8
        assert not plans.exists()
        left.mkdir(parents=True)
        found = train("cut", patience=5)
        assert not plans.exists()
    assert_equal(found, train("whole", patience=5))


def test_no_patience_at_all_goes_on_to_the_end(train):
    assert train("cut", patience=2)[0] == 12
    assert_equal(train("cut", patience=0), train("whole", patience=0))


def test_more_updates_are_given_the_patience_anew(train):
    assert train("cut", patience=2, updates=16)[0] == 12
    assert train("cut", patience=2, updates=20)[0] == 20, "validations up to update 12 are forgiven"
    assert train("cut", patience=2, updates=20)[0] == 20
    assert train("cut", patience=2, updates=36)[0] == 32, "the best is that of 24"


def test_a_validation_that_only_the_end_asked_for_costs_no_patience(train, monkeypatch):
    monkeypatch.setitem(SCORES, 10, 1.0)
    assert train("cut", patience=2, updates=10)[0] == 10
    assert train("cut", patience=2, updates=36)[0] == train("whole", patience=2, updates=36)[0] == 12


VALIDATION = "!new:shared.training.validation.Validation {manifests: [%s], every: 2, patience: 1, budget: %s}"


@pytest.mark.slow
def test_a_recipe_that_stopped_early_goes_on_with_more_patience(recipe, tmp_path, dragoman):
    """With a rate of nearly 0 no score is better than the first."""
    budget = "!new:shared.batches.stream.Budget {rows: 48}"
    text = recipe.read_text().replace("peak: 0.01", "peak: 1.0e-30").replace("updates: 4", "updates: 20")
    validation = "    validation: " + VALIDATION % (tmp_path / "train.arrow", budget) + "\n    updates: !ref <updates>"
    recipe.write_text(text.replace("    updates: !ref <updates>", validation))
    patience = "--fit.validation.patience"
    assert dragoman("run", recipe)[0] == 0
    assert newest(tmp_path / "out") == 4
    assert dragoman("run", recipe, patience, "3")[0] == 0
    assert newest(tmp_path / "out") == 8
    assert dragoman("run", recipe, patience, "3", "--output_folder", tmp_path / "whole")[0] == 0
    assert weights(tmp_path / "out") == weights(tmp_path / "whole")
    before = files(tmp_path / "out")
    code, line = dragoman("run", recipe, patience, "2")
    assert code == 2 and "other keys: fit.validation.patience 3 (now 2)" in line
    assert files(tmp_path / "out") == before
    assert dragoman("run", recipe, patience, "3", "--updates", "30")[0] == 0
    assert newest(tmp_path / "out") == 14
    assert dragoman("run", recipe, patience, "0", "--updates", "30")[0] == 0
    assert newest(tmp_path / "out") == 30
    assert json.loads((tmp_path / "out" / "state" / "fit.json").read_text())["status"] == "finished"


def newest(folder):
    return list_checkpoints(folder / "fit" / "checkpoints")[-1].update


def weights(folder):
    return {
        c.update: (c.folder / "objective.safetensors").read_bytes()
        for c in list_checkpoints(folder / "fit" / "checkpoints")
    }
