"""LibreTranslate's ``/translate_file``: files of text, subtitles, JSON and Markdown, translated as the command does it.

What was made waits for a while under an address that nobody can guess, so that it is fetched without a key, as there.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Request, Response
from starlette.datastructures import UploadFile

from dragoman.commands.detecting import AUTO
from dragoman.commands.marked_text import Work
from dragoman.commands.whole_files import FORMS, FormedFile
from dragoman.serving.libretranslate import (
    code_of,
    cut_off,
    fields_schema,
    glossary_of,
    lacking,
    languages_of,
    paragraphs_of,
    sources_into,
    split_of,
)
from dragoman.serving.protection import Gate, Refused, bearer, client_of
from dragoman.serving.served import Models, Task
from dragoman.shared.errors import DataError, UsageError, shortened

#: Endings of files that are translated.
ENDINGS = (".txt", *FORMS)
#: Seconds for which a file waits, and how many do at a time: the oldest goes first.
KEPT_SECONDS, KEPT_FILES = 900.0, 64
_FIELDS = {
    "file": f"file to translate: {', '.join(ENDINGS)}",
    "source": "language code; auto: that of the file is found out; auto:CODE, with one for an unknown language",
    "target": "language code",
    "split": "true: lines of a text file are paragraphs, which are translated by sentences",
    "glossary": "terms that the translation has: a source and a target a line with a tab between them",
    "api_key": "key, if the server asks for one",
}


@dataclass
class Shelf:
    """Files that wait to be fetched."""

    files: OrderedDict[str, tuple[float, bytes]] = field(default_factory=OrderedDict)

    def put(self, content: bytes, ending: str) -> str:
        """Keep a file, and return its name."""
        while self.files and (len(self.files) >= KEPT_FILES or self._oldest() + KEPT_SECONDS < time.monotonic()):
            self.files.popitem(last=False)
        name = secrets.token_urlsafe(24) + ending
        self.files[name] = time.monotonic(), content
        return name

    def get(self, name: str) -> bytes | None:
        """Return a file, None if it is not there, or no longer."""
        made, content = self.files.get(name, (0.0, None))
        return content if content is not None and made + KEPT_SECONDS >= time.monotonic() else None

    def _oldest(self) -> float:
        return next(iter(self.files.values()))[0]


@dataclass
class _Noted:
    """The gaps in the translations of a file.

    Attributes:
        terms: of a glossary.
        cut: texts whose translations were ended at the maximum length.
    """

    terms: set[str] = field(default_factory=set)
    cut: list[str] = field(default_factory=list)


def routes(models: Models, gate: Gate, folder: Path) -> APIRouter:
    """Return the routes.

    Args:
        models: all.
        gate: lets requests in.
        folder: a private one, for uploads.
    """
    router = APIRouter(tags=["LibreTranslate"])
    shelf, into = Shelf(), partial(sources_into, models.text_tasks())

    async def translated(
        request: Request, task: Task, codes: dict[str, str], texts: list[str], noted: _Noted, *, lines: bool
    ) -> list[str]:
        """Translate texts, which may be lines that follow each other; note what their outputs lack."""
        rows = models.rows(texts, [codes] * len(texts), lines=lines)
        [hypotheses] = await gate.results(request, models.served[task.model].submit(task, rows))
        made = [found[0].texts["translation"] for found in hypotheses]
        noted.terms.update(*lacking(task, rows, made))
        noted.cut += cut_off(texts, hypotheses)
        return made

    @router.post(
        "/translate_file",
        summary="Translate a file",
        openapi_extra=fields_schema(_FIELDS, "multipart/form-data", file="file"),
    )
    async def translate_file(request: Request) -> dict[str, Any]:
        """Translate a text file by lines; subtitles, JSON and Markdown by sentences, with warnings if there are any."""
        async with gate.admitted(client_of(request)), gate.for_text(request).form(max_files=1, max_fields=7) as form:
            if not gate.knows(str(form.get("api_key") or bearer(request) or "")):
                raise Refused(403, "Invalid API key")
            file = form.get("file")
            if not isinstance(file, UploadFile):
                raise UsageError("Invalid request: missing file parameter")
            ending = Path(file.filename or "").suffix.lower()
            if ending not in ENDINGS:
                raise UsageError(f"Invalid request: a file ends in {', '.join(ENDINGS)}, not {shortened(ending)!r}")
            asked: dict[str, Any] = {side: form.get(side) for side in ("source", "target")}
            source, target = (code_of(asked, side) for side in ("source", "target"))
            split, remarks, noted = split_of(form, models), list[str](), _Noted()
            glossary = glossary_of(form, gate.limits.characters)
            content = await file.read()
            text = _text(content, gate.limits.characters)
            if found := await asyncio.to_thread(_language_of, source, content, text, ending, into(target), folder):
                source = found["language"]
            known, codes = models.choose("source", "translation", source=source, target=target)
            task = await asyncio.to_thread(known.held_to, glossary, codes)
            if ending == ".txt":
                paragraphs = paragraphs_of(text, codes["source_language"] if split else None)
                sentences = [one for line in paragraphs for one in line.sentences]
                made = await translated(request, task, codes, sentences, noted, lines=True)
                ready, code = iter(made), codes["target_language"]
                written = "\n".join(line.joined([next(ready) for _ in line.sentences], code) for line in paragraphs)
            else:
                formed = await asyncio.to_thread(_formed, content, ending, codes["source_language"], folder)
                work = formed.work(codes["target_language"])
                asking: list[str] | None = None
                while isinstance(step := await asyncio.to_thread(_next, work, asking), list):
                    asking = await translated(request, task, codes, step, noted, lines=False)
                written, remarks = step, formed.remarks
        name = shelf.put(written.encode(), ending)
        answer: dict[str, Any] = {"translatedFileUrl": f"{request.base_url}download_file/{name}"}
        named: dict[str, Any] = {"warnings": remarks, "missingTerms": sorted(noted.terms), "cutOff": noted.cut}
        named |= {"detectedLanguage": found}
        return answer | {key: value for key, value in named.items() if value}

    @router.get("/download_file/{name}", summary="A translated file")
    async def download_file(name: str) -> Response:
        """Return a file that was translated."""
        content = shelf.get(name)
        if content is None:
            raise Refused(404, "there is no such file, or no longer")
        headers = {"Content-Disposition": f"attachment; filename=translated{Path(name).suffix}"}
        return Response(content, media_type="text/plain; charset=utf-8", headers=headers)

    return router


def _text(content: bytes, most: int) -> str:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"Invalid request: the file is not UTF-8 (byte {error.start})") from error
    if len(text) > most:
        raise UsageError(f"Invalid request: file ({len(text)}) exceeds text limit ({most})")
    return text


def _language_of(
    source: str, content: bytes, text: str, ending: str, known: Sequence[str], folder: Path
) -> dict[str, Any] | None:
    """Return the language of a file by what is to be translated of it; see :func:`languages_of`."""
    if source.partition(":")[0] != AUTO:
        return None
    if ending != ".txt":
        step = _next(_formed(content, ending, known[0], folder).work(known[0]), None)
        text = "\n".join(step) if isinstance(step, list) else ""
    found = languages_of(source, [text], known, ["file"])
    return None if found is None else found[0]


def _next(work: Work, made: list[str] | None) -> list[str] | str:
    """Return the next texts that a file wants to be translated, or its content at the end."""
    try:
        return next(work) if made is None else work.send(made)
    except StopIteration as end:
        return str(end.value)


def _formed(content: bytes, ending: str, language: str, folder: Path) -> FormedFile:
    """Read a file with a form from one of ours."""
    path = folder / (secrets.token_hex(8) + ending)
    try:
        path.write_bytes(content)
        return FORMS[ending](path, language)
    except DataError as error:
        raise DataError(str(error).replace(str(path), "file")) from error
    finally:
        path.unlink(missing_ok=True)
