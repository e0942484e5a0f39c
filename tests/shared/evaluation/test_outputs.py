"""The table of outputs: what is read is what was written."""

from __future__ import annotations

import pytest

from shared.errors import DataError
from shared.evaluation.outputs import Outputs


def test_written_and_read(tmp_path):
    outputs = Outputs(["a", "b"], ["x", ""], [["ä\u2028ö", '"quoted\\'], ["second", None]], ["", "source"])
    outputs.write(tmp_path / "a.tsv")
    assert Outputs.read(tmp_path / "a.tsv") == outputs
    assert (tmp_path / "a.tsv").read_bytes().split(b"\n")[0] == b"id\thypothesis\treference\treference_1\tsource"
    Outputs(["a"], ["tab\there\r\nline"], [["r"]], ["s"]).write(tmp_path / "a.tsv")
    assert Outputs.read(tmp_path / "a.tsv").hypotheses == ["tab here  line"]
    (tmp_path / "a.tsv").write_text("id\thypothesis\n")
    with pytest.raises(DataError, match="a.tsv, line 1: column 'reference' is missing"):
        Outputs.read(tmp_path / "a.tsv")
