r"""Own data: a tab-separated table with a header, and sound files wherever it says.

The layout::

    {root}/train.tsv, {root}/dev.tsv, ...      each file a split; or root is one such file
        id    audio           source_text      target_text      source_language  target_language  speaker
        a1    clips/a1.flac   How are you?     Wie geht es?     en               de               anna

``id`` is needed, and at least one of ``audio``, ``source_text`` and ``target_text``. ``audio`` is relative to the table
(wav, flac, ogg, mp3; any rate); ``start`` and ``duration`` in seconds cut a segment out of it. Languages that are the
same throughout can be given to the reader instead. An empty cell means that there is nothing. Quotes and backslashes
are ordinary characters, and texts contain no tabs. Other columns are kept in the manifest, as texts.
"""

from __future__ import annotations

import difflib
import math
from pathlib import Path
from reprlib import repr as shown

from shared.corpus.lines import read_lines
from shared.corpus.manifest import COLUMNS, Row
from shared.corpus.tsv_tables import TsvTables
from shared.errors import DataError
from shared.text import languages

_CONTENT = ("audio", "source_text", "target_text")

#: What other tools call our columns: under these names nothing would be found, so they are refused.
_OTHER_NAMES = {
    "source": "source_text",
    "src": "source_text",
    "src_text": "source_text",
    "transcript": "source_text",
    "sentence": "source_text",
    "text": "source_text",
    "target": "target_text",
    "tgt": "target_text",
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


class Tsv(TsvTables):
    """Reads a table of one's own."""

    name = "tsv"
    folder = ""

    def __init__(
        self,
        *,
        root: str | Path,
        source_language: str | None = None,
        target_language: str | None = None,
        splits: list[str] | None = None,
    ) -> None:
        """Look for the tables.

        Args:
            root: a folder with ``{split}.tsv``, or one such file.
            source_language: of all rows, where the table has no such column.
            target_language: likewise.
            splits: names of tables without ``.tsv``; None means all.

        Raises:
            DataError: if a table is missing, or a code is unknown.

        """
        self._languages = {"source": source_language, "target": target_language}
        languages.check_given(*self._languages.values())
        self._find_tables(root, splits)

    def _row(self, cells: dict[str, str], path: Path) -> Row:
        if not cells["id"]:
            raise DataError("the id is empty")
        row: Row = {name: cells.get(name, "").strip() or None for name in COLUMNS} | {
            name: text or None for name, text in cells.items() if name not in COLUMNS
        }
        row["id"] = cells["id"]
        if not any(row[name] for name in _CONTENT):
            raise DataError(f"neither audio nor text in row {shown(cells['id'])}")
        if row["audio"] is not None:
            row["audio"] = str(path.parent / row["audio"])
        for name in ("start", "duration"):
            row[name] = _seconds(name, row[name], row["audio"])
        for side in ("source", "target"):
            row[f"{side}_language"] = self._language(side, row)
        return row

    def _check_header(self, path: Path) -> None:
        header = next(read_lines(path), "").split("\t")
        if header == [""]:
            raise DataError(f"{path}, line 1: empty, where the names of the columns are expected")
        if len(header) == 1:
            raise DataError(f"{path}, line 1: no tab, which separates the columns: {shown(header[0])}")
        free = [name for name in header if name not in COLUMNS]
        meant = {name: ours for name in free if (ours := _our_name(name)) is not None and ours not in header}
        if meant:
            renamed = ", ".join(f"{shown(name)} to {ours!r}" for name, ours in meant.items())
            missing = "" if "id" in (*header, *meant.values()) else "; column 'id' is missing"
            raise DataError(f"{path}, line 1: rename the columns {renamed}{missing}")
        if not any(name in header for name in _CONTENT):
            found = ", ".join(header)[:500]
            raise DataError(f"{path}, line 1: none of the columns {', '.join(_CONTENT)} (it has {found})")
        if any(not name.strip() for name in free):
            raise DataError(f"{path}, line 1: a column has no name; is it a tab too many?")

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


def _our_name(name: str) -> str | None:
    """Return the column that is meant by a name, if another tool calls it so, or if it is misspelt."""
    name = name.strip().lower()
    near = difflib.get_close_matches(name, list(COLUMNS), n=1, cutoff=0.85)
    return _OTHER_NAMES.get(name) or (near[0] if near else None)


def _seconds(name: str, text: str | None, audio: str | None) -> float | None:
    """Return a number of seconds, or None for an empty cell."""
    if text is None:
        return None
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not math.isfinite(seconds) or seconds < 0:
        raise DataError(f"{name} is {shown(text)}, not a number of seconds")
    if audio is None:
        raise DataError(f"{name} is {shown(text)}, but there is no audio")
    return seconds
