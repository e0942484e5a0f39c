"""Lines of text files: what is no line of a text is named before it fills the memory."""

import pytest

from shared.corpus import lines
from shared.corpus.lines import count_lines, read_lines
from shared.errors import DataError


def test_a_line_without_end_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(lines, "LONGEST_LINE", 1000)
    path = tmp_path / "text"
    path.write_bytes(b"One.\n" + b"x" * 999 + b"\nThree.")
    assert [len(line) for line in read_lines(path)] == [4, 999, 6] and count_lines(path) == 3
    path.write_bytes(b"One.\n" + b"x" * 5000)
    found = read_lines(path)
    assert next(found) == "One."
    with pytest.raises(DataError, match=rf"{path}, line 2: longer than 1,000 bytes"):
        next(found)


def test_a_file_of_nothing_does_not_fill_the_memory(tmp_path):
    """64 GB of zeros, which no disk holds, without a line end."""
    with open(tmp_path / "text", "wb") as file:
        file.truncate(64_000_000_000)
    with pytest.raises(DataError, match="text, line 1: longer than 67,108,864 bytes"):
        next(read_lines(tmp_path / "text"))
