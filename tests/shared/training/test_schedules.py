"""Schedules against hand values."""

from types import SimpleNamespace

import pytest
import torch

from dragoman.shared.errors import UsageError
from dragoman.shared.training.notes import alternating_notes
from dragoman.shared.training.schedules import (
    Constant,
    Cosine,
    InverseSquareRoot,
    Linear,
    PiecewiseLinear,
    Steps,
    TriStage,
)
from tests.small import refusal, refuses


def stages(**changes):
    return TriStage(**{"peak": 1.0, "total": 100, "shares": [0.1, 0.4, 0.5]} | changes)


@pytest.mark.parametrize(
    ("schedule", "values"),
    [
        (InverseSquareRoot(peak=2e-3, warmup=10_000), {1: 2e-7, 5_000: 1e-3, 10_000: 2e-3, 40_000: 1e-3}),
        (InverseSquareRoot(peak=4.0, warmup=4, initial=2.0), {1: 2.5}),
        (InverseSquareRoot(peak=4.0, warmup=1), {4: 2.0}),
        (Linear(peak=1.0, total=110, warmup=10), {5: 0.5, 10: 1.0, 60: 0.5, 110: 0.0, 200: 0.0}),
        (Linear(peak=1.0, total=1), {0: 1.0, 1: 0.0, 2: 0.0}),
        (Linear(peak=2.0, total=4, final=1.0), {0: 2.0, 2: 1.5, 4: 1.0, 9: 1.0}),
        (Linear(peak=2.0, total=3, warmup=2), {1: 1.0}),
        (Cosine(peak=2.0, total=2), {0: 2.0, 1: 1.0, 2: 0.0, 3: 0.0}),
        (Constant(peak=0.1, warmup=10), {1: 0.01, 10: 0.1, 99: 0.1}),
        (Constant(peak=2.0), {0: 2.0, 1: 2.0}),
        (Constant(peak=2.0, warmup=1), {1: 2.0}),
        (
            stages(total=1000, initial_scale=0.01, final_scale=0.05),
            {0: 0.01, 50: 0.505, 100: 1.0, 499: 1.0, 750: 0.05**0.5, 1000: 0.05, 5000: 0.05},
        ),
        (stages(shares=[0, 0, 1]), {0: 1.0, 50: 0.1, 100: 0.01}),
        (stages(shares=[0, 1, 0]), {0: 1.0, 99: 1.0, 100: 1.0, 500: 1.0}),
        (stages(shares=[1, 0, 0], initial_scale=0), {0: 0.0, 25: 0.25, 100: 1.0}),
        (stages(shares=[0.5, 0.25, 0.25]), {0: 0.01, 60: 1.0}),
        (Steps(values=[0.0, 0.5, 1], after=[3, 5]), {1: 0.0, 3: 0.0, 4: 0.5, 5: 0.5, 6: 1.0, 7: 1.0}),
        (Steps(values=[3], after=[]), {7: 3.0}),
        (
            PiecewiseLinear(values=[1.0, 0.1, 0.4], at=[0, 10, 16]),
            {0: 1.0, 1: 0.91, 5: 0.55, 10: 0.1, 13: 0.25, 16: 0.4, 17: 0.4, 1000: 0.4},
        ),
        (PiecewiseLinear(values=[2, 3], at=[5, 7]), {1: 2.0, 9: 3.0}),
        (PiecewiseLinear(values=[3.0], at=[5]), {1: 3.0, 9: 3.0}),
    ],
)
def test_values_by_hand(schedule, values):
    found = {update: schedule(update) for update in values}
    assert found == pytest.approx(values) and all(isinstance(value, float) for value in found.values())


def test_stages_are_whole_updates():
    whole = stages(total=10, shares=[0.19, 0.29, 0.52])
    assert (whole.warmup, whole.hold, whole.decay) == (1, 2, 7)
    assert stages(shares=[0.1, 0.4, 0.5000005]).decay == 50


def test_what_is_said_of_impossible_settings():
    for kind in (Linear, Cosine):
        said = "warmup must end before total, which is 5, not at 5"
        assert refusal(UsageError, kind, peak=1.0, total=5, warmup=5) == said
    for shares in ([0.5, 0.5], [0.5, 0.4, 0.0], [1.5, -0.5, 0]):
        said = f"shares must be three numbers that add up to 1, not {shares}"
        assert refusal(UsageError, stages, shares=shares) == said
    for values, after in (([0.0], [3]), ([1.0], [2]), ([0.0, 1.0], [0]), ([0.0, 1.0, 2.0], [3, 3])):
        said = f"steps need one value more than updates, and rising updates, not {values} and {after}"
        assert refusal(UsageError, Steps, values=values, after=after) == said
    for values, at in (([], []), ([1.0], [1, 2]), ([1.0, 2.0], [3, 3])):
        refuses(UsageError, "as many values as rising updates are needed", PiecewiseLinear, values=values, at=at)


def test_cosine_against_torch():
    schedule = Cosine(peak=0.5, total=110, warmup=10, final=0.1)
    optimizer = torch.optim.SGD([torch.zeros(1)], lr=0.5)
    expected = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 100, eta_min=0.1)
    for update in range(10, 110):
        assert schedule(update) == pytest.approx(expected.get_last_lr()[0])
        optimizer.step()
        expected.step()
    assert [schedule(update) for update in (0, 5, 60, 110, 500)] == pytest.approx([0.0, 0.25, 0.3, 0.1, 0.1])


@pytest.mark.parametrize(
    ("weights", "needed"), [((1.0, 1.0), 2), ((1.0, 3.0), 4), ((1.0, 0.5), 3), ((0.5, 0.25, 1.0), 7), ((2.0, 2.0), 2)]
)
def test_streams_that_alternate_are_said(weights, needed):
    streams = [SimpleNamespace(weight=weight) for weight in weights]
    (note,) = alternating_notes(streams, needed - 1)
    assert note.startswith(f"warning: updates alternate between the tasks of {len(weights)} streams")
    assert f"with {needed}, an update adds up the losses of all" in note
    assert alternating_notes(streams, needed) == [] == alternating_notes(streams[:1], 1)
