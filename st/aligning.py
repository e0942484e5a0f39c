"""Phases that add to manifests when each word of a text is said, found or read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import islice
from pathlib import Path

from dragoman.shared.batches.manifest import Manifest, Row
from dragoman.shared.batches.stream import Budget
from dragoman.shared.errors import DataError
from dragoman.shared.machine.progress import progress
from dragoman.shared.machine.workspace import Workspace
from dragoman.shared.phases.adding_columns import WORDS, WORDS_TYPE, AddColumns
from dragoman.shared.ranges import NonNegativeFloat
from dragoman.shared.systems.system import System
from dragoman.shared.systems.word_times import word_times
from dragoman.shared.text.lines import read_lines
from dragoman.shared.text.subtitles import Cue

#: Rows that are aligned with their sound at a time.
ROWS = 2000


class AlignSpeech(AddColumns):
    """Find when each word of a row's text is said, by the CTC head of a recogniser.

    Adds the column ``words``: text, start and end of each word, in seconds from the beginning of the row; None for a
    row without sound or text, or whose text does not fit into its sound. A CTC head marks a word inside of its sound;
    so each word is made longer on either side by ``reach``, or by half of the gap to the next one if that is less.

    Args:
        model: a model folder with a CTC head on the transcript.
        manifests: see :class:`AddColumns`.
        budget: how large a batch may be.
        reach: seconds.
    """

    columns = {WORDS: WORDS_TYPE}

    def __init__(self, *, model: str, manifests: list[str], budget: Budget, reach: NonNegativeFloat = 0.1) -> None:
        super().__init__(manifests=manifests)
        self.model = Path(model)
        self.budget = budget
        self.reach = reach

    def begin(self, workspace: Workspace) -> None:
        """Load the model."""
        self._system = System.load(self.model, workspace.device)

    def rows(self, manifest: Manifest, workspace: Workspace) -> Iterator[Row]:
        """Yield the rows with the times of their words."""
        text = self._system.ctc_output.column if self._system.ctc_output else "source_text"
        aligned = words = done = 0
        with progress(workspace.phase, enabled=workspace.show_progress) as show:
            remaining = iter(manifest)
            while part := list(islice(remaining, ROWS)):
                asked = [row for row in part if row["audio"] and row[text] is not None]
                times = word_times(self._system, asked, budget=self.budget, autocast=workspace.autocast)
                by_id = {id(row): cues for row, cues in zip(asked, times, strict=True)}
                for row in part:
                    cues = by_id.get(id(row))
                    if cues is None:
                        yield row | {WORDS: None}
                        continue
                    spans = [(cue.start - row["start"], cue.end - row["start"]) for cue in cues]
                    wide = widened(spans, row["duration"], self.reach)
                    aligned, words = aligned + 1, words + len(cues)
                    yield row | {
                        WORDS: [
                            {"text": cue.text, "start": start, "end": end}
                            for cue, (start, end) in zip(cues, wide, strict=True)
                        ]
                    }
                done += len(part)
                show(done, len(manifest))
        workspace.log.info(
            "%s: %s: %d words of %d of %d rows", workspace.phase, manifest.path, words, aligned, len(manifest)
        )


def widened(spans: Sequence[tuple[float, float]], length: float, reach: float) -> list[tuple[float, float]]:
    """Return spans in [0, length], in order, made longer by ``reach``, at most to the middle of the gap to the next."""
    befores = [2 * spans[0][0], *(b[0] - a[1] for a, b in zip(spans, spans[1:], strict=False))] if spans else []
    afters = [*befores[1:], 2 * (length - spans[-1][1])] if spans else []
    return [
        (start - max(min(reach, before / 2), 0), end + max(min(reach, after / 2), 0))
        for (start, end), before, after in zip(spans, befores, afters, strict=True)
    ]


class ReadWords(AddColumns):
    """Read when each word of a row is said from a table beside its recording, ``talk.words.tsv`` beside ``talk.wav``.

    The table has a header and the columns word, start and end, in seconds of the file, and may have others. A row has
    the words whose middle lies in it. Adds the column ``words``, as :class:`AlignSpeech`; None for a row without sound.

    Args:
        manifests: see :class:`AddColumns`.
    """

    columns = {WORDS: WORDS_TYPE}

    def rows(self, manifest: Manifest, workspace: Workspace) -> Iterator[Row]:
        """Yield the rows with the times of their words.

        Raises:
            DataError: if a table is missing, or not one.
        """
        for row in manifest:
            words = None
            if row["audio"]:
                first, length = row["start"], row["duration"]
                words = [
                    {"text": cue.text, "start": max(cue.start - first, 0), "end": min(cue.end - first, length)}
                    for cue in words_of(Path(row["audio"]).with_suffix(".words.tsv"))
                    if first <= (cue.start + cue.end) / 2 < first + length
                ]
            yield row | {WORDS: words}


@lru_cache(maxsize=4)
def words_of(path: Path) -> list[Cue]:
    """Return the words of a table with their times in the file.

    Raises:
        DataError: if the table is missing, lacks a column, or has a time that is not one.
    """
    header, *lines = (line.split("\t") for line in read_lines(path))
    lost = [name for name in ("word", "start", "end") if name not in header]
    if lost:
        raise DataError(f"{path}: column {lost[0]!r} is missing (it has {', '.join(header)})")
    places = [header.index(name) for name in ("word", "start", "end")]
    cues = []
    for number, cells in enumerate(lines, 2):
        try:
            word, start, end = (cells[place] for place in places)
            cues.append(Cue(float(start), float(end), word))
        except (IndexError, ValueError):
            raise DataError(f"{path}, line {number}: a word and two times were expected, not {cells}") from None
    return cues
