"""Lines of text files: what is no line of a text is named before it fills the memory."""

import gzip

import pytest

from dragoman.shared.errors import DataError
from dragoman.shared.preparing.reader import Unusable
from dragoman.shared.text import lines
from dragoman.shared.text.lines import count_lines, further_references, read_header, read_lines, read_table
from dragoman.shared.text.quoting import Dialect
from tests.small import refusal, refuses


def test_a_line_without_end_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(lines, "LONGEST_LINE", 1000)
    path = tmp_path / "text"
    path.write_bytes(b"One.\n" + b"x" * 999 + b"\nThree.")
    assert [len(line) for line in read_lines(path)] == [4, 999, 6] and count_lines(path) == 3
    path.write_bytes(b"One.\n" + b"x" * 5000)
    found = read_lines(path)
    assert next(found) == "One."
    refuses(DataError, rf"{path}, line 2: longer than 1,000 bytes", next, found)


def test_a_file_of_nothing_does_not_fill_the_memory(tmp_path):
    """64 GB of zeros, which no disk holds, without a line end."""
    with open(tmp_path / "text", "wb") as file:
        file.truncate(64_000_000_000)
    refuses(DataError, "text, line 1: longer than 67,108,864 bytes", next, read_lines(tmp_path / "text"))


def test_lines_end_at_line_feeds_alone(tmp_path):
    path = tmp_path / "text"
    path.write_bytes("\ufeffa\r\n\ufeffb\r\r\n\nc\u2028d\x85e\rf".encode())
    assert [*read_lines(path)] == ["a", "\ufeffb\r", "", "c\u2028d\x85e\rf"]
    assert count_lines(path) == 4
    path.write_bytes(b"")
    assert [*read_lines(path)] == [] and count_lines(path) == 0
    with gzip.open(tmp_path / "text.gz", "wb") as file:
        file.write(b"one\ntwo\n")
    assert [*read_lines(tmp_path / "text.gz")] == ["one", "two"] and count_lines(tmp_path / "text.gz") == 2


def test_lines_are_counted_over_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr(lines, "_BLOCK", 3)
    for text in ("ab\ncd\n", "ab\ncde", "\n\n\n\n", "abc", "abcdef\n"):
        (tmp_path / "text").write_text(text)
        assert count_lines(tmp_path / "text") == len(text.splitlines())


def test_what_is_not_utf_8_is_named_or_kept(tmp_path):
    path = tmp_path / "text"
    path.write_bytes(b"good\nab\xffc\n")
    assert refusal(DataError, list, read_lines(path)) == f"{path}, line 2: not UTF-8 (byte 0xff at position 2)"
    assert [*read_lines(path, "surrogateescape")] == ["good", "ab\udcffc"]


def table(path, text, columns=("id", "text"), **dialect):
    path.write_text(text)
    return [
        (number, str(cells) if isinstance(cells, Unusable) else cells)
        for number, cells in read_table(path, columns, **dialect)
    ]


def test_a_table_is_read_by_the_names_of_its_columns(tmp_path):
    path = tmp_path / "a.tsv"
    found = table(path, f'text\tid\tmore\nOne.\ta\t\n\n"Two\tb\tx\n{"y" * 70}\tc\n')
    assert found == [
        (2, {"text": "One.", "id": "a", "more": ""}),
        (4, {"text": '"Two', "id": "b", "more": "x"}),
        (5, f"{path}, line 5: 2 cells where the header has 3 ({'y' * 60!r}, ...)"),
    ]
    assert read_header(path) == ["text", "id", "more"]
    assert table(path, 'id\ttext\na\t"x\ty"\n', dialect=Dialect(quoted=True)) == [(2, {"id": "a", "text": "x\ty"})]
    path.write_text('"i\td"\ttext\n')
    assert read_header(path, Dialect(quoted=True)) == ["i\td", "text"]


def test_a_table_with_cells_that_csv_refuses(tmp_path):
    path = tmp_path / "a.tsv"
    found = table(path, f"id\ttext\na\t{'x' * 200_000}\nb\tgood\n")
    assert found == [(2, f"{path}, line 2: field larger than field limit (131072)"), (3, {"id": "b", "text": "good"})]
    path.write_text("x" * 200_000)
    for read in (read_header, lambda path: next(read_table(path, ["id"]))):
        assert refusal(DataError, read, path) == f"{path}, line 1: field larger than field limit (131072)"


@pytest.mark.parametrize(
    ("header", "said"),
    [
        ("", "column 'id' is missing (it has none)"),
        ("id\tTÉXT", "column 'text' is missing (it has id, T\\xc9XT)"),
        ("id\t" + "x" * 600, "column 'text' is missing (it has id, " + "x" * 496 + ")"),
        ("id\ttext\tmore\ttext\tid", "column 'id' is named twice"),
        ("text\tid\ttext", "column 'text' is named twice"),
    ],
)
def test_a_header_that_lacks_a_column_or_has_one_twice(header, said, tmp_path):
    assert refusal(DataError, table, tmp_path / "a.tsv", header) == f"{tmp_path / 'a.tsv'}, line 1: {said}"


def test_further_references_are_numbered_without_gaps(tmp_path):
    target = tmp_path / "test.de"
    assert further_references(target) == []
    for name in ("test.de.1", "test.de.2.gz", "test.de.10.bak", "test.dex", "test.de.en"):
        (tmp_path / name).write_text("")
    assert [path.name for path in further_references(target)] == ["test.de.1", "test.de.2.gz"]
    assert [path.name for path in further_references(tmp_path / "test.de.gz")] == ["test.de.1", "test.de.2.gz"]
    (tmp_path / "test.de.4").write_text("")
    complaint = refusal(DataError, further_references, target)
    assert complaint == f"{tmp_path / 'test.de.4'}: a further reference, but test.de.3 is missing"
