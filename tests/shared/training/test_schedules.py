"""Schedules against hand values."""

from types import SimpleNamespace

import pytest
import torch

from dragoman.shared.errors import UsageError
from dragoman.shared.training.notes import alternating_notes, warm_up_notes
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


def test_inverse_square_root():
    schedule = InverseSquareRoot(peak=2e-3, warmup=10_000)
    assert schedule(1) == pytest.approx(2e-7)
    assert schedule(5_000) == pytest.approx(1e-3)
    assert schedule(10_000) == pytest.approx(2e-3)
    assert schedule(40_000) == pytest.approx(1e-3)


def test_linear():
    schedule = Linear(peak=1.0, total=110, warmup=10)
    assert [schedule(u) for u in (5, 10, 60, 110, 200)] == pytest.approx([0.5, 1.0, 0.5, 0.0, 0.0])


def test_cosine_against_torch():
    schedule = Cosine(peak=0.5, total=110, warmup=10, final=0.1)
    optimizer = torch.optim.SGD([torch.zeros(1)], lr=0.5)
    expected = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 100, eta_min=0.1)
    for update in range(10, 110):
        assert schedule(update) == pytest.approx(expected.get_last_lr()[0])
        optimizer.step()
        expected.step()
    assert [schedule(update) for update in (0, 5, 60, 110, 500)] == pytest.approx([0.0, 0.25, 0.3, 0.1, 0.1])


def test_tri_stage():
    schedule = TriStage(peak=1.0, total=1000, shares=[0.1, 0.4, 0.5], initial_scale=0.01, final_scale=0.05)
    assert schedule(0) == pytest.approx(0.01)
    assert schedule(50) == pytest.approx(0.505)
    assert schedule(100) == schedule(499) == pytest.approx(1.0)
    assert schedule(750) == pytest.approx(0.05**0.5)
    assert schedule(1000) == schedule(5000) == pytest.approx(0.05)


def test_constant():
    assert [Constant(peak=0.1, warmup=10)(u) for u in (1, 10, 99)] == pytest.approx([0.01, 0.1, 0.1])


def test_a_warm_up_that_outlasts_the_training_is_a_warning():
    (note,) = warm_up_notes(InverseSquareRoot(peak=0.002, warmup=10_000), 2_500)
    assert "warm-up takes 10,000 updates, the training only 2,500" in note
    assert "ends at 0.0005," in note  # a quarter of the peak
    assert warm_up_notes(InverseSquareRoot(peak=0.002, warmup=10_000), 10_000) == []
    assert warm_up_notes(lambda update: 0.1, 1) == []


@pytest.mark.parametrize(
    ("weights", "needed"), [((1.0, 1.0), 2), ((1.0, 3.0), 4), ((1.0, 0.5), 3), ((0.5, 0.25, 1.0), 7), ((2.0, 2.0), 2)]
)
def test_streams_that_alternate_are_said(weights, needed):
    streams = [SimpleNamespace(weight=weight) for weight in weights]
    (note,) = alternating_notes(streams, needed - 1)
    assert note.startswith(f"warning: updates alternate between the tasks of {len(weights)} streams")
    assert f"with {needed}, an update adds up the losses of all" in note
    assert alternating_notes(streams, needed) == [] == alternating_notes(streams[:1], 1)


def test_steps():
    steps = Steps(values=[0.0, 0.5, 1], after=[3, 5])
    assert [steps(update) for update in range(1, 8)] == [0.0, 0.0, 0.0, 0.5, 0.5, 1.0, 1.0]
    for values, after in (([0.0], [3]), ([0.0, 1.0], [0]), ([0.0, 1.0, 2.0], [3, 3])):
        with pytest.raises(UsageError, match=r"one value more than updates, and rising updates, not \["):
            Steps(values=values, after=after)


@pytest.mark.parametrize("peak", [float("nan"), float("inf"), 0.0, -1.0])
def test_a_peak_that_is_no_positive_number_is_refused(peak):
    for make in (
        lambda: InverseSquareRoot(peak=peak, warmup=1),
        lambda: Linear(peak=peak, total=10),
        lambda: TriStage(peak=peak, total=10, shares=[0.1, 0.4, 0.5]),
        lambda: Constant(peak=peak),
    ):
        refuses(UsageError, rf"peak.*{peak}", make)


def test_a_number_that_moves_evenly_between_values():
    schedule = PiecewiseLinear(values=[1.0, 0.1, 0.4], at=[0, 10, 16])
    found = [schedule(update) for update in (0, 1, 5, 10, 13, 16, 17, 1000)]
    assert found == pytest.approx([1.0, 0.91, 0.55, 0.1, 0.25, 0.4, 0.4, 0.4])
    assert PiecewiseLinear(values=[2.0, 3.0], at=[5, 7])(1) == 2.0
    for values, at in (([], []), ([1.0], [1, 2]), ([1.0, 2.0], [3, 3])):
        refuses(UsageError, "as many values as rising updates are needed", PiecewiseLinear, values=values, at=at)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Linear(peak=1.0, total=5, warmup=5), "warmup must end before total, which is 5, not at 5"),
        (lambda: Cosine(peak=1.0, total=5, warmup=5), "warmup must end before total, which is 5, not at 5"),
        (lambda: Linear(peak=1.0, total=0), "Linear: total must be at least 1, not 0"),
        (lambda: Linear(peak=1.0, total=5, warmup=-1), "Linear: warmup must be at least 0, not -1"),
        (lambda: Cosine(peak=1.0, total=5, final=-0.1), "Cosine: final must be at least 0, not -0.1"),
        (lambda: Cosine(peak=0, total=5), "Cosine: peak must be above 0, not 0"),
        (lambda: InverseSquareRoot(peak=1.0, warmup=0), "InverseSquareRoot: warmup must be at least 1, not 0"),
        (lambda: InverseSquareRoot(peak=1.0, warmup=1, initial=-1),
         "InverseSquareRoot: initial must be at least 0, not -1"),
        (lambda: InverseSquareRoot(peak=0, warmup=1), "InverseSquareRoot: peak must be above 0, not 0"),
        (lambda: Constant(peak=0), "Constant: peak must be above 0, not 0"),
        (lambda: Constant(peak=1, warmup=-1), "Constant: warmup must be at least 0, not -1"),
        (lambda: stages(peak=0), "TriStage: peak must be above 0, not 0"),
        (lambda: stages(total=0), "TriStage: total must be at least 1, not 0"),
        (lambda: stages(initial_scale=-1), "TriStage: initial_scale must be at least 0, not -1"),
        (lambda: stages(final_scale=0), "TriStage: final_scale must be above 0, not 0"),
        (lambda: stages(shares=[0.5, 0.5]), "shares must be three numbers that add up to 1, not [0.5, 0.5]"),
        (lambda: stages(shares=[0.5, 0.4, 0.0]), "shares must be three numbers that add up to 1, not [0.5, 0.4, 0.0]"),
        (lambda: stages(shares=[1.5, -0.5, 0]), "shares must be three numbers that add up to 1, not [1.5, -0.5, 0]"),
        (lambda: Steps(values=[1.0], after=[2]),
         "steps need one value more than updates, and rising updates, not [1.0] and [2]"),
    ],
)  # fmt: skip
def test_what_is_said_of_impossible_settings(make, said):
    assert refusal(UsageError, make) == said


def stages(**changes):
    return TriStage(**{"peak": 1.0, "total": 100, "shares": [0.1, 0.4, 0.5]} | changes)


def test_settings_at_the_ends_of_their_ranges():
    assert InverseSquareRoot(peak=4.0, warmup=4, initial=2.0)(1) == 2.5
    assert InverseSquareRoot(peak=4.0, warmup=1)(4) == 2.0
    assert [Linear(peak=1.0, total=1)(u) for u in (0, 1, 2)] == [1.0, 0.0, 0.0]
    assert [Linear(peak=2.0, total=4, final=1.0)(u) for u in (0, 2, 4, 9)] == [2.0, 1.5, 1.0, 1.0]
    assert Linear(peak=2.0, total=3, warmup=2)(1) == 1.0
    assert [Cosine(peak=2.0, total=2)(u) for u in (0, 1, 2, 3)] == pytest.approx([2.0, 1.0, 0.0, 0.0])
    assert [Constant(peak=2.0)(u) for u in (0, 1)] == [2.0, 2.0]
    assert Constant(peak=2.0, warmup=1)(1) == 2.0


def test_stages_of_no_length():
    assert [stages(shares=[0, 0, 1])(u) for u in (0, 50, 100)] == pytest.approx([1.0, 0.1, 0.01])
    assert [stages(shares=[0, 1, 0])(u) for u in (0, 99, 100, 500)] == [1.0] * 4
    assert [stages(shares=[1, 0, 0], initial_scale=0)(u) for u in (0, 25, 100)] == [0.0, 0.25, 1.0]
    assert stages(shares=[0.5, 0.25, 0.25])(0) == pytest.approx(0.01)
    whole = stages(total=10, shares=[0.19, 0.29, 0.52])
    assert (whole.warmup, whole.hold, whole.decay) == (1, 2, 7)
    assert stages(shares=[0.1, 0.4, 0.5000005]).decay == 50


def test_numbers_are_floats():
    for schedule in (Steps(values=[1, 2], after=[1]), PiecewiseLinear(values=[1, 2], at=[1, 2]), stages(peak=1)):
        assert all(isinstance(schedule(update), float) for update in (1, 2, 3, 100))
    assert PiecewiseLinear(values=[3.0], at=[5])(1) == PiecewiseLinear(values=[3.0], at=[5])(9) == 3.0
    assert Steps(values=[3.0], after=[])(7) == 3.0
