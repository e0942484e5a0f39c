r"""MuST-C (Di Gangi et al., NAACL 2019; v1, v2 and v3): TED talks cut into sentences, with transcript and translation.

The layout, as the archives unpack::

    {root}/en-de/data/{split}/wav/ted_1.wav ...      whole talks, 16 kHz mono (any rate and format will do)
    {root}/en-de/data/{split}/txt/{split}.yaml       a list; item i is line i of the two texts:
        - {duration: 3.5, offset: 16.08, rW: 9, speaker_id: spk.1, wav: ted_1.wav}
    {root}/en-de/data/{split}/txt/{split}.en         transcript, one line a segment
    {root}/en-de/data/{split}/txt/{split}.de         translation, likewise
    {root}/en-de/data/{split}/txt/{split}.de.1 ...   further references, where there are some

Splits are train, dev, tst-COMMON and tst-HE. Keys come in any order and quoting (the releases differ), others than
those four are not read. Rows stay in the order of the files, so that hypotheses stand beside the published references;
an id is ``{wav stem}_{i}``, where i counts the talk's segments in time.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from reprlib import repr as shown
from typing import Any, ClassVar

import numpy as np
import yaml

from dragoman.shared.errors import DataError, shortened
from dragoman.shared.machine.nesting import DEPTH
from dragoman.shared.preparing.reader import Reader, SourceRow, seconds
from dragoman.shared.text import languages
from dragoman.shared.text.lines import count_lines, further_references, read_lines

#: Lines that the parser is given at a time.
_PART = 1000

#: An item of the list: what the keys say, None for a list or a map.
_Item = dict[str, str | None]

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
        self.offsets = array("d")
        self.durations = array("d")
        self.wavs = array("i")
        self.speakers = array("i")
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


class MustC(Reader):
    """Reads one language pair of MuST-C."""

    name = "mustc"
    #: The splits in their order; others come behind them.
    order: tuple[str, ...] = ("train", "dev", "tst-COMMON", "tst-HE")
    #: The folders of splits that have another name there.
    folders: ClassVar[dict[str, str]] = {}
    #: Where the corpus comes from, for somebody who has nothing of it.
    obtained = (
        "MuST-C is given out after a licence form at https://mt.fbk.eu; without one: mtedx or fleurs (docs/data.md)"
    )

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
            raise DataError(
                f"{self._data}: no such folder; {root} holds {', '.join(pairs) or 'no pair'}. {self.obtained}"
            )
        ours = {folder: split for split, folder in self.folders.items()}
        there = sorted(ours.get(path.name, path.name) for path in self._data.iterdir() if (path / "txt").is_dir())
        for split in splits or []:
            if split not in there:
                raise DataError(f"{self._data}: no split {split!r}; there are {', '.join(there) or 'none'}")
        self._splits = splits or sorted(
            there, key=lambda name: (self.order.index(name) if name in self.order else len(self.order), name)
        )
        if not self._splits:
            raise DataError(f"{self._data}: no split (a folder with txt/ and wav/) is there")
        self.published = _PUBLISHED.get(self.folder, {})

    def inputs(self, split: str) -> list[Path]:
        """Return the yaml, the two texts, and further references."""
        folder = self.folders.get(split, split)
        texts = self._data / folder / "txt"
        files = [texts / f"{folder}.{ending}" for ending in ("yaml", self.source_language, self.target_language)]
        return [*files, *further_references(files[-1])]

    def count(self, split: str) -> int:
        """Return the number of lines of the transcript."""
        return count_lines(self.inputs(split)[1])

    def rows(self, split: str) -> Iterator[SourceRow]:
        """Go through the segments in the order of the files.

        Raises:
            DataError: if the yaml and the texts differ in length, or an item of the yaml is not a segment.
        """
        segments_file, source_file, target_file, *references = self.inputs(split)
        segments = _read_segments(segments_file)
        for file in (source_file, target_file, *references):
            lines = count_lines(file)
            if lines != len(segments):
                first = (
                    f"item {lines + 1} has no line" if lines < len(segments) else f"line {len(segments) + 1} no item"
                )
                raise DataError(
                    f"{segments_file}: {len(segments)} segments, but {file.name} has {lines} lines: {first}"
                )
        audio = self._data / self.folders.get(split, split) / "wav"
        self._passed(split, anew=True)
        self._pass_sounds(split, audio, {Path(wav).stem for wav in segments.wav_names})
        wavs, speakers = list(segments.wav_names), list(segments.speaker_names)
        numbers = segments.numbers_in_time()
        files = (source_file, target_file, *references)
        texts = zip(*(read_lines(file, "surrogateescape") for file in files), strict=True)
        for position, (source, target, *further) in enumerate(texts):
            wav = wavs[segments.wavs[position]]
            stem = Path(wav).stem
            row = {
                **{f"target_text_{number}": text.strip() or None for number, text in enumerate(further, 1)},
                "id": f"{stem}_{numbers[position]}",
                "audio": str(self.audio(audio, wav)),
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

    def audio(self, folder: Path, name: str) -> Path:
        """Return the sound file of a talk, by its name in the yaml."""
        return folder / name


def _read_segments(path: Path) -> _Segments:
    """Read a yaml of any size, an item at a time."""
    segments = _Segments()
    for number, (line, item) in enumerate(_items(path), 1):
        place = f"{path}, line {line}, item {number}"
        wav = item.get("wav")
        if not wav or Path(wav).name in ("", ".."):
            raise DataError(f"{place}: wav is {shown(wav)}, not the name of a sound file")
        offset = seconds(f"{place}: offset", item.get("offset"), least=-math.inf)
        duration = seconds(f"{place}: duration", item.get("duration"), least=-math.inf)
        segments.add(offset, duration, wav, item.get("speaker_id") or "")
    return segments


def _items(path: Path) -> Iterator[tuple[int, _Item]]:
    """Yield the maps of the list that the yaml is, each with its line.

    Raises:
        DataError: if the file is not yaml, or something other than a list of maps.
    """
    try:
        yield from _Events(path).items()
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f", line {mark.line + 1}" if mark else ""
        reason = shortened(" ".join(str(getattr(error, "problem", None) or error).split()), 200)
        raise DataError(f"{path}{place}: not yaml ({reason})") from error


class _Events:
    """A yaml as libyaml's events: no tree is built, so that neither its size nor its nesting nor its aliases matter.

    Attributes:
        anchors: what later aliases stand for: an item, a text, or None for anything else.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._events: Iterator[Any] = yaml.parse(_Text(path), Loader=_LOADER)
        self.anchors: dict[str, _Item | str | None] = {}

    def items(self) -> Iterator[tuple[int, _Item]]:
        """Yield the items of the list, each with its line."""
        self._begin()
        for event in self._events:
            if isinstance(event, yaml.SequenceEndEvent):
                break
            line = event.start_mark.line + 1
            item: _Item | str | None = None
            if isinstance(event, yaml.MappingStartEvent):
                item = self._map()
                self._note(event, item)
            elif isinstance(event, yaml.AliasEvent):
                item = self._known(event)
            if not isinstance(item, dict):
                raise DataError(f"{self._path}, line {line}: a map is expected, not {_described(event)}")
            yield line, item
        for event in self._events:
            if isinstance(event, yaml.DocumentStartEvent):
                raise DataError(f"{self._path}, line {event.start_mark.line + 1}: a second document begins")

    def _begin(self) -> None:
        """Go to the first item of the list."""
        for event in self._events:
            if isinstance(event, yaml.SequenceStartEvent):
                return
            if isinstance(event, yaml.NodeEvent):
                line = event.start_mark.line + 1
                raise DataError(f"{self._path}, line {line}: a list of segments is expected, not {_described(event)}")
        raise DataError(f"{self._path}: a list of segments is expected, but the file is empty")

    def _map(self) -> _Item:
        """Read a map up to its end; values that are no texts are None."""
        item: _Item = {}
        for event in self._events:
            if isinstance(event, yaml.MappingEndEvent):
                break
            key = self._text(event)
            if key is None:
                line = event.start_mark.line + 1
                raise DataError(f"{self._path}, line {line}: a key is expected, not {_described(event)}")
            item[key] = self._text(next(self._events))
        return item

    def _text(self, event: Any) -> str | None:
        """Return the text that begins with an event; a list or a map is passed over, and is None."""
        if isinstance(event, yaml.AliasEvent):
            noted = self._known(event)
            return noted if isinstance(noted, str) else None
        text = event.value if isinstance(event, yaml.ScalarEvent) else None
        if isinstance(event, yaml.CollectionStartEvent):
            self._pass_over()
        self._note(event, text)
        return text

    def _pass_over(self) -> None:
        """Go to the end of a list or map that has begun in an item of the list."""
        depth = 3
        while depth > 2:
            event = next(self._events)
            if isinstance(event, yaml.CollectionStartEvent):
                depth += 1
            elif isinstance(event, yaml.CollectionEndEvent):
                depth -= 1
            if depth > DEPTH:
                line = event.start_mark.line + 1
                raise DataError(f"{self._path}, line {line}: nested more than {DEPTH} levels deep")

    def _note(self, event: Any, value: _Item | str | None) -> None:
        if event.anchor is not None:
            self.anchors[event.anchor] = value

    def _known(self, event: Any) -> _Item | str | None:
        if event.anchor not in self.anchors:
            line = event.start_mark.line + 1
            raise DataError(f"{self._path}, line {line}: not yaml (no anchor {shown(event.anchor)} before its alias)")
        return self.anchors[event.anchor]


class _Text:
    """A text file as libyaml reads it: read in parts, and a line that is not UTF-8 is named."""

    def __init__(self, path: Path) -> None:
        self._lines = read_lines(path)

    def read(self, _size: int) -> str:
        """Return the next lines, "" at the end; more characters than asked for are kept by the parser."""
        return "".join(f"{line}\n" for line in islice(self._lines, _PART))


def _described(event: Any) -> str:
    """Return what a node of yaml is, for messages."""
    if isinstance(event, yaml.ScalarEvent):
        return shown(event.value)
    if isinstance(event, yaml.AliasEvent):
        return f"the alias {shown(event.anchor)} of something else"
    return "a map" if isinstance(event, yaml.MappingStartEvent) else "a list"


#: Rows of the v1 release, as the ESPnet recipe counts them (espnet PR 6736); of other pairs no count is at hand.
_PUBLISHED: dict[str, dict[str, dict[str, float]]] = {
    "en-de": {"train": {"rows (v1)": 229703}, "dev": {"rows (v1)": 1423}},
}
