"""Counts of a tokenizer's pieces in texts: a table that is written once and read by those who weigh pieces."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from shared.errors import DataError
from shared.machine.files import replaced_file
from shared.text.tokenizer import Tokenizer


def write_counts(counts: np.ndarray, tokenizer: Tokenizer, path: Path) -> None:
    """Write a line for each piece that comes, the most frequent first: the piece, a tab, how often.

    Args:
        counts: (V,) int64, by id.
        tokenizer: of V pieces.
        path: of the table.

    """
    order = [int(place) for place in np.argsort(-counts, kind="stable") if counts[place]]
    with replaced_file(path) as temporary, temporary.open("w", encoding="utf-8") as file:
        file.writelines(f"{tokenizer.symbol(place)}\t{counts[place]}\n" for place in order)


def read_counts(path: Path, tokenizer: Tokenizer) -> np.ndarray:
    """Read the counts (V,) int64, by id; pieces without a line have 0.

    Raises:
        DataError: if the file is missing, or a line is none of a piece of the tokenizer and a number.

    """
    try:
        lines = path.read_text(encoding="utf-8").split("\n")[:-1]
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: no table of counts can be read: {error}") from error
    ids = {tokenizer.symbol(place): place for place in range(tokenizer.size)}
    counts = np.zeros(tokenizer.size, dtype=np.int64)
    for number, line in enumerate(lines, 1):
        piece, _, count = line.rpartition("\t")
        if piece not in ids or not count.isdigit():
            raise DataError(f"{path}, line {number}: not a piece of the tokenizer and its count: {line[:60]!r}")
        counts[ids[piece]] = int(count)
    return counts
