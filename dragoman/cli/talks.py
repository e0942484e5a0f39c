"""The commands for whole recordings. Like dragoman/cli/main.py, it imports nothing heavy at the top."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from dragoman.commands.model_options import ModelOptions
from dragoman.commands.options import SourceLanguage, TargetLanguage, with_options
from dragoman.commands.search_options import SearchOptions
from dragoman.commands.talk_options import ListeningOptions, SoundOptions, SubtitleOptions

talks = typer.Typer()


@talks.command()
@with_options(limits=SubtitleOptions, sound=SoundOptions, search=SearchOptions, models=ModelOptions)
def subtitle(
    model: Annotated[Path, typer.Argument(help="folder of a model that reads speech, or of a run")],
    inputs: Annotated[list[Path], typer.Argument(help="sound files, or folders with sound files")],
    source_language: SourceLanguage = None,
    target_language: TargetLanguage = None,
    format: Annotated[str, typer.Option(help="srt or vtt")] = "srt",
    out: Annotated[
        Path | None,
        typer.Option(help="output folder, with one file per input, or, of one input, the file; default: print"),
    ] = None,
    text: Annotated[
        str, typer.Option(help="text to show, if the system writes several: translation or transcript")
    ] = "",
    *,
    limits: SubtitleOptions,
    sound: SoundOptions,
    search: SearchOptions,
    models: ModelOptions,
) -> None:
    """Translate recordings to subtitles: blocks of short lines that can be read in their time."""
    from dragoman.commands.subtitle import write_subtitles
    from dragoman.shared.text.subtitles import SubtitleRules

    write_subtitles(
        model,
        inputs,
        languages=(source_language, target_language),
        kind=format,
        out=out,
        text=text,
        rules=SubtitleRules(**asdict(limits)),
        sound=sound,
        search=search,
        models=models,
    )


@talks.command()
@with_options(listening=ListeningOptions, search=SearchOptions, models=ModelOptions)
def stream(
    model: Annotated[Path, typer.Argument(help="folder of a model that reads speech, or of a run")],
    input: Annotated[
        Path | None,
        typer.Argument(
            help="sound file; without it, standard input is heard: 16-bit mono samples at 16 kHz, without a header, as "
            "from arecord -t raw -f S16_LE -r 16000"
        ),
    ] = None,
    source_language: SourceLanguage = None,
    target_language: TargetLanguage = None,
    format: Annotated[
        str, typer.Option(help="text; json: an object with times for each output; simuleval: a log's line")
    ] = "text",
    *,
    listening: ListeningOptions,
    search: SearchOptions,
    models: ModelOptions,
) -> None:
    """Translate a recording or a microphone while it is heard; a sentence is a line. What was written stays."""
    from dragoman.commands.live_output import translate_live

    translate_live(
        model,
        input,
        languages=(source_language, target_language),
        kind=format,
        listening=listening,
        search=search,
        models=models,
    )
