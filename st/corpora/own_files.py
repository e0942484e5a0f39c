"""The files of one's own data: which layout they have, and which of them make which split."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from dragoman.shared.errors import DataError
from dragoman.shared.preparing.reader import is_training
from dragoman.shared.text.compressed import beside, plain_name, plain_or_packed

#: Of tables, the endings and the layout.
_TABLES = {".tsv": "tsv", ".csv": "csv", ".jsonl": "json", ".ndjson": "json", ".json": "json"}
_PLAIN = "plain"


class OwnFiles(NamedTuple):
    """The files of a split.

    Attributes:
        layout: "tsv", "csv", "json" (an object a line) or "plain" (two files, a line for each other).
        files: one table, or the two sides.
    """

    layout: str
    files: tuple[Path, ...]


def layouts(source: str | None, target: str | None) -> str:
    """Return what one's own data may look like, for messages."""
    one, other = source or "en", target or "de"
    return (
        "own data is train.tsv, train.csv or train.jsonl with columns (keys) source_text and target_text, source and "
        f"target, or {one} and {other}, and audio for recordings; or train.{one} and train.{other}, a line for each "
        "other; dev and test likewise. Each may be compressed (.gz), and one file is enough. For example, train.csv "
        f"begins with {one},{other} and then has a pair in each line. Names as WMT and OPUS have them: text/mt"
    )


def find_own(root: Path, source: str | None, target: str | None) -> dict[str, OwnFiles]:
    """Return the files of each split: of a folder, all of one layout, that of the training data first.

    Raises:
        DataError: if there is none, with all layouts; if two are of one split.
    """
    if not root.exists():
        raise DataError(f"{root}: there is no such file or folder; {layouts(source, target)}")
    files = [root] if root.is_file() else plain_or_packed(root)
    by_layout: dict[str, dict[str, OwnFiles]] = {}
    for path in files:
        name = plain_name(path)
        ending = next((ending for ending in _TABLES if name.endswith(ending)), None)
        if ending == ".json" and path != root and not name.startswith(("train", "dev", "test", "valid")):
            continue  # settings of something; other_own_files names it
        if ending is not None:
            table = OwnFiles(_TABLES[ending], (path,))
            _add(by_layout.setdefault(table.layout, {}), name.removesuffix(ending), table)
        elif (sides := _sides(path, source, target)) is not None:
            _add(by_layout.setdefault(_PLAIN, {}), *sides)
    if not by_layout:
        raise DataError(f"{root}: holds no data that is read here; {layouts(source, target)}")
    order = ["tsv", "csv", "json", _PLAIN]
    return by_layout[
        min(by_layout, key=lambda layout: (not any(map(is_training, by_layout[layout])), order.index(layout)))
    ]


def other_own_files(root: Path, splits: dict[str, OwnFiles], source: str | None, target: str | None) -> list[Path]:
    """Return the files of a folder that seem to be data too, and are not read."""
    read = {file for split in splits.values() for file in split.files}
    plain = (f".{end}" for pair in _ends(source, target) for end in pair)
    endings = (*_TABLES, ".txt", ".parquet", ".arrow", ".xlsx", *plain)
    files = [] if root.is_file() else plain_or_packed(root)
    return [path for path in files if plain_name(path).lower().endswith(endings) and path not in read]


def _add(splits: dict[str, OwnFiles], split: str, files: OwnFiles) -> None:
    before = splits.setdefault(split, files)
    if before != files:
        raise DataError(f"{files.files[0]}: both this and {before.files[0].name} would be split {split!r}")


def _sides(path: Path, source: str | None, target: str | None) -> tuple[str, OwnFiles] | None:
    """Return the split and the two files that a plain file belongs to; None if it has no partner."""
    name = plain_name(path)
    for pair in _ends(source, target):
        end = next((end for end in pair if name.endswith(f".{end}")), None)
        if end is None:
            continue
        stem = name.removesuffix(f".{end}")
        sides = [path if side == end else beside(path.with_name(f"{stem}.{side}")) for side in pair]
        if None not in sides:
            for mark in (f"{source}-{target}", f"{target}-{source}"):  # as WMT and OPUS have it
                stem = stem.removeprefix(f"opus.{mark}-").removesuffix(f".{mark}")
            return stem, OwnFiles(_PLAIN, tuple(filter(None, sides)))
    return None


def _ends(source: str | None, target: str | None) -> list[tuple[str, str]]:
    """Return the endings of plain files on both sides."""
    codes = [(source, target)] if source and target and source != target else []
    return [*codes, ("src", "tgt"), ("source", "target")]
