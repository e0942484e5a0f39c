"""Tables of log-probabilities: one row for each output, whatever is in its texts."""

import csv

from dragoman.shared.evaluation.rescoring import Rescored, write_rescored


def test_a_row_is_one_line_of_five_cells(tmp_path):
    rows = [Rescored("a\tb\nc", -1.5, 2, "one\r\ntwo\tthree"), Rescored("d", -1.0, 1, '"four')]
    write_rescored(rows, tmp_path / "scores.tsv")
    with open(tmp_path / "scores.tsv", encoding="utf-8", newline="") as file:
        table = list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    assert table == [
        ["id", "sum", "tokens", "mean", "text"],
        ["a b c", "-1.5000", "2", "-0.750000", "one  two three"],
        ["d", "-1.0000", "1", "-1.000000", '"four'],
    ]
