"""Tables of word vectors in the text format of word2vec and fastText (``.vec``).

The first line holds the number of words and of dimensions; each other line a word and its numbers, with spaces between
them. The most frequent words come first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from dragoman.shared.errors import DataError
from dragoman.shared.machine.digits import whole_number
from dragoman.shared.machine.files import replaced_file
from dragoman.shared.text.lines import read_lines


@dataclass(frozen=True)
class WordVectors:
    """Words and their vectors.

    Attributes:
        words: V different words, the most frequent first.
        values: (V, D) float32.
    """

    words: list[str]
    values: Tensor

    @cached_property
    def places(self) -> dict[str, int]:
        """The row of each word."""
        return {word: place for place, word in enumerate(self.words)}

    @staticmethod
    def read(path: str | Path, top: int | None = None) -> WordVectors:
        """Read a file; of a word that comes twice, the first vector counts.

        Args:
            path: the file.
            top: how many lines to read; None: all.

        Raises:
            DataError: naming the file and line that is not as the format says.
        """
        lines = read_lines(Path(path))
        head = next(iter(lines := iter(lines)), "").split()
        width = whole_number(head[-1]) if len(head) == 2 else None
        if width is None or whole_number(head[0]) is None:
            raise DataError(
                f"{path}, line 1: expected the numbers of words and dimensions, not {' '.join(head)[:60]!r}"
            )
        vectors: dict[str, np.ndarray] = {}
        for number, line in enumerate(islice(lines, top), 2):
            word, *numbers = line.rstrip().split(" ")
            try:
                vector = np.array(numbers, dtype=np.float32)
            except ValueError:
                vector = np.empty(0, dtype=np.float32)
            if len(vector) != width or not np.isfinite(vector).all():
                raise DataError(f"{path}, line {number}: expected a word and {width} numbers, not {line[:60]!r}")
            vectors.setdefault(word, vector)
        if not vectors:
            raise DataError(f"{path}: no word in it")
        return WordVectors([*vectors], torch.from_numpy(np.stack([*vectors.values()])))

    def write(self, path: Path) -> None:
        """Write a file, whole or not at all."""
        with replaced_file(path) as new, new.open("w", encoding="utf-8") as file:
            file.write(f"{len(self.words)} {self.values.shape[1]}\n")
            for word, vector in zip(self.words, self.values.tolist(), strict=True):
                file.write(f"{word} {' '.join(format(number, '.6g') for number in vector)}\n")

    def rows(self, words: Sequence[str]) -> Tensor:
        """Return the vectors (n, D) of words that the table has."""
        return self.values[[self.places[word] for word in words]]
