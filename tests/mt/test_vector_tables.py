"""Tables of word vectors in word2vec's format: round trips, the format by hand, broken files."""

import pytest
import torch

from dragoman import DataError
from dragoman.mt.vector_tables import WordVectors
from tests.small import refuses


def test_the_format_by_hand(tmp_path):
    """As fastText's documentation has it: numbers of words and dimensions, then a word and its numbers a line."""
    file = tmp_path / "a.vec"
    file.write_text("3 2\nthe 1 -2.5\nof 0.25 1e-3\nthe 7 7\n")
    table = WordVectors.read(file)
    assert table.words == ["the", "of"] and table.places == {"the": 0, "of": 1}
    assert table.rows(["of", "the", "of"]).tolist() == [
        pytest.approx(row) for row in ([0.25, 1e-3], [1, -2.5], [0.25, 1e-3])
    ]
    table.write(file)
    assert file.read_text() == "2 2\nthe 1 -2.5\nof 0.25 0.001\n"


def test_a_table_is_read_as_it_was_written(tmp_path):
    table = WordVectors(["the", "l'hôtel", "1"], torch.randn(3, 4))
    table.write(tmp_path / "a.vec")
    read = WordVectors.read(tmp_path / "a.vec")
    assert read.words == table.words
    torch.testing.assert_close(read.values, table.values, rtol=1e-5, atol=1e-6)
    assert WordVectors.read(tmp_path / "a.vec", top=2).words == ["the", "l'hôtel"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("the 1 2\n", "line 1: expected the numbers of words and dimensions, not 'the 1 2'"),
        ("9" * 5000 + " 2\n", "line 1: expected the numbers of words and dimensions"),
        ("", "line 1: expected the numbers"),
        ("2 2\nthe 1 2\na 1\n", "line 3: expected a word and 2 numbers, not 'a 1'"),
        ("1 2\nthe 1 x\n", "line 2: expected a word and 2 numbers"),
        ("1 2\nthe 1 nan\n", "line 2: expected a word and 2 numbers"),
        ("1 2\n", "no word in it"),
    ],
)
def test_broken_tables_are_refused(tmp_path, text, message):
    file = tmp_path / "a.vec"
    file.write_text(text)
    refuses(DataError, message, WordVectors.read, file)
