"""Translations of recordings with times, as SRT, WebVTT, a table or JSON: one text for each file."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from dragoman.commands.heard_language import heard
from dragoman.commands.identifying import Identifier
from dragoman.commands.input_files import output_places, report_cut, report_unreadable, sound_files
from dragoman.commands.loading import load_models
from dragoman.commands.model_options import ModelOptions
from dragoman.commands.pace import Pace
from dragoman.commands.search_options import SearchOptions
from dragoman.commands.searching import fitting, search_for, translation_options
from dragoman.commands.talk_options import SoundOptions
from dragoman.shared.errors import DataError, UsageError, plural
from dragoman.shared.evaluation.outputs import ONE_LINE
from dragoman.shared.machine.device import Machine
from dragoman.shared.machine.files import replaced_file
from dragoman.shared.machine.progress import progress
from dragoman.shared.sound.segmentation import check_segmenter
from dragoman.shared.sound.speech_activity import check_detector
from dragoman.shared.systems.system import System
from dragoman.shared.systems.timed import TimedText
from dragoman.shared.systems.word_times import aligned_text, words_of_segments
from dragoman.shared.text.subtitles import Cue, srt, vtt

#: What makes one text of a file's segments.
Render = Callable[[Path, list[TimedText]], str]

FORMATS = ("text", "srt", "vtt", "tsv", "json")


def check_output(kind: str, formats: Sequence[str], files: Sequence[Path], out: Path | None) -> None:
    """Refuse an unknown format, and several files in one SRT or WebVTT, by UsageError."""
    if kind not in formats:
        raise UsageError(f"--format must be one of {', '.join(formats)}, not {kind!r}")
    if kind in ("srt", "vtt") and len(files) > 1 and out is None:
        raise UsageError(f"{len(files)} files cannot share one {kind}: give a folder for theirs as --out")
    names = [file.stem for file in files]
    for name in names:
        if out is not None and names.count(name) > 1:
            raise UsageError(f"several files are called {name}: {out / f'{name}.{kind}'} can hold one of them")


def rendered(kind: str, system: System, *, batch_size: int = 16) -> Render:
    """Return what makes a text of a kind of a file's segments; of several texts, the output comes first."""
    names = [system.output_name, *(name for name in system.texts if name != system.output_name)]

    def cues(segments: list[TimedText]) -> list[Cue]:
        shown = [(s, [text for name in names if (text := s.texts[name].translate(ONE_LINE))]) for s in segments]
        return [Cue(segment.start, segment.end, "\n".join(texts)) for segment, texts in shown if texts]

    def table(file: Path, segments: list[TimedText]) -> str:
        rows = [["file", "start", "end", *names]]
        for segment in segments:
            texts = [segment.texts[name].translate(ONE_LINE) for name in names]
            rows.append([str(file).translate(ONE_LINE), f"{segment.start:.3f}", f"{segment.end:.3f}", *texts])
        return "".join("\t".join(row) + "\n" for row in rows)

    def objects(file: Path, segments: list[TimedText]) -> str:
        listed = [_object(segment) for segment in segments]
        if aligned_text(system) is not None:
            words = words_of_segments(system, file, segments, batch_size=batch_size)
            for segment, cues in zip(listed, words, strict=True):
                segment["words"] = None if cues is None else [_word(cue) for cue in cues]
        return json.dumps({"file": str(file), "segments": listed}, ensure_ascii=False) + "\n"

    kinds: dict[str, Render] = {
        "srt": lambda _, segments: srt(cues(segments)),
        "vtt": lambda _, segments: vtt(cues(segments)),
        "tsv": table,
        "json": objects,
    }
    return kinds[kind]


def _object(segment: TimedText) -> dict[str, Any]:
    times = {"start": round(segment.start, 3), "end": round(segment.end, 3)}
    return times | {"score": round(segment.score, 4), **segment.texts}


def _word(cue: Cue) -> dict[str, Any]:
    return {"start": round(cue.start, 3), "end": round(cue.end, 3), "word": cue.text}


def write_timed(
    model: Path,
    inputs: list[Path],
    *,
    languages: tuple[str | None, str | None],
    kind: str,
    formats: Sequence[str],
    out: Path | None,
    render: Callable[[System], Render],
    sound: SoundOptions,
    search: SearchOptions,
    models: ModelOptions,
    loaded: System | None = None,
    identifier: Identifier | None = None,
) -> None:
    """Translate sound files and print what ``render`` makes of their segments, or write it to ``out``.

    Raises:
        DataError: at the end, if files could not be read.
        UsageError: if the model reads text, or options do not fit together.
    """
    search_for(search)
    check_detector(sound.speech_detector)
    check_segmenter(sound.segmenter)
    check_output(kind, formats, [], out)
    machine = Machine(device=models.device, precision=models.precision)
    system = loaded or load_models(model, models, machine, ctc=search.ctc)
    if "speech" not in system.reads:
        raise UsageError(f"{model}: reads text, which has no times for {kind}")
    files = sound_files(inputs)
    check_output(kind, formats, files, out)
    names = [f"{file.stem}.{kind}" for file in files]
    endings = [f".{one}" for one in FORMATS if one != "text"]
    places = {} if out is None else dict(zip(files, output_places(out, names, endings), strict=True))
    make = render(system)
    unreadable: list[DataError] = []
    pace = Pace()
    chosen, languages = heard(
        search_for(fitting(search, system), tokenizer=system.output.tokenizer), system, languages, identifier
    )
    options = translation_options(languages, sound, models, speech=True) | {"search": chosen}
    for file, segments in _translated(system, files, options, machine, pace, unreadable):
        with pace.working():
            text = make(file, segments)
        if out is None:
            sys.stdout.write(text)
            sys.stdout.flush()
            continue
        with replaced_file(places[file]) as temporary:
            temporary.write_text(text, encoding="utf-8")
    pace.report()
    if unreadable:
        raise DataError(f"{len(unreadable)} of {plural(len(files), 'sound file')} could not be translated")


def _translated(
    system: System,
    files: list[Path],
    options: dict[str, Any],
    machine: Machine,
    pace: Pace,
    unreadable: list[DataError],
) -> Iterator[tuple[Path, list[TimedText]]]:
    """Yield each file that can be read and its segments; a bar shows how many of them are done."""
    for file in files:
        failed: list[DataError] = []
        with progress(file.name, enabled=sys.stderr.isatty()) as show, pace.working(), machine.autocast():
            [segments] = system.timed([file], unreadable=failed, progress=show, **options)
        report_unreadable(failed)
        unreadable += failed
        if not failed:
            report_cut([f"{file}, {s.start:.2f} to {s.end:.2f} s" for s in segments if s.cut])
            pace.heard(file)
            yield file, segments
