"""Changes to a text itself, before it is tokenised, which may make it longer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from dragoman.shared.batches.fields import TextField
from dragoman.shared.batches.manifest import Row

#: The characters from start to end of a text become others: (start, end, what they become).
Edit = tuple[int, int, str]


class Rewriting(Protocol):
    """A change to a text before it is tokenised, such as words that are replaced by those of another language.

    Attributes:
        growth: at most how many times as many pieces a text may have afterwards, at least 1, which the field checks.
            Edits are given up until it holds.
    """

    growth: float

    def load(self) -> None:
        """Read what it needs; called before training, so that workers share it and a missing file is named early."""
        ...

    def __call__(self, text: str, rng: np.random.Generator, *, language: str | None, row: Row) -> list[Edit]:
        """Return edits of a normalised text that do not overlap, those that are given up first at the end."""
        ...


def growth_of(rewriting: Rewriting | None) -> float:
    """Return at most how many times as many pieces a text may have after a rewriting; without one, 1."""
    return 1.0 if rewriting is None else rewriting.growth


def rewritten(
    field: TextField, rewriting: Rewriting | None, row: Row, rng: np.random.Generator
) -> tuple[list[int], list[int], list[int]]:
    """Return what ``TextField.parts`` does, after as many edits of a rewriting as there is room for.

    Raises:
        DataError: if the row has no text, or no language where a symbol needs it.
    """
    if rewriting is None:
        return field.parts(row)
    text = field.text(row)
    prefix, pieces, suffix = field.parts(row, text)
    language = row.get(field.language_column)
    edits = rewriting(text, rng, language=language, row=row)
    room = math.ceil(rewriting.growth * len(pieces))
    for count in range(len(edits), 0, -1):
        ids = field.encoded(edited(text, edits[:count]), language)
        if len(ids) <= room:
            return prefix, ids, suffix
    return prefix, pieces, suffix


def edited(text: str, edits: Sequence[Edit]) -> str:
    """Return a text after edits that do not overlap, in any order."""
    parts, position = [], 0
    for start, end, new in sorted(edits):
        parts += [text[position:start], new]
        position = end
    return "".join([*parts, text[position:]])
