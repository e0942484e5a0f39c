"""Windows of Whisper: rows that follow each other in a recording, packed with their times (Radford et al. 2022, 2.3).

A window begins with a row, and has the rows behind it that end in it. Of a row that the window cuts there is the start
alone, and the next window begins with it. A share of the windows has no times; these end before such a row.

Differs from the paper: windows begin with speech, where the paper's follow each other without a gap. The share without
times is not in the paper. There is no text of the window before (``<|startofprev|>``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from dragoman.shared.batches.fields import TextField
from dragoman.shared.batches.find import written_below
from dragoman.shared.batches.manifest import Manifest, Row
from dragoman.shared.batches.randomness import generator
from dragoman.shared.errors import DataError
from dragoman.shared.machine.processes import MainPhase
from dragoman.shared.machine.workspace import Workspace
from dragoman.shared.ranges import NonNegativeFloat, PositiveFloat, PositiveInt, Share
from dragoman.shared.text.units import joined

TEXTS = ("source_text", "target_text")
#: The column of a window's rows, which ``TimestampedText`` reads: for each start and end in seconds, and its texts.
SEGMENTS = "segments"
#: What all rows of a window have in common.
COMMON = ("audio", "source_language", "target_language")
#: Seconds by which rows may overlap, or a row may be longer than a window: those of rounded times.
ROUNDING = 0.02
KIND = pa.list_(pa.struct([("start", pa.float64()), ("end", pa.float64()), *((name, pa.string()) for name in TEXTS)]))


class PackWindows(MainPhase):
    """Pack the rows of recordings into windows with the times of their rows, in the column ``segments``.

    Writes ``<out>/<pair>/<split>.arrow`` for each manifest ``.../<pair>/<split>.arrow``. A row that is longer than a
    window, or has too many tokens, is left out, and counted.

    Args:
        manifests: paths or patterns.
        field: the text with times, by which tokens are counted.
        out: the folder.
        seconds: of a window, at most.
        tokens: of the text of a window, at most, symbols included.
        longest_gap: seconds between two rows of a window, at most; there may be speech of which there is no text.
        without: the share of windows without times.

    Raises:
        DataError: when it runs, for a row without a recording, duration or text, or manifests that would be written
            over.
    """

    def __init__(
        self,
        *,
        manifests: list[str],
        field: TextField,
        out: str,
        seconds: PositiveFloat = 30.0,
        tokens: PositiveInt = 448,
        longest_gap: NonNegativeFloat = 5.0,
        without: Share = 0.5,
    ) -> None:
        self.manifests = list(manifests)
        self.field = field
        self.out = Path(out)
        self.seconds = seconds
        self.tokens = tokens
        self.longest_gap = longest_gap
        self.without = without

    def outputs(self) -> list[Path]:
        """Name the folder."""
        return [self.out]

    def work(self, workspace: Workspace) -> None:
        """Write the windows of each manifest."""
        for path, place in written_below(self.out, self.manifests):
            manifest = Manifest.open(path)
            spans = list(self.spans(manifest))
            rows = (self._window([manifest[n] for n in span], cut, workspace.seed) for span, cut in spans)
            Manifest.write(place, rows, {SEGMENTS: KIND})
            packed = sum(len(span) for span, _ in spans)
            workspace.log.info(
                "%s: %s: %d rows in %d windows, %d rows too long for one",
                workspace.phase,
                place,
                packed,
                len(spans),
                len(manifest) - packed,
            )

    def spans(self, manifest: Manifest) -> Iterator[tuple[list[int], float | None]]:
        """Yield the numbers of the rows of each window, and the start of the row that it cuts, if it cuts one.

        Raises:
            DataError: for a row without a recording, duration or text.
        """
        for numbers in _recordings(manifest):
            rows = [manifest[number] for number in numbers]
            counts = [self._tokens(row, manifest.path) for row in rows]
            place = 0
            while place < len(rows):
                if rows[place]["duration"] > self.seconds + ROUNDING or counts[place] > self._room():
                    place += 1
                    continue
                end = self._end(rows, counts, place)
                yield numbers[place:end], self._cut(rows[place:end], *rows[end : end + 1])
                place = end

    def _room(self) -> int:
        return self.tokens - self.field.overhead - 1  # for the start of a row that is cut

    def _tokens(self, row: Row, path: Path) -> int:
        """Return how many ids a row's text and its two times have."""
        if row["duration"] is None or row.get(self.field.column) is None:
            lacks = "duration" if row["duration"] is None else self.field.column
            raise DataError(f"{path}: row {row['id']!r} has no {lacks}")
        return 2 + len(self.field.pieces(row))

    def _end(self, rows: Sequence[Row], counts: Sequence[int], first: int) -> int:
        """Return the number behind the last row of the window that begins with a row."""
        latest, used, end = _start(rows[first]) + self.seconds + ROUNDING, counts[first], first + 1
        while end < len(rows) and self._follows(rows[end - 1], rows[end]) and _stop(rows[end]) <= latest:
            used += counts[end]
            if used > self._room():
                break
            end += 1
        return end

    def _follows(self, row: Row, other: Row) -> bool:
        return -ROUNDING <= _start(other) - _stop(row) <= self.longest_gap

    def _cut(self, rows: Sequence[Row], following: Row | None = None) -> float | None:
        """Return the start of the row behind those of a window, if the window cuts it."""
        latest = _start(rows[0]) + self.seconds
        if following is None or not self._follows(rows[-1], following):
            return None
        return _start(following) if _start(following) < latest < _stop(following) - ROUNDING else None

    def _window(self, rows: Sequence[Row], cut: float | None, seed: int) -> Row:
        first, *_ = rows
        start = _start(first)
        timed = generator(seed, "times", first["id"]).random() >= self.without
        window: dict[str, Any] = {name: first[name] for name in ("id", "document", *COMMON)}
        for name in TEXTS:
            texts = [row[name] for row in rows]
            language = first[f"{name.partition('_')[0]}_language"]
            window[name] = None if None in texts else joined(texts, language)
        duration = _stop(rows[-1]) - start if cut is None or not timed else self.seconds
        window |= {"start": start, "duration": min(duration, self.seconds)}
        if timed:
            window[SEGMENTS] = list(self._segments(rows, cut, start))
        return window

    def _segments(self, rows: Sequence[Row], cut: float | None, start: float) -> Iterator[dict[str, Any]]:
        """Yield rows by their times in a window that begins at a second; times never go back."""
        before = 0.0
        for row in rows:
            begin = max(_start(row) - start, before)
            before = max(min(_stop(row) - start, self.seconds), begin)
            yield {"start": begin, "end": before, **{name: row[name] for name in TEXTS}}
        if cut is not None:
            yield {"start": max(cut - start, before), "end": None}


def _start(row: Row) -> float:
    return row["start"] or 0.0


def _stop(row: Row) -> float:
    return _start(row) + row["duration"]


def _recordings(manifest: Manifest) -> Iterator[list[int]]:
    """Yield the numbers of the rows of each recording, in its languages, by their starts."""
    columns = [manifest.column(name).to_pylist() for name in COMMON]
    found: dict[tuple[Any, ...], list[int]] = {}
    for number, key in enumerate(zip(*columns, strict=True)):
        if not key[0]:
            raise DataError(f"{manifest.path}: row {manifest[number]['id']!r} has no audio")
        found.setdefault(key, []).append(number)
    starts = manifest.column("start")
    for numbers in found.values():
        yield sorted(numbers, key=lambda number: float(starts[number]) if starts[number] == starts[number] else 0.0)
