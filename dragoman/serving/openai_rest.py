"""OpenAI's protocol for sound: ``/v1/audio/transcriptions``, ``/v1/audio/translations`` and ``/v1/models``.

A translation may be into any language, ``to``, where OpenAI's is into English, and may be streamed as a transcript is.
What the protocol has and models here do not (prompts, temperatures) is refused. Errors are ``{"error": {"message",
"type", "param", "code"}}``.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import JSONResponse, PlainTextResponse, StreamingResponse
from starlette.datastructures import UploadFile

from dragoman.serving.libretranslate import fields_schema
from dragoman.serving.protection import Gate, client_of
from dragoman.serving.served import ANY, Models, Served, Task, UnknownModelError
from dragoman.serving.streamed import cues_of, events, text_of
from dragoman.shared.errors import UsageError, shortened
from dragoman.shared.generator import Hypothesis
from dragoman.shared.systems.timed import Part
from dragoman.shared.text.subtitles import srt, vtt

FORMATS = ("json", "text", "srt", "verbose_json", "vtt")
_SOUND = {
    "file": "sound",
    "model": f"name of a model; {ANY}, or nothing: any that knows the languages",
    "language": "language code of the sound, if the model knows several; auto: that of each segment is found out, or "
    "auto:CODE, with a language for segments in an unknown one",
    "response_format": ", ".join(FORMATS),
    "stream": "true for server-sent events, each as soon as a segment is done",
}
#: The header with the number of segments whose texts were ended at the maximum length, if there are any.
CUT = "X-Cut-Segments"
_TO = {"to": "language code of the translation, if the model knows several; en if it knows that"}
#: What clients send that changes nothing here, by the values that do.
_USUAL = {
    "temperature": {"0", "0.0"},
    "prompt": set[str](),
    "chunking_strategy": {"auto"},
    "timestamp_granularities[]": {"segment"},
}


def routes(models: Models, gate: Gate, readers: ThreadPoolExecutor) -> APIRouter:
    """Return the routes of this protocol.

    Args:
        models: all.
        gate: lets requests in.
        readers: the threads that read sound.
    """
    router = APIRouter(prefix="/v1", tags=["OpenAI"], dependencies=[Depends(gate.check_bearer)])

    async def answer(request: Request, text: str, known: dict[str, str]) -> Response:
        client, limited = client_of(request), gate.for_sound(request)
        with ExitStack() as kept:
            async with gate.admitted(client), limited.form(max_files=1, max_fields=20) as form:
                asked = checked({key: form.getlist(key) for key in form}, known)
                name, kind = asked.get("model") or ANY, asked.get("response_format") or "json"
                file = form.get("file")
                if not isinstance(file, UploadFile):
                    raise UsageError("file: the sound is missing")
                if kind not in FORMATS:
                    raise UsageError(f"response_format must be one of {', '.join(FORMATS)}, not {shortened(kind)!r}")
                streamed = is_streamed(asked.get("stream") or "false", kind)
                task, codes = chosen(models, text, name, asked.get("language") or None, asked.get("to") or None)
                loop = asyncio.get_running_loop()
                upload = kept.enter_context(gate.upload(file.file, file.filename or ""))
                path = await loop.run_in_executor(readers, gate.decoded, upload)
                parts = await loop.run_in_executor(readers, models.parts_of_sound, path, codes)
                spoken = [part for part in parts if not part.silent]
                found: list[list[Hypothesis]] = []
                if spoken and not streamed:
                    job = models.served[task.model].submit(task, [part.row for part in spoken])
                    [found] = await gate.results(request, job)
            if streamed:
                told = events(models, gate, task, parts, kept.pop_all(), client)
                return StreamingResponse(told, media_type="text/event-stream", headers={"Cache-Control": "no-store"})
        empty = [task.system.empty_output()]
        answers = iter(found)
        parts = [replace(part, hypotheses=empty if part.silent else next(answers)) for part in parts]
        return written(kind, task, codes, parts)

    body = fields_schema(_SOUND, "multipart/form-data", file="file")

    @router.post("/audio/transcriptions", summary="Write what is said", openapi_extra=body)
    async def transcriptions(request: Request) -> Response:
        """Transcribe a recording."""
        return await answer(request, "transcript", _SOUND)

    body_to = fields_schema(_SOUND | _TO, "multipart/form-data", file="file")

    @router.post("/audio/translations", summary="Translate what is said", openapi_extra=body_to)
    async def translations(request: Request) -> Response:
        """Translate a recording."""
        return await answer(request, "translation", _SOUND | _TO)

    @router.get("/models", summary="Models")
    async def list_models() -> dict[str, Any]:
        """List all models."""
        return {"object": "list", "data": [described(one) for one in models.served.values()]}

    @router.get("/models/{name:path}", summary="One model")
    async def retrieve(name: str) -> dict[str, Any]:
        """Describe a model."""
        if name not in models.served:
            raise UnknownModelError(f"no model is called {shortened(name)!r}: there are {', '.join(models.served)}")
        return described(models.served[name])

    return router


def checked(given: dict[str, list[Any]], known: dict[str, str]) -> dict[str, Any]:
    """Return the fields of a form by name, each once.

    Raises:
        UsageError: for a field that is unknown or given twice, or that asks for what there is not.
    """
    for key, values in given.items():
        if len(values) > 1 or (key != "file" and not isinstance(values[0], str)):
            raise UsageError(f"{shortened(key)}: give one text")
        if key in _USUAL and values[0] not in _USUAL[key] | {""}:
            only = f", only {' or '.join(sorted(_USUAL[key]))}" if _USUAL[key] else ""
            raise UsageError(f"{key} {shortened(values[0])!r} is not supported{only}")
        if key not in _USUAL and key not in known:
            raise UsageError(f"Unrecognized request argument supplied: {shortened(key)}")
    return {key: values[0] for key, values in given.items()}


def is_streamed(stream: str, kind: str) -> bool:
    """Tell whether the answer is a stream, or raise a UsageError."""
    if stream.lower() not in ("true", "false"):
        raise UsageError(f"stream must be true or false, not {shortened(stream)!r}")
    if stream.lower() == "true" and kind not in ("json", "text"):
        raise UsageError(f"a stream has no response_format {kind}, only json or text")
    return stream.lower() == "true"


def chosen(models: Models, text: str, name: str, source: str | None, target: str | None) -> tuple[Task, dict[str, str]]:
    """Return the task, and the languages of its rows; a translation is into English if none is named and one may be."""
    if text == "translation" and target is None:
        try:
            return models.choose("speech", text, source=source, target="en", name=name)
        except UnknownModelError:
            raise
        except UsageError:  # English is none of its languages: its only one is meant, or one has to be named
            pass
    return models.choose("speech", text, source=source, target=target, name=name)


def described(model: Served) -> dict[str, Any]:
    """Return a model as OpenAI's protocol does, and what it does besides."""
    tasks = [
        {
            "reads": "speech" if task.reads == "speech" else "text",
            "writes": task.text,
            "source_languages": task.system.source_languages,
            "target_languages": task.target_languages,
        }
        for task in model.tasks
    ]
    return {"id": model.name, "object": "model", "created": model.created, "owned_by": "dragoman", "tasks": tasks}


def written(kind: str, task: Task, codes: dict[str, str], parts: Sequence[Part]) -> Response:
    """Return segments with hypotheses in a format of the protocol."""
    best, cues = text_of(task, parts), cues_of(task, parts)
    segments = [(part, text) for part in parts for text in task.system.timed_texts(part)]
    headers = {CUT: str(cut)} if (cut := sum(segment.cut for _, segment in segments)) else {}
    if kind == "json":
        return JSONResponse({"text": best}, headers=headers)
    if kind != "verbose_json":
        shown = {"text": best + "\n", "srt": srt(cues), "vtt": vtt(cues)}[kind]
        return PlainTextResponse(shown, media_type="text/vtt" if kind == "vtt" else "text/plain", headers=headers)
    listed = [
        {
            "id": number,
            "start": round(segment.start, 3),
            "end": round(segment.end, 3),
            "text": segment.texts[task.text],
            "tokens": segment.tokens,
            "avg_logprob": round(segment.score, 4),
        }
        | ({"source_language": part.row["source_language"]} if task.detects and not part.silent else {})
        | ({"cut": True} if segment.cut else {})
        for number, (part, segment) in enumerate(segments)
    ]
    answer = {
        "task": "transcribe" if task.text == "transcript" else "translate",
        "language": _language_of(task, codes, parts),
        "duration": round(parts[-1].timed.end, 3),
        "text": best,
        "segments": listed,
    }
    return JSONResponse(answer, headers=headers)


def _language_of(task: Task, codes: dict[str, str], parts: Sequence[Part]) -> str | None:
    """Return the language of what was written: the usual one of its segments; None if no segment tells it."""
    column = f"{task.system.texts[task.text].side}_language"
    if not task.detects or column != "source_language":
        return codes[column]
    found = Counter(part.row[column] for part in parts if not part.silent)
    return found.most_common(1)[0][0] if found else None
