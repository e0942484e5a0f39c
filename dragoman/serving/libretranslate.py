"""LibreTranslate's protocol: ``/translate``, ``/languages`` and ``/detect`` (its clients' address is the server's).

Texts of several lines are translated line by line, as ``dragoman translate`` does; with the field ``split``, which is
ours, each line by sentences. Errors are ``{"error": message}``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from fastapi import APIRouter, Request

from dragoman.commands.detecting import Detection, ranked
from dragoman.commands.glossary import Glossary
from dragoman.commands.glossary_search import GlossarySearch
from dragoman.commands.paragraphs import Paragraph
from dragoman.serving.batching import Row
from dragoman.serving.protection import Gate, Refused, bearer, client_of, fields_of
from dragoman.serving.served import Models, Task
from dragoman.shared.errors import DataError, UsageError, check_number, shortened
from dragoman.shared.generator import Hypothesis
from dragoman.shared.machine.digits import whole_number
from dragoman.shared.text.languages import name, union
from dragoman.shared.text.surrogates import find_surrogate

#: The least probability, in per cent, of a language that /detect names.
_LEAST = 1.0
_TRANSLATE = {
    "q": "text, or a list of texts (JSON)",
    "source": "language code; auto: that of each text is found out; auto:CODE, with one for texts of unknown language",
    "target": "language code",
    "format": "text",
    "alternatives": "number of further translations",
    "split": "true: lines are paragraphs, which are translated by sentences",
    "glossary": "terms that the translation has: an object of their targets by their sources (JSON), or a source and a "
    "target a line with a tab between them",
    "api_key": "key, if the server asks for one",
}


@dataclass
class _Group:
    """The texts of a request in one language.

    Attributes:
        task: translates them.
        codes: of their languages and their translations'.
        rows: their sentences.
    """

    task: Task
    codes: dict[str, str]
    rows: list[dict[str, Any]] = field(default_factory=list)


def fields_schema(fields: dict[str, str], *kinds: str, file: str | None = None) -> dict[str, Any]:
    """Return what OpenAPI says of a body, whose fields are texts, but for a file."""
    properties: dict[str, dict[str, str]] = {key: {"description": said} for key, said in fields.items()}
    if file is not None:
        properties[file].update(type="string", format="binary")
    schema = {"schema": {"type": "object", "properties": properties}}
    return {"requestBody": {"content": dict.fromkeys(kinds, schema)}}


def routes(models: Models, gate: Gate) -> APIRouter:
    """Return the routes of this protocol."""
    router = APIRouter(tags=["LibreTranslate"])
    kinds = ("application/json", "application/x-www-form-urlencoded")
    tasks = models.text_tasks()
    sources = union(*(task.system.source_languages for task in tasks))
    into = partial(sources_into, tasks)

    async def fields(request: Request) -> dict[str, Any]:
        found = await fields_of(gate.for_text(request))
        if not gate.knows(str(found.get("api_key") or bearer(request) or "")):
            raise Refused(403, "Invalid API key")
        return found

    @router.post("/translate", summary="Translate texts", openapi_extra=fields_schema(_TRANSLATE, *kinds))
    async def translate(request: Request) -> dict[str, Any]:
        """Translate a text or a list of texts."""
        async with gate.admitted(client_of(request)):
            asked = await fields(request)
            texts = texts_of(asked, gate.limits.characters)
            if asked.get("format") not in (None, "", "text"):
                raise UsageError(f"format {shortened(str(asked['format']))!r} is not supported, only text")
            more = alternatives_of(asked, tasks)
            source, target = (code_of(asked, side) for side in ("source", "target"))
            split, glossary = split_of(asked, models), glossary_of(asked, gate.limits.characters)
            places = [f"q[{n}]" for n in range(len(texts))] if isinstance(asked["q"], list) else ["q"]
            languages = await asyncio.to_thread(languages_of, source, texts, into(target), places)
            codes = [source] * len(texts) if languages is None else [one["language"] for one in languages]
            groups: dict[str, _Group] = {}
            for code in dict.fromkeys(codes):
                known, both = models.choose("source", "translation", source=code, target=target)
                groups[code] = _Group(await asyncio.to_thread(known.held_to, glossary, both), both)
            paragraphs = []
            sentences: list[tuple[str, str]] = []  # with what its language is called
            for text, code in zip(texts, codes, strict=True):
                paragraphs.append(paragraphs_of(text, groups[code].codes["source_language"] if split else None))
                sentences += [(sentence, code) for line in paragraphs[-1] for sentence in line.sentences]
            rows = models.rows([one for one, _ in sentences], [groups[code].codes for _, code in sentences])
            for row, (_, code) in zip(rows, sentences, strict=True):
                groups[code].rows.append(row)
            jobs = [models.served[one.task.model].submit(one.task, one.rows) for one in groups.values()]
            answered = dict(zip(groups, await gate.results(request, *jobs), strict=True))
        hypotheses = {code: iter(found) for code, found in answered.items()}
        lacked = {
            code: iter(lacking(one.task, one.rows, [few[0].texts["translation"] for few in answered[code]]))
            for code, one in groups.items()
        }
        outputs, missing, cut = [], [], []
        for lines, code in zip(paragraphs, codes, strict=True):
            found = [[next(hypotheses[code]) for _ in line.sentences] for line in lines]
            target = groups[code].codes["target_language"]
            outputs.append([written(lines, found, target, place) for place in range(1 + more)])
            missing.append([one for line in lines for _ in line.sentences for one in next(lacked[code])])
            cut.append([one for line, few in zip(lines, found, strict=True) for one in cut_off(line.sentences, few)])
        answer: dict[str, Any] = {"translatedText": [best for best, *_ in outputs]}
        if more:
            answer["alternatives"] = [others for _, *others in outputs]
        answer |= {key: value for key, value in (("missingTerms", missing), ("cutOff", cut)) if any(value)}
        if languages is not None:
            answer["detectedLanguage"] = languages
        return answer if isinstance(asked["q"], list) else {key: value[0] for key, value in answer.items()}

    @router.get("/languages", summary="Languages that texts are translated from, and into")
    async def languages() -> list[dict[str, Any]]:
        """List the languages of texts; each with those that it is translated into."""
        pairs = {
            code: union(*(task.target_languages for task in tasks if code in task.system.source_languages))
            for code in sources
        }
        return [{"code": code, "name": name(code), "targets": targets} for code, targets in pairs.items()]

    @router.post(
        "/detect",
        summary="Tell the language of a text",
        openapi_extra=fields_schema({key: _TRANSLATE[key] for key in ("q", "api_key")}, *kinds),
    )
    async def detect(request: Request) -> list[Any]:
        """Name the languages that a text may be in, with their probabilities in per cent; of a list, those of each."""
        async with gate.admitted(client_of(request)):
            asked = await fields(request)
            texts = texts_of(asked, gate.limits.characters)
            found = [await asyncio.to_thread(detected, text, sources) for text in texts]
            return found if isinstance(asked["q"], list) else found[0]

    return router


def texts_of(asked: dict[str, Any], most: int) -> list[str]:
    """Return the texts of a request.

    Raises:
        UsageError: if there are none, or too many characters, or one is no text.
    """
    given = asked.get("q")
    texts: list[Any] = given if isinstance(given, list) else [given]
    if not texts or given in (None, ""):
        raise UsageError("Invalid request: missing q parameter")
    for text in texts:
        if not isinstance(text, str) or find_surrogate(text):
            raise UsageError(f"Invalid request: q is text, not {shortened(ascii(text))}")
    if (count := sum(map(len, texts))) > most:
        raise UsageError(f"Invalid request: request ({count}) exceeds text limit ({most})")
    return texts


def code_of(asked: dict[str, Any], side: str) -> str:
    """Return a language of a request, or raise a UsageError."""
    code = asked.get(side)
    if not isinstance(code, str) or not code:
        raise UsageError(f"Invalid request: missing {side} parameter")
    return code


def glossary_of(asked: Mapping[str, Any], most: int) -> Glossary | None:
    """Return the terms of a request, None without any.

    Raises:
        UsageError: if they are none, or have too many characters.
    """
    given = asked.get("glossary")
    if given in (None, "", {}):
        return None
    lines = [line for line in given.splitlines() if line.strip()] if isinstance(given, str) else []
    pairs = [[*pair] for pair in given.items()] if isinstance(given, dict) else [one.split("\t") for one in lines]
    texts = [side for pair in pairs for side in pair]
    if not pairs or not all(isinstance(one, str) and not find_surrogate(one) for one in texts):
        raise UsageError("Invalid request: glossary is an object of texts, or lines with a tab")
    for pair in pairs:
        if len(pair) != 2:
            raise UsageError(f"Invalid request: glossary: no source and target with a tab between them: {pair[0]!r}")
    if (count := sum(map(len, texts))) > most:
        raise UsageError(f"Invalid request: glossary ({count}) exceeds text limit ({most})")
    try:
        return Glossary.of((f"glossary: {shortened(repr(source))}", source, target) for source, target in pairs)
    except DataError as error:
        raise UsageError(f"Invalid request: {error}") from error


def lacking(task: Task, rows: Sequence[Row], outputs: Sequence[str]) -> list[list[str]]:
    """Return for each row of a task the targets of terms that its output lacks."""
    search = task.search
    if not isinstance(search, GlossarySearch):
        return [[] for _ in rows]
    return [search.lacking(row, output) for row, output in zip(rows, outputs, strict=True)]


def cut_off(texts: Sequence[str], hypotheses: Sequence[Sequence[Hypothesis]]) -> list[str]:
    """Return the texts whose translations were ended at the maximum length, so that their ends are missing."""
    return [text for text, [best, *_] in zip(texts, hypotheses, strict=True) if best.cut]


def alternatives_of(asked: dict[str, Any], tasks: Sequence[Task]) -> int:
    """Return how many further translations are asked for, or raise a UsageError."""
    given = asked.get("alternatives") or 0
    number = whole_number(given) if isinstance(given, str) else given
    most = min((getattr(task.search, "n_best", 1) for task in tasks), default=1) - 1
    check_number("alternatives", number, least=0, most=most)
    if not isinstance(number, int):
        raise UsageError(f"alternatives must be a whole number, not {number}")
    return number


def flag_of(asked: Mapping[str, Any], name: str) -> bool:
    """Return a truth value of a request, of JSON or of a form; false if it is missing. Raises a UsageError."""
    value = asked.get(name) or False
    if isinstance(value, bool):
        return value
    if value not in ("true", "1", "false", "0"):
        raise UsageError(f"Invalid request: {name} is true or false, not {shortened(ascii(value))}")
    return value in ("true", "1")


def split_of(asked: Mapping[str, Any], models: Models) -> bool:
    """Return whether lines of a request are paragraphs, or raise a UsageError, where lines are shown those before."""
    split = flag_of(asked, "split")
    if split and models.context:
        raise UsageError("Invalid request: split does not go with this server's --context, which is of whole lines")
    return split


def paragraphs_of(text: str, language: str | None) -> list[Paragraph]:
    """Return the lines of a text, divided into the sentences of a language; with None, each is a sentence.

    A line without a sentence has an empty one, which needs no model.
    """
    lines = [line.rstrip("\r") for line in text.split("\n")]
    whole = [Paragraph([line], [""]) for line in lines]
    if language is None:
        return whole
    divided = [Paragraph.divided(line, language) for line in lines]
    return [parts if parts.sentences else line for parts, line in zip(divided, whole, strict=True)]


def written(
    lines: Sequence[Paragraph], found: Sequence[Sequence[Sequence[Hypothesis]]], language: str, place: int
) -> str:
    """Return the text that the hypotheses of a place make; a sentence with fewer gives its last one.

    Args:
        lines: paragraphs of the text.
        found: the hypotheses of each sentence of each line.
        language: code of theirs.
        place: 0 for the best ones.
    """
    texts = [[few[min(place, len(few) - 1)].texts["translation"] for few in line] for line in found]
    return "\n".join(line.joined(some, language) for line, some in zip(lines, texts, strict=True))


def sources_into(tasks: Sequence[Task], target: str) -> list[str]:
    """Return the languages that are translated into another one; all, if nothing is."""
    found = union(*(task.system.source_languages for task in tasks if target in task.target_languages))
    return found or union(*(task.system.source_languages for task in tasks))


def languages_of(
    source: str, texts: Sequence[str], known: Sequence[str], places: Sequence[str]
) -> list[dict[str, Any]] | None:
    """Return the language of each text, and its probability in per cent; None if the source is none to be found out.

    A blank text, which no model sees, has any language. In this and in one that stands for an unknown language, there
    is no confidence: 0.

    Args:
        source: "auto", or "auto:CODE" with what stands for an unknown language.
        texts: of a request.
        known: codes that a language may have.
        places: of the texts, for messages.

    Raises:
        DataError: naming the first text whose language is unknown, if nothing stands for it.
        UsageError: if what stands for it is unknown.
    """
    detection = Detection.asked(source, known)
    if detection is None:
        return None
    usual, hint = detection.fallback or detection.known[0], "name the source, or auto:CODE for such texts"
    found = []
    for text, place in zip(texts, places, strict=True):
        code, sure = detection.language(text, f"Invalid request: {place}", hint) if text.strip() else (None, 0.0)
        found.append({"language": code or usual, "confidence": round(100 * sure, 1) if code else 0.0})
    return found


def detected(text: str, known: Sequence[str]) -> list[dict[str, Any]]:
    """Return the languages that a text may be in, the most probable first, by the codes of models where they know them.

    Probabilities are py3langid's, among all languages that it knows.
    """
    found = [(code, round(100 * sure, 1)) for code, sure in ranked(text, known)]
    return [{"language": c, "confidence": p} for place, (c, p) in enumerate(found) if p >= _LEAST or not place]
