"""Data folders of Kaldi, as recipes of ESPnet make them: a folder for each split.

The layout, of which ``segments`` and ``utt2spk`` may be missing, and names may end in a direction (train.en-de)::

    {root}/train/wav.scp        talk1 wav/talk1.wav                  a file, or `cat FILE |`
    {root}/train/segments       talk1_0000350_0000600 talk1 3.5 6.0  seconds, -1 for the file's end; else whole files;
                                perhaps with a channel behind them, from 0
    {root}/train/text.tc.en     talk1_0000350_0000600 How are you?   the transcript
    {root}/train/text.tc.de     talk1_0000350_0000600 Wie geht es?   the translation
    {root}/train/utt2spk        talk1_0000350_0000600 talk1
    {root}/train/reco2file_and_channel    talk1 talk1 A              the channel, A or 1 for the first; may be missing

All files are sorted by their first column, as Kaldi demands, and are read side by side, so that a corpus of any size
takes no memory. No command of a wav.scp is run: of ``sph2pipe -f wav -p -c 1 FILE |`` the file and the channel are
read. Sound inside an archive (``x.ark:123``) is not read. Texts come as they stand: those of ESPnet's recipes are often
tokenised, and transcripts in lower case without punctuation.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from reprlib import repr as shown

from dragoman.shared.batches.manifest import Row
from dragoman.shared.errors import DataError
from dragoman.shared.preparing.reader import Reader, SourceRow, seconds
from dragoman.shared.preparing.split_files import chosen_splits
from dragoman.shared.sound.audio import open_audio
from dragoman.shared.sound.channels import split_channel, with_channel
from dragoman.shared.text import languages
from dragoman.shared.text.lines import Unusable, count_lines, read_lines

SOUND, TIMES, SPEAKERS, CHANNELS = "wav.scp", "segments", "utt2spk", "reco2file_and_channel"
#: The names of texts in a language, the best first: cased, as it is, in lower case, and without punctuation.
TEXTS = ("text.tc.{}", "text.{}", "text.lc.{}", "text.lc.rm.{}")
#: A folder's name that ends in two languages.
_DIRECTION = re.compile(r"(.+)\.([a-z]{2,3}(?:-[A-Z]\w+)?)-([a-z]{2,3}(?:-[A-Z]\w+)?)")


class Kaldi(Reader):
    """Reads data folders of Kaldi."""

    name = "kaldi"
    edition = 1

    def __init__(
        self,
        *,
        root: str | Path,
        source_language: str,
        target_language: str | None = None,
        source_text: str | None = None,
        target_text: str | None = None,
        audio_root: str = ".",
        splits: list[str] | None = None,
    ) -> None:
        """Look for the folders of the splits.

        Args:
            root: a folder with a folder for each split (``data``), or one such folder.
            source_language: of speech and transcript.
            target_language: of the translation; None for recognition.
            source_text: the file of transcripts; by default the first of ``TEXTS``, or ``text``.
            target_text: the file of translations; by default the first of ``TEXTS``.
            audio_root: the folder that sound files are relative to: the one in which the recipe was run.
            splits: names of folders, without their ending ``.en-de``; None means all but those of other directions.

        Raises:
            DataError: if there is no folder, a split is not there, a code is unknown, or several folders are the same
                split for recognition.
        """
        self._languages = {"source_text": languages.check(source_language)}
        if target_language is not None:
            self._languages["target_text"] = languages.check(target_language)
        self.folder = "-".join(self._languages.values())
        self._names = {"source_text": source_text, "target_text": target_text}
        self._audio_root = Path(audio_root).absolute()
        home = Path(root).absolute()
        folders = [home] if (home / SOUND).is_file() else sorted(path.parent for path in home.glob(f"*/{SOUND}"))
        if not folders:
            raise DataError(f"{home}: has no {SOUND}, nor a folder with one")
        wanted = tuple(self._languages.values())
        self._folders = _by_split(home, folders, wanted, splits or [])
        names = [_parted(split, wanted)[0] for split in splits or []]
        self._splits = chosen_splits(root, self._folders, [*dict.fromkeys(names)])

    def inputs(self, split: str) -> list[Path]:
        """Return the files of a split that are read."""
        folder = self._folders[split]
        others = (folder / name for name in (TIMES, SPEAKERS, CHANNELS))
        return [folder / SOUND, *(path for path in others if path.exists()), *self._texts(folder).values()]

    def count(self, split: str) -> int:
        """Return the number of segments, or of files."""
        return count_lines(self._main(self._folders[split]))

    def rows(self, split: str) -> Iterator[SourceRow | Unusable]:
        """Go through the utterances in their order.

        Raises:
            DataError: if a file is not sorted.
        """
        folder = self._folders[split]
        main = self._main(folder)
        recordings = {}
        if main.name == TIMES:
            recordings = {name: (line, cell) for line, name, cell in _entries(folder / SOUND)}
        channels = _channels(folder / CHANNELS)
        columns = {name: _Column(path) for name, path in self._texts(folder).items()}
        if (folder / SPEAKERS).exists():
            columns["speaker"] = _Column(folder / SPEAKERS)
        for line, name, cell in _entries(main):
            for column in columns.values():
                yield from column.before(name, main.name)
            values = {key: column.take(name) for key, column in columns.items()}  # of all, before one is missed
            try:
                missing = [columns[key].path.name for key, value in values.items() if value is None]
                if missing:
                    raise DataError(f"{missing[0]} has no line for it")
                if main.name == TIMES:
                    segment = self._segment(cell, recordings, folder, channels)
                else:
                    audio = _chosen(_sound(cell, self._audio_root), channels.get(name))
                    segment = {"audio": audio, "start": 0.0, "duration": None, "document": None}
                row = {"id": name, "speaker": None, **segment, **values, **self._codes()}
                same_line = {key: column.path for key, column in columns.items() if column.line == line}
                yield SourceRow(row, file=main, line=line, files=same_line)
            except DataError as error:
                yield Unusable(str(error), main, line, name)
        for column in columns.values():
            yield from column.before(None, main.name)

    def _main(self, folder: Path) -> Path:
        """Return the file that has a line for each utterance."""
        return folder / (TIMES if (folder / TIMES).exists() else SOUND)

    def _texts(self, folder: Path) -> dict[str, Path]:
        """Return the files of the texts."""
        by_id = {}
        for column, code in self._languages.items():
            usual = [name.format(code) for name in TEXTS] + ["text"] * (column == "source_text")
            given = self._names[column]
            names = usual if given is None else [given]
            there = [folder / name for name in names if (folder / name).exists()]
            if not there:
                texts = ", ".join(sorted(path.name for path in folder.glob("text*"))) or "none"
                raise DataError(f"{folder}: has no {' or '.join(names)}; its texts: {texts}")
            by_id[column] = there[0]
        return by_id

    def _codes(self) -> dict[str, str]:
        return {column.replace("text", "language"): code for column, code in self._languages.items()}

    def _segment(
        self, cell: str, recordings: dict[str, tuple[int, str]], folder: Path, channels: dict[str, int]
    ) -> Row:
        """Return where the sound of an utterance is that is a part of a recording."""
        fields = cell.split()
        if len(fields) not in (3, 4):
            raise DataError(f"{shown(cell)} is not a recording, a start and an end, and perhaps a channel")
        recording, start, end = fields[0], seconds("start", fields[1]), seconds("end", fields[2], least=-1)
        to_the_end = end == -1  # as in Kaldi's extract-segments
        if not (start >= 0 and (to_the_end or start < end)):
            raise DataError(f"start {fields[1]} and end {fields[2]} are not the times of a segment")
        if recording not in recordings:
            raise DataError(f"the recording {shown(recording)} is not in {SOUND}")
        line, sound = recordings[recording]
        try:
            audio = _sound(sound, self._audio_root)
        except DataError as error:
            raise DataError(f"{folder / SOUND}, line {line}: {error}") from error
        if len(fields) == 3:
            audio = _chosen(audio, channels.get(recording))
        elif not re.fullmatch(r"[0-9]{1,4}", fields[3]) or (split_channel(audio)[1] is not None and fields[3] != "0"):
            raise DataError(f"channel is {shown(fields[3])}, not one of {sound} (from 0)")
        elif split_channel(audio)[1] is None:  # of a command that gives one channel, 0 is that one
            audio = with_channel(audio, int(fields[3]))
        return {"audio": audio, "start": start, "duration": None if to_the_end else end - start, "document": recording}


class _Column:
    """A file with a value for each utterance, read beside the file that has all of them.

    Attributes:
        path: the file.
        line: the number of the line from which a value was taken last.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.line = 0
        self._entries = _entries(path)
        self._next = next(self._entries, None)
        self._taken = False

    def before(self, name: str | None, other: str) -> Iterator[Unusable]:
        """Yield the lines before an utterance: the other file has none for them.

        Raises:
            DataError: if the file is not sorted.
        """
        if self._taken:
            self._next, self._taken = next(self._entries, None), False
        while self._next is not None and (name is None or _order(self._next[1]) < _order(name)):
            yield Unusable(f"{other} has no utterance {shown(self._next[1])}", self.path, *self._next[:2])
            self._next = next(self._entries, None)

    def take(self, name: str) -> str | None:
        """Return the value of an utterance if it is the next, None if there is none."""
        if self._next is None or self._next[1] != name:
            return None
        self.line, _, value = self._next
        self._taken = True
        return value


def _parted(name: str, wanted: tuple[str, ...]) -> tuple[str, bool]:
    """Return the name of a folder's split, and whether the folder is of another direction.

    Args:
        name: the folder's.
        wanted: the languages of the direction; for recognition one, which any direction may begin with.
    """
    parts = _DIRECTION.fullmatch(name)
    if parts is None or not {parts[2], parts[3]} <= languages.LANGUAGES.keys():
        return name, False
    other = (parts[2], parts[3])[: len(wanted)] != wanted
    return name if other else parts[1], other


def _by_split(root: Path, folders: list[Path], wanted: tuple[str, ...], asked: list[str]) -> dict[str, Path]:
    """Return the folders of a direction by the names of their splits; other directions are left out.

    If there are train and train.en-de, the first has all sound, for recognition, and the second is the direction's.

    Args:
        root: where they are; if it is one of them, it may be of any direction.
        folders: all folders.
        wanted: the languages.
        asked: the names of splits or folders that were asked for; none for all.

    Raises:
        DataError: if all are of other directions, or several folders of the same sound would be one split.
    """
    groups: dict[str, list[Path]] = {}
    for path in folders:
        split, other = _parted(path.name, wanted)
        if not other or path == root:
            groups.setdefault(split, []).append(path)
    if not groups:
        raise DataError(
            f"{root}: has no folder for {'-'.join(wanted)}, only {', '.join(path.name for path in folders)}"
        )
    plain_first = len(wanted) == 1
    chosen, clashes = {}, []
    for split, paths in groups.items():
        named = [path for path in paths if path.name in asked and path.name != split]
        takes = named or [path for path in paths if (path.name == split) == plain_first] or paths
        chosen[split] = takes[0]
        if len(takes) > 1 and (named or not asked or split in asked):
            clashes.append(" and ".join(path.name for path in takes))
    if clashes:
        one = ",".join(path.name for split, path in chosen.items() if not asked or split in asked or path.name in asked)
        raise DataError(f"{root}: {clashes[0]} have the same sound, which counts once: choose, as by --splits {one}")
    return chosen


def _entries(path: Path) -> Iterator[tuple[int, str, str]]:
    """Yield number, first word and rest of each line that is not blank.

    Raises:
        DataError: if the words are not sorted, or one comes twice.
    """
    before = ""
    for number, text in enumerate(read_lines(path, "surrogateescape"), 1):
        name, *rest = text.split(maxsplit=1) or [""]
        if not name:
            continue
        if before and _order(name) <= _order(before):
            reason = f"{shown(name)} comes after {shown(before)}: sort it as Kaldi does (utils/fix_data_dir.sh)"
            raise DataError(f"{path}, line {number}: {reason}")
        before = name
        yield number, name, rest[0].strip() if rest else ""


def _order(name: str) -> bytes:
    """Return the bytes by which ``LC_ALL=C sort`` sorts."""
    return name.encode("utf-8", "surrogateescape")


def _channels(path: Path) -> dict[str, int]:
    """Return the channel of each recording by reco2file_and_channel, from 0; nothing if there is no such file."""
    channels = {}
    for line, recording, cell in _entries(path) if path.exists() else ():
        mark = cell.split()[-1] if cell else ""
        if not re.fullmatch(r"[A-Z]|[1-9][0-9]{0,2}", mark):
            raise DataError(f"{path}, line {line}: {shown(mark)} is no channel (A, B ... or 1, 2 ...)")
        channels[recording] = int(mark) - 1 if mark.isdecimal() else ord(mark) - ord("A")
    return channels


def _chosen(audio: str, channel: int | None) -> str:
    """Return the place of a channel by reco2file_and_channel; in a file of one channel, that is the one."""
    if channel is None or split_channel(audio)[1] is not None or _width(audio) == 1:
        return audio
    return with_channel(audio, channel)


@lru_cache(maxsize=4096)
def _width(audio: str) -> int:
    """Return the number of channels of a file; of one that cannot be read 1, as whoever looks into it says so."""
    try:
        with open_audio(audio) as sound:
            return int(sound.channels)
    except DataError:
        return 1


def _sound(cell: str, root: Path) -> str:
    """Return the place of the sound that an entry of a wav.scp names."""
    plain = re.fullmatch(r"cat\s+(\S+)\s*\|", cell)
    sphere = re.fullmatch(r"(?:\S*/)?sph2pipe((?:\s+-(?:f\s+(?:wav|rif)|p|c\s+[12]))*)\s+([^\s-]\S*)\s*\|", cell)
    if sphere is not None:
        channel = re.findall(r"-c\s+([12])", sphere[1])
        return with_channel(str(root / sphere[2]), int(channel[-1]) - 1) if channel else str(root / sphere[2])
    if plain is not None:
        cell = plain[1]
    if not cell or cell.endswith("|"):
        raise DataError(f"{shown(cell)} is no sound file; a command is not run here: write what it gives into a file")
    if re.search(r"\.ark(:\d+)?$", cell):
        raise DataError(f"{shown(cell)} is inside an archive: give the folder from before it was made (data, not dump)")
    return str(root / cell)
