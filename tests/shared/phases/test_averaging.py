"""Averages of checkpoints: exact means of the system's tensors, of checkpoints that are good."""

import json
from dataclasses import replace
from fractions import Fraction

import pytest
import torch
from safetensors.torch import load_file

from dragoman import GreedySearch, System
from dragoman.shared.batches.stream import Budget
from dragoman.shared.objectives import CrossEntropy, EncoderDecoderObjective
from dragoman.shared.phases.averaging import Average, Standard, average
from dragoman.shared.training.checkpoints import Checkpoints, list_checkpoints
from dragoman.shared.training.validation import Validated, Validation
from tests.shared.training import conftest
from tests.shared.training.test_checkpoints import save
from tests.shared.training.test_resuming import Told

world, workspace = conftest.world, conftest.workspace


def test_average_is_exact_where_float32_would_lose_small_numbers(tmp_path):
    """2**-24 vanishes beside 1 in float32; two of them do not in the mean."""
    checkpoints = Checkpoints(keep="last 3")
    values = [1.0, 2.0**-24, 2.0**-24]
    for update, value in enumerate(values, start=1):
        save(checkpoints, tmp_path, update, value=value)
    exact = float(sum(map(Fraction, values)) / 3)
    mean = average(list_checkpoints(tmp_path))["weight"]
    assert mean.dtype == torch.float32
    assert mean.tolist() == torch.tensor([[exact, exact]], dtype=torch.float64).float().tolist()
    assert mean[0, 0] != torch.tensor(1.0) / 3


SCORES = {4: 1.0, 8: 34.0, 12: 36.0, 16: 70.0, 20: 30.0}


class Scored(Validation):
    """Gives checkpoints the scores above, and an average the one that it is told to."""

    average = None
    metric = "bleu"

    def judge(self, shares, objective, workspace):
        return replace(super().judge(shares, objective, workspace), score=SCORES[objective.update])

    def measure(self, system, workspace):
        return None if self.average is None else Validated({"bleu": self.average}, self.average)


@pytest.fixture
def averaged(world, workspace, caplog):
    """Train, average, and return what the model folder says, the model and the log."""

    def run(choice, score=None, updates=20):
        validation = Scored(manifests=[str(world.manifest)], budget=Budget(rows=48), every=4)
        validation.metric = "loss"
        objective = Told(system=world.system(), parts=[CrossEntropy()])
        checkpoints = Checkpoints(keep="last 9", every=4)
        fit, place = workspace(), workspace()
        place.phase = "average"
        world.fit(objective=objective, updates=updates, validation=validation, checkpoints=checkpoints).run(fit)
        validation.metric, validation.average = "bleu", score
        with caplog.at_level("INFO", "dragoman"):
            Average(fit=str(fit.folder), checkpoints=choice, validation=validation).run(place)
        note = json.loads((place.folder / "model" / "averaged.json").read_text())
        system = System.load(place.folder / "model")
        tensors = [
            load_file(fit.folder / "checkpoints" / f"{u:08d}" / "objective.safetensors") for u in note["updates"]
        ]
        for name, tensor in system.state_dict().items():
            mean = torch.stack([own[f"system.{name}"].double() for own in tensors]).mean(0)
            torch.testing.assert_close(tensor.double(), mean, atol=1e-6, rtol=0)
        return note, caplog.text

    return run


LEFT_OUT = "left out of the average: the model had not learned yet at updates"
WORSE = "warning: the average is clearly worse than the best checkpoint, which is taken alone"
AVERAGED = [  # choice, score of the average; updates, choice and score that are noted; of LEFT_OUT, WORSE what is said
    # 34 is less than half of 70, 36 is more; 30, after the best one, is no matter of learning
    *((choice, 71.2, [12, 16, 20], f"{choice[:4]} 3", 71.2, {LEFT_OUT}) for choice in ("last 5", "best 5", "last 9")),
    ("last 3", 70.5, [12, 16, 20], "last 3", 70.5, set()),
    ("last 3", 68.7, [12, 16, 20], "last 3", 68.7, set()),  # a little worse
    ("last 3", 68.5, [16], "best 1", 70.0, {WORSE}),
    ("last 1", 0.0, [20], "last 1", 30.0, set()),  # the one that was asked for
    ("last 4", None, [12, 16, 20], "last 3", None, {LEFT_OUT}),
]


@pytest.mark.parametrize(("choice", "score", "updates", "averaging", "noted", "said"), AVERAGED)
def test_checkpoints_that_are_good_are_averaged(averaged, choice, score, updates, averaging, noted, said):
    note, log = averaged(choice, score)
    assert (sorted(note["updates"]), note["averaging"], note["score"]) == (updates, averaging, noted)
    assert {text for text in (LEFT_OUT, WORSE) if text in log} == said
    order = "16, 12, 20" if choice == "best 5" else "12, 16, 20"
    assert not score or f"average of updates {order}: bleu {score}, best single bleu 70.0" in log


@pytest.mark.parametrize(
    ("score", "best", "worst", "share", "worse"),
    [
        (63.1, 70.0, 0.0, 0.1, False),  # BLEU
        (62.9, 70.0, 0.0, 0.1, True),
        (30.0, 30.5, 29.9, 0.1, False),  # a model that was good from the start: what differs is noise
        (-12.0, -10.0, -100.0, 0.1, False),  # WER: 2 of 90 points
        (-20.0, -10.0, -100.0, 0.1, True),
        (-2.3, -2.0, -6.0, 0.1, False),  # a loss
        (-2.5, -2.0, -6.0, 0.1, True),
        (0.0, 0.0, 0.0, 0.1, False),
    ],
)
def test_worse_by_a_share_of_the_best_and_of_the_way_to_it(score, best, worst, share, worse):
    assert Standard(None, best, worst).is_worse(score, share) is worse


def test_a_model_is_measured_as_in_training(world, workspace):
    """The loss aside, its translations have the scores that a validation gives them, in one process of several."""
    validation = Validation(
        manifests=[str(world.manifest)], budget=Budget(rows=16), search=GreedySearch(), metrics=["chrf"], metric="chrf"
    )
    objective = EncoderDecoderObjective(system=world.system(), parts=[CrossEntropy()])
    place = workspace()
    judged = validation.judge([validation.share(objective, world.stream(), place)], objective, place)
    place.world = 2
    measured = validation.measure(objective.system, place)
    assert measured.score == judged.score and measured.values == {"chrf": judged.values["chrf"]}
    validation.metric = "loss"
    assert validation.measure(objective.system, place) is None
    assert validation.shown(-2.5) == "loss 2.500"
