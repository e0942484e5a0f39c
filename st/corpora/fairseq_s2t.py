"""Tables of fairseq's S2T (Wang et al. 2020), for those who have prepared a corpus for it.

The layout, with tabs and a header::

    {root}/train_st.tsv, {root}/dev_st.tsv, ...    each file a split; or root is one such file
        id    audio                n_frames    tgt_text        speaker    src_text    src_lang    tgt_lang
        a1    wav/a.wav:16000:4800 4800        Wie geht es?    anna       How are you?    en          de

``audio`` is a sound file, or ``file:first sample:number of samples`` at the file's own rate, relative to the table or
to ``audio_root``. Features in a zip (``fbank80.zip:123:456``) are not sound, and are refused. fairseq writes a
backslash before quotes, tabs and backslashes of texts, which is undone; a table that pandas wrote with quotes around
cells is read, too (shared/text/quoting.py).
"""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path
from reprlib import repr as shown

from dragoman.shared.batches.manifest import Row
from dragoman.shared.errors import DataError
from dragoman.shared.sound.audio import probe_header
from dragoman.shared.text import languages
from dragoman.st.corpora.tsv_tables import TsvTables


class FairseqS2T(TsvTables):
    """Reads tables of fairseq's S2T."""

    name = "fairseq_s2t"
    folder = ""
    columns = ("id", "audio", "tgt_text")
    escapes = True

    def __init__(
        self,
        *,
        root: str | Path,
        source_language: str | None = None,
        target_language: str | None = None,
        audio_root: str | None = None,
        splits: list[str] | None = None,
    ) -> None:
        """Look for the tables.

        Args:
            root: a folder with ``{split}.tsv``, or one such file.
            source_language: of all rows, where the table has no ``src_lang``.
            target_language: likewise; in tables for recognition, the source language.
            audio_root: the folder that ``audio`` is relative to; None: the table's.
            splits: names of tables without ``.tsv``; None means all.

        Raises:
            DataError: if a table is missing, or a code is unknown.
        """
        self._languages = {"src_lang": source_language, "tgt_lang": target_language}
        languages.check_given(*self._languages.values())
        self._audio_root = None if audio_root is None else Path(audio_root).absolute()
        self._find_tables(root, splits)

    def _row(self, cells: dict[str, str], path: Path) -> Row:
        audio, start, duration = _segment(cells["audio"], self._audio_root or path.parent)
        source, target = (self._language(cells, key) for key in ("src_lang", "tgt_lang"))
        recognised = source == target
        text = cells["tgt_text"].strip()
        return {
            "id": cells["id"],
            "audio": audio,
            "start": start,
            "duration": duration,
            "source_text": text if recognised else cells.get("src_text", "").strip() or None,
            "source_language": source,
            "target_text": None if recognised else text,
            "target_language": None if recognised else target,
            "speaker": cells.get("speaker", "").strip() or None,
            "document": None,
        }

    def _language(self, cells: dict[str, str], key: str) -> str:
        code = cells.get(key, "").strip() or self._languages[key]
        if not code:
            raise DataError(f"{key} is empty, and no language was given for all rows")
        return languages.check(code)


def _segment(cell: str, folder: Path) -> tuple[str, float, float | None]:
    """Return the sound file that a cell names, and start and duration in seconds."""
    match = re.fullmatch(r"(?P<file>.+?)(?::(?P<first>\d{1,15}):(?P<count>\d{1,15}))?", cell)
    if match is None:
        raise DataError(f"audio is {shown(cell)}, not a file")
    if Path(match["file"]).suffix in (".zip", ".npy"):
        raise DataError(f"audio is {shown(cell)}: features, not sound; give the table of the sound files")
    file = str(folder / match["file"])
    if match["first"] is None:
        return file, 0.0, None
    rate = _rate(file)
    return file, int(match["first"]) / rate, int(match["count"]) / rate


@lru_cache(maxsize=4096)
def _rate(file: str) -> int:
    return probe_header(file)[0]
