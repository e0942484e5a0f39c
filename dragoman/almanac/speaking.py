"""Speech of any text: the phase that lets Almanac's voices read the sources of text manifests.

The sentences may be real; the speech is synthetic, and results on it should say so.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from dragoman.almanac import voices
from dragoman.almanac.frames import randomness
from dragoman.almanac.studio import Recording, Studio
from dragoman.shared.batches.find import written_below
from dragoman.shared.batches.manifest import Manifest, Row
from dragoman.shared.errors import DataError
from dragoman.shared.machine.files import locked
from dragoman.shared.machine.processes import MainPhase
from dragoman.shared.machine.progress import progress
from dragoman.shared.machine.workspace import Workspace
from dragoman.shared.ranges import NonNegativeInt, PositiveInt

#: The most utterances of a recording, which one voice speaks.
UTTERANCES = 12


class Speak(MainPhase):
    """Speak the sources of text manifests: a corpus of speech with the same rows.

    Writes ``<out>/<pair>/<split>.arrow`` for each manifest ``.../<pair>/<split>.arrow``, with the columns ``audio``,
    ``start``, ``duration`` and ``speaker``, and recordings (FLAC, 16 kHz) of up to twelve rows of one document beside
    it. Each recording has one of fourteen voices with a tempo and a pitch, and each utterance a level and noise of its
    own; splits in ``unseen`` have four other voices. With ``rooms``, a recording is made in a room and by a microphone
    of its own (:mod:`dragoman.almanac.rooms`). What a recording holds depends on its texts and its place alone,
    so it is the same however many processes speak, and after an interruption those that are there stay.

    Args:
        manifests: of text, paths or patterns.
        out: the folder.
        rows: of each manifest, the first ones; None means all.
        unseen: splits by which names begin.
        rooms: let recordings differ by room and microphone.
        processes: of eSpeak NG, that speak at once; 0 means one for each processor.

    Raises:
        DataError: when it runs, for a row without a source, a text or a language that eSpeak NG cannot speak, or
            manifests that would be written over each other or over what is read.
    """

    def __init__(
        self,
        *,
        manifests: Sequence[str],
        out: str,
        rows: PositiveInt | None = None,
        unseen: Sequence[str] = ("test",),
        rooms: bool = False,
        processes: NonNegativeInt = 0,
    ) -> None:
        self.manifests = list(manifests)
        self.out = Path(out)
        self.rows = rows
        self.unseen = tuple(unseen)
        self.rooms = rooms
        self.processes = processes

    def outputs(self) -> list[Path]:
        """Name the folder."""
        return [self.out]

    def work(self, workspace: Workspace) -> None:
        """Speak what is missing, and write the manifests; of several runs that speak into one folder, one works."""
        with locked(self.out.parent / f".{self.out.name}.lock"):
            self._speak(workspace)

    def _speak(self, workspace: Workspace) -> None:
        spoken: dict[Path, list[tuple[Recording, list[Row]]]] = {}
        for path, written in written_below(self.out, self.manifests):
            rows = list(islice(Manifest.open(path), self.rows))
            spoken[written] = list(self._recordings(rows, path, written.with_suffix("")))
        recordings = [recording for pairs in spoken.values() for recording, _ in pairs]
        with Studio(workers=self.processes) as studio, progress("speech", enabled=workspace.show_progress) as show:
            for done, _ in enumerate(studio.record(recordings), 1):
                show(done, len(recordings))
        for path, pairs in spoken.items():
            with_sound = [row for recording, rows in pairs for row in _with_sound(recording, rows)]
            Manifest.write(path, with_sound)
            hours = sum(row["duration"] for row in with_sound) / 3600
            said = f"{path}: {len(with_sound):,} rows, {hours:.2f} hours of synthetic speech"
            workspace.log.info("%s: %s", workspace.phase, said)

    def _recordings(self, rows: Sequence[Row], path: Path, place: Path) -> Iterator[tuple[Recording, list[Row]]]:
        """Go through the recordings of a manifest, each with its rows."""
        unseen = path.stem.startswith(self.unseen)
        variants = list(voices.UNSEEN_VOICES if unseen else voices.SEEN_VOICES)
        name = f"{path.parent.name}/{path.stem}"
        randomness("voices", name).shuffle(variants)
        for number, group in enumerate(_groups(rows)):
            for row in group:
                if not row["source_text"] or not row["source_language"]:
                    raise DataError(f"{path}: row {row['id']} has no source to speak, or no language")
            variant, texts = variants[number % len(variants)], tuple(str(row["source_text"]) for row in group)
            language = str(group[0]["source_language"])
            content = (variant, language, texts, *(["in a room"] if self.rooms else []))
            mark = hashlib.blake2b(repr(content).encode(), digest_size=6).hexdigest()
            file = place / f"{number:06}-{mark}.flac"
            spans = file.with_suffix(".json")
            made = Recording(f"{name}/{number}", str(file), str(spans), language, variant, texts, room=self.rooms)
            yield made, group


def _groups(rows: Sequence[Row]) -> Iterator[list[Row]]:
    """Go through rows that follow one another in a document and a language, up to :data:`UTTERANCES` of them."""
    group: list[Row] = []
    for row in rows:
        other = any(row[key] != group[0][key] for key in ("document", "source_language")) if group else False
        if other or len(group) == UTTERANCES:
            yield group
            group = []
        group.append(row)
    if group:
        yield group


def _with_sound(recording: Recording, rows: Sequence[Row]) -> Iterator[Row]:
    spans = json.loads(Path(recording.spans).read_text(encoding="utf-8"))
    audio = str(Path(recording.path).absolute())
    for row, (start, length) in zip(rows, spans, strict=True):
        sound = {"audio": audio, "start": start / voices.RATE, "duration": length / voices.RATE}
        yield Row({**row, **sound, "speaker": recording.variant})
