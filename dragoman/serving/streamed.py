"""A recording's segments as server-sent events, each as soon as it and all before it are there.

The events are those of OpenAI's protocol: ``transcript.text.segment``, with the times in seconds; ours are the length
of the recording as ``duration``, and ``cut`` where the end of the text is missing. ``transcript.text.delta``, whose
deltas make the text; at the end ``transcript.text.done`` with the whole text, and as subtitles (``srt`` and ``vtt``,
which are ours), or ``error``.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import count
from typing import Any

from dragoman.serving.protection import Gate
from dragoman.serving.refusals import described_error
from dragoman.serving.served import Models, Task
from dragoman.shared.evaluation.outputs import ONE_LINE
from dragoman.shared.generator import Hypothesis
from dragoman.shared.systems.timed import Part, whole
from dragoman.shared.text.subtitles import Cue, srt, vtt


async def events(
    models: Models, gate: Gate, task: Task, parts: Sequence[Part], kept: ExitStack, client: str
) -> AsyncIterator[str]:
    """Yield the events of a recording.

    Args:
        models: all.
        gate: lets the request in again.
        task: what is done with it.
        parts: its segments, without hypotheses yet.
        kept: what the segments need, such as the file; closed at the end.
        client: whose request it is.
    """
    try:
        with kept:  # outermost: it gives errors of the file the name that the client knows
            async with gate.admitted(client):
                done: list[Part] = []
                text, numbers = "", count()
                async for part in _in_order(models, task, parts):
                    done.append(part)
                    before, text = text, text_of(task, done)
                    for segment in task.system.timed_texts(part):
                        times = {"start": segment.start, "end": segment.end, "duration": _end(parts[-1])}
                        named: dict[str, Any] = {"id": f"seg_{next(numbers)}", "text": segment.texts[task.text]}
                        named |= {"cut": True} if segment.cut else {}
                        rounded = {key: round(seconds, 3) for key, seconds in times.items()}
                        yield _event("transcript.text.segment", **named, **rounded)
                    if delta := text.removeprefix(before):
                        yield _event("transcript.text.delta", delta=delta)
                cues = cues_of(task, done)
                yield _event("transcript.text.done", text=text, srt=srt(cues), vtt=vtt(cues))
    except Exception as error:  # the status has been sent: this is all that a client can be told
        status, described = described_error(error)
        if status == 500:
            logging.getLogger("dragoman").error("a stream failed", exc_info=error)
        yield _event("error", error=described)


def text_of(task: Task, parts: Sequence[Part]) -> str:
    """Return the text of segments with hypotheses, put together."""
    sides = {name: field.side for name, field in task.system.texts.items()}
    return whole(parts, sides)[0].texts[task.text].strip()


def cues_of(task: Task, parts: Sequence[Part]) -> list[Cue]:
    """Return the subtitles of segments with hypotheses; those without text have none."""
    timed = [text for part in parts for text in task.system.timed_texts(part)]
    return [Cue(s.start, s.end, text) for s in timed if (text := s.texts[task.text].translate(ONE_LINE))]


async def _in_order(models: Models, task: Task, parts: Sequence[Part]) -> AsyncIterator[Part]:
    """Yield segments with their hypotheses, in their order; those that come early wait."""
    loop = asyncio.get_running_loop()
    found: asyncio.Queue[tuple[int, list[Hypothesis]] | None] = asyncio.Queue()

    def heard(number: int, hypotheses: list[Hypothesis]) -> None:
        loop.call_soon_threadsafe(found.put_nowait, (number, hypotheses))

    spoken = [number for number, part in enumerate(parts) if not part.silent]
    answers = {number: [task.system.empty_output()] for number, part in enumerate(parts) if part.silent}
    job = None
    try:
        if spoken:
            job = models.served[task.model].submit(task, [parts[number].row for number in spoken], heard)
            job.future.add_done_callback(lambda _: loop.call_soon_threadsafe(found.put_nowait, None))
        for number, part in enumerate(parts):
            while number not in answers:
                answer = await found.get()
                if answer is not None:
                    answers[spoken[answer[0]]] = answer[1]
                elif job is not None:
                    job.future.result()  # raises what went wrong
            yield replace(part, hypotheses=answers.pop(number))
    finally:
        if job is not None:
            job.future.cancel()


def _end(part: Part) -> float:
    return float(part.row["start"] + part.row["duration"])


def _event(kind: str, **content: Any) -> str:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **content}, ensure_ascii=False)}\n\n"
