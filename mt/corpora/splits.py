"""Splits of corpora in plain files: which of the files make which split."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from dragoman.shared.errors import DataError, UsageError

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
        UsageError: if a name cannot be that of a manifest, or two splits have the same.
    """
    stems: dict[str, list[str]] = {}
    for choice in splits or sorted(files, key=lambda name: (_ORDER.index(name) if name in _ORDER else 9, name)):
        name, joined, names = choice.partition("=")
        if not name or "/" in name or "\0" in name:
            raise UsageError(f"{root}: a split cannot be called {name!r}, since a file is named after it")
        if name in stems:
            raise UsageError(f"{root}: two splits are called {name!r}")
        stems[name] = names.split("+") if joined else [name]
        for one in stems[name]:
            if one not in files:
                raise DataError(f"{root}: no files {one!r} for split {name!r}; there are {', '.join(sorted(files))}")
    return stems
