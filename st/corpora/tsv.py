r"""Own data: a table of texts and sound files for each split, or plain files of sentence pairs.

One of these layouts::

    {root}/train.tsv, {root}/dev.tsv, ...      each file a split; or root is one such file
        id    audio           source_text      target_text      source_language  target_language  speaker
        a1    clips/a1.flac   How are you?     Wie geht es?     en               de               anna
    {root}/train.csv, ...                      the same, divided by commas (or semicolons), with quotes where needed
        source,target
        "Well, how are you?",Wie geht es denn?
    {root}/train.jsonl, ...                    an object a line
        {"en": "How are you?", "de": "Wie geht es?"}
    {root}/train.en, {root}/train.de, ...      a line for each other; further references are test.de.1, test.de.2 ...

A row has at least one of ``audio``, ``source_text`` and ``target_text``. The texts may also be called ``source`` and
``target`` (``src``, ``tgt``) or by their languages, ``en`` and ``de`` (English, German); in JSON they may stand under
``translation``. Without ``id``, the number of the line is the id. ``audio`` is relative to the table, or a URI such as
``s3://...`` (wav, flac, ogg, mp3; any rate); ``start`` and ``duration`` in seconds cut a segment out of it. Languages
that are the same throughout can be given to the reader instead. ``channel``, from 0, is the channel that is read, of
sound with several; without it, their mean. An empty cell means that there is nothing. Other columns are kept in the
manifest, as texts.

In tab-separated tables backslashes are ordinary characters, and so are quotes, unless the table has them as pandas
writes them (shared/text/quoting.py); texts contain no tabs. A line break inside of a cell becomes a space. Each file
may be compressed (``train.tsv.gz``). If a folder has files of several layouts, those of one are read: the first in the
order above that has training data.

Where there is no ``dev`` or ``test``, ``held_out`` draws them from the training data (shared/preparing/held_out.py).
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from reprlib import repr as shown
from typing import Annotated, Any

from dragoman.shared.batches.manifest import COLUMNS, Row
from dragoman.shared.errors import DataError
from dragoman.shared.machine.digits import whole_number
from dragoman.shared.machine.remote import beside
from dragoman.shared.preparing.held_out import DEV, LARGEST_SHARE, TEST, TRAIN, HeldOut
from dragoman.shared.preparing.line_pairs import paired_files, paired_rows
from dragoman.shared.preparing.reader import Reader, SourceRow, seconds
from dragoman.shared.preparing.split_files import chosen_splits
from dragoman.shared.ranges import Range
from dragoman.shared.sound.channels import LAST_CHANNEL, with_channel
from dragoman.shared.text import languages
from dragoman.shared.text.lines import Unusable, count_lines
from dragoman.st.corpora.own_files import OwnFiles, find_own, layouts, other_own_files
from dragoman.st.corpora.own_tables import Cells, cell_text, read_cells

_CONTENT = ("audio", "source_text", "target_text")
_OURS = (*COLUMNS, "channel")
#: Other names of our columns that are read: what a language is called comes before them.
_ALSO = {"source_text": ("source", "src"), "target_text": ("target", "tgt")}
#: Further names that other tools have for them: under these nothing would be found, so they are refused.
_OTHER_NAMES = {
    "src_text": "source_text",
    "transcript": "source_text",
    "sentence": "source_text",
    "text": "source_text",
    "tgt_text": "target_text",
    "translation": "target_text",
    "path": "audio",
    "wav": "audio",
    "file": "audio",
    "offset": "start",
    "src_lang": "source_language",
    "tgt_lang": "target_language",
    "speaker_id": "speaker",
    "client_id": "speaker",
}


class Tsv(Reader):
    """Reads one's own data."""

    name = "tsv"
    folder = ""
    edition = 2

    def __init__(
        self,
        *,
        root: str | Path,
        source_language: str | None = None,
        target_language: str | None = None,
        splits: list[str] | None = None,
        held_out: Annotated[float, Range(least=0, most=LARGEST_SHARE)] = 0.0,
    ) -> None:
        """Look for the files.

        Args:
            root: a folder with ``{split}.tsv`` or files of another layout, or one such file.
            source_language: of all rows, where the table has no such column.
            target_language: likewise.
            splits: names of splits; None means all.
            held_out: the share of the training data that becomes ``dev``, and as much ``test``, where there are no
                such files; 0 for none.

        Raises:
            DataError: if there are no files of any layout, a split is missing, or a code is unknown.
        """
        self._languages = {"source": source_language, "target": target_language}
        languages.check_given(*self._languages.values())
        self._share = held_out
        self._root, pair = Path(root).absolute(), (source_language, target_language)
        self._files = find_own(self._root, *pair)
        self._pass_files("files that are not read", other_own_files(self._root, self._files, *pair))
        if self._share and len(self._files) == 1:
            self._files = dict(zip([TRAIN], self._files.values(), strict=True))
        self._drawn = [split for split in (DEV, TEST) if self._share and split not in self._files]
        if self._drawn and TRAIN not in self._files:
            raise DataError(f"{root}: no {TRAIN}, from which {' and '.join(self._drawn)} could be drawn")
        drawn = {split: self._files[TRAIN] for split in self._drawn}
        self._splits = chosen_splits(root, self._files | drawn, splits)
        self._files |= drawn

    def inputs(self, split: str) -> list[Path]:
        """Return the table, or the files of both sides."""
        files = self._files[split]
        return paired_files(*files.files) if files.layout == "plain" else list(files.files)

    def count(self, split: str) -> int | None:
        """Return the number of lines; None where it is not known before they are read."""
        files = self._files[split]
        if files.layout not in ("tsv", "plain") or self._is_divided(split):
            return None
        return count_lines(files.files[0]) - (files.layout == "tsv")

    def _is_divided(self, split: str) -> bool:
        """Tell whether a split is a part of the training data."""
        return bool(self._drawn) and split in (TRAIN, *self._drawn)

    def rows(self, split: str) -> Iterator[SourceRow | Unusable]:
        """Go through the rows; a line with a number that is none, say, comes as what is wrong with it.

        Raises:
            DataError: if a column is misnamed, a table was written in two ways at once, or the sides of plain files
                differ in length.
        """
        rows = self._all_rows(self._files[split])
        if not self._is_divided(split):
            yield from rows
            return
        for row in rows:
            of = TRAIN if isinstance(row, Unusable) else self._held_out.split_of(row)
            if of == split or (split == TRAIN and of not in self._drawn):
                yield row

    @cached_property
    def _held_out(self) -> HeldOut:
        rows = (row for row in self._all_rows(self._files[TRAIN]) if not isinstance(row, Unusable))
        return HeldOut(rows, self._share, self._root)

    def _all_rows(self, files: OwnFiles) -> Iterator[SourceRow | Unusable]:
        path = files.files[0]
        if files.layout == "plain":
            source, target = self._languages.values()
            if source is None or target is None:
                raise DataError(f"{path}: the languages of plain files have to be given")
            source_file, target_file, *_ = files.files
            yield from paired_rows(source_file, target_file, (source, target), "")
            return
        names: dict[tuple[str, ...], dict[str, str]] = {}  # by header: objects of JSON may have different keys

        def check(header: list[str], line: int) -> None:
            names[tuple(header)] = self._named(header, f"{path}, line {line}")

        for line, row in read_cells(files.layout, path, check):
            if isinstance(row, Unusable):
                yield row
                continue
            called = names[tuple(row)]
            cells = {called[name]: value for name, value in row.items()}
            try:
                yield SourceRow(self._row(cells, path, line), file=path, line=line)
            except DataError as error:
                yield Unusable(str(error), path, line, str(cells.get("id", line)))

    def _row(self, cells: Cells, path: Path, line: int) -> Row:
        texts = {name: cell_text(name, value).strip() for name, value in cells.items() if name in _OURS}
        own_id = cell_text("id", cells["id"]) if "id" in cells else str(line)
        if not own_id:
            raise DataError("the id is empty")
        row: Row = {name: texts.get(name) or None for name in COLUMNS} | {
            name: _free(value) or None for name, value in cells.items() if name not in _OURS
        }
        row["id"] = own_id
        if not any(row[name] for name in _CONTENT):
            raise DataError(f"neither audio nor text in row {shown(own_id)}")
        if row["audio"] is not None:
            row["audio"] = beside(path.parent, row["audio"])
            if texts.get("channel"):
                row["audio"] = with_channel(row["audio"], _channel(texts["channel"]))
        for name in ("start", "duration"):
            if row[name] is not None:
                row[name] = seconds(name, row[name])
                if row["audio"] is None:
                    raise DataError(f"{name} is {row[name]:g}, but there is no audio")
        for side in ("source", "target"):
            row[f"{side}_language"] = self._language(side, row)
        return row

    def _named(self, header: list[str], place: str) -> dict[str, str]:
        """Return our names of the columns of a table, by theirs; free ones keep theirs.

        Raises:
            DataError: with all that is wrong about them.
        """
        if header in ([], [""]):
            raise DataError(f"{place}: empty, where the names of the columns are expected")
        lower = {name: name.strip().lower() for name in header}
        if len(lower) < len(header):
            twice = next(name for name in header if header.count(name) > 1)
            raise DataError(f"{place}: column {shown(twice)} is named twice")
        ours: dict[str, str] = {}
        for column in _OURS:
            for choice in ((column,), *self._also(column)):
                meant = [name for name, low in lower.items() if low in choice and column not in ours]
                if len(meant) > 1:
                    raise DataError(
                        f"{place}: {' and '.join(map(shown, meant))} could both be the {column}: rename one"
                    )
                ours |= dict.fromkeys([column], meant[0]) if meant else {}
        if not ours and len(header) == 1:
            raise DataError(f"{place}: no tab or comma, which would separate columns: {shown(header[0])}")
        columns = {theirs: column for column, theirs in ours.items()}
        free = [name for name in header if name not in columns]
        others = {name: other for name in free if (other := _our_name(name)) is not None and other not in ours}
        if others:
            renamed = ", ".join(f"{shown(name)} to {other!r}" for name, other in others.items())
            raise DataError(f"{place}: rename the columns {renamed}")
        if not any(name in ours for name in _CONTENT):
            has = ", ".join(map(repr, header))[:300]
            raise DataError(f"{place}: {has} names no text and no audio; {layouts(*self._languages.values())}")
        if any(not name.strip() for name in free):
            raise DataError(f"{place}: a column has no name; is it a tab or comma too many?")
        return columns | {name: name for name in free}

    def _also(self, column: str) -> list[tuple[str, ...]]:
        """Return what else a column may be called, in the order in which it is looked for."""
        if column not in _ALSO:
            return []
        code = self._languages[column.removesuffix("_text")]
        called = [] if code is None else [(code.lower(), languages.name(code).lower())]
        return [*called, _ALSO[column]]

    def _language(self, side: str, row: Row) -> str | None:
        """Return the language of a side, checked; None if there is neither a text nor a language."""
        code = row[f"{side}_language"] or self._languages[side]
        if code is not None:
            try:
                return languages.check(code)
            except DataError as error:
                raise DataError(f"{side}_language: {error}") from error
        if row[f"{side}_text"] is not None:
            raise DataError(f"{side}_language is empty, and none was given for all rows")
        return None


def _channel(text: str) -> int:
    """Return the number of a channel."""
    channel = whole_number(text)
    if channel is None or channel > LAST_CHANNEL:
        raise DataError(f"channel is {shown(text)}, not the number of a channel of the sound (from 0)")
    return channel


def _free(value: Any) -> str:
    """Return the cell of a column that is none of ours, as it stands."""
    if isinstance(value, str):
        return value
    return "" if value is None else json.dumps(value, ensure_ascii=False)


def _our_name(name: str) -> str | None:
    """Return the column that is meant by a name, if another tool calls it so, or if it is misspelt."""
    name = name.strip().lower()
    near = difflib.get_close_matches(name, _OURS, n=1, cutoff=0.85)
    return _OTHER_NAMES.get(name) or (near[0] if near else None)
