r"""LibriSpeech (Panayotov et al. 2015): English audiobooks, an utterance a file, with transcripts in upper case.

The layout of openslr.org/12, unpacked::

    {root}/train-clean-100/103/1240/103-1240-0000.flac       speaker, chapter, utterance; 16 kHz
    {root}/train-clean-100/103/1240/103-1240.trans.txt       lines "103-1240-0000 CHAPTER ONE MISSUS RACHEL ..."

A split is the name of its folder. Transcripts stay as they are; recipes put them into lower case by ``source_policy``.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from dragoman.shared.errors import DataError
from dragoman.shared.preparing.reader import Reader, SourceRow, sound_file
from dragoman.shared.text.lines import Unusable, count_lines, read_lines

#: Utterances and hours of each split (Panayotov et al. 2015, table 1; the release).
PUBLISHED: dict[str, dict[str, float]] = {
    "train-clean-100": {"rows": 28539, "hours": 100.6},
    "train-clean-360": {"rows": 104014, "hours": 363.6},
    "train-other-500": {"rows": 148688, "hours": 496.7},
    "dev-clean": {"rows": 2703, "hours": 5.4},
    "dev-other": {"rows": 2864, "hours": 5.3},
    "test-clean": {"rows": 2620, "hours": 5.4},
    "test-other": {"rows": 2939, "hours": 5.1},
}


class LibriSpeech(Reader):
    """Reads the splits of LibriSpeech."""

    name = "librispeech"
    folder = "en"

    def __init__(self, *, root: str | Path, splits: list[str] | None = None) -> None:
        """Look for the folders of the splits.

        Args:
            root: the folder that holds ``train-clean-100`` and others (``LibriSpeech`` in the archives).
            splits: their names; None means all that are there.

        Raises:
            DataError: if LibriSpeech has no such split, one is not there, or none is.
        """
        self._root = Path(root).absolute()
        for split in splits or []:
            if split not in PUBLISHED:
                raise DataError(f"LibriSpeech has no split {split!r}; it has {', '.join(PUBLISHED)}")
            if not (self._root / split).is_dir():
                raise DataError(f"{self._root / split}: not there; root holds the folders of the splits")
        self._splits = splits or [split for split in PUBLISHED if (self._root / split).is_dir()]
        if not self._splits:
            raise DataError(f"{self._root}: has none of {', '.join(PUBLISHED)}; is it the folder LibriSpeech?")
        self.published = {split: PUBLISHED[split] for split in self._splits}

    def inputs(self, split: str) -> list[Path]:
        """Return the transcripts, one file for each chapter.

        Raises:
            DataError: if there is none.
        """
        files = sorted((self._root / split).glob("*/*/*.trans.txt"))
        if not files:
            raise DataError(f"{self._root / split}: has no speaker/chapter/*.trans.txt")
        return files

    def count(self, split: str) -> int:
        """Return the number of lines of all transcripts."""
        return sum(map(count_lines, self.inputs(split)))

    def rows(self, split: str) -> Iterator[SourceRow | Unusable]:
        """Go through the utterances, by speaker and chapter; durations are not known yet."""
        self._passed(split, anew=True)
        for file in self.inputs(split):
            speaker, chapter = file.parent.parent.name, file.parent.name
            names = set()
            for line, text in enumerate(read_lines(file, "surrogateescape"), 1):
                name, _, transcript = text.strip().partition(" ")
                if not name.startswith(f"{speaker}-{chapter}-"):
                    yield Unusable(f"{name[:60]!r} is no utterance of {speaker}-{chapter}", file, line)
                    continue
                names.add(name)
                row = {
                    "id": name,
                    "audio": str(sound_file(file.parent, name)),
                    "start": 0.0,
                    "duration": None,
                    "source_text": transcript.strip(),
                    "source_language": "en",
                    "speaker": speaker,
                    "document": chapter,
                }
                yield SourceRow(row, file=file, line=line)
            self._pass_sounds(split, file.parent, names)
