"""``dragoman translate film.srt``: translate files of subtitles by sentences, into files with the same times."""

from __future__ import annotations

import sys
from pathlib import Path

from dragoman.commands.endings import warn
from dragoman.commands.input_files import report_cut
from dragoman.commands.options import ModelOptions, SearchOptions
from dragoman.commands.searching import search_for
from dragoman.commands.subtitle_files import SubtitleFile, refuse_mixed
from dragoman.shared.errors import UsageError, plural
from dragoman.shared.machine.device import Machine
from dragoman.shared.machine.files import replaced_file
from dragoman.shared.systems.inputs import chosen_language
from dragoman.shared.systems.system import System


def translate_subtitles(
    system: System,
    inputs: list[Path],
    *,
    languages: tuple[str | None, str | None],
    out: Path | None,
    search: SearchOptions,
    models: ModelOptions,
    machine: Machine,
) -> None:
    """Translate files of subtitles; print the result of one, or write it.

    Args:
        system: a translator of text.
        inputs: files of subtitles.
        languages: of the files and of the output; None for the system's only one.
        out: a file for one input, with the same ending; else a folder, in which files keep their names.
        search: how.
        models: how many sentences at a time.
        machine: where.

    Raises:
        DataError: for a file that cannot be read, before anything is written of it.
        UsageError: for other files among them, and for several without a folder.
    """
    refuse_mixed(inputs)
    if out is None and len(inputs) > 1:
        raise UsageError(f"{len(inputs)} files cannot be printed as one: give a folder for theirs as --out")
    names = {path.name for path in inputs}
    if len(names) < len(inputs):
        raise UsageError("--out: two files have the same name")
    if out is not None and len(inputs) == 1 and out.suffix.lower() == inputs[0].suffix.lower():
        places = [out]
    else:
        places = [] if out is None else [out / path.name for path in inputs]
    if {place.resolve() for place in places} & {path.resolve() for path in inputs}:
        raise UsageError(f"--out {out}: would replace a file that is read")
    chosen = search_for(search, tokenizer=system.output.tokenizer)
    source = chosen_language("source", languages[0], system.source_languages)
    target = chosen_language("target", languages[1], system.output_languages)
    files = [SubtitleFile(path, source) for path in inputs]  # what is wrong with one is said before the first is done
    for number, file in enumerate(files):
        texts = [sentence.text for sentence in file.sentences]
        of_both = {"source_language": source, "target_language": target}
        with machine.autocast():
            found = system.hypotheses(texts, search=chosen, batch_size=models.batch_size, **of_both)  # type: ignore[arg-type]
        best = [hypotheses[0] for hypotheses in found]
        written = file.written([one.texts[system.output_name] for one in best], target)
        if places:
            with replaced_file(places[number]) as temporary:
                temporary.write_text(written, encoding="utf-8")
        else:
            sys.stdout.write(written)
            sys.stdout.flush()
        if file.lost:
            warn(f"{file.path}: {plural(file.lost, 'tag')} inside of texts left out; those around whole texts are kept")
        report_cut([f"{file.path}: {text!r}" for text, one in zip(texts, best, strict=True) if one.cut])
