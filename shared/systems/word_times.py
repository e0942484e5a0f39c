"""Times of the words of a recording, from a CTC head that knows its transcript."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from os.path import commonprefix
from pathlib import Path
from typing import Any

import torch

from dragoman.shared.batches.fields import TextField
from dragoman.shared.batches.loader import Loader
from dragoman.shared.batches.manifest import Row
from dragoman.shared.batches.stream import Budget, translation_budget
from dragoman.shared.errors import UsageError
from dragoman.shared.nn.heads import head_log_probabilities
from dragoman.shared.nn.state import evaluating
from dragoman.shared.search.alignment import ctc_alignment
from dragoman.shared.systems.ctc_system import CtcSystem
from dragoman.shared.systems.system import System
from dragoman.shared.systems.timed import TimedText
from dragoman.shared.text import languages
from dragoman.shared.text.subtitles import Cue
from dragoman.shared.text.tokenizer import Tokenizer
from dragoman.shared.text.units import display_words

#: What a tokenizer writes for a character some of whose bytes are not there yet.
_BROKEN = "\N{REPLACEMENT CHARACTER}"


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
        A cue for each word, in order and without overlap; None where the text does not fit into the positions. Words
        are what spaces divide, else what a line may end behind (shared/text/units.py).

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
            for place, (number, ids, label_spans) in enumerate(zip(numbers, labels, spans, strict=True)):
                if label_spans is not None:
                    row = rows[number]
                    seconds = row["duration"] / int(scores.lengths[place])
                    spaced = languages.spaced(row[field.language_column])
                    cues = timed_words(field.tokenizer, ids, label_spans, spaced=spaced)
                    results[number] = [
                        Cue(row["start"] + first * seconds, row["start"] + end * seconds, text)
                        for first, end, text in cues
                    ]
    return results


def aligned_text(system: System) -> str | None:
    """Return the name of the text, of those that a system writes, whose words its CTC head can find, or None."""
    field = aligned_field(system)
    return next(
        (name for name, output in system.texts.items() if field is not None and output.column == field.column), None
    )


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
    cues = word_times(system, [rows[number] for number in spoken], budget=translation_budget(batch_size))
    words: list[list[Cue] | None] = [[] for _ in segments]
    for number, times in zip(spoken, cues, strict=True):
        words[number] = times
    return words


def timed_words(
    tokenizer: Tokenizer, ids: Sequence[int], spans: Sequence[tuple[int, int]], *, spaced: bool
) -> list[tuple[float, float, str]]:
    """Return begin, end and text of each word that tokens write; a token that writes several shares its time out.

    Where a word begins is seen in the text alone: tokenizers mark it in many ways. A token for the space alone belongs
    to the word behind it if it is nearer to that than to the word before, else to none.

    Args:
        tokenizer: of the tokens.
        ids: L tokens.
        spans: the first position of each, and the one after its last.
        spaced: whether words are divided by spaces.
    """
    text = tokenizer.decode(ids)
    times: list[tuple[float, float]] = []  # of each code point
    first: float | None = None  # position of the tokens that write a character together
    for number, (start, end) in enumerate(spans, 1):
        written = tokenizer.decode(ids[:number]) if number < len(ids) else text
        done = len(commonprefix([text, written]))
        first = start if first is None else first
        heard = text[len(times) : done]
        part = (end - first) / max(len(heard) - heard.count(" "), 1)
        for sign in heard:
            times.append((first, first if sign == " " else first + part))
            first = times[-1][1]
        if heard.strip():
            first = None
        elif not written.endswith(_BROKEN):
            before = start - (spans[number - 2][1] if number > 1 else 0)
            behind = spans[number][0] - end if number < len(spans) else before
            first = first if behind < before else None
    timed, place = [], 0
    for word in display_words(text, spaced=spaced):
        begin = text.index(word.rstrip(), place)
        place = begin + len(word.rstrip())
        timed.append((times[begin][0], times[place - 1][1], word.rstrip()))
    return timed
