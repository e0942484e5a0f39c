"""Tar files in the layout of WebDataset, local or by URI: the files of a row stand one after another, with one key.

The layout (https://github.com/webdataset/webdataset)::

    {root}/train-000000.tar ...      or {root}/train/000000.tar ...
        a1.flac, a1.txt, a1.json, a2.flac, ...

A key is the path up to the first dot of the name; what follows is the ending. The texts stand in members with an
ending (``txt``, ``de.txt``), or under a key of the JSON object in another (``json.text``). An id is the name of the tar
file and the key. The sound stays in the tar files (shared/sound/shards.py), which must not be compressed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dragoman.shared.errors import DataError, one_line, shortened
from dragoman.shared.machine.nesting import from_json
from dragoman.shared.machine.remote import files_in, located
from dragoman.shared.preparing.reader import Reader, SourceRow
from dragoman.shared.preparing.split_files import chosen_splits
from dragoman.shared.text import languages
from dragoman.shared.text.lines import Unusable
from dragoman.st.corpora.json_lines import text_in
from dragoman.st.corpora.tar_members import SOUNDS, Entry, members, text_of

# As WebDataset divides names into key and ending.
_NAME = re.compile(r"(?s)((?:.*/|)[^.]+)\.([^/]*)")
_SHARD = re.compile(r"(?P<split>.*?)[-_.]?(?P<number>\d+)")


class WebDataset(Reader):
    """Reads one direction of tar files in WebDataset's layout."""

    name = "webdataset"

    def __init__(
        self,
        *,
        root: str | Path,
        source_language: str,
        target_language: str | None = None,
        transcript: str | None = "txt",
        translation: str = "json.translation",
        speaker: str | None = None,
        splits: list[str] | None = None,
    ) -> None:
        """Look for the tar files.

        Args:
            root: a folder, or where it lies, by URI.
            source_language: of the speech and its transcript.
            target_language: of the translation; None for transcripts only.
            transcript: the ending of its member, or ``json.`` and a key; None reads none.
            translation: likewise.
            speaker: likewise; None reads none.
            splits: those to be read; None means all.

        Raises:
            DataError: if there is no tar file, a number or a split is missing, or a language is unknown.
        """
        languages.check_given(source_language, target_language)
        self._languages = {"source_language": source_language, "target_language": target_language}
        self.folder = "-".join(filter(None, (source_language, target_language)))
        self._columns = {"source_text": transcript, "speaker": speaker}
        self._columns["target_text"] = translation if target_language is not None else None
        self._shards = tars_of(located(root))
        self._splits = chosen_splits(root, self._shards, splits)

    def inputs(self, split: str) -> list[Path]:
        """Return the tar files."""
        return list(self._shards[split])

    def rows(self, split: str) -> Iterator[SourceRow | Unusable]:
        """Go through the samples of all tar files; of the sound, places are read alone."""
        for path in self._shards[split]:
            for key, entries in _samples(path):
                first = entries[0]
                try:
                    row = self._row(f"{path.stem}-{key}", self._by_ending(entries))
                    yield SourceRow(row, file=path, line=first.number)
                except DataError as error:
                    yield Unusable(f"{key!r} in the tar file: {error}", path, first.number, f"{path.stem}-{key}")

    def _by_ending(self, entries: list[Entry]) -> dict[str, Entry]:
        found: dict[str, Entry] = {}
        for entry in entries:
            ending = _divided(entry.name)[1]
            if entry.wrong is not None:
                raise DataError(f"member {entry.name!r} is {entry.wrong}")
            if ending in found:
                raise DataError(f"member {entry.name!r} is there twice")
            found[ending] = entry
        return found

    def _row(self, name: str, found: dict[str, Entry]) -> dict[str, Any]:
        sounds = [ending for ending in found if f".{ending.rpartition('.')[2]}" in SOUNDS]
        if len(sounds) != 1:
            given = ", ".join(found)
            raise DataError(f"{len(sounds)} members of sound ({', '.join(SOUNDS)}) where one is expected, of {given}")
        row = {"id": name, "audio": str(found[sounds[0]].place), "start": 0.0, "duration": None, "document": None}
        objects: dict[str, Any] = {}
        for column, source in self._columns.items():
            row[column] = None if source is None else _value(source, found, objects)
        return row | self._languages


def _value(source: str, found: dict[str, Entry], objects: dict[str, Any]) -> str | None:
    """Return a text; ``objects`` are those that were read already."""
    ending, _, key = source.rpartition(".")
    if ending != "json":
        ending, key = source, ""
    if ending not in found:
        raise DataError(f"there is no member .{ending}, only {', '.join(f'.{one}' for one in found)}")
    member = found[ending].place
    if not key:
        return text_of(member)
    if ending not in objects:
        text = text_of(member)
        try:
            objects[ending] = from_json(text)
        except ValueError as error:
            raise DataError(f"{member}: not JSON ({shortened(one_line(error), 100)})") from error
    if not isinstance(objects[ending], dict) or objects[ending].get(key) is None:
        raise DataError(f"{member}: not an object with the key {key!r}")
    return text_in(objects[ending], key)


def _divided(name: str) -> tuple[str, str]:
    match = _NAME.fullmatch(name)
    return (name, "") if match is None else (match[1], match[2].lower())


def _samples(path: Path) -> Iterator[tuple[str, list[Entry]]]:
    """Yield the keys of a tar file and their members, which stand one after another.

    Raises:
        DataError: if a key comes again behind another.
    """
    entries: list[Entry] = []
    key, seen = "", set[str]()
    for entry in members(path):
        own, ending = _divided(entry.name)
        if not ending or Path(own).name.startswith("__"):  # WebDataset passes over them, too
            continue
        if own != key or not entries:
            if entries:
                yield key, entries
            if own in seen:
                raise DataError(f"{path}: member {entry.name!r}: the key {own!r} was there before other keys")
            seen.add(own)
            key, entries = own, []
        entries.append(entry)
    if entries:
        yield key, entries


def tars_of(root: Path) -> dict[str, list[Path]]:
    """Return the tar files of a folder by split.

    Raises:
        DataError: if there is none, or a number between two others is missing.
    """
    shards: dict[str, list[tuple[int, Path]]] = {}
    for path in files_in(root, "*.tar", "*/*.tar"):
        match = _SHARD.fullmatch(path.stem)
        split = match["split"] if match else path.stem
        inside = path.parent.name if path.parent != root else ""
        split = "-".join(filter(None, (inside, split))) or root.name
        shards.setdefault(split, []).append((int(match["number"]) if match else 0, path))
    if not shards:
        packed = files_in(root, "*.tar.*", "*.tgz", "*/*.tar.*", "*/*.tgz")
        why = f" ({packed[0].name} is compressed: unpack it to a plain .tar)" if packed else ""
        raise DataError(f"{root}: neither tar files nor folders with some{why}")
    for numbered in shards.values():
        numbered.sort()
        for (before, _), (number, path) in zip(numbered, numbered[1:], strict=False):
            if number != before + 1:
                what = "twice" if number == before else f"not there, but {number} is"
                raise DataError(f"{path}: number {before + (number != before)} of this split is {what}")
    return {split: [path for _, path in numbered] for split, numbered in shards.items()}
