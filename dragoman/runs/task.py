"""The task of a system: in words, in the Hugging Face Hub's words, and as a command."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dragoman.shared.generator import Generator
from dragoman.shared.systems.reading_model import ReadingModel
from dragoman.shared.systems.system import System
from dragoman.shared.text import languages


@dataclass(frozen=True)
class Task:
    """The task of a system.

    Attributes:
        pipeline: the Hub's name for it.
        sentence: in words.
        tags: for those who search the Hub.
        command: what runs it, or shows it.
    """

    pipeline: str
    sentence: str
    tags: list[str]
    command: str


def task_of(system: ReadingModel, folder: Path = Path("model"), direction: tuple[str, str] | None = None) -> Task:
    """Return what a system does; its command names the folder and, by default, the first direction that it has."""
    model = shlex.quote(str(folder))
    look = f"dragoman show {model}"
    source = _named(system.source_languages)
    if not isinstance(system, System):
        return _encoder(system, source, look)
    target = _named(system.target_languages)
    sources, targets = system.source_languages, system.target_languages
    source_code, target_code = direction or (None, None)
    source_code = source_code if source_code in sources else next(iter(sources), None)
    others = [code for code in targets if code != source_code] or targets
    target_code = target_code if target_code in targets else next(iter(others), None)
    translate = f"dragoman translate {model}" + (f" --from {source_code}" if len(sources) > 1 else "")
    translate += f" --to {target_code}" if len(targets) > 1 and system.output.side == "target" else ""
    writes = isinstance(system.model, Generator) or type(system).translate_batch is not System.translate_batch
    if not writes:
        return _encoder(system, source, look)
    if not system.output.in_language:
        return Task(system.pipeline, system.sentence.format(language=source), [], f"{translate} texts.txt")
    if not system.inputs:
        command = f"dragoman translate TRANSLATOR --lm {model} news.txt"
        return Task("text-generation", f"A language model of {target} text.", ["language-model"], command)
    if "speech" not in system.reads:
        return Task("translation", f"Translates {source} text to {target}.", ["translation"], f"{translate} news.txt")
    # The Hub has one name for all that makes text of speech.
    pipeline, command = "automatic-speech-recognition", f"{translate} talk.wav"
    if system.output_name == "transcript":
        return Task(pipeline, f"Writes down {source} speech.", ["speech"], command)
    return Task(pipeline, f"Translates {source} speech to {target} text.", ["speech", "speech-translation"], command)


def _encoder(system: ReadingModel, source: str, command: str) -> Task:
    """Return the task of a model that writes nothing."""
    speech, text = "speech" in system.inputs, bool(system.text_fields())
    read = ["speech"] * speech + [f"{source} text".strip()] * text
    pipeline = "feature-extraction" if speech else "fill-mask"
    sentence = f"An encoder of {' and '.join(read)}, to begin training with."
    return Task(pipeline, sentence, ["speech"] * speech, command)


def _named(codes: Sequence[str]) -> str:
    names = list(dict.fromkeys(languages.name(code) for code in codes))
    return ", ".join(names) if len(names) < 9 else f"{', '.join(names[:6])} ({len(names)} languages)"
