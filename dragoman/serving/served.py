"""The models that a server has loaded: chosen by name, or by task and languages."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

from torch import Tensor

from dragoman.commands.detecting import AUTO
from dragoman.commands.glossary import Glossary
from dragoman.commands.glossary_search import GlossarySearch
from dragoman.commands.heard_language import HeardLanguages, heard
from dragoman.commands.lines_before import check_context, with_context
from dragoman.commands.live_output import policy_of
from dragoman.commands.loading import load_models
from dragoman.commands.model_options import ModelOptions
from dragoman.commands.search_options import SearchOptions
from dragoman.commands.searching import fitting, search_for, translation_options
from dragoman.commands.talk_options import PolicyOptions, SoundOptions
from dragoman.exchange.transformers_engine.prompt import InContext
from dragoman.serving.batching import Batcher, Job, Row
from dragoman.shared.errors import UsageError, shortened
from dragoman.shared.generator import Hypothesis
from dragoman.shared.machine.device import Machine
from dragoman.shared.search.beam import BeamSearch
from dragoman.shared.search.search import AnySearch
from dragoman.shared.sound.speech_activity import SpeechDetector, rows_without_speech
from dragoman.shared.systems.inputs import chosen_languages, sound_rows
from dragoman.shared.systems.model_folder import CONFIG, model_folder
from dragoman.shared.systems.rows import translate_shown
from dragoman.shared.systems.system import System
from dragoman.shared.systems.timed import Part
from dragoman.simultaneous.listening import Emission, Listener, Turn
from dragoman.simultaneous.live_talk import LiveTalk, talks_together

#: The model that a client names to leave the choice to its task and languages.
ANY = "auto"
_NAME = re.compile(r"[\w.@-]+(/[\w.@-]+)*")


class UnknownModelError(UsageError):
    """No model has the name that a client gave."""


@dataclass(frozen=True, eq=False)
class Task:
    """One thing that a model does: what it reads, and the text that it writes.

    Attributes:
        model: its name.
        system: translates.
        search: how; of texts, all hypotheses of the beam.
        text: "translation" or "transcript".
    """

    model: str
    system: System
    search: AnySearch
    text: str

    @property
    def reads(self) -> str:
        """The input: "speech", or "source", text."""
        return self.system.reads[0]

    @property
    def target_languages(self) -> list[str]:
        """The codes of the languages that the output may be in."""
        return self.system.output_languages

    def languages(self, source: str | None, target: str | None) -> dict[str, str]:
        """Return the languages of a row.

        Raises:
            UsageError: if one is unknown, or has to be named.
        """
        codes = self.system.source_languages, self.target_languages
        pair = chosen_languages(source, target, codes=codes, side=self.system.output.side)
        return dict(zip(("source_language", "target_language"), pair, strict=True))

    def held_to(self, glossary: Glossary | None, languages: dict[str, str] | None = None) -> Task:
        """Return the task with further terms, which go before those that it has; without any, the task itself.

        Args:
            glossary: of the terms.
            languages: those of a request, for which alone the new task is.

        Raises:
            DataError: for a term that the model cannot write.
            UsageError: if the model or its search cannot be held to terms.
        """
        if glossary is None:
            return self
        usual = self.search
        if isinstance(usual, GlossarySearch):
            own, usual = usual.glossary, usual.usual
            glossary = glossary.over(own) if own.pair in (None, tuple((languages or {}).values())) else glossary
        return replace(self, search=GlossarySearch(search=usual, glossary=glossary, system=self.system))

    @property
    def detects(self) -> bool:
        """Return whether it finds out the language of each row of speech, and writes it into the row."""
        return isinstance(self.search, HeardLanguages)

    def detecting(self, source: str, target: str | None) -> tuple[Task, dict[str, str]]:
        """Return the task that finds out the language of speech, and the languages of its rows until then.

        Args:
            source: "auto", or "auto:CODE" with what stands for an unknown language.
            target: code, None where it need not be named.

        Raises:
            UsageError: if the model cannot tell it, or a language is unknown or has to be named.
        """
        search, pair = heard(self.search, self.system, (source, target))
        return replace(self, search=search), self.languages(*pair)

    def answered(self, rows: Sequence[Row], batch_size: int) -> list[list[Hypothesis]]:
        """Translate rows."""
        shown = [cast(dict[str, Any], row) for row in rows]
        return translate_shown(self.system, shown, set(), self.search, batch_size=batch_size)


class Hearing:
    """A talk that one task hears while it is spoken.

    Args:
        task: reads speech.
        language: code of what it writes.
        talk: that it hears.
    """

    def __init__(self, task: Task, language: str, talk: LiveTalk) -> None:
        self.task, self.language, self.talk = task, language, talk

    def row(self, sound: Tensor, *, last: bool) -> Row:
        """Return the next chunk as a row, which is alone of its talk in a batch.

        Args:
            sound: (N,) at 16 kHz.
            last: whether the sentence ends after it, which is said in any case.
        """
        return {"talk": self.talk, "sound": sound, "last": last}

    @staticmethod
    def answered(rows: Sequence[Row], batch_size: int) -> list[list[Emission] | Exception]:
        """Hear a chunk of each talk, whichever task it is for."""
        found = talks_together([_turns(**row) for row in rows])
        nothing = [Emission("", 0.0, 0.0, last=True)]
        return [nothing if not one and row["last"] else one for row, one in zip(rows, found, strict=True)]


def _turns(talk: LiveTalk, sound: Tensor, last: bool) -> Iterator[Turn]:
    yield from talk.turns(sound)
    if last:
        yield from talk.last_turn()


@dataclass(frozen=True, eq=False)
class Served:
    """A model folder that is loaded once, and the thread that translates with it.

    Attributes:
        name: by which clients know it.
        tasks: what it does.
        created: when the folder was written, in seconds since 1970.
        batcher: its thread.
    """

    name: str
    tasks: list[Task]
    created: int
    batcher: Batcher = field(repr=False)

    def submit(
        self, task: Task | type[Hearing], rows: Sequence[Row], heard: Callable[[int, list[Any]], None] | None = None
    ) -> Job:
        """Let rows wait for their turn; see :class:`Job`. Chunks of all talks are those of ``Hearing``."""
        job = Job(task, rows, heard)
        self.batcher.submit(job)
        return job


def named_folders(words: Sequence[str]) -> dict[str, Path]:
    """Return model folders by their names: NAME=FOLDER, or that of the folder.

    Raises:
        UsageError: for two models of one name, or a name that is none.
    """
    folders: dict[str, Path] = {}
    for word in words:
        name, equals, place = word.partition("=")
        if not equals or Path(word).exists():
            name, place = Path(word).resolve().name, word
        if not _NAME.fullmatch(name) or name == ANY:
            raise UsageError(f"{word}: {name!r} cannot be the name of a model: give NAME=FOLDER")
        if name in folders:
            raise UsageError(f"two models are called {name}: give NAME=FOLDER")
        folders[name] = Path(place)
    return folders


def tasks_of(name: str, system: System, search: SearchOptions, writes: str | None) -> list[Task]:
    """Return what a model does: all that it was trained to write, or what ``writes`` names.

    Raises:
        UsageError: if it is no translator or recogniser of speech or of text alone.
    """
    if system.pipeline or not isinstance(system, System) or list(system.reads) not in (["speech"], ["source"]):
        raise UsageError(f"{name}: only models that read speech or text and write text are served; see --reads")
    others = [] if writes else list(system.other_outputs)
    tasks: dict[str, Task] = {}
    for one in [system, *(system.for_task(writes=other) for other in others)]:
        chosen = search_for(fitting(search, one), tokenizer=one.output.tokenizer)
        if isinstance(chosen, BeamSearch) and one.reads[0] == "source":  # which asks no more of it
            chosen = BeamSearch(**chosen.arguments | {"n_best": chosen.beam})
        for text in one.texts:
            tasks.setdefault(text, Task(name, one, chosen, text))
    return list(tasks.values())


class Models:
    """All models of a server.

    Args:
        served: the models.
        sound: how recordings are divided.
        models: for the sizes of batches.
        listening: what is written of a talk while it is spoken.
        context: how many lines before each one of a request a language model is shown.
    """

    def __init__(
        self,
        served: Sequence[Served],
        *,
        sound: SoundOptions,
        models: ModelOptions,
        listening: PolicyOptions,
        context: int = 0,
    ) -> None:
        self.served = {one.name: one for one in served}
        self.context = context
        self.listening = listening
        #: Tasks that find out the language of speech, by what they are made of: equal ones share batches.
        self._detecting: dict[tuple[Task, str], Task] = {}
        options = translation_options((None, None), sound, models, speech=bool(self._tasks("speech")))
        self._maximum, self._segmenter = options["maximum_seconds"], options["segmenter"]
        self._hears: SpeechDetector = options["detector"]
        self._detector = None if sound.keep_silence else self._hears

    @classmethod
    def load(
        cls,
        words: Sequence[str],
        *,
        sound: SoundOptions,
        search: SearchOptions,
        models: ModelOptions,
        listening: PolicyOptions,
        wait: float,
        observe: Callable[[str, int, float], None],
        glossary: Path | None = None,
        context: int = 0,
    ) -> Models:
        """Load model folders; see :func:`named_folders`.

        Args:
            words: FOLDER or NAME=FOLDER.
            sound: how recordings are divided.
            search: how outputs are found.
            models: the device, and further models of a search.
            listening: what is written of a talk while it is spoken.
            wait: seconds that a row waits for others.
            observe: called with a model's name, rows and seconds after each batch.
            glossary: a file of terms that translations of texts have.
            context: how many lines before each one of a request a language model is shown.

        Raises:
            DataError: if a folder is not a model folder, or a file no glossary that the models can write.
            UsageError: if options do not fit together, or a model is none that can be served.
        """
        if search.sample:
            raise UsageError("--sample does not apply to serve: outputs would depend on who else asks")
        search_for(search)
        machine = Machine(device=models.device, precision=models.precision)
        terms = None if glossary is None else Glossary.read(glossary)
        loaded = {}
        for name, folder in named_folders(words).items():
            system = load_models(folder, models, machine, ctc=search.ctc)
            tasks = tasks_of(name, system, search, models.writes)
            loaded[name] = folder, [task.held_to(terms if task.reads == "source" else None) for task in tasks]
        if terms is not None and not any(task.reads == "source" for _, tasks in loaded.values() for task in tasks):
            raise UsageError("--glossary does not apply: no model reads text, in which terms are found")
        reading = {name: task.system for name, (_, tasks) in loaded.items() for task in tasks if task.reads == "source"}
        if context and not reading:
            raise UsageError("--context does not apply: no model reads text, in which lines are before others")
        for name, system in reading.items() if context else ():
            check_context(system, marked=False, name=name)
        served = []
        for name, (folder, tasks) in loaded.items():
            translate = partial(_answered, machine, models.batch_size)
            batcher = Batcher(translate, rows=models.batch_size, wait=wait, observe=partial(observe, name))
            config = model_folder(folder) / CONFIG
            served.append(Served(name, tasks, int((config if config.exists() else folder).stat().st_mtime), batcher))
        return cls(served, sound=sound, models=models, listening=listening, context=context)

    @property
    def batchers(self) -> list[Batcher]:
        """The threads of all models."""
        return [one.batcher for one in self.served.values()]

    def _tasks(self, reads: str, text: str | None = None) -> list[Task]:
        tasks = [task for one in self.served.values() for task in one.tasks]
        return [task for task in tasks if task.reads == reads and text in (None, task.text)]

    def rows(
        self, texts: Sequence[str], codes: Sequence[dict[str, str]], *, lines: bool = True
    ) -> list[dict[str, Any]]:
        """Return the rows of the texts of a request.

        Args:
            texts: in their order.
            codes: the languages of each.
            lines: whether they are lines that follow each other: each with those before it that its model is shown.
        """
        shown = with_context(texts, self.context) if self.context and lines else texts
        return [
            {"id": shortened(text), "audio": None, "source_text": text, **of_text}
            | ({"context": text.context} if isinstance(text, InContext) else {})
            for text, of_text in zip(shown, codes, strict=True)
        ]

    def text_tasks(self) -> list[Task]:
        """Return what translates texts."""
        return self._tasks("source", "translation")

    def choose(
        self, reads: str, text: str, *, source: str | None, target: str | None, name: str = ANY
    ) -> tuple[Task, dict[str, str]]:
        """Return the first task of this kind that knows the languages, and the languages of its rows.

        Args:
            reads: "speech" or "source".
            text: "translation" or "transcript".
            source: code, None where it need not be named.
            target: likewise.
            name: of the model, or :data:`ANY`.

        For a ``source`` of speech that is to be found out ("auto", "auto:CODE"), the task does that.

        Raises:
            UnknownModelError: if no model is called so.
            UsageError: if none does this, or none knows the languages.
        """
        if name not in (ANY, *self.served):
            raise UnknownModelError(f"no model is called {shortened(name)!r}: there are {', '.join(self.served)}")
        wrong = []
        for task in self._tasks(reads, text):
            if name in (ANY, task.model):
                try:
                    if reads == "speech" and (source or "").partition(":")[0] == AUTO:
                        detecting, codes = task.detecting(str(source), target)
                        return self._detecting.setdefault((task, str(source)), detecting), codes
                    return task, task.languages(source, target)
                except UsageError as error:
                    wrong.append(f"{task.model}: {error}")
        kind = f"{'speech' if reads == 'speech' else 'text'} and writes a {text}"
        raise UsageError("; ".join(wrong) or f"no model{'' if name == ANY else f' called {name}'} reads {kind}")

    def hearing(self, task: Task, languages: dict[str, str], pause: float | None = None) -> Hearing:
        """Return what hears a talk from its beginning.

        Args:
            task: reads speech.
            languages: of a row.
            pause: seconds without speech that end a sentence; by default those of the server.

        Raises:
            UsageError: if it cannot write while it listens, or no sentence is shorter than the pause.
        """
        if task.detects:
            raise UsageError("the language of live speech has to be named: it is not found out")
        begin = partial(Listener, task.system, policy_of(self.listening), search=task.search, **languages)
        pause = self.listening.pause if pause is None else pause
        options = {"maximum_seconds": self._maximum, "pause": pause, "chunk": self.listening.chunk}
        talk = LiveTalk(begin, detector=self._hears, **options)
        return Hearing(task, languages[f"{task.system.output.side}_language"], talk)

    def parts_of_sound(self, path: Path, languages: dict[str, str]) -> list[Part]:
        """Return the segments of a recording, without hypotheses yet; those without speech are marked.

        Raises:
            DataError: if it cannot be read.
        """
        rows: list[dict[str, Any]] = sound_rows(path, self._segmenter, self._maximum)
        silent = rows_without_speech(rows, self._detector) if self._detector is not None else set()
        return [Part(row | languages, silent=number in silent) for number, row in enumerate(rows)]


def _answered(
    machine: Machine, batch_size: int, how: Task | type[Hearing], rows: list[Row]
) -> Sequence[list[Any] | Exception]:
    with machine.autocast():
        return how.answered(rows, batch_size)
