"""The record of a training run, read again after somebody, or a broken disk, has changed it."""

import json

import pytest

from shared.errors import DataError
from shared.training.history import History

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
