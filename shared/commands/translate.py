"""``dragoman translate``: translate lines of text or sound files."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from shared.commands.input_files import lines, report_unreadable, sound_files
from shared.commands.loading import load_models
from shared.commands.options import ModelOptions, SearchOptions, SoundOptions
from shared.commands.pace import Pace
from shared.commands.searching import fitting, search_for, translation_options
from shared.commands.timed_output import FORMATS, rendered, write_timed
from shared.corpus.segmentation import check_segmenter
from shared.corpus.speech_activity import check_detector
from shared.errors import DataError, UsageError
from shared.evaluation.outputs import ONE_LINE
from shared.machine.device import Machine

CHUNK = 2048  # lines held in memory at a time


def translate_inputs(
    model: Path,
    inputs: list[Path],
    *,
    languages: tuple[str | None, str | None],
    n_best: int,
    samples: int,
    kind: str,
    out: Path | None,
    sound: SoundOptions,
    search: SearchOptions,
    models: ModelOptions,
) -> None:
    """Translate files or standard input and print the result.

    Raises:
        DataError: for text that cannot be read; at the end, if sound files could not be.
        UsageError: if options do not fit together, or the model reads something else.

    """
    search_for(search, n_best=n_best, samples=samples)
    if kind != "text":
        if max(n_best, samples) > 1:
            raise UsageError(f"--format {kind} has one hypothesis: without --n-best and --samples")
        options: dict[str, Any] = {"sound": sound, "search": search, "models": models}
        render = partial(rendered, kind, batch_size=models.batch_size)
        write_timed(model, inputs, languages=languages, kind=kind, formats=FORMATS, out=out, render=render, **options)
        return
    if out is not None:
        raise UsageError("--out is for --format srt, vtt, tsv and json")
    check_detector(sound.speech_detector)
    check_segmenter(sound.segmenter)
    machine = Machine(device=models.device, precision=models.precision)
    system = load_models(model, models, machine, ctc=search.ctc)
    search = fitting(search, system)
    chosen = search_for(search, n_best=n_best, samples=samples, tokenizer=system.output.tokenizer)
    if "speech" not in system.reads:
        sound.refuse()
    speech, several = "speech" in system.reads, max(n_best, samples) > 1
    names = [system.output_name, *(name for name in system.texts if name != system.output_name)]
    options = translation_options(languages, sound, models, speech=speech)
    items: Iterable[str | Path] = sound_files(inputs) if speech else lines(inputs)
    iterator = enumerate(items, start=1)
    unreadable: list[DataError] = []
    pace = Pace()
    while chunk := list(islice(iterator, CHUNK)):
        before = len(unreadable)
        with pace.working(), machine.autocast():
            found = system.hypotheses([item for _, item in chunk], search=chosen, unreadable=unreadable, **options)
        for (number, item), hypotheses in zip(chunk, found, strict=True):
            for hypothesis in hypotheses:
                cells = [str(item)] if speech else [str(number)] if several else []
                cells += [f"{hypothesis.score:.4f}"] if several else []
                texts = [hypothesis.texts[name].translate(ONE_LINE) for name in names]
                print("\t".join([*cells, *texts]))
        sys.stdout.flush()
        report_unreadable(unreadable[before:])
        for (_, item), hypotheses in zip(chunk, found, strict=True):
            if speech and hypotheses:
                pace.heard(item)
    pace.report()
    if unreadable:
        raise DataError(f"{len(unreadable)} of {number} sound files could not be translated")
