r"""MuST-C (Di Gangi et al., NAACL 2019; v1, v2 and v3): TED talks cut into sentences, with transcript and translation.

The layout, as the archives unpack::

    {root}/en-de/data/{split}/wav/ted_1.wav ...      whole talks, 16 kHz mono (any rate and format will do)
    {root}/en-de/data/{split}/txt/{split}.yaml       a list; item i is line i of the two texts:
        - {duration: 3.5, offset: 16.08, rW: 9, speaker_id: spk.1, wav: ted_1.wav}
    {root}/en-de/data/{split}/txt/{split}.en         transcript, one line a segment
    {root}/en-de/data/{split}/txt/{split}.de         translation, likewise

Splits are train, dev, tst-COMMON and tst-HE. Keys come in any order and quoting (the releases differ), others than
those four are not read. Rows stay in the order of the files, so that hypotheses stand beside the published references;
an id is ``{wav stem}_{i}``, where i counts the talk's segments in time.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator
from pathlib import Path
from reprlib import repr as shown
from typing import Any

import numpy as np
import yaml

from shared import languages
from shared.corpus.lines import count_lines, read_lines
from shared.corpus.reading import SourceRow
from shared.described import Described
from shared.errors import DataError

#: Segments parsed at a time: libyaml builds every node of a document before it gives back the first.
_PART = 2000

_ORDER = ("train", "dev", "tst-COMMON", "tst-HE")

# Strings only: the safe loader would read speaker 0123 as an octal number and offset 1e3 as text.
_LOADER: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)


class _Segments:
    """All segments of a split, 24 bytes each.

    Attributes:
        offsets: seconds.
        durations: seconds.
        wavs: the talk of each segment, a number in ``wav_names``.
        speakers: likewise, in ``speaker_names``; the name "" stands for none.

    """

    def __init__(self) -> None:
        self.offsets, self.durations = array("d"), array("d")
        self.wavs, self.speakers = array("i"), array("i")
        self.wav_names: dict[str, int] = {}
        self.speaker_names: dict[str, int] = {}

    def __len__(self) -> int:
        """Return the number of segments."""
        return len(self.offsets)

    def add(self, offset: float, duration: float, wav: str, speaker: str) -> None:
        """Append a segment."""
        self.offsets.append(offset)
        self.durations.append(duration)
        self.wavs.append(self.wav_names.setdefault(wav, len(self.wav_names)))
        self.speakers.append(self.speaker_names.setdefault(speaker, len(self.speaker_names)))

    def numbers_in_time(self) -> np.ndarray:
        """Return each segment's number in its talk, by time; (segments,) int64."""
        order = np.lexsort((np.asarray(self.offsets), np.asarray(self.wavs)))
        talks = np.asarray(self.wavs)[order]
        begins = np.searchsorted(talks, talks)
        numbers = np.empty(len(order), dtype=np.int64)
        numbers[order] = np.arange(len(order)) - begins
        return numbers


class MustC(Described):
    """Reads one language pair of MuST-C."""

    name = "mustc"

    def __init__(
        self,
        *,
        root: str | Path,
        source_language: str = "en",
        target_language: str = "de",
        splits: list[str] | None = None,
    ) -> None:
        """Look for the pair and its splits.

        Args:
            root: the folder that holds ``en-de``.
            source_language: of speech and transcript.
            target_language: of the translation.
            splits: those to be read; None means all that are there.

        Raises:
            DataError: if the pair or a split is not there, or a code is unknown.

        """
        self.source_language = languages.check(source_language)
        self.target_language = languages.check(target_language)
        self.folder = f"{source_language}-{target_language}"
        self._data = Path(root).absolute() / self.folder / "data"
        if not self._data.is_dir():
            pairs = sorted(path.parent.name for path in Path(root).glob("*-*/data"))
            raise DataError(f"{self._data}: no such folder; {root} holds {', '.join(pairs) or 'no pair'}")
        there = sorted(path.name for path in self._data.iterdir() if (path / "txt").is_dir())
        for split in splits or []:
            if split not in there:
                raise DataError(f"{self._data}: no split {split!r}; there are {', '.join(there) or 'none'}")
        self._splits = splits or sorted(there, key=lambda name: (_ORDER.index(name) if name in _ORDER else 9, name))
        if not self._splits:
            raise DataError(f"{self._data}: no split (a folder with txt/ and wav/) is there")
        self.published = _PUBLISHED.get(self.folder, {})

    def splits(self) -> list[str]:
        """Return the names of the splits, training first."""
        return list(self._splits)

    def inputs(self, split: str) -> list[Path]:
        """Return the yaml and the two texts."""
        texts = self._data / split / "txt"
        return [texts / f"{split}.{ending}" for ending in ("yaml", self.source_language, self.target_language)]

    def count(self, split: str) -> int:
        """Return the number of lines of the transcript."""
        return count_lines(self.inputs(split)[1])

    def rows(self, split: str) -> Iterator[SourceRow]:
        """Go through the segments in the order of the files.

        Raises:
            DataError: if the yaml and the texts differ in length, or an item of the yaml is not a segment.

        """
        segments_file, source_file, target_file = self.inputs(split)
        segments = _read_segments(segments_file)
        for file in (source_file, target_file):
            lines = count_lines(file)
            if lines != len(segments):
                first = (
                    f"item {lines + 1} has no line" if lines < len(segments) else f"line {len(segments) + 1} no item"
                )
                raise DataError(
                    f"{segments_file}: {len(segments)} segments, but {file.name} has {lines} lines: {first}"
                )
        audio = self._data / split / "wav"
        wavs, speakers = list(segments.wav_names), list(segments.speaker_names)
        numbers = segments.numbers_in_time()
        texts = zip(*(read_lines(file, "surrogateescape") for file in (source_file, target_file)), strict=True)
        for position, (source, target) in enumerate(texts):
            wav = wavs[segments.wavs[position]]
            stem = Path(wav).stem
            row = {
                "id": f"{stem}_{numbers[position]}",
                "audio": str(audio / wav),
                "start": segments.offsets[position],
                "duration": segments.durations[position],
                "source_text": source.strip(),
                "source_language": self.source_language,
                "target_text": target.strip(),
                "target_language": self.target_language,
                "speaker": speakers[segments.speakers[position]] or None,
                "document": stem,
            }
            yield SourceRow(row, file=source_file, line=position + 1, files={"target_text": target_file})


def _read_segments(path: Path) -> _Segments:
    """Parse a yaml of any size: in parts that begin with a new item of the list, or whole if that does not go."""
    segments = _Segments()
    try:
        for part, first in _parts(path):
            try:
                items = _parse(path, part)
            except DataError as error:
                raise _OneDocument from error
            if len(items) != sum(line.startswith("- ") for line in part):
                raise _OneDocument
            _add(segments, path, items, first)
    except _OneDocument:
        segments = _Segments()
        _add(segments, path, _parse(path, list(read_lines(path))), 0)
    return segments


class _OneDocument(Exception):
    """The parts are no lists by themselves (aliases, another style), so that the file has to be parsed whole."""


def _parts(path: Path) -> Iterator[tuple[list[str], int]]:
    """Yield the lines of up to ``_PART`` items, and the number of items before them."""
    part: list[str] = []
    count = 0
    for line in read_lines(path):
        if line.startswith("- "):
            if count and count % _PART == 0:
                yield part, count - _PART
                part = []
            count += 1
        elif not count:
            if line.strip() not in ("", "---") and not line.startswith("#"):
                raise _OneDocument
            continue
        part.append(line)
    if not count:
        raise _OneDocument
    yield part, (count - 1) // _PART * _PART


def _parse(path: Path, lines: list[str]) -> list[Any]:
    try:
        items = yaml.load("\n".join(lines), Loader=_LOADER)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f", line {mark.line + 1}" if mark else ""
        raise DataError(f"{path}{place}: not yaml ({getattr(error, 'problem', None) or error})") from error
    if not isinstance(items, list):
        raise DataError(f"{path}: a list of segments is expected, not {str(items)[:60]!r}")
    return items


def _add(segments: _Segments, path: Path, items: list[Any], first: int) -> None:
    """Append the items of the list, of which ``first`` come before these."""
    for number, item in enumerate(items, first + 1):
        if not isinstance(item, dict):
            raise DataError(f"{path}, item {number}: a map is expected, not {str(item)[:60]!r}")
        wav = item.get("wav")
        if not isinstance(wav, str) or not wav:
            raise DataError(f"{path}, item {number}: wav is {shown(wav)} in {str(item)[:120]}")
        offset, duration = (_seconds(path, number, item, key) for key in ("offset", "duration"))
        speaker = item.get("speaker_id")
        segments.add(offset, duration, wav, speaker if isinstance(speaker, str) else "")


def _seconds(path: Path, number: int, item: dict[str, Any], key: str) -> float:
    try:
        seconds = float(item[key])
    except (KeyError, TypeError, ValueError):
        seconds = math.nan
    if not math.isfinite(seconds):
        raise DataError(f"{path}, item {number}: {key} is {shown(item.get(key))}, not a number of seconds")
    return seconds


#: Rows of the v1 release, as the ESPnet recipe counts them (espnet PR 6736); of other pairs no count is at hand.
_PUBLISHED: dict[str, dict[str, dict[str, float]]] = {
    "en-de": {"train": {"rows (v1)": 229703}, "dev": {"rows (v1)": 1423}},
}
