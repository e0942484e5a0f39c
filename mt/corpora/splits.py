"""Splits of corpora in plain files: which of the files make which split."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from shared.errors import DataError

_ORDER = ("train", "dev", "valid", "test")


def chosen_splits(splits: list[str] | None, files: Collection[str], *, root: str | Path) -> dict[str, list[str]]:
    """Return the names of the files that each split is made of, training first.

    Args:
        splits: each the name of a file (without its ending), or ``name=file+file+...`` for several joined under a new
            name; None means all files, each a split.
        files: the names that there are.
        root: their folder, for messages.

    Raises:
        DataError: if there is no file of a name.

    """
    found = {}
    for choice in splits or sorted(files, key=lambda name: (_ORDER.index(name) if name in _ORDER else 9, name)):
        name, joined, names = choice.partition("=")
        found[name] = names.split("+") if joined else [name]
        for one in found[name]:
            if one not in files:
                raise DataError(f"{root}: no files {one!r} for split {name!r}; there are {', '.join(sorted(files))}")
    return found
