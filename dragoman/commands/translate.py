"""``dragoman translate``: translate lines of text or sound files."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from dragoman.commands.detecting import Detection
from dragoman.commands.identifying import Identifier
from dragoman.commands.input_files import refuse_sound, sound_files
from dragoman.commands.line_translation import translate_lines
from dragoman.commands.lines_before import check_context
from dragoman.commands.loading import load_models
from dragoman.commands.model_options import ModelOptions
from dragoman.commands.output_parts import OutputParts, maker
from dragoman.commands.paragraphs import refuse_split
from dragoman.commands.search_options import ChoosingOptions
from dragoman.commands.searching import fitting, search_for
from dragoman.commands.shard_numbers import read_shard
from dragoman.commands.talk_options import SoundOptions
from dragoman.commands.text_options import TextOptions
from dragoman.commands.timed_output import FORMATS, check_output, rendered, write_timed
from dragoman.commands.whole_documents import translate_documents
from dragoman.commands.whole_files import has_form, translate_files
from dragoman.shared.errors import UsageError
from dragoman.shared.machine.device import Machine
from dragoman.shared.sound.segmentation import check_segmenter
from dragoman.shared.sound.speech_activity import check_detector


def translate_inputs(
    model: Path,
    inputs: list[Path],
    *,
    languages: tuple[str | None, str | None],
    identifier: Path | None,
    n_best: int,
    kind: str,
    out: Path | None,
    shard: str | None = None,
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
    part = None if shard is None else read_shard(shard)
    if part is not None and out is None:
        raise UsageError("--shard needs --out, the file for the lines of all machines")
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
    timed = kind != "text" and not (kind == "json" and (several or not speech))
    if part is not None and (timed or marked or texts.documents):
        raise UsageError("--shard divides lines: without --documents, for files with a form name some on each machine")
    if timed:
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
    if texts.documents:
        if out is not None:
            raise UsageError("--out: --documents prints")
        translate_documents(system, inputs, **of_texts)
        return
    if not speech:
        sound.refuse()
        refuse_sound(model, inputs)
    parts = None
    if out is not None:
        if not inputs:
            raise UsageError("--out needs input files: standard input cannot be read again")
        inputs = sound_files(inputs) if speech else inputs
        of_all = {"languages": languages, "identifier": identifier, "n_best": n_best, "format": kind}
        made_by = maker(model, inputs, **of_all, texts=texts, sound=sound, search=search, models=models)
        parts = OutputParts(out, part or (1, 1), made_by)
        if parts.done:
            print(f"{out}: done before")
            parts.check_whole()
            return
    translate_lines(
        system,
        inputs,
        languages=languages,
        asked=asked,
        detection=detection,
        n_best=n_best,
        several=several,
        kind=kind,
        parts=parts,
        texts=texts,
        sound=sound,
        search=search,
        models=models,
        machine=machine,
    )
