"""Phases that copy manifests and add columns to them; the one that finds the words of a text in its recording.

The copies are ``<pair>/<split>.arrow`` for each ``.../<pair>/<split>.arrow``. One is whole on disk or absent; a start after an
interruption makes those that are missing.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

import pyarrow as pa

from shared.corpus.find import find_manifests
from shared.corpus.manifest import Manifest, Row
from shared.corpus.spoken_words import WORDS, WORDS_TYPE
from shared.corpus.stream import Budget
from shared.errors import UsageError
from shared.machine.processes import MainPhase
from shared.machine.progress import progress
from shared.machine.workspace import Workspace
from shared.phases.testing import opened
from shared.systems.system import System
from shared.systems.word_times import word_times

#: Rows that are aligned with their sound at a time.
ROWS = 2000


class AddColumns(MainPhase):
    """Copies manifests with further columns. Subclasses define :meth:`begin`, :meth:`rows` and ``columns``.

    Args:
        manifests: what is copied, as paths or patterns.

    """

    columns: Mapping[str, pa.DataType]

    def __init__(self, *, manifests: list[str]) -> None:
        self.manifests = list(manifests)

    def work(self, workspace: Workspace) -> None:
        """Write the manifests that are not there yet.

        Raises:
            UsageError: if two manifests have the same names of folder and file.

        """
        paths = find_manifests(self.manifests)
        outputs = {workspace.folder / path.parent.name / path.name: path for path in paths}
        if len(outputs) < len(paths):
            raise UsageError(
                f"{workspace.phase}: two of {', '.join(map(str, paths))} have the same names of folder and file"
            )
        missing = {out: path for out, path in outputs.items() if not out.is_file()}
        if missing:
            self.begin(workspace)
        for out, path in missing.items():
            manifest = opened(path, workspace)
            Manifest.write(out, self.rows(manifest, workspace), {**manifest.free_columns, **self.columns})

    @abstractmethod
    def begin(self, workspace: Workspace) -> None:
        """Load or learn what all manifests need."""

    @abstractmethod
    def rows(self, manifest: Manifest, workspace: Workspace) -> Iterator[Row]:
        """Yield the rows of a manifest with their new columns."""


class AlignSpeech(AddColumns):
    """Find when each word of a row's text is said, by the CTC head of a recogniser.

    Adds the column ``words``: text, start and end of each word, in seconds from the beginning of the row; None for a
    row without sound or text, or whose text does not fit into its sound. A CTC head marks a word inside of its sound, so
    that each word is made longer on either side by ``reach``, or by half of the gap to the next one if that is less.

    Args:
        model: a model folder with a CTC head on the transcript.
        manifests: see :class:`AddColumns`.
        budget: how large a batch may be.
        reach: seconds.

    Raises:
        UsageError: for a negative reach.

    """

    columns = {WORDS: WORDS_TYPE}

    def __init__(self, *, model: str, manifests: list[str], budget: Budget, reach: float = 0.1) -> None:
        if not reach >= 0:
            raise UsageError(f"reach must not be negative, not {reach}")
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
        found = words = done = 0
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
                    found, words = found + 1, words + len(cues)
                    yield row | {
                        WORDS: [
                            {"text": cue.text, "start": start, "end": end}
                            for cue, (start, end) in zip(cues, wide, strict=True)
                        ]
                    }
                done += len(part)
                show(done, len(manifest))
        workspace.log.info(
            "%s: %s: %d words of %d of %d rows", workspace.phase, manifest.path, words, found, len(manifest)
        )


def widened(spans: Sequence[tuple[float, float]], length: float, reach: float) -> list[tuple[float, float]]:
    """Return spans made longer on either side by ``reach``, at most to the middle of the gap to the next one.

    Args:
        spans: in order, without overlap, between 0 and ``length``.
        length: of the whole.
        reach: how much.

    """
    befores = [2 * spans[0][0], *(b[0] - a[1] for a, b in zip(spans, spans[1:], strict=False))] if spans else []
    afters = [*befores[1:], 2 * (length - spans[-1][1])] if spans else []
    return [
        (start - max(min(reach, before / 2), 0), end + max(min(reach, after / 2), 0))
        for (start, end), before, after in zip(spans, befores, afters, strict=True)
    ]
