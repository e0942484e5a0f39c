"""``dragoman translate``: translate lines of text or sound files."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from dragoman.commands.detecting import Detection, by_language
from dragoman.commands.glossary_search import with_glossary
from dragoman.commands.heard_language import heard
from dragoman.commands.identifying import Identifier
from dragoman.commands.input_files import lines, refuse_sound, report_cut, report_unreadable, sound_files
from dragoman.commands.lines_before import check_context, with_context
from dragoman.commands.loading import load_models
from dragoman.commands.model_options import ModelOptions
from dragoman.commands.pace import Pace
from dragoman.commands.paragraphs import paragraphs_translated, refuse_split
from dragoman.commands.search_options import ChoosingOptions
from dragoman.commands.searching import fitting, search_for, translation_options
from dragoman.commands.talk_options import SoundOptions
from dragoman.commands.text_options import TextOptions
from dragoman.commands.timed_output import FORMATS, check_output, rendered, write_timed
from dragoman.commands.whole_documents import translate_documents
from dragoman.commands.whole_files import has_form, translate_files
from dragoman.shared.errors import DataError, UsageError, plural
from dragoman.shared.evaluation.outputs import ONE_LINE
from dragoman.shared.generator import Hypothesis
from dragoman.shared.machine.device import Machine
from dragoman.shared.sound.segmentation import check_segmenter
from dragoman.shared.sound.speech_activity import check_detector

OUT = "--out is for subtitles, JSON and Markdown, and for sound with --format srt, vtt, tsv, and json of one hypothesis"
CHUNK = 2048  # lines held in memory at a time


def translate_inputs(
    model: Path,
    inputs: list[Path],
    *,
    languages: tuple[str | None, str | None],
    identifier: Path | None,
    n_best: int,
    kind: str,
    out: Path | None,
    texts: TextOptions,
    sound: SoundOptions,
    search: ChoosingOptions,
    models: ModelOptions,
) -> None:
    """Translate files or standard input and print the result.

    Raises:
        DataError: for text that cannot be read; at the end, if sound files could not be.
        UsageError: if options do not fit together, or the model reads something else.
    """
    search_for(search, n_best=n_best)
    several = n_best > 1 or (search.samples > 1 and not search.chooses)
    if several and kind not in ("text", "json"):
        raise UsageError(f"--format {kind} has one hypothesis: without --n-best and --samples, or --format json")
    if texts.documents and (several or kind != "text"):
        raise UsageError("--documents prints a line for each line: without --n-best, --samples and --format")
    check_detector(sound.speech_detector)
    check_segmenter(sound.segmenter)
    check_output(kind, FORMATS, [], out)
    machine = Machine(device=models.device, precision=models.precision)
    system = load_models(model, models, machine, ctc=search.ctc)
    speech = "speech" in system.reads
    marked = not speech and any(map(has_form, inputs))
    if speech and texts.glossary is not None:
        raise UsageError("--glossary does not apply: this model reads speech, and terms are found in text")
    asked = None if identifier is None else Identifier(identifier, machine, speech=speech)
    detection = None if speech else Detection.asked(languages[0], system.source_languages, asked)
    if detection and (marked or texts.documents):
        detection.refuse("documents" if texts.documents else "files with a form")
    if texts.context:
        check_context(system, marked=marked)
    if texts.split:
        refuse_split(speech=speech, several=several, marked=marked)
    if kind != "text" and not (kind == "json" and (several or not speech)):
        options: dict[str, Any] = {"sound": sound, "search": search, "models": models, "loaded": system}
        options |= {"identifier": asked}
        render = partial(rendered, kind, batch_size=models.batch_size)
        write_timed(model, inputs, languages=languages, kind=kind, formats=FORMATS, out=out, render=render, **options)
        return
    search = fitting(search, system)
    of_texts: dict[str, Any] = {"languages": languages, "glossary": texts.glossary, "machine": machine}
    of_texts |= {"search": search, "models": models}
    if marked:
        if several or texts.documents or kind != "text":
            raise UsageError("subtitles, JSON and Markdown: without --n-best, --samples, --documents and --format")
        translate_files(system, inputs, out=out, **of_texts)
        return
    if out is not None:
        raise UsageError(OUT)
    if texts.documents:
        translate_documents(system, inputs, **of_texts)
        return
    chosen = search_for(search, n_best=n_best, tokenizer=system.output.tokenizer)
    chosen = with_glossary(chosen, texts.glossary, system, None if detection else languages)
    if speech:
        chosen, languages = heard(chosen, system, languages, asked)
    else:
        sound.refuse()
        refuse_sound(model, inputs)
    names = [system.output_name, *(name for name in system.texts if name != system.output_name)]
    options = translation_options(languages, sound, models, speech=speech)
    items: Iterable[str | Path] = sound_files(inputs) if speech else lines(inputs)
    if texts.context:
        items = with_context(lines(inputs), texts.context)
    iterator = enumerate(items, start=1)
    unreadable: list[DataError] = []

    def translate(source: str | None, some: list[Any]) -> list[list[Hypothesis]]:
        options["source_language"] = source

        def found(parts: list[Any]) -> list[list[Hypothesis]]:
            return system.hypotheses(parts, search=chosen, unreadable=unreadable, **options)

        return paragraphs_translated(system, some, found, (source, languages[1])) if texts.split else found(some)

    pace = Pace()
    while chunk := list(islice(iterator, CHUNK)):
        before = len(unreadable)
        with pace.working(), machine.autocast():
            some: list[Any] = [item for _, item in chunk]
            codes = detection.languages(some, chunk[0][0]) if detection else []
            outputs = by_language(some, codes, translate) if detection else translate(languages[0], some)
        for (number, item), hypotheses in zip(chunk, outputs, strict=True):
            if kind == "json":
                listed = [{"score": round(one.score, 4), "cut": one.cut, **one.texts} for one in hypotheses]
                place: dict[str, Any] = {"file": str(item)} if speech else {"line": number}
                place |= {"source_language": codes[number - chunk[0][0]]} if detection else {}
                print(json.dumps(place | {"hypotheses": listed}, ensure_ascii=False))
                continue
            for hypothesis in hypotheses:
                cells = [str(item).translate(ONE_LINE)] if speech else [str(number)] if several else []
                cells += [f"{hypothesis.score:.4f}"] if several else []
                cells += [hypothesis.texts[name].translate(ONE_LINE) for name in names]
                print("\t".join(cells))
        sys.stdout.flush()
        report_unreadable(unreadable[before:])
        cut = [item if speech else number for (number, item), h in zip(chunk, outputs, strict=True) if h and h[0].cut]
        report_cut([str(name) if speech else f"line {name}" for name in cut])
        for (_, item), hypotheses in zip(chunk, outputs, strict=True):
            if speech and hypotheses:
                pace.heard(item)
    pace.report()
    if unreadable:
        raise DataError(f"{len(unreadable)} of {plural(number, 'sound file')} could not be translated")
