"""Notes in the log: on a model that is too large for its data, and on the time that is left."""

from types import SimpleNamespace

import pytest

from dragoman.shared.training.notes import MANY, alternating_notes, size_notes, time_left, warm_up_notes
from dragoman.shared.training.schedules import Constant


@pytest.mark.parametrize(
    ("done", "seconds", "left", "said"),
    [
        (1, 1.0, 40, "40 s"),
        (10, 60.0, 10, "1 min"),
        (10, 60.0, 15, "2 min"),
        (25, 25.0, 4320, "1 h 12 min"),
        (25, 162.5, 49975, "3 d 18 h"),  # 6.5 s for each update
        (2, 200000.0, 1000, "1,157 d 9 h"),
        (0, 0.0, 100, "0 s"),
    ],
)
def test_the_time_left_is_that_of_the_updates_before(done, seconds, left, said):
    assert time_left(done, seconds, left) == said


def test_a_model_that_is_far_too_large_for_its_data_is_named_with_a_command_that_can_be_pasted():
    command = "dragoman run own/mt --data_folder 'my data/own/mt' --updates 9"
    (line,) = size_notes(44_500_000, 300, "own/mt", command)
    assert line.startswith("warning: 44.5 M parameters learn from 300 rows, 148,333 from each")
    assert line.endswith("dragoman run own/mt_small --data_folder 'my data/own/mt' --updates 9")


def test_where_there_is_no_small_recipe_sizes_are_named():
    for recipe in ("own/st", "own/mt_small", "", "mine"):
        (line,) = size_notes(31_000_000, 300, recipe, f"dragoman run {recipe}")
        assert line.endswith("; smaller numbers of width, feedforward, layers and pieces are faster and better")


def test_enough_data_is_no_matter():
    assert size_notes(MANY * 300, 300, "own/mt", "") == []
    assert len(size_notes(MANY * 300 + 1, 300, "own/mt", "")) == 1


@pytest.mark.parametrize(
    ("rest", "said"),
    [(0, "0 s"), (59, "59 s"), (60, "1 min"), (61, "2 min"), (3599, "60 min"), (3600, "1 h 0 min"),
     (86399, "23 h 59 min"), (86400, "1 d 0 h"), (90000, "1 d 1 h")],
)  # fmt: skip
def test_times_at_the_ends_of_their_units(rest, said):
    assert time_left(1, float(rest), 1) == said


def test_a_command_that_is_not_known_is_that_of_the_small_recipe():
    (line,) = size_notes(20_000_001, 0, "own/mt", "")
    assert line == (
        "warning: 20.0 M parameters learn from 0 rows, 20,000,001 from each (more than 10,000 are far too many); "
        "a small model is faster and better: dragoman run own/mt_small"
    )


def test_weights_and_warm_ups_are_told():
    one, other = SimpleNamespace(weight=1.0), SimpleNamespace(weight=0.5)
    assert alternating_notes([one, other], 2) == [
        "warning: updates alternate between the tasks of 2 streams: a batch is of one stream, and "
        "grad_accumulation_factor is 2; with 3, an update adds up the losses of all"
    ]
    assert alternating_notes([one, other], 3) == alternating_notes([one], 1) == []
    assert warm_up_notes(Constant(peak=2.0, warmup=1000), 999) == [
        "warning: the warm-up takes 1,000 updates, the training only 999: the learning rate ends at 2, below its peak"
    ]
    assert warm_up_notes(Constant(peak=2.0, warmup=1000), 1000) == warm_up_notes(lambda update: 1.0, 0) == []
