"""Europarl-ST v1.1 (Iranzo-Sánchez et al. 2020, arXiv 1911.03167): speeches of the European Parliament.

`https://www.mllp.upv.es/europarl-st/v1.1.tar.gz` (20 GB) unpacks to::

    {root}/en/audios/{speech}.m4a                           whole speeches
    {root}/en/de/{train,train-noisy,dev,test}/segments.lst  a line for each segment: speech, start and end in seconds
    {root}/en/de/dev/segments.en                            its transcript, in the same line
    {root}/en/de/dev/segments.de                            its translation, likewise
    {root}/en/de/dev/speeches.lst, speakers.lst             the speeches, and in the same line who speaks

m4a is decoded by FFmpeg (`pip install 'dragoman[media]'`); speeches that were converted to ``.wav``, ``.flac`` or
others in the same folder are read without it. An id is ``{speech}_{i}``, where i counts the speech's segments in the
file's order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from dragoman.shared.errors import DataError, shortened
from dragoman.shared.preparing.reader import Reader, SourceRow, seconds, sound_file
from dragoman.shared.text import languages
from dragoman.shared.text.lines import count_lines, read_lines

SPLITS = ("train", "train-noisy", "dev", "test")


class EuroparlST(Reader):
    """Reads one direction of Europarl-ST."""

    name = "europarl_st"

    def __init__(
        self,
        *,
        root: str | Path,
        source_language: str,
        target_language: str,
        splits: list[str] | None = None,
    ) -> None:
        """Look for the direction and its splits.

        Args:
            root: the folder that holds ``en`` and other source languages.
            source_language: of speech and transcript.
            target_language: of the translation.
            splits: some of train, train-noisy, dev and test; None means train, dev and test.

        Raises:
            DataError: if the direction or a split is not there, or a code is unknown.
        """
        self.source_language = languages.check(source_language)
        self.target_language = languages.check(target_language)
        self.folder = f"{source_language}-{target_language}"
        self._audios = Path(root).absolute() / source_language / "audios"
        self._home = self._audios.parent / target_language
        if not self._home.is_dir():
            pairs = sorted("-".join(path.parts[-4:-2]) for path in Path(root).glob("*/*/dev/segments.lst"))
            raise DataError(
                f"{self._home}: no such folder; {root} holds {', '.join(pairs) or 'no direction'}. "
                "Europarl-ST: https://www.mllp.upv.es/europarl-st/"
            )
        self._splits = splits or [split for split in SPLITS if split != "train-noisy" and self._has(split)]
        for split in self._splits:
            if not self._has(split):
                there = [name for name in SPLITS if self._has(name)]
                raise DataError(f"{self._home}: no split {split!r}; there are {', '.join(there) or 'none'}")
        if not self._splits:
            raise DataError(f"{self._home}: no split (a folder with segments.lst) is there")

    def _has(self, split: str) -> bool:
        return split in SPLITS and (self._home / split / "segments.lst").is_file()

    def inputs(self, split: str) -> list[Path]:
        """Return the list of segments and the two texts, and the lists of speeches and speakers if they are there."""
        texts = [f"segments.{ending}" for ending in ("lst", self.source_language, self.target_language)]
        lists = [name for name in ("speeches.lst", "speakers.lst") if (self._home / split / name).exists()]
        return [self._home / split / name for name in (*texts, *lists)]

    def count(self, split: str) -> int:
        """Return the number of segments."""
        return count_lines(self.inputs(split)[0])

    def rows(self, split: str) -> Iterator[SourceRow]:
        """Go through the segments in the order of the files.

        Raises:
            DataError: if the texts differ in length from the list, or a line of the list is not a segment.
        """
        segments_file, source_file, target_file, *_ = self.inputs(split)
        wanted = count_lines(segments_file)
        for file in (source_file, target_file):
            if (lines := count_lines(file)) != wanted:
                raise DataError(f"{segments_file}: {wanted} segments, but {file.name} has {lines} lines")
        speakers, files, numbers = self._speakers(split), dict[str, str](), Counter[str]()
        lines_of = zip(
            read_lines(segments_file),
            *(read_lines(file, "surrogateescape") for file in (source_file, target_file)),
            strict=True,
        )
        for line, (segment, source, target) in enumerate(lines_of, 1):
            speech, start, end = _segment(segment, f"{segments_file}, line {line}")
            if speech not in files:
                files[speech] = str(sound_file(self._audios, speech, ".m4a"))
            row = {
                "id": f"{speech}_{numbers[speech]}",
                "audio": files[speech],
                "start": start,
                "duration": end - start,
                "source_text": source.strip(),
                "source_language": self.source_language,
                "target_text": target.strip(),
                "target_language": self.target_language,
                "speaker": speakers.get(speech),
                "document": speech,
            }
            numbers[speech] += 1
            yield SourceRow(row, file=source_file, line=line, files={"target_text": target_file})

    def _speakers(self, split: str) -> dict[str, str]:
        """Return who speaks, by speech; nothing where the lists are not there."""
        speeches, speakers = (self._home / split / name for name in ("speeches.lst", "speakers.lst"))
        if not (speeches.exists() and speakers.exists()):
            return {}
        names = [line.strip() for line in read_lines(speeches)], [line.strip() for line in read_lines(speakers)]
        if len(names[0]) != len(names[1]):
            raise DataError(f"{speakers}: {len(names[1])} speakers, but {speeches.name} has {len(names[0])} lines")
        return dict(zip(*names, strict=True))


def _segment(line: str, place: str) -> tuple[str, float, float]:
    """Read a line of ``segments.lst``."""
    parts = line.split()
    try:
        speech, start, end = parts[0], seconds("start", parts[1]), seconds("end", parts[2])
    except (IndexError, DataError):
        speech, start, end = "", 0.0, 0.0
    if len(parts) != 3 or not start < end or Path(speech).name != speech:
        raise DataError(f"{place}: {shortened(line)!r} is not a speech with its start and end in seconds")
    return speech, start, end
