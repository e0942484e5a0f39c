r"""Libri-Light (Kahn et al. 2020): up to 60,000 hours of English audiobooks without transcripts.

The layout of the makers' archives small.tar, medium.tar and large.tar, unpacked::

    {root}/small/100/emerald_city_64kb_mp3/emeraldcity_01_baum_64kb.flac    size, speaker, book, file; 16 kHz
    {root}/small/100/emerald_city_64kb_mp3/emeraldcity_01_baum_64kb.json    "voice_activity": [[0.4, 17.6], ...]

A file lasts many minutes. Rows are segments of it, by the times at which somebody speaks: neighbours are joined, with
the silence between them, as long as the segment is short enough; longer stretches are cut into equal parts. The makers'
cut_by_vad.py writes joined stretches into files of their own, without the silence; here no file is cut.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from hashlib import sha256
from itertools import groupby
from pathlib import Path
from typing import Any

from dragoman.shared.errors import DataError, UsageError, one_line
from dragoman.shared.machine.nesting import from_json
from dragoman.shared.preparing.reader import Reader, SourceRow, seconds, sound_file
from dragoman.shared.ranges import PositiveFloat, ShareBelowOne
from dragoman.shared.text import languages
from dragoman.shared.text.compressed import opened
from dragoman.shared.text.lines import Unusable

SIZES = ("small", "medium", "large")


class LibriLight(Reader):
    """Reads Libri-Light as segments of audio alone."""

    name = "librilight"

    def __init__(
        self,
        *,
        root: str | Path,
        source_language: str = "en",
        sizes: list[str] | None = None,
        seconds: float = 30.0,
        shortest: PositiveFloat = 1.0,
        held_out: ShareBelowOne = 0.01,
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
            UsageError: if the shortest segment is longer than the longest.
        """
        if shortest > seconds:
            raise UsageError(f"need shortest <= seconds, not {shortest} and {seconds}")
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

    def splits(self) -> list[str]:
        """Return train, and dev if speakers are held out."""
        return ["train", "dev"] if self._held_out else ["train"]

    def inputs(self, split: str) -> list[Path]:
        """Return the descriptions of the files of a split.

        Raises:
            DataError: if there is none.
        """
        paths = [path for size in self._sizes for path in sorted((self._root / size).glob("*/*/*.json"))]
        files = [path for path in paths if self._is_held_out(path.parent.parent.name) == (split == "dev")]
        if not files:
            raise DataError(f"{self._root}: no speaker/book/*.json of split {split} (held_out {self._held_out})")
        return files

    def count(self, split: str) -> None:
        """Return nothing: the number of segments is not known before all files are read."""

    def rows(self, split: str) -> Iterator[SourceRow | Unusable]:
        """Go through the segments, in the order of files and times."""
        passed = self._passed(split, anew=True)
        files = self.inputs(split)
        for folder, described in groupby(files, key=lambda file: file.parent):
            self._pass_sounds(split, folder, {file.stem for file in described})
        for file in files:
            try:
                times = _voice_activity(file)
            except DataError as error:
                yield Unusable(f"no times of speech ({error})", file, 1)
                continue
            speaker, book = file.parent.parent.name, file.parent.name
            audio = str(sound_file(file.parent, file.stem))
            for number, (start, end) in enumerate(segments(times, self._seconds)):
                if end - start < self._shortest:
                    passed[f"segments of less than {self._shortest:g} s"] += 1
                    continue
                row = {
                    "id": f"{speaker}/{book}/{file.stem}/{number:04d}",
                    "audio": audio,
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
    spans: list[tuple[float, float]] = []
    for start, end in times:
        if spans and end - spans[-1][0] <= seconds:
            spans[-1] = (spans[-1][0], end)
            continue
        parts = max(1, math.ceil((end - start) / seconds))
        length = (end - start) / parts
        spans += [(start + part * length, start + (part + 1) * length) for part in range(parts)]
    return spans


def _voice_activity(file: Path) -> list[tuple[float, float]]:
    """Return the times of speech that a description has.

    Raises:
        DataError: if it is no JSON, or its times are not rising pairs of numbers.
    """
    with opened(file) as stream:
        content = stream.read()
    try:
        activity: Any = from_json(content)["voice_activity"]
        times = [(seconds("begin", start), seconds("end", end)) for start, end in activity]
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{type(error).__name__}: {one_line(error)}") from error
    flat = [number for pair in times for number in pair]
    if flat != sorted(flat):
        raise DataError("they are not rising")
    return times
