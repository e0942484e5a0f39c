"""A speech processor for simulstream (https://github.com/hlt-mt/simulstream), for its server and its inference.

Its configuration, for example:

    type: dragoman.commands.simulstream_processor.DragomanProcessor
    model: st/average/model
    speech_chunk_size: 0.5
    policy: alignatt
    detokenizer_type: simuleval
    latency_unit: word

``speech_chunk_size`` is the ``--chunk`` of ``dragoman stream``, whose other options may stand there too, with
underscores; ``detokenizer_type`` and ``latency_unit`` are read by simulstream's scores: tokens are words, or the
characters of a language without spaces, for which the unit is "char".
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from functools import partial
from os.path import commonprefix
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import torch

from dragoman.commands.live_output import policy_of
from dragoman.commands.loading import load_models
from dragoman.commands.model_options import ModelOptions
from dragoman.commands.search_options import SearchOptions
from dragoman.commands.searching import search_for
from dragoman.commands.talk_options import ListeningOptions
from dragoman.shared.errors import UsageError
from dragoman.shared.machine.device import Machine
from dragoman.shared.sound.speech_activity import speech_detector
from dragoman.shared.systems.system import System
from dragoman.simultaneous.latency import words_of
from dragoman.simultaneous.listening import Emission, Listener
from dragoman.simultaneous.live_talk import LiveTalk

try:
    from simulstream.server.speech_processors import SpeechProcessor
    from simulstream.server.speech_processors.incremental_output import IncrementalOutput
except ModuleNotFoundError:  # only simulstream makes a processor; to read what one is, it need not be there
    SpeechProcessor = object

#: What a configuration has beside the options of ``dragoman stream``.
_OTHERS = {"type", "model", "speech_chunk_size", "detokenizer_type", "latency_unit"}


class DragomanProcessor(SpeechProcessor):
    """Translates what it is given chunk by chunk, as ``dragoman stream`` does; nothing is deleted but parts of words.

    Args:
        config: see this module.

    Raises:
        UsageError: for an option that is unknown or does not fit.
    """

    system: ClassVar[System]

    @classmethod
    def load_model(cls, config: SimpleNamespace) -> None:
        """Load the model folder that the configuration names, once for all streams."""
        _, search, models = _options(config)
        machine = Machine(device=models.device, precision=models.precision)
        cls.system = load_models(Path(config.model), models, machine, ctc=search.ctc)

    def __init__(self, config: SimpleNamespace) -> None:
        super().__init__(config)
        self._listening, self._search, _ = _options(config)
        self.clear()

    def set_source_language(self, language: str) -> None:
        """Say what language is spoken, before the first chunk."""
        self._languages["source_language"] = language

    def set_target_language(self, language: str) -> None:
        """Say into what language is translated, before the first chunk."""
        self._languages["target_language"] = language

    def process_chunk(self, waveform: np.ndarray) -> IncrementalOutput:
        """Hear (N,) float32 in [-1, 1] at 16 kHz, and return what is written after it."""
        return self._written(self._heard().hear(torch.from_numpy(np.asarray(waveform, dtype=np.float32))))

    def end_of_stream(self) -> IncrementalOutput:
        """Return what is written at the end."""
        return self._written(self._heard().end())

    def tokens_to_string(self, tokens: list[str]) -> str:
        """Return words with spaces between them, where their language has them."""
        return ("" if getattr(self.config, "latency_unit", "word") == "char" else " ").join(tokens)

    def clear(self) -> None:
        """Forget the stream: the next chunk is the first one of another."""
        self._languages: dict[str, str] = {}
        self._talk: LiveTalk | None = None
        self._sentence, self._words = "", list[str]()

    def _heard(self) -> LiveTalk:
        if self._talk is None:
            search = search_for(self._search, tokenizer=self.system.output.tokenizer)
            begin = partial(Listener, self.system, policy_of(self._listening), search=search, **self._languages)
            [self._language] = begin().languages["target"]
            self._talk = LiveTalk(
                begin,
                detector=speech_detector(self._listening.speech_detector),
                maximum_seconds=self._listening.maximum_seconds,
                pause=self._listening.pause,
            )
        return self._talk

    def _written(self, emissions: Iterable[Emission]) -> IncrementalOutput:
        """Return the words that are new, and those that are deleted since they have become longer."""
        new: list[str] = []
        deleted: list[str] = []
        for emission in emissions:
            self._sentence += emission.text
            words = words_of(self._sentence, self._language)
            same = len(commonprefix([self._words, words]))
            for word in self._words[same:]:
                deleted += [] if new else [word]
                new = new[:-1]
            new += words[same:]
            self._sentence, self._words = ("", []) if emission.last else (self._sentence, words)
        return IncrementalOutput(new, self.tokens_to_string(new), deleted, self.tokens_to_string(deleted))


def _options(config: SimpleNamespace) -> tuple[ListeningOptions, SearchOptions, ModelOptions]:
    """Return the options of a configuration, checked."""
    given = {name: value for name, value in vars(config).items() if name not in _OTHERS}
    for name in ("model", "speech_chunk_size"):
        if not hasattr(config, name):
            raise UsageError(f"the configuration of a DragomanProcessor must have {name}")
    given["chunk"] = config.speech_chunk_size
    found: list[Any] = []
    for kind in (ListeningOptions, SearchOptions, ModelOptions):
        found.append(kind(**{field.name: given.pop(field.name) for field in fields(kind) if field.name in given}))
    if given:
        raise UsageError(f"{', '.join(given)}: no option of dragoman stream")
    for options in found:
        if hasattr(options, "check"):
            options.check()
    return tuple(found)
