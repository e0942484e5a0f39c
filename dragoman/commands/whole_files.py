"""``dragoman translate page.md``: translate files of subtitles, JSON and Markdown into files of the same form."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from dragoman.commands.endings import warn
from dragoman.commands.glossary_search import with_glossary
from dragoman.commands.input_files import output_places, report_cut
from dragoman.commands.json_files import JsonFile
from dragoman.commands.markdown_files import MarkdownFile
from dragoman.commands.marked_text import Work
from dragoman.commands.model_options import ModelOptions
from dragoman.commands.search_options import SearchOptions
from dragoman.commands.searching import search_for
from dragoman.commands.subtitle_files import FORMATS as SUBTITLES
from dragoman.commands.subtitle_files import SubtitleFile
from dragoman.shared.errors import UsageError
from dragoman.shared.generator import Hypothesis
from dragoman.shared.machine.device import Machine
from dragoman.shared.machine.files import replaced_file
from dragoman.shared.systems.inputs import chosen_language
from dragoman.shared.systems.system import System


class FormedFile(Protocol):
    """A file whose texts can be translated without a change of its form."""

    path: Path

    def work(self, language: str) -> Work:
        """Yield lists of texts, be sent their translations into a language, and return the content of the new file."""
        ...

    @property
    def remarks(self) -> list[str]:
        """Remarks that a user needs beside the translation, once it is made."""
        ...


#: What reads a file, by its ending; given the path and the language of its text.
FORMS: dict[str, Callable[[Path, str], FormedFile]] = {
    **dict.fromkeys(SUBTITLES, SubtitleFile),
    ".json": JsonFile,
    ".md": MarkdownFile,
    ".markdown": MarkdownFile,
}


def has_form(path: Path) -> bool:
    """Tell from its name whether a file has a form that its translation keeps."""
    return path.suffix.lower() in FORMS


def translate_files(
    system: System,
    inputs: list[Path],
    *,
    languages: tuple[str | None, str | None],
    out: Path | None,
    search: SearchOptions,
    glossary: Path | None = None,
    models: ModelOptions,
    machine: Machine,
) -> None:
    """Translate files with a form; print the result of one, or write it.

    Args:
        system: a translator of text.
        inputs: files of :data:`FORMS`.
        languages: of the files and of the output; None for the system's only one.
        out: a file for one input, with the same ending; or a folder, in which files keep their names.
        search: how.
        glossary: a file of terms that the translation has (dragoman/commands/glossary.py).
        models: how many sentences at a time.
        machine: where.

    Raises:
        DataError: for a file that cannot be read, before anything is written of it.
        UsageError: for other files among them, and for several without a folder.
    """
    others = [path for path in inputs if not has_form(path)]
    if others:
        raise UsageError(f"{others[0]}: is no file with a form to keep ({', '.join(FORMS)}), as others are")
    if out is None and len(inputs) > 1:
        raise UsageError(f"{len(inputs)} files cannot be printed as one: give a folder for theirs as --out")
    names = {path.name for path in inputs}
    if len(names) < len(inputs):
        raise UsageError("--out: two files have the same name")
    places = [] if out is None else output_places(out, [path.name for path in inputs], FORMS)
    if {place.resolve() for place in places} & {path.resolve() for path in inputs}:
        raise UsageError(f"--out {out}: would replace a file that is read")
    chosen = with_glossary(search_for(search, tokenizer=system.output.tokenizer), glossary, system, languages)
    source = chosen_language("source", languages[0], system.source_languages)
    target = chosen_language("target", languages[1], system.output_languages)

    def translate(texts: Sequence[str]) -> list[Hypothesis]:
        of_both = {"source_language": source, "target_language": target}
        with machine.autocast():
            found = system.hypotheses(texts, search=chosen, batch_size=models.batch_size, **of_both)  # type: ignore[arg-type]
        return [hypotheses[0] for hypotheses in found]

    # What is wrong with one is said before the first is done.
    files = [FORMS[path.suffix.lower()](path, source) for path in inputs]
    for number, file in enumerate(files):
        cut: list[str] = []
        work = file.work(target)
        try:
            texts = next(work)
            while True:
                best = translate(texts)
                cut += [text for text, one in zip(texts, best, strict=True) if one.cut]
                texts = work.send([one.texts[system.output_name] for one in best])
        except StopIteration as end:
            written: str = end.value
        if places:
            with replaced_file(places[number]) as temporary:
                temporary.write_bytes(written.encode())
        else:
            sys.stdout.write(written)
            sys.stdout.flush()
        for remark in file.remarks:
            warn(f"{file.path}: {remark}")
        report_cut([f"{file.path}: {text!r}" for text in cut])
