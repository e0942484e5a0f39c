"""Cuts of lhotse, `.jsonl` or `.jsonl.gz`, read without lhotse; ``dragoman.exchange.cuts`` writes them.

The layout: each file a split, a cut a line::

    {root}/cuts_train.jsonl.gz
        {"type": "MonoCut", "id": "a1", "start": 1.5, "duration": 3.2, "channel": 0,
         "recording": {"id": "a", "sources": [{"type": "file", "channels": [0], "source": "wav/a.wav"}], ...},
         "supervisions": [{"id": "a1", "start": 0.0, "duration": 3.2, "text": "How are you?", "language": "en",
                           "speaker": "anna", "custom": {"translation": "Wie geht es?"}, ...}]}

A cut with one supervision is a row; one with several is a row for each of them. ``translation`` names the key in
``custom`` that holds the translation: a text, or texts by language. Paths are relative to the file. Of a recording with
several channels, that of the cut is read, or in a MultiCut that of the supervision; a supervision of several channels,
or of another one, is refused. So are cuts that are mixed, padded or changed in speed or volume: what they sound like is
not on the disk.
"""

from __future__ import annotations

import math
from pathlib import Path
from reprlib import repr as shown
from typing import Any

from dragoman.shared.batches.manifest import Row
from dragoman.shared.errors import DataError
from dragoman.shared.machine.remote import beside
from dragoman.shared.sound.channels import with_channel
from dragoman.shared.text import languages
from dragoman.st.corpora.json_lines import JsonLines, Record, channel_in, seconds_in, text_in


class Lhotse(JsonLines):
    """Reads cuts of lhotse."""

    name = "lhotse"
    folder = ""

    def __init__(
        self,
        *,
        root: str | Path,
        source_language: str | None = None,
        target_language: str | None = None,
        translation: str = "translation",
        splits: list[str] | None = None,
    ) -> None:
        """Look for the files.

        Args:
            root: a folder with ``{split}.jsonl.gz`` or ``{split}.jsonl``, or one such file; ``cuts_`` at the
                beginning of a name is not part of the split's.
            source_language: of all supervisions that do not say theirs.
            target_language: of the translations; None reads none.
            translation: the key in ``custom``.
            splits: some of the splits; None means all.

        Raises:
            DataError: if a file is missing, or a code is unknown.
        """
        self._source = source_language
        self._target = target_language
        languages.check_given(source_language, target_language)
        self._translation = translation
        self._find_files(root, (".jsonl",), splits, prefix="cuts_")

    def _rows_of(self, record: Record, path: Path, line: int) -> list[Row]:
        return self._rows(record, path.parent)

    def _rows(self, cut: Record, folder: Path) -> list[Row]:
        if cut.get("type") not in ("MonoCut", "MultiCut"):
            raise DataError(f"a MonoCut or MultiCut is expected, not {shown(cut.get('type'))}")
        recording = cut.get("recording")
        if not isinstance(recording, dict):
            raise DataError(f"recording is {shown(recording)}, not an object")
        start = seconds_in(cut, "start") or 0.0
        supervisions = cut.get("supervisions")
        if not isinstance(supervisions, list) or not all(isinstance(item, dict) for item in supervisions):
            raise DataError(f"supervisions is {shown(supervisions)}, not a list of objects")
        if not supervisions:
            raise DataError("a cut without supervision has no text")
        whole = len(supervisions) == 1
        rows = []
        for supervision in supervisions:
            inside = cut if whole else supervision
            # A supervision may begin before its cut does.
            offset = 0.0 if whole else seconds_in(supervision, "start", least=-math.inf) or 0.0
            translation = self._translated(supervision)
            rows.append(
                {
                    "id": text_in(cut if whole else supervision, "id"),
                    "audio": _sound(recording, folder, _channel(cut, supervision)),
                    "start": start + offset,
                    "duration": seconds_in(inside, "duration"),
                    "source_text": text_in(supervision, "text"),
                    "source_language": self._language(supervision),
                    "target_text": translation,
                    "target_language": None if translation is None else self._target,
                    "speaker": text_in(supervision, "speaker"),
                    "document": text_in(recording, "id"),
                }
            )
        return rows

    def _translated(self, supervision: Record) -> str | None:
        if self._target is None:
            return None
        custom: Any = supervision.get("custom") or {}
        text = custom.get(self._translation) if isinstance(custom, dict) else None
        if isinstance(text, dict):
            text = text.get(self._target)
        if not isinstance(text, str):
            raise DataError(f"custom.{self._translation} is {shown(text)}, not a text in {self._target!r}")
        return text.strip()

    def _language(self, supervision: Record) -> str:
        code = self._source or text_in(supervision, "language")
        if not code:
            raise DataError("language is missing, and none was given for all cuts")
        return languages.check(code)


def _channel(cut: Record, supervision: Record) -> int:
    """Return the one channel of a supervision, which must be of its cut."""
    of_cut, spoken = cut.get("channel"), supervision.get("channel")
    channels = of_cut if isinstance(of_cut, list) else [channel_in(cut, "channel") or 0]
    if spoken is None and len(channels) == 1:
        spoken = channels[0]
    elif isinstance(spoken, list) and len(spoken) == 1:
        spoken = spoken[0]
    channel = channel_in({"channel": spoken}, "channel")
    if channel is None or channel not in channels:
        raise DataError(
            f"a supervision of channel {shown(spoken)}, but the cut is of channel {', '.join(map(str, channels))}"
        )
    return channel


def _sound(recording: Record, folder: Path, channel: int) -> str:
    """Return the place of a channel of a recording: a channel of a file, or the file that has no other."""
    if recording.get("transforms"):
        raise DataError(f"the recording is transformed ({shown(recording['transforms'])}): it is not on the disk")
    sources = recording.get("sources")
    if not isinstance(sources, list) or not sources or not all(map(_is_file, sources)):
        raise DataError(f"sources is {shown(sources)}, not one file, or a file for some of the channels each")
    if len(sources) == 1 and sources[0].get("channels") is None:
        return with_channel(beside(folder, sources[0]["source"]), channel)
    for source in sources:
        channels = source.get("channels")
        if not isinstance(channels, list):
            raise DataError(f"channels is {shown(channels)}, not a list of channels")
        if channel in channels:
            audio = beside(folder, source["source"])
            return audio if len(channels) == 1 else with_channel(audio, channels.index(channel))
    raise DataError(f"no source of the recording has channel {channel}: {shown(sources)}")


def _is_file(source: Any) -> bool:
    return isinstance(source, dict) and source.get("type") == "file" and isinstance(source.get("source"), str)
