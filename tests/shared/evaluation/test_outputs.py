"""The table of outputs: what is read is what was written."""

from __future__ import annotations

import pytest

from dragoman.shared.errors import DataError
from dragoman.shared.evaluation.outputs import Outputs, reference_name
from tests.small import refusal, refuses


def test_written_and_read(tmp_path):
    outputs = Outputs(["a", "b"], ["x", ""], [["ä\u2028ö", '"quoted\\'], ["second", None]], ["", "source"])
    outputs.write(tmp_path / "a.tsv")
    assert Outputs.read(tmp_path / "a.tsv") == outputs
    assert (tmp_path / "a.tsv").read_bytes().split(b"\n")[0] == b"id\thypothesis\treference\treference_1\tsource"
    Outputs(["a"], ["tab\there\r\nline"], [["r"]], ["s"]).write(tmp_path / "a.tsv")
    assert Outputs.read(tmp_path / "a.tsv").hypotheses == ["tab here  line"]
    (tmp_path / "a.tsv").write_text("id\thypothesis\n")
    refuses(DataError, "a.tsv, line 1: column 'reference' is missing", Outputs.read, tmp_path / "a.tsv")


def test_names_of_references():
    assert [reference_name(number) for number in range(3)] == ["reference", "reference_1", "reference_2"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"", ": holds no outputs"),
        (b"a\tb\n", ", line 3: 2 cells where the header has 4 ('a', ...)"),
        (b"a\tx\xff\ty\tz\n", ", line 3: is not UTF-8"),
    ],
)
def test_a_table_that_holds_no_outputs_is_refused(text, said, tmp_path):
    first = b"" if not text else b"a\tx\ty\tz\n"
    (tmp_path / "a.tsv").write_bytes(b"id\thypothesis\treference\tsource\n" + first + text)
    assert refusal(DataError, Outputs.read, tmp_path / "a.tsv") == f"{tmp_path / 'a.tsv'}{said}"


def test_empty_cells_are_texts_but_of_further_references(tmp_path):
    names = "source\treference_1\tid\treference\thypothesis\treference_2\tnotes\n"
    (tmp_path / "a.tsv").write_text(names + "s\t\ta\t\t\tr\tn\n")
    assert Outputs.read(tmp_path / "a.tsv") == Outputs(["a"], [""], [[""], [None], ["r"]], ["s"])
    outputs = Outputs(["a"], ["x"], [["r"]], ["s"])
    outputs.write(tmp_path / "b.tsv")
    assert (tmp_path / "b.tsv").read_bytes() == b"id\thypothesis\treference\tsource\na\tx\tr\ts\n"
    refuses(ValueError, "shorter", Outputs(["a", "b"], ["x"], [["r", "r"]], ["s", "s"]).write, tmp_path / "b.tsv")
    assert Outputs.read(tmp_path / "b.tsv") == outputs  # as it was
