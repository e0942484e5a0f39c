"""The record of a training run, read again after somebody, or a broken disk, has changed it."""

import json

import pytest
import torch

from shared.batch import Batch
from shared.errors import DataError
from shared.objectives.objective import Loss, Term
from shared.padded import Padded
from shared.training.history import History, Meter, report, status

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
    with pytest.raises(DataError, match=rf"history\.jsonl, line 2: not a row of a history \(.*{message}"):
        History(tmp_path).cut(100)


@pytest.mark.parametrize("content", [b"\xff\n", b"[" * 100_000 + b"\n", b"{} {}\n"])
def test_a_file_of_something_else_is_named(tmp_path, content):
    (tmp_path / "history.jsonl").write_bytes(content)
    with pytest.raises(DataError, match=r"history\.jsonl.*: not a "):
        History(tmp_path).rows()


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
    """It had one sum and one weight of each name."""
    meter = Meter()
    older = meter.state() | {"sums": {"mt": 8.0, "nll": 6.0}, "counts": {"mt": 4.0, "nll": 4.0}}
    meter.load_state(older | {"weights": {"mt": 0.5, "nll": 0.0}})
    meter.add(Loss({"mt": Term(torch.tensor(4.0), torch.tensor(4), 0.5)}))
    row = report([meter.state()])
    assert (row["loss"], row["parts"]) == (0.75, {"mt": 1.5, "nll": 1.5})
