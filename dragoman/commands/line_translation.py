"""Lines of text, or sound files, that are translated one by one: printed, or written into one file (--out)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from dragoman.commands.detecting import Detection, by_language
from dragoman.commands.glossary_search import with_glossary
from dragoman.commands.heard_language import heard
from dragoman.commands.identifying import Identifier
from dragoman.commands.input_files import lines, report_cut, report_unreadable, sound_files
from dragoman.commands.lines_before import with_context
from dragoman.commands.model_options import ModelOptions
from dragoman.commands.output_parts import OutputParts
from dragoman.commands.pace import Pace
from dragoman.commands.paragraphs import paragraphs_translated
from dragoman.commands.search_options import ChoosingOptions
from dragoman.commands.searching import search_for, translation_options
from dragoman.commands.talk_options import SoundOptions
from dragoman.commands.text_options import TextOptions
from dragoman.shared.errors import DataError, plural
from dragoman.shared.evaluation.outputs import ONE_LINE
from dragoman.shared.generator import Hypothesis
from dragoman.shared.machine.device import Machine
from dragoman.shared.systems.system import System

#: Lines held in memory at a time; in a part of a file, lines or sound files.
CHUNK, LINES, SOUNDS = 2048, 512, 32


def translate_lines(
    system: System,
    inputs: list[Path],
    *,
    languages: tuple[str | None, str | None],
    asked: Identifier | None,
    detection: Detection | None,
    n_best: int,
    several: bool,
    kind: str,
    parts: OutputParts | None,
    texts: TextOptions,
    sound: SoundOptions,
    search: ChoosingOptions,
    models: ModelOptions,
    machine: Machine,
) -> None:
    """Print the translations of lines or sound files, a line each, or write the parts of a file that are to do.

    Args:
        system: a translator.
        inputs: text files, none for standard input; or sound files and folders of them.
        languages: of the inputs and of the output; None for the system's only one.
        asked: what tells the languages of sound, if a model does.
        detection: what tells those of lines.
        n_best: hypotheses of each.
        several: whether several are written.
        kind: "text", or "json": an object a line.
        parts: of the file; None prints.
        texts: how lines are divided.
        sound: how sound is.
        search: how.
        models: how many inputs at a time.
        machine: where.

    Raises:
        DataError: for text that cannot be read; at the end, if sound files could not be.
        UsageError: as :func:`dragoman.commands.searching.search_for`.
    """
    speech = "speech" in system.reads
    chosen = search_for(search, n_best=n_best, tokenizer=system.output.tokenizer)
    chosen = with_glossary(chosen, texts.glossary, system, None if detection else languages)
    if speech:
        chosen, languages = heard(chosen, system, languages, asked)
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

    pace, count, inputs_seen = Pace(), 0, 0
    size = CHUNK if parts is None else SOUNDS if speech else LINES
    while chunk := list(islice(iterator, size)):
        count += 1
        if parts is not None and not parts.is_to_do(count - 1):
            continue
        inputs_seen += len(chunk)
        before = len(unreadable)
        with pace.working(), machine.autocast():
            some: list[Any] = [item for _, item in chunk]
            codes = detection.languages(some, chunk[0][0]) if detection else []
            outputs = by_language(some, codes, translate) if detection else translate(languages[0], some)
        written = list(_written(chunk, outputs, codes, system, kind=kind, several=several))
        if parts is not None:
            lacking = [str(item) for (_, item), found in zip(chunk, outputs, strict=True) if not found]
            parts.write(count - 1, written, lacking)
        elif written:
            print("\n".join(written), flush=True)
        report_unreadable(unreadable[before:])
        cut = [item if speech else number for (number, item), h in zip(chunk, outputs, strict=True) if h and h[0].cut]
        report_cut([str(name) if speech else f"line {name}" for name in cut])
        for (_, item), hypotheses in zip(chunk, outputs, strict=True):
            if speech and hypotheses:
                pace.heard(item)
    pace.report()
    if parts is not None:
        print(parts.join(count))
    if unreadable:
        raise DataError(f"{len(unreadable)} of {plural(inputs_seen, 'sound file')} could not be translated")
    if parts is not None:
        parts.check_whole()


def _written(
    chunk: Sequence[tuple[int, Any]],
    outputs: Sequence[list[Hypothesis]],
    codes: Sequence[str],
    system: System,
    *,
    kind: str,
    several: bool,
) -> Iterator[str]:
    """Yield the lines that are printed for some inputs, which are given with their numbers."""
    speech = "speech" in system.reads
    names = [system.output_name, *(name for name in system.texts if name != system.output_name)]
    for place, ((number, item), hypotheses) in enumerate(zip(chunk, outputs, strict=True)):
        if kind == "json":
            listed = [{"score": round(one.score, 4), "cut": one.cut, **one.texts} for one in hypotheses]
            about: dict[str, Any] = {"file": str(item)} if speech else {"line": number}
            about |= {"source_language": codes[place]} if codes else {}
            yield json.dumps(about | {"hypotheses": listed}, ensure_ascii=False)
            continue
        for hypothesis in hypotheses:
            cells = [str(item).translate(ONE_LINE)] if speech else [str(number)] if several else []
            cells += [f"{hypothesis.score:.4f}"] if several else []
            yield "\t".join([*cells, *(hypothesis.texts[name].translate(ONE_LINE) for name in names)])
