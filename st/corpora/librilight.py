r"""Libri-Light (Kahn et al. 2020): up to 60,000 hours of English audiobooks without transcripts.

The layout of the makers' archives small.tar, medium.tar and large.tar, unpacked::

    {root}/small/100/emerald_city_64kb_mp3/emeraldcity_01_baum_64kb.flac    size, speaker, book, file; 16 kHz
    {root}/small/100/emerald_city_64kb_mp3/emeraldcity_01_baum_64kb.json    "voice_activity": [[0.4, 17.6], ...]

A file lasts many minutes. Rows are segments of it, by the times at which somebody speaks: neighbours are joined, with
the silence between them, as long as the segment is short enough; longer stretches are cut into equal parts. The makers'
cut_by_vad.py writes joined stretches into files of their own, without the silence; here no file is cut.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

from shared.corpus.reader import SourceRow, Unusable
from shared.described import Recorded
from shared.errors import DataError, UsageError
from shared.text import languages

SIZES = ("small", "medium", "large")


class LibriLight(Recorded):
    """Reads Libri-Light as segments of audio alone."""

    name = "librilight"

    def __init__(
        self,
        *,
        root: str | Path,
        source_language: str = "en",
        sizes: list[str] | None = None,
        seconds: float = 30.0,
        shortest: float = 1.0,
        held_out: float = 0.01,
    ) -> None:
        """Look for the folders.

        Args:
            root: the folder that holds ``small``, ``medium`` or ``large``.
            source_language: of the recordings; Libri-Light's are in English.
            sizes: some of these; None means all that are there.
            seconds: the longest segment.
            shortest: segments of fewer seconds are left out.
            held_out: the share of speakers whose segments are the split dev, chosen by their number; 0 for none.

        Raises:
            DataError: if there is no such folder.
            UsageError: if an argument is out of its range.

        """
        if not 0 < shortest <= seconds or not 0 <= held_out < 1:
            raise UsageError(
                f"need 0 < shortest <= seconds and 0 <= held_out < 1, not {shortest}, {seconds} and {held_out}"
            )
        self.folder = languages.check(source_language)
        self._root = Path(root).absolute()
        for size in sizes or []:
            if size not in SIZES or not (self._root / size).is_dir():
                raise DataError(f"{self._root / size}: not there; Libri-Light has {', '.join(SIZES)}")
        self._sizes = sizes or [size for size in SIZES if (self._root / size).is_dir()]
        if not self._sizes:
            raise DataError(f"{self._root}: has none of the folders {', '.join(SIZES)}")
        self._seconds = seconds
        self._shortest = shortest
        self._held_out = held_out
        self.published: dict[str, dict[str, float]] = {}

    def splits(self) -> list[str]:
        """Return train, and dev if speakers are held out."""
        return ["train", "dev"] if self._held_out else ["train"]

    def inputs(self, split: str) -> list[Path]:
        """Return the descriptions of the files of a split.

        Raises:
            DataError: if there is none.

        """
        found = [path for size in self._sizes for path in sorted((self._root / size).glob("*/*/*.json"))]
        files = [path for path in found if self._is_held_out(path.parent.parent.name) == (split == "dev")]
        if not files:
            raise DataError(f"{self._root}: no speaker/book/*.json of split {split} (held_out {self._held_out})")
        return files

    def count(self, split: str) -> None:
        """Return nothing: the number of segments is not known before all files are read."""

    def rows(self, split: str) -> Iterator[SourceRow | Unusable]:
        """Go through the segments, in the order of files and times."""
        for file in self.inputs(split):
            try:
                times = _voice_activity(file)
            except ValueError as error:
                yield Unusable(f"no times of speech ({error})", file, 1)
                continue
            speaker, book = file.parent.parent.name, file.parent.name
            for number, (start, end) in enumerate(segments(times, self._seconds)):
                if end - start < self._shortest:
                    continue
                row = {
                    "id": f"{speaker}/{book}/{file.stem}/{number:04d}",
                    "audio": str(file.with_suffix(".flac")),
                    "start": start,
                    "duration": end - start,
                    "source_language": self.folder,
                    "speaker": speaker,
                    "document": book,
                }
                yield SourceRow(row, file=file, line=1)

    def _is_held_out(self, speaker: str) -> bool:
        drawn = int.from_bytes(sha256(speaker.encode()).digest()[:4], "big") / 2**32
        return drawn < self._held_out


def segments(times: list[tuple[float, float]], seconds: float) -> list[tuple[float, float]]:
    """Return segments of at most `seconds` seconds, in order.

    Args:
        times: begin and end of each stretch of speech, in order.
        seconds: the longest segment.

    """
    found: list[tuple[float, float]] = []
    for start, end in times:
        if found and end - found[-1][0] <= seconds:
            found[-1] = (found[-1][0], end)
            continue
        parts = max(1, math.ceil((end - start) / seconds))
        length = (end - start) / parts
        found += [(start + part * length, start + (part + 1) * length) for part in range(parts)]
    return found


def _voice_activity(file: Path) -> list[tuple[float, float]]:
    """Return the times of speech that a description has.

    Raises:
        ValueError: if it is no JSON, or its times are not rising pairs of numbers.

    """
    try:
        content: Any = json.loads(file.read_text(encoding="utf-8"))
        times = [(float(start), float(end)) for start, end in content["voice_activity"]]
    except (OSError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"{type(error).__name__}: {error}") from error
    flat = [number for pair in times for number in pair]
    if not all(map(math.isfinite, flat)) or flat != sorted(flat) or (flat and flat[0] < 0):
        raise ValueError("they are not rising")
    return times
