"""Counts of a tokenizer's pieces in texts: a table that is written once and read by those who weigh pieces."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from dragoman.shared.errors import DataError
from dragoman.shared.machine.digits import whole_number
from dragoman.shared.machine.files import replaced_file
from dragoman.shared.text.tokenizer import Tokenizer


def write_counts(counts: np.ndarray, tokenizer: Tokenizer, path: Path) -> None:
    """Write counts (V,) int64, a line for each piece that comes, the most frequent first: id, count, and the piece."""
    order = [int(place) for place in np.argsort(-counts, kind="stable") if counts[place]]
    with replaced_file(path) as temporary, temporary.open("w", encoding="utf-8") as file:
        file.writelines(f"{place}\t{counts[place]}\t{tokenizer.symbol(place)!r}\n" for place in order)


def read_counts(path: Path, tokenizer: Tokenizer) -> np.ndarray:
    """Read the counts (V,) int64, by id; pieces without a line have 0.

    Raises:
        DataError: if the file is missing, or a line is not a piece of the tokenizer and its count.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: no table of counts can be read: {error}") from error
    counts = np.zeros(tokenizer.size, dtype=np.int64)
    for number, line in enumerate(lines, 1):
        first, second, piece = [*line.split("\t", 2), "", ""][:3]
        place, count = whole_number(first), whole_number(second)
        if place is None or count is None or place >= tokenizer.size or piece != repr(tokenizer.symbol(place)):
            raise DataError(f"{path}, line {number}: not a piece of the tokenizer and its count: {line[:60]!r}")
        counts[place] = count
    return counts
