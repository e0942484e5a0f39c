"""Parquet files with the sound inside, as on the Hugging Face Hub: mirrors of CoVoST 2, FLEURS and many others.

The layouts, as `hf download --repo-type dataset` writes them::

    {root}/{config}/{split}-00000-of-00004.parquet ...      or {root}/{config}/{split}/0000.parquet ...
    {root}/data/{split}-00000-of-00004.parquet ...          for a set without configs, with --config data

One column holds sound files (``audio: struct<bytes, path>``), others the texts: their names are options. Without a
column of ids, an id is the name of the shard and the number of the row. The split ``validation`` is called ``dev``.
The sound stays in the shards (shared/sound/shards.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from dragoman.shared.errors import DataError, UsageError, one_line
from dragoman.shared.machine.remote import files_in, located, uri_of
from dragoman.shared.preparing.reader import Reader, SourceRow
from dragoman.shared.sound.shards import Place, check_sound_column, column_type, open_shard
from dragoman.shared.text import languages
from dragoman.shared.text.lines import Unusable

_ORDER = ("train", "dev", "test")
_OURS = {"validation": "dev", "valid": "dev", "val": "dev"}
_SHARD = re.compile(r"(?P<split>.+?)(?:-(?P<number>\d{5})-of-(?P<count>\d{5}))?")


class Parquet(Reader):
    """Reads one direction of a data set in Parquet files."""

    name = "parquet"

    def __init__(
        self,
        *,
        root: str | Path,
        source_language: str,
        target_language: str | None = None,
        config: str = "",
        audio_column: str = "audio",
        source_column: str = "sentence",
        target_column: str = "translation",
        id_column: str | None = None,
        speaker_column: str | None = None,
        splits: list[str] | None = None,
    ) -> None:
        """Look for the shards and their columns.

        Args:
            root: the folder that was downloaded, or where it lies, by URI.
            source_language: of the speech and its transcript.
            target_language: of the translation; None for transcripts only.
            config: a folder of ``root``; ``{source}`` and ``{target}`` stand for the languages: ``{source}_{target}``.
            audio_column: holds the sound.
            source_column: holds the transcript.
            target_column: holds the translation.
            id_column: holds ids, each once in a split.
            speaker_column: holds the speaker.
            splits: those to be read; None means all.

        Raises:
            DataError: if there is no shard, a shard, split or column is missing, a column of texts holds something
                else, or a code is unknown.
            UsageError: if ``config`` has other names in braces.
        """
        self.source_language = languages.check(source_language)
        self.target_language = None if target_language is None else languages.check(target_language)
        self.folder = "-".join(filter(None, (source_language, target_language)))
        place = located(root) / _filled(config, source_language, target_language)
        self._shards = shards_of(place)
        read = {path for paths in self._shards.values() for path in paths}
        others = {*files_in(place, "*.parquet", "*/*.parquet")} - read
        self._pass_files("Parquet files that are not read", others)
        for split in splits or []:
            if split not in self._shards:
                raise DataError(f"{place}: no split {split!r}; there are {', '.join(self._shards)}")
        self._splits = splits or list(self._shards)
        self._audio = audio_column
        self._columns = {"source_text": source_column}
        if target_language is not None:
            self._columns["target_text"] = target_column
        self._columns |= {
            name: column for name, column in (("id", id_column), ("speaker", speaker_column)) if column is not None
        }
        for path in (path for split in self._splits for path in self._shards[split]):
            check_sound_column(path, audio_column)
            for name, column in self._columns.items():
                check_column(path, name, column)

    def inputs(self, split: str) -> list[Path]:
        """Return the shards."""
        return list(self._shards[split])

    def count(self, split: str) -> int:
        """Return the number of rows, from the shards' footers."""
        return sum(open_shard(path).metadata.num_rows for path in self._shards[split])

    def rows(self, split: str) -> Iterator[SourceRow | Unusable]:
        """Go through the rows of all shards; the sound is not touched, and durations are not known yet."""
        for path in self._shards[split]:
            for number, cells in read_shard(path, list(dict.fromkeys(self._columns.values()))):
                values = {name: as_text(cells[column]) for name, column in self._columns.items()}
                row = {
                    "id": values.get("id", f"{path.stem}-{number}"),
                    "audio": str(Place(uri_of(path) or str(path), self._audio, number)),
                    "start": 0.0,
                    "duration": None,
                    "source_text": values["source_text"],
                    "source_language": self.source_language,
                    "target_text": values.get("target_text"),
                    "target_language": self.target_language,
                    "speaker": values.get("speaker"),
                    "document": None,
                }
                yield SourceRow(row, file=path, line=number + 1)


def shards_of(folder: Path) -> dict[str, list[Path]]:
    """Return the Parquet files of a folder by split, training first.

    Raises:
        DataError: if there is none, or the shards of a split are not all there, or of two downloads.
    """
    shards: dict[str, list[Path]] = {}
    called: dict[str, str] = {}
    numbered = [path for path in files_in(folder, "*/*.parquet") if path.stem.isdecimal()]
    for path in sorted([*files_in(folder, "*.parquet"), *numbered]):
        match = _SHARD.fullmatch(path.stem)
        name = match["split"] if match and path.parent == folder else path.parent.name
        ours = _OURS.get(name, name)
        if called.setdefault(ours, name) != name:
            raise DataError(f"{folder}: both {called[ours]} and {name} would be split {ours!r}")
        shards.setdefault(ours, []).append(path)
    if not shards:
        inside = ", ".join(sorted({path.parent.name for path in files_in(folder, "*/*.parquet")})) or "none"
        raise DataError(f"{folder}: no Parquet file; folders there are {inside} (give one as --config)")
    for paths in shards.values():
        _check_whole(paths)
    return {name: shards[name] for name in sorted(shards, key=lambda name: (_rank(name), name))}


def _check_whole(paths: list[Path]) -> None:
    """Refuse the shards of a split if one is missing: a download that was cut short, or two in one folder."""
    marks = [match for path in paths if (match := _SHARD.fullmatch(path.stem)) and match["count"]]
    numbered = [path.stem for path in paths if path.stem.isdecimal()]
    if len(marks) < len(paths) and len(numbered) < len(paths):
        return  # a file without a number stands for itself
    numbers = [int(match["number"]) for match in marks] or [int(stem) for stem in numbered]
    count = int(marks[0]["count"]) if marks else len(numbers)
    if (other := next((match for match in marks if int(match["count"]) != count), None)) is not None:
        raise DataError(f"{paths[0].parent}: shards of two downloads: {marks[0][0]} and {other[0]}")
    if missing := sorted({*range(count)} - {*numbers}):
        raise DataError(f"{paths[0]}: shard {missing[0]} of this split is missing (there are {len(numbers)})")


def _filled(config: str, source: str, target: str | None) -> str:
    """Return the folder that ``config`` names for two languages."""
    try:
        return config.format(source=source, target=target)
    except (LookupError, ValueError, AttributeError) as error:
        raise UsageError(f"config is {config!r}: only {{source}} and {{target}} stand in braces") from error


def check_column(path: Path, name: str, column: str) -> None:
    """Refuse a column of texts that holds something else, which would be written out as Python shows it."""
    kind = column_type(open_shard(path), path, column)
    inside = kind.value_type if pa.types.is_dictionary(kind) else kind
    is_text = any(test(inside) for test in (pa.types.is_string, pa.types.is_large_string, pa.types.is_null))
    if not is_text and not (pa.types.is_integer(inside) and name in ("id", "speaker")):
        raise DataError(f"{path}: column {column!r} is {kind}, not text")


def _rank(split: str) -> int:
    return _ORDER.index(split) if split in _ORDER else len(_ORDER)


def read_shard(path: Path, columns: list[str]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the number and the cells of each row of a Parquet file, of some columns only."""
    first = 0
    try:
        for batch in open_shard(path).iter_batches(batch_size=1024, columns=columns):
            yield from enumerate(batch.to_pylist(), start=first)
            first += batch.num_rows
    except (pa.ArrowException, OSError, ValueError) as error:
        reason = one_line(error)[:200]
        raise DataError(f"{path}, row {first + 1}: this and the following rows cannot be read ({reason})") from error


def as_text(value: Any) -> str | None:
    """Return a cell as text, None for an empty one in the file's own sense."""
    return None if value is None else str(value).strip()
