"""Times in Whisper's outputs: each segment stands between the symbols of its start and its end.

Radford et al. 2022, section 2.3: ``<|0.00|> text<|2.40|><|2.40|> text<|5.10|>``, seconds from the beginning of the
window, to the nearest 20 ms. Of a segment that the window cuts there is the start alone. A text without times has the
symbol ``<|notimestamps|>`` before it. What a search may write is what the published code lets it write.

Legend: A sentences still searched, K beams, V vocabulary.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dragoman.shared.batches.fields import Rows, TextField
from dragoman.shared.batches.lengths import kept_counts
from dragoman.shared.batches.manifest import Manifest, Row
from dragoman.shared.described import Described
from dragoman.shared.errors import DataError, UsageError
from dragoman.shared.nn.speech import SpeechEmbedding
from dragoman.shared.ranges import NonNegativeInt, PositiveInt
from dragoman.shared.search.bans import ActiveBan, Opening
from dragoman.shared.sound.audio import SAMPLE_RATE
from dragoman.shared.systems.system import System
from dragoman.shared.systems.timed import Part, TimedText
from dragoman.shared.text import languages
from dragoman.shared.text.tokenizer import Tokenizer

#: Seconds between two symbols of times.
STEP = 0.02
#: The latest time that an output of the published code begins with: a second.
LATEST_START = 50
NO_TIMES = "<notimestamps>"
#: The column of a window's segments: for each its start and end in seconds from the window's, and its texts.
SEGMENTS = "segments"


class TimestampedText(TextField):
    """A text column with the times of its segments, which the column ``segments`` of a row has.

    ``[<fr>, <transcribe>, <|0.00|>, x1 .. xn, <|2.40|>, <|2.40|>, y1 .. ym, <|5.10|>, </s>]``; without that, a row is
    ``[<fr>, <transcribe>, <notimestamps>, x1 .. xn, </s>]``. Where spaces divide words, each segment begins with one,
    as in Whisper's training data.

    Args:
        field: a text without times, whose prefix ends in ``<notimestamps>``.

    Raises:
        UsageError: if it ends in something else.
    """

    def __init__(self, *, field: TextField) -> None:
        if field.prefix[-1:] != [NO_TIMES]:
            raise UsageError(f"times are written by Whisper, whose outputs begin with {NO_TIMES} without them")
        super().__init__(**field.arguments | {"prefix": field.prefix[:-1]})
        self.without = self.tokenizer.id(NO_TIMES)
        self.times = times_of(self.tokenizer, self.without + 1)
        self.overhead += 1

    @property
    def fingerprint(self) -> str:
        """Hash of all that decides how many pieces a text has."""
        return hashlib.sha256(f"{super().fingerprint} {SEGMENTS}".encode()).hexdigest()[:16]

    def time(self, seconds: float) -> int:
        """Return the symbol of a time.

        Raises:
            DataError: if there is none.
        """
        number = round(seconds / STEP)
        if not 0 <= number < len(self.times):
            raise DataError(f"{seconds:.2f} s: the tokenizer has times from 0 to {STEP * (len(self.times) - 1):.2f} s")
        return self.times[number]

    def parts(self, row: Row, text: str | None = None) -> tuple[list[int], list[int], list[int]]:
        """Return the ids of the symbols before the text, of its pieces and times, and of the symbols behind it.

        Raises:
            DataError: if the row or a segment has no text, or no language where a symbol needs it.
            UsageError: if a text is given instead of that of a row with segments.
        """
        prefix, pieces, suffix = super().parts(row, text)
        return (prefix if row.get(SEGMENTS) else [*prefix, self.without]), pieces, suffix

    def pieces(self, row: Row, text: str | None = None) -> list[int]:
        """Return the ids of the text's pieces, and of the times of its segments; see :meth:`parts`."""
        segments = row.get(SEGMENTS)
        if not segments:
            return super().pieces(row, text)
        if text is not None:
            raise UsageError("a text with times cannot be rewritten: rewrite those of its segments")
        ids, language = [], row.get(self.language_column)
        for segment in segments:
            ids.append(self.time(segment["start"]))
            if segment["end"] is not None:
                said = self.text({**row, self.column: segment[self.column]})
                ids += [*self.encoded(said, language), self.time(segment["end"])]
        return ids

    def encoded(self, text: str, language: str | None) -> list[int]:
        """Return the ids of all pieces of a text in a language, before which there may be a space."""
        divided = bool(text) and (language is None or languages.spaced(language))
        return super().encoded(f" {text}" if divided else text, language)

    def length(self, row: Row) -> int:
        """Return the number of ids, L."""
        return sum(map(len, self.parts(row)))

    def lengths(self, rows: Rows, folder: Path | None = None) -> np.ndarray:
        """Return the numbers of ids, -1 where there is no text; those of large manifests are kept in a sidecar."""

        def count() -> np.ndarray:
            counts = (-1 if row.get(self.column) is None else self.length(row) for row in rows)
            return np.fromiter(counts, dtype=np.int64, count=len(rows))

        if not isinstance(rows, Manifest):
            return count()
        return kept_counts(rows, key=self.fingerprint, column=self.column, count=count, folder=folder)

    def decoded(self, ids: Iterable[int]) -> str:
        """Return the text that an output's ids stand for, without times."""
        return self.tokenizer.decode(id for id in ids if id not in self.times)

    def segments(self, ids: Iterable[int]) -> list[tuple[float, float | None, str]]:
        """Return start and end (seconds from the window's beginning) and text of each segment of an output.

        A text that no time is before has the one at which the segment before it ended, and one that no time is behind
        has no end.
        """
        return [(start, end, self.decoded(said).strip()) for start, end, said in self.cut(ids)]

    def cut(self, ids: Iterable[int]) -> list[tuple[float, float | None, list[int]]]:
        """Return the same segments with the ids of their texts, without times."""
        found: list[tuple[float, float | None, list[int]]] = []
        start, said = 0.0, list[int]()
        for id in ids:
            if id not in self.times:
                said.append(id)
                continue
            now = STEP * (id - self.times.start)
            found.append((start, now, said))
            start, said = now, []
        found.append((start, None, said))
        return [segment for segment in found if self.decoded(segment[2]).strip()]


def times_of(tokenizer: Tokenizer, first: int) -> range:
    """Return the ids of times, of which ``first`` is 0; a tokenizer of Whisper may leave out their names.

    Raises:
        DataError: if the first is not that of 0 s.
    """
    end = first
    while end < tokenizer.size and tokenizer.symbol(end) in (
        f"<|{STEP * (end - first):.2f}|>",
        f"(nothing at {end})",
    ):
        end += 1
    if end == first:
        raise DataError(f"id {first} of the tokenizer, behind {NO_TIMES}, is {tokenizer.symbol(first)!r}, not <|0.00|>")
    return range(first, end)


class TimestampRules(Described):
    """The rules of times in outputs, for searches (``ApplyTimestampRules`` of Whisper's published code).

    An output begins with a time. Times come in pairs, but for the first and the last one, and never go back; where all
    times together are more probable than each other token, one of them is written.

    Args:
        first: the id of 0 s; the one before it, of no times, is never written.
        times: how many there are; what has a higher id stands for nothing, and is never written.
        latest_start: the number of the latest time that an output may begin with, in steps of 20 ms.
        whole: an output does not end behind the start of a segment, but for the first one: no window follows that it
            would be in.
    """

    def __init__(
        self, *, first: PositiveInt, times: PositiveInt, latest_start: NonNegativeInt = LATEST_START, whole: bool = True
    ) -> None:
        self.first = first
        self.times = times
        self.latest_start = latest_start
        self.whole = whole

    def begin(self, opening: Opening) -> ActiveBan:
        """Begin with nothing written."""
        return _Timed(self, opening)


class _Timed(ActiveBan):
    """The rules at work: the latest time of each output (A, K), and how many times in a row it ends with."""

    def __init__(self, rules: TimestampRules, opening: Opening) -> None:
        self._rules, self._end = rules, opening.end
        size = (len(opening.start), opening.beams)
        self._latest = opening.start.new_full(size, rules.first - 1)
        self._run = opening.start.new_zeros(size)
        for tokens in opening.start.T:  # in which what was written before may be
            self.advance(None, tokens[:, None].expand(size))

    def apply(self, log_probabilities: Tensor) -> None:
        """Forbid what the rules forbid; what nothing but the end could follow may end."""
        rules, nothing = self._rules, float("-inf")
        ids = torch.arange(log_probabilities.shape[-1], device=log_probabilities.device)
        is_time = ids >= rules.first
        ending = log_probabilities[..., self._end].clone()
        run, latest = self._run[..., None], self._latest[..., None]
        # Behind text, a time; behind that another one, or the end; behind a pair, and the first time, text.
        forbidden = (is_time & (run >= 2)) | ((ids < self._end) & (run == 1))
        forbidden |= is_time & (ids < torch.where(run == 1, latest, latest + 1))
        if rules.whole:
            forbidden |= (ids == self._end) & (run == 2)
        forbidden |= (latest < rules.first) & (is_time.logical_not() | (ids > rules.first + rules.latest_start))
        forbidden |= (ids == rules.first - 1) | (ids >= rules.first + rules.times)
        log_probabilities.masked_fill_(forbidden, nothing)
        likely = log_probabilities[..., rules.first :].logsumexp(-1) > log_probabilities[..., : rules.first].amax(-1)
        log_probabilities.masked_fill_(likely[..., None] & is_time.logical_not(), nothing)
        stuck = log_probabilities.isneginf().all(-1)
        log_probabilities[..., self._end] = torch.where(stuck, ending, log_probabilities[..., self._end])

    def advance(self, index: Tensor | None, tokens: Tensor) -> None:
        """Note a step; the first time counts as more than a pair, because an output may end behind it."""
        latest, run = self._latest, self._run
        if index is not None:
            latest, run = (one.flatten(0, 1).index_select(0, index).view_as(tokens) for one in (latest, run))
        is_time = (tokens >= self._rules.first) & (tokens < self._rules.first + self._rules.times)
        added = torch.where(latest < self._rules.first, 3, 1)
        self._latest = torch.where(is_time, tokens, latest)
        self._run = torch.where(is_time, run + added, torch.zeros_like(run))


class TimestampSystem(System):
    """A Whisper that writes times, which the segments of a recording have in place of those of its pauses."""

    def timed_texts(self, part: Part) -> list[TimedText]:
        """Return the segments of a part of a recording, which end with it at the latest."""
        whole, [(name, field)] = part.timed, self.texts.items()
        assert isinstance(field, TimestampedText)
        segments = [] if part.silent else field.cut(part.hypotheses[0].tokens)
        texts = []
        for start, end, said in segments:
            begin = min(whole.start + start, whole.end)
            stop = whole.end if end is None else max(begin, min(whole.start + end, whole.end))
            text = field.decoded(said).strip()
            texts.append(replace(whole, start=begin, end=stop, texts={name: text}, tokens=said))
        return [*(replace(one, cut=False) for one in texts[:-1]), *(texts[-1:] or [whole])]


def with_times(*, system: System) -> System:
    """Return a system with the same Whisper that writes times.

    Raises:
        DataError: if its tokenizer has none, or not all of its window.
        UsageError: if it is no Whisper.
    """
    if isinstance(system, TimestampSystem):
        return system
    speech: Any = dict(getattr(system.model, "embeddings", {}).items()).get("speech")
    if not isinstance(speech, SpeechEmbedding) or speech.window is None:
        raise UsageError(f"times are written by Whisper, not by a {type(system.model).__name__} without a window")
    output = TimestampedText(field=system.output)
    output.time(speech.window / SAMPLE_RATE)
    changed = {
        "output": output,
        "other_outputs": {name: TimestampedText(field=field) for name, field in system.other_outputs.items()},
        "start_symbols": system.start_symbols - 1,
        "bans": [*system.bans, TimestampRules(first=output.times.start, times=len(output.times))],
    }
    timed = TimestampSystem(**system.arguments | changed).train(system.training)
    timed.origin, timed.autocast_dtype = list(system.origin), system.autocast_dtype
    return timed
