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
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from shared import languages
from shared.corpus.lines import count_lines, read_lines
from shared.corpus.manifest import Row
from shared.described import Described
from shared.errors import DataError

#: Segments parsed at a time: libyaml builds every node of a document before it gives back the first.
_PART = 2000

_ORDER = ("train", "dev", "tst-COMMON", "tst-HE")

# Strings only: the safe loader would read speaker 0123 as an octal number and offset 1e3 as text.
_LOADER: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)


class _Segment(NamedTuple):
    offset: float
    duration: float
    wav: str
    speaker: str | None


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

    def rows(self, split: str) -> Iterator[Row]:
        """Go through the segments in the order of the files.

        Raises:
            DataError: if the yaml and the texts differ in length, or an item of the yaml is not a segment.

        """
        segments_file, source_file, target_file = self.inputs(split)
        segments = _read_segments(segments_file)
        lines = {source_file: count_lines(source_file), target_file: count_lines(target_file)}
        for file, count in lines.items():
            if count != len(segments):
                raise DataError(f"{segments_file}: {len(segments)} segments, but {file.name} has {count} lines")
        audio = self._data / split / "wav"
        texts = zip(_number_in_time(segments), segments, read_lines(source_file), read_lines(target_file), strict=True)
        for number, segment, source, target in texts:
            stem = Path(segment.wav).stem
            yield {
                "id": f"{stem}_{number}",
                "audio": str(audio / segment.wav),
                "start": segment.offset,
                "duration": segment.duration,
                "source_text": source.strip(),
                "source_language": self.source_language,
                "target_text": target.strip(),
                "target_language": self.target_language,
                "speaker": segment.speaker,
                "document": stem,
            }


def _number_in_time(segments: list[_Segment]) -> list[int]:
    """Return each segment's number in its talk, by time."""
    counts: dict[str, int] = {}
    numbers = [0] * len(segments)
    for position in sorted(range(len(segments)), key=lambda i: segments[i].offset):
        talk = segments[position].wav
        numbers[position] = counts.get(talk, 0)
        counts[talk] = numbers[position] + 1
    return numbers


def _read_segments(path: Path) -> list[_Segment]:
    """Parse a yaml of any size: in parts that begin with a new item of the list, or whole if that does not go."""
    lines = list(read_lines(path))
    starts = [number for number, line in enumerate(lines) if line.startswith("- ")]
    try:
        return [segment for part in _parts(path, lines, starts) for segment in part]
    except _OneDocument:
        return _segments(path, _parse(path, lines), 0)


class _OneDocument(Exception):
    """The parts are no lists by themselves (aliases, another style), so that the file has to be parsed whole."""


def _parts(path: Path, lines: list[str], starts: list[int]) -> Iterator[list[_Segment]]:
    before = [line for line in lines[: starts[0] if starts else None] if line.strip() and not line.startswith("#")]
    if not starts or any(line.strip() != "---" for line in before):
        raise _OneDocument
    for first in range(0, len(starts), _PART):
        begin = starts[first]
        end = starts[first + _PART] if first + _PART < len(starts) else len(lines)
        try:
            items = yaml.load("\n".join(lines[begin:end]), Loader=_LOADER)
        except yaml.YAMLError as error:
            raise _OneDocument from error
        if not isinstance(items, list) or len(items) != len(starts[first : first + _PART]):
            raise _OneDocument
        yield _segments(path, items, first)


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


def _segments(path: Path, items: list[Any], first: int) -> list[_Segment]:
    """Turn the items of the list, the first of which has number ``first``, into segments."""
    segments = []
    for number, item in enumerate(items, first + 1):
        if not isinstance(item, dict):
            raise DataError(f"{path}, item {number}: a map is expected, not {str(item)[:60]!r}")
        wav = item.get("wav")
        if not isinstance(wav, str) or not wav:
            raise DataError(f"{path}, item {number}: wav is {wav!r} in {str(item)[:120]}")
        offset, duration = (_seconds(path, number, item, key) for key in ("offset", "duration"))
        speaker = item.get("speaker_id")
        segments.append(_Segment(offset, duration, wav, speaker if isinstance(speaker, str) and speaker else None))
    return segments


def _seconds(path: Path, number: int, item: dict[str, Any], key: str) -> float:
    try:
        seconds = float(item[key])
    except (KeyError, TypeError, ValueError):
        seconds = math.nan
    if not math.isfinite(seconds):
        raise DataError(f"{path}, item {number}: {key} is {item.get(key)!r}, not a number of seconds")
    return seconds


#: Rows of the v1 release, as the ESPnet recipe counts them (espnet PR 6736); of other pairs no count is at hand.
_PUBLISHED: dict[str, dict[str, dict[str, float]]] = {
    "en-de": {"train": {"rows (v1)": 229703}, "dev": {"rows (v1)": 1423}},
}
