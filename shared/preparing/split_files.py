"""Corpora of one file for each split: which files there are, and in which order."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from dragoman.shared.errors import DataError
from dragoman.shared.text.compressed import plain_name, plain_or_packed

_RANKS = ("train", "dev", "valid", "test")

#: Endings of files that may have been meant to be read.
_DATA = (".tsv", ".csv", ".txt", ".json", ".jsonl", ".parquet", ".arrow", ".xlsx")


def split_files(root: Path, endings: tuple[str, ...], prefix: str = "") -> dict[str, Path]:
    """Return the files with one of these endings by the name before it: of a folder, or the one that ``root`` is.

    Args:
        root: the folder or file.
        endings: with their dots; those of a compression may follow.
        prefix: at the beginning of a name, is not part of the split's.

    Raises:
        DataError: if there is none, or two are of one split.
    """
    files: dict[str, Path] = {}
    for path in _files(root):
        name = plain_name(path)
        ending = next((ending for ending in endings if name.endswith(ending)), None)
        if ending is None:
            continue  # other_files names it
        name = name.removesuffix(ending).removeprefix(prefix)
        if name in files:
            raise DataError(f"{path}: both this and {files[name].name} would be split {name!r}")
        files[name] = path
    if not files:
        raise DataError(f"{root}: neither a file that ends in {' or '.join(endings)} nor a folder with one")
    return files


def other_files(root: Path, files: dict[str, Path]) -> list[Path]:
    """Return the files of a folder that are none of those found, but have the endings of data."""
    return [path for path in _files(root) if plain_name(path).lower().endswith(_DATA) and path not in files.values()]


def _files(root: Path) -> list[Path]:
    return [root] if root.is_file() else plain_or_packed(root)


def chosen_splits(root: str | Path, files: Collection[str], splits: list[str] | None) -> list[str]:
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
