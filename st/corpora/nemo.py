"""JSON lines of NeMo, as Canary's and Granary's manifests are: an object a line.

The layout::

    {root}/train.json, {root}/dev.jsonl, ...       each file a split; or root is one such file
        {"audio_filepath": "clips/a1.flac", "offset": 0.0, "duration": 3.2, "text": "Wie geht es?",
         "source_lang": "en", "target_lang": "de"}

``text`` (or ``answer``, where both are there) is in ``target_lang``: a transcript if that is the source language,
else a translation, whose transcript another key may hold (``transcript``). Paths are relative to the file.
``channel_selector`` is the channel that is read, from 0; without it, or with "average", the mean of all. Other keys
(``pnc``, ``taskname``) are not read. Without the two languages in a line, those given to the reader hold.
"""

from __future__ import annotations

from pathlib import Path

from dragoman.shared.batches.manifest import Row
from dragoman.shared.errors import DataError
from dragoman.shared.machine.remote import beside
from dragoman.shared.sound.channels import with_channel
from dragoman.shared.text import languages
from dragoman.st.corpora.json_lines import JsonLines, Record, channel_in, seconds_in, text_in


class Nemo(JsonLines):
    """Reads manifests of NeMo."""

    name = "nemo"
    folder = ""

    def __init__(
        self,
        *,
        root: str | Path,
        source_language: str | None = None,
        target_language: str | None = None,
        transcript: str = "transcript",
        splits: list[str] | None = None,
    ) -> None:
        """Look for the files.

        Args:
            root: a folder with ``{split}.json`` or ``{split}.jsonl`` (also compressed, ``.gz``), or one such file.
            source_language: of all lines that do not say theirs.
            target_language: likewise.
            transcript: the key of a transcript beside a translation.
            splits: names of files without their ending; None means all.

        Raises:
            DataError: if a file is missing, or a code is unknown.
        """
        self._languages = {"source_lang": source_language, "target_lang": target_language or source_language}
        languages.check_given(*self._languages.values())
        self._transcript = transcript
        self._find_files(root, (".json", ".jsonl"), splits)

    def _rows_of(self, record: Record, path: Path, line: int) -> list[Row]:
        return [self._row(record, path, line)]

    def _row(self, record: Record, path: Path, line: int) -> Row:
        audio = text_in(record, "audio_filepath")
        if not audio:
            raise DataError("audio_filepath is missing")
        source, target = (self._language(record, key) for key in ("source_lang", "target_lang"))
        text = text_in(record, "answer" if record.get("answer") is not None else "text")
        recognised = source == target
        return {
            "id": text_in(record, "id") or f"{Path(audio).stem}-{line}",
            "audio": _sound(record, beside(path.parent, audio)),
            "start": seconds_in(record, "offset") or 0.0,
            "duration": seconds_in(record, "duration"),
            "source_text": text if recognised else text_in(record, self._transcript),
            "source_language": source,
            "target_text": None if recognised else text,
            "target_language": None if recognised else target,
            "speaker": text_in(record, "speaker"),
            "document": None,
        }

    def _language(self, record: Record, key: str) -> str:
        code = text_in(record, key) or self._languages[key]
        if not code:
            raise DataError(f"{key} is missing, and no language was given for all lines")
        return languages.check(code)


def _sound(record: Record, audio: str) -> str:
    """Return the place of the channel of a file that a line selects."""
    selected = record.get("channel_selector")
    if isinstance(selected, list) and len(selected) == 1:
        record = {"channel_selector": selected[0]}
    if selected == "average":
        return audio
    channel = channel_in(record, "channel_selector")
    return audio if channel is None else with_channel(audio, channel)
