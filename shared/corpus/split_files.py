"""Corpora of one file for each split: which files there are, and in which order."""

from __future__ import annotations

from pathlib import Path

from shared.errors import DataError

_RANKS = ("train", "dev", "valid", "test")


def split_files(root: Path, endings: tuple[str, ...], prefix: str = "") -> dict[str, Path]:
    """Return the files with one of these endings by the name before it: of a folder, or the one that ``root`` is.

    Args:
        root: the folder or file.
        endings: with their dots.
        prefix: at the beginning of a name, is not part of the split's.

    Raises:
        DataError: if there is none, or two are of one split.

    """
    files = [root] if root.is_file() else sorted(path for path in root.glob("*") if path.is_file())
    found: dict[str, Path] = {}
    for path in files:
        ending = next((ending for ending in endings if path.name.endswith(ending)), None)
        if ending is None:
            continue
        name = path.name.removesuffix(ending).removeprefix(prefix)
        if name in found:
            raise DataError(f"{path}: both this and {found[name].name} would be split {name!r}")
        found[name] = path
    if not found:
        raise DataError(f"{root}: neither a file that ends in {' or '.join(endings)} nor a folder with one")
    return found


def chosen_splits(root: str | Path, files: dict[str, Path], splits: list[str] | None) -> list[str]:
    """Return the splits that were asked for, or all, training first.

    Raises:
        DataError: if one is not there.

    """
    for split in splits or []:
        if split not in files:
            raise DataError(f"{root}: no split {split!r}; there are {', '.join(files)}")
    return splits or sorted(files, key=lambda name: (_rank(name), name))


def _rank(name: str) -> int:
    return next((rank for rank, word in enumerate(_RANKS) if word in name), len(_RANKS))
