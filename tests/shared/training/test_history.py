"""The record of a training run, read again after somebody, or a broken disk, has changed it."""

import json

import pytest
import torch

from dragoman.shared.batch import Batch
from dragoman.shared.errors import DataError
from dragoman.shared.objectives.objective import Loss, Term
from dragoman.shared.padded import Padded
from dragoman.shared.training.history import History, Meter, report, status
from tests.small import refusal, refuses

pytestmark = pytest.mark.usefixtures("training_curve")

ROW = {"update": 25, "epoch": 0, "lr": 0.1, "loss": 2.5, "parts": {"cross_entropy": 2.5}}


def test_a_row_that_a_kill_has_cut_off_does_not_count(tmp_path):
    (tmp_path / "history.jsonl").write_text(json.dumps(ROW) + '\n{"update": 50, "lo')
    assert History(tmp_path).rows() == [ROW]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ([1], "is not an object"),
        ({}, "'update' is missing"),
        (ROW | {"update": "25"}, "'update' is \"25\", not a whole number"),
        (ROW | {"parts": [2.5]}, "'parts' is"),
        (ROW | {"parts": {"ctc": "low"}}, "'parts' is"),
        (ROW | {"loss": "low"}, "'loss' is \"low\", not a number"),
        ({"update": 25, "validation": 3}, "'validation' is 3, not an object"),
        ({"update": 25, "validation": {"bleu": 3}, "score": True}, "'score' is true"),
    ],
)
def test_an_odd_row_is_named_with_its_key(tmp_path, row, message):
    (tmp_path / "history.jsonl").write_text(f"{json.dumps(ROW)}\n{json.dumps(row)}\n")
    refuses(DataError, rf"history\.jsonl, line 2: not a row of a history \(.*{message}", History(tmp_path).cut, 100)


@pytest.mark.parametrize("content", [b"\xff\n", b"[" * 100_000 + b"\n", b"{} {}\n"])
def test_a_file_of_something_else_is_named(tmp_path, content):
    (tmp_path / "history.jsonl").write_bytes(content)
    refuses(DataError, r"history\.jsonl.*: not a ", History(tmp_path).rows)


def test_a_loss_that_was_not_a_number_is_read_as_it_was_written(tmp_path):
    """Validations write such a loss where it is not what checkpoints are ranked by."""
    (tmp_path / "history.jsonl").write_text('{"update": 25, "validation": {"loss": Infinity, "bleu": 3.0}}\n')
    assert History(tmp_path).rows()[0]["validation"]["loss"] == float("inf")


def test_a_meter_counts_source_tokens_where_nothing_else_is():
    tokens = Padded(torch.zeros(2, 5, dtype=torch.int64), torch.tensor([5, 3]))
    meter = Meter()
    meter.count(
        [Batch({"source": tokens}), Batch({"source": tokens, "target": Padded(tokens.values, tokens.lengths - 1)})]
    )
    assert (meter.tokens, meter.sound) == (8 + 6, 0.0)


def test_a_meter_counts_sound_where_there_are_no_target_tokens():
    sound = Padded(torch.zeros(2, 32_000), torch.tensor([32_000, 8_000]))
    tokens = Padded(torch.zeros(2, 5, dtype=torch.int64), torch.tensor([5, 3]))
    meter = Meter()
    meter.count([Batch({"speech": sound}), Batch({"speech": sound, "target": tokens})])
    state = meter.state() | {"seconds": 0.5}
    assert (state["tokens"], state["sound"]) == (8, 2.5)
    row = report([state, state]) | {"lr": 0.001}
    assert (row["tokens_per_second"], row["sound_per_second"]) == (32.0, 10.0)
    assert status(row) == " | 32 tokens/s | 10 s of sound/s | lr 1.00e-03"
    other = Meter()
    other.load_state({key: value for key, value in state.items() if key != "sound"})
    assert other.sound == 0.0 and "sound_per_second" not in report([other.state()])


def test_terms_of_one_name_count_with_the_weight_of_each_stream_whatever_their_order():
    """By hand: 4 tokens that lose 8 nats at weight 1, and 4 that lose 2 at weight 1/4, are 8.5 / 8 a token."""
    one, other = (
        Loss({"mt": Term(torch.tensor(lost), torch.tensor(4), weight)}) for lost, weight in ((8.0, 1.0), (2.0, 0.25))
    )
    for losses in ((one, other), (other, one)):
        meter, *resumed = meters = [Meter() for _ in range(2)]
        for loss in losses:
            meter.add(loss)
        resumed[0].load_state(meter.state())
        for found in meters:
            row = report([found.state(), found.state()])
            assert (row["loss"], row["parts"]) == (8.5 / 8, {"mt": 10 / 8})


def test_a_meter_goes_on_from_an_older_checkpoint():
    meter = Meter()
    older = meter.state() | {"sums": {"mt": 8.0, "nll": 6.0}, "counts": {"mt": 4.0, "nll": 4.0}}
    meter.load_state(older | {"weights": {"mt": 0.5, "nll": 0.0}})
    meter.add(Loss({"mt": Term(torch.tensor(4.0), torch.tensor(4), 0.5)}))
    row = report([meter.state()])
    assert (row["loss"], row["parts"]) == (0.75, {"mt": 1.5, "nll": 1.5})


def test_the_rows_of_the_first_skipped_update_are_named():
    meter = Meter()
    assert meter.skipped_rows() == []
    for names, flag in ((["a", "b"], 0.0), (["c"], 0.0)):
        meter.count([Batch({}, ids=names)])
        meter.add_update(torch.tensor(2.0), torch.tensor(flag))
    assert meter.skipped_rows() == []
    for names in (["d", "e"], ["f"]):
        meter.count([Batch({}, ids=names[:1]), Batch({}, ids=names[1:])])
        meter.add_update(torch.tensor(float("nan")), torch.tensor(1.0))
    assert meter.skipped_rows() == ["d", "e"]
    state = meter.state()
    assert (state["norm"], state["updates"]) == (4.0, 2)  # what was skipped counts for nothing
    meter.reset()
    assert meter.skipped_rows() == [] and meter.state()["updates"] == 0


def test_a_report_is_of_all_ranks_and_its_seconds_of_the_first():
    state = {"sums": {"a": {1.0: 6.0}}, "counts": {"a": 3.0}, "norm": 8.0, "updates": 4, "tokens": 10, "sound": 0.0}
    other = state | {"sums": {"b": {0.5: 4.0}}, "counts": {"b": 0.5}, "norm": 100.0}
    row = report([state | {"seconds": 2.0}, other | {"seconds": 50.0}])
    assert row == {
        "loss": 2.0 + 0.5 * 4.0,  # what counts less than one is one
        "parts": {"a": 2.0, "b": 4.0},
        "grad_norm": 2.0,
        "tokens_per_second": 10.0,
    }
    nothing = report([Meter().state() | {"seconds": 0.0}])
    assert nothing == {"loss": 0, "parts": {}, "grad_norm": 0.0, "tokens_per_second": 0.0}


def test_a_meter_goes_on_with_the_time_that_it_had():
    meter = Meter()
    meter.load_state(meter.state() | {"seconds": 1000.0})
    assert 1000.0 <= meter.state()["seconds"] < 1300.0
    assert 0.0 <= Meter().state()["seconds"] < 300.0


def test_a_status_has_losses_speeds_and_the_learning_rate():
    row = {"parts": {"ctc": 1.23456, "mt": 2.0}, "tokens_per_second": 12345.6, "lr": 0.00012}
    assert status(row) == "ctc 1.235 mt 2.000 | 12,346 tokens/s | lr 1.20e-04"
    assert status(row | {"tokens_per_second": 0.0, "sound_per_second": 1500.0}) == (
        "ctc 1.235 mt 2.000 | 1,500 s of sound/s | lr 1.20e-04"
    )


class Tracked:
    def __init__(self):
        self.calls = []

    def begin(self, folder):
        self.calls.append(folder)

    def track(self, scalars, update):
        self.calls.append((update, scalars))

    def close(self):
        self.calls.append("closed")


def test_rows_are_written_for_people_boards_and_trackers(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    trackers = Tracked()
    history = History(tmp_path, trackers=trackers)
    assert history.rows() == [] and history.scores() == {}
    history.cut(0)
    valid = {"update": 50, "validation": {"bleu": 3.0}, "score": 3.0}
    history.add(ROW | {"grad_norm": 1.5, "loss_scale": 2.0, "tokens_per_second": 7.0})
    history.add(valid)
    history.add(ROW | {"update": 75})
    history.sync()
    history.close()
    first = {"train/cross_entropy": 2.5, "train/lr": 0.1, "train/grad_norm": 1.5, "train/loss_scale": 2.0}
    assert trackers.calls == [
        tmp_path,
        (25, first | {"train/tokens_per_second": 7.0}),
        (50, {"validation/bleu": 3.0}),
        (75, {"train/cross_entropy": 2.5, "train/lr": 0.1}),
        "closed",
    ]
    board = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert [(event.step, event.value) for event in board.Scalars("validation/bleu")] == [(50, 3.0)]
    assert [event.step for event in board.Scalars("train/lr")] == [25, 75]
    again = History(tmp_path)
    assert [row["update"] for row in again.rows()] == [25, 50, 75] and again.scores() == {50: 3.0}
    again.cut(50)
    assert [row["update"] for row in History(tmp_path).rows()] == [25, 50]
    History(tmp_path / "new").cut(50)
    assert (tmp_path / "new" / "history.jsonl").read_text() == ""
    again.plot()
    assert (tmp_path / "training.png").read_bytes()[:4] == b"\x89PNG"


def test_other_ranks_write_nothing(tmp_path):
    trackers = Tracked()
    history = History(tmp_path, writing=False, trackers=trackers)
    history.cut(0)
    history.add(ROW)
    history.sync()
    history.plot()
    history.close()
    assert [*tmp_path.iterdir()] == [] and trackers.calls == []


def test_a_history_that_cannot_be_written_is_named(tmp_path):
    complaint = refusal(DataError, History(tmp_path / "gone").add, ROW)
    assert complaint == f"{tmp_path / 'gone' / 'history.jsonl'}: cannot be written (No such file or directory)"
