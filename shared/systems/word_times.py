"""Times of the words of a recording, from a CTC head that knows its transcript."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import torch

from shared.corpus.fields import TextField
from shared.corpus.loader import Loader
from shared.corpus.manifest import Row
from shared.corpus.stream import Budget, translation_budget
from shared.errors import UsageError
from shared.nn.heads import head_log_probabilities
from shared.nn.state import evaluating
from shared.search.alignment import ctc_alignment
from shared.systems.ctc_system import CtcSystem
from shared.systems.system import System
from shared.systems.timed import TimedText
from shared.text.subtitles import Cue

#: The sign at the beginning of a word's first piece.
_WORD = "▁"


def aligned_field(system: System) -> TextField | None:
    """Return the field of the text whose words the system's CTC head can find, None if it has no such head."""
    if "ctc" not in getattr(system.model, "heads", {}):
        return None
    return system.output if isinstance(system, CtcSystem) else system.ctc_output


@torch.inference_mode()
def word_times(
    system: System,
    rows: Sequence[Row],
    *,
    budget: Budget,
    autocast: Callable[[], AbstractContextManager[Any]] | None = None,
) -> list[list[Cue] | None]:
    """Return the words of each row's text with their times in the recording.

    The encoder's positions divide a row's time equally: with a stride of 40 ms, that is how exact the times are.

    Args:
        system: with a CTC head.
        rows: with sound, and with the text that the head was trained to write, in its column.
        budget: the size of a batch.
        autocast: returns the context in which the model computes; the system's own by default.

    Returns:
        A cue for each word, in order and without overlap; None where the text does not fit into the positions.

    Raises:
        DataError: if a row lacks its text, or its sound cannot be read.
        UsageError: if the system has no CTC head, or does not say what that writes.

    """
    field = aligned_field(system)
    if field is None:
        raise UsageError("the times of words come from a CTC head, which this system does not have")
    model: Any = system.model
    results: list[list[Cue] | None] = [None] * len(rows)
    with evaluating(system):
        for batch, numbers in Loader.evaluation(rows, system.input_fields, budget):
            labels = [field.parts(rows[number])[1] for number in numbers]
            with (autocast or system.autocast)():
                scores = head_log_probabilities(model, model.encode(batch.to(system.device)), "ctc")
            spans = ctc_alignment(scores, labels, blank=model.heads["ctc"].blank)
            for place, (number, ids, found) in enumerate(zip(numbers, labels, spans, strict=True)):
                if found is not None:
                    row = rows[number]
                    seconds = row["duration"] / int(scores.lengths[place])
                    cues = _words(field, ids, found)
                    results[number] = [
                        Cue(row["start"] + first * seconds, row["start"] + end * seconds, text)
                        for first, end, text in cues
                    ]
    return results


def aligned_text(system: System) -> str | None:
    """Return the name of the text, of those that a system writes, whose words its CTC head can find, or None."""
    field = aligned_field(system)
    return next((name for name, own in system.texts.items() if field is not None and own.column == field.column), None)


def words_of_segments(
    system: System, file: str | Path, segments: Sequence[TimedText], *, batch_size: int = 16
) -> list[list[Cue] | None]:
    """Return the words of each segment of a recording with their times, of the text that :func:`aligned_text` names.

    Args:
        system: that wrote the segments.
        file: the recording.
        segments: what :meth:`System.timed` returned for it.
        batch_size: how many segments are aligned at a time, at most.

    Returns:
        A cue for each word; none for a segment without text; None where a text does not fit into the positions.

    Raises:
        DataError: if the sound cannot be read.
        UsageError: if the system writes no text that a CTC head of its own knows.

    """
    field, name = aligned_field(system), aligned_text(system)
    if field is None or name is None:
        raise UsageError("the times of words need a CTC head on a text that the system writes")
    codes = system.source_languages if field.side == "source" else system.target_languages
    language = {field.language_column: codes[0]}
    rows = [
        {"id": f"{file}:{s.start:.2f}", "audio": str(file), "start": s.start, "duration": s.end - s.start}
        | {field.column: s.texts[name], **language}
        for s in segments
    ]
    spoken = [number for number, segment in enumerate(segments) if segment.texts[name]]
    found = word_times(system, [rows[number] for number in spoken], budget=translation_budget(batch_size))
    words: list[list[Cue] | None] = [[] for _ in segments]
    for number, times in zip(spoken, found, strict=True):
        words[number] = times
    return words


def _words(field: TextField, ids: Sequence[int], spans: Sequence[tuple[int, int]]) -> Iterable[tuple[int, int, str]]:
    """Yield first position, end and text of each word: a piece that begins with a space begins one."""
    groups: list[list[int]] = []
    for place, id in enumerate(ids):
        if not groups or field.tokenizer.symbol(id).startswith(_WORD):
            groups.append([])
        groups[-1].append(place)
    for group in groups:
        text = field.tokenizer.decode([ids[place] for place in group]).strip()
        if text:
            yield spans[group[0]][0], spans[group[-1]][1], text
