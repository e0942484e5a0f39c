"""``dragoman translate --documents``: translate documents, a sentence a line, by parts of several sentences."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate, islice
from pathlib import Path

from dragoman.commands.endings import warn
from dragoman.commands.glossary_search import with_glossary
from dragoman.commands.input_files import lines, report_cut
from dragoman.commands.model_options import ModelOptions
from dragoman.commands.search_options import SearchOptions
from dragoman.commands.searching import search_for
from dragoman.shared.batches.separated import LINE, SeparatedText, spans
from dragoman.shared.errors import UsageError, plural
from dragoman.shared.evaluation.outputs import ONE_LINE
from dragoman.shared.generator import Hypothesis
from dragoman.shared.machine.device import Machine
from dragoman.shared.systems.inputs import chosen_language
from dragoman.shared.systems.system import System

CHUNK = 2048  # lines held in memory at a time; a longer document is divided there


def translate_documents(
    system: System,
    inputs: list[Path],
    *,
    languages: tuple[str | None, str | None],
    search: SearchOptions,
    glossary: Path | None = None,
    models: ModelOptions,
    machine: Machine,
) -> None:
    """Translate documents of files or standard input; print a line for each line, a blank one between documents.

    Sentences that follow each other are translated together, as many as the model has learnt to read. If its output
    has more or fewer sentences, they are translated again, each alone, and a warning counts them.

    Raises:
        UsageError: if the model reads sentences alone.
    """
    field = next(iter(system.input_fields.values()), None)
    if not isinstance(field, SeparatedText):
        raise UsageError("--documents: this model was not trained on documents, as text/documents trains one")
    if search.maximum_length_extra == SearchOptions.maximum_length_extra:
        search = replace(search, maximum_length_extra=max(search.maximum_length_extra, system.output.longest))
    chosen = with_glossary(search_for(search, tokenizer=system.output.tokenizer), glossary, system, languages)
    code = chosen_language("source", languages[0], system.source_languages)

    def best(texts: Sequence[str]) -> list[Hypothesis]:
        of_both = {"source_language": code, "target_language": languages[1]}
        with machine.autocast():
            found = system.hypotheses(texts, search=chosen, batch_size=models.batch_size, **of_both)  # type: ignore[arg-type]
        return [first for first, *_ in found]

    iterator, number = lines(inputs), 1
    again, all_parts = 0, 0
    while chunk := list(islice(iterator, CHUNK)):
        numbers = [place for place, line in enumerate(chunk) if line.strip()]
        sentences = [chunk[place] for place in numbers]
        blank_lines = list(accumulate(not line.strip() for line in chunk))
        rows = [{"id": line, "source_text": line, "source_language": code} for line in sentences]
        parts = spans([blank_lines[place] for place in numbers], [(field, rows)])
        written: dict[int, tuple[str, bool]] = {}
        for part, output in zip(parts, best([LINE.join(sentences[i] for i in part) for part in parts]), strict=True):
            found = output.texts[system.output_name].split(LINE)
            if len(found) == len(part):
                written |= {i: (text, output.cut) for i, text in zip(part, found, strict=True)}
        alone = [i for i in range(len(sentences)) if i not in written]
        for i, output in zip(alone, best([sentences[i] for i in alone]), strict=True):
            written[i] = output.texts[system.output_name], output.cut
        printed = {place: written[i][0] for i, place in enumerate(numbers)}
        for place in range(len(chunk)):
            print(printed.get(place, "").translate(ONE_LINE))
        sys.stdout.flush()
        report_cut([f"line {number + place}" for i, place in enumerate(numbers) if written[i][1]])
        again += sum(part[0] in alone for part in parts)
        all_parts += len(parts)
        number += len(chunk)
    if again:
        warn(
            f"{again} of {plural(all_parts, 'part')} had more or fewer sentences in the output: translated by sentences"
        )
