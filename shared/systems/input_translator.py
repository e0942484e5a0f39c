"""From users' sentences and sound to texts: the methods that a system is called by."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Unpack, overload

import torch

from dragoman.shared.batches.fields import TextField
from dragoman.shared.errors import DataError, UsageError, check_number
from dragoman.shared.generator import Hypothesis
from dragoman.shared.search.search import AnySearch
from dragoman.shared.sound.pauses import file_segments
from dragoman.shared.sound.segmentation import Segmenter
from dragoman.shared.sound.speech_activity import SpeechDetector, rows_without_speech, speech_detector, warn_of_silence
from dragoman.shared.systems.asked import TranslationOptions, asked_search, check_best_alone, listed
from dragoman.shared.systems.inputs import Input, chosen_languages, rows_of_inputs, sound_rows, text_row, warn_of_cut
from dragoman.shared.systems.rows import RowTranslator, translate_shown
from dragoman.shared.systems.sound_arrays import as_files
from dragoman.shared.systems.timed import Part, TimedText, whole


class InputTranslator(RowTranslator):
    """A model that translates what a user gives it: sentences, or files and arrays of sound."""

    output: TextField
    output_name: str

    @property
    @abstractmethod
    def texts(self) -> dict[str, TextField]:
        """The texts of each hypothesis, by name."""

    @property
    @abstractmethod
    def output_languages(self) -> list[str]:
        """The codes of the languages that the output can be in."""

    @abstractmethod
    def default_search(self) -> AnySearch:
        """Return the search used when the caller names none."""

    @overload
    def translate(  # type: ignore[overload-overlap]  # a str is a sequence of str too; the first that fits is taken
        self, inputs: Input, *, beam: int | None = None, batch_size: int = 16, **options: Unpack[TranslationOptions]
    ) -> str: ...

    @overload
    def translate(
        self,
        inputs: Sequence[Input],
        *,
        beam: int | None = None,
        batch_size: int = 16,
        **options: Unpack[TranslationOptions],
    ) -> list[str]: ...

    def translate(
        self,
        inputs: Input | Sequence[Input],
        *,
        beam: int | None = None,
        batch_size: int = 16,
        **options: Unpack[TranslationOptions],
    ) -> str | list[str]:
        """Translate text, or sound if the system reads speech, to the best text of each.

        Args:
            inputs: one sentence or sound, or a list of them.
            beam: how many outputs the search keeps at a time; by default 5 (10 if the system is decoded by CTC).
            batch_size: how many sentences or segments are translated at a time, at most.
            **options: those of :meth:`parts`.

        Returns:
            The text of a single input, a list of texts for a list; empty where an input has no content. A warning names
            the inputs whose outputs end where the search allows no more tokens.

        Raises:
            DataError: as :meth:`hypotheses`.
            UsageError: as :meth:`hypotheses`; also for ``n_best``, which is for :meth:`hypotheses`.
        """
        if isinstance(inputs, Input):
            return self.translate([inputs], beam=beam, batch_size=batch_size, **options)[0]
        check_best_alone("translate", options)
        inputs = listed(inputs)
        hypotheses = self.hypotheses(inputs, beam=beam, batch_size=batch_size, **options)
        warn_of_cut({number: inputs[number] for number, best in enumerate(hypotheses) if best and best[0].cut})
        return [best[0].texts[self.output_name] if best else "" for best in hypotheses]

    def hypotheses(
        self,
        inputs: Sequence[Input],
        *,
        beam: int | None = None,
        n_best: int | None = None,
        batch_size: int = 16,
        **options: Unpack[TranslationOptions],
    ) -> list[list[Hypothesis]]:
        """Translate text, or sound if the system reads speech; return the n-best hypotheses of each input.

        A sound longer than ``maximum_seconds`` is divided at its pauses (see shared/sound/pauses.py),
        its segments are translated, and their texts are put together again. Segments without speech are not shown to
        the model, which would make something up: they give empty output, and a warning names file and time.

        Args:
            inputs: sentences, or sound files or arrays. Blank sentences give empty output.
            beam: how many outputs the search keeps at a time; by default 5 (10 if the system is decoded by CTC).
            n_best: how many hypotheses of each input are returned, at most as many as the beam; by default the best.
            batch_size: how many sentences or segments are translated at a time, at most.
            **options: those of :meth:`parts`.

        Returns:
            The hypotheses of each input, the best first. A divided sound has one hypothesis: the best ones of its
            segments in order, with the mean of their scores.

        Raises:
            DataError: if a file cannot be read, or text is not valid Unicode; naming it.
            UsageError: if a language is unknown to the system or has to be named, an input is not what the system
                reads, or a number is out of its range.
        """
        sides = {name: field.side for name, field in self.texts.items()}
        parts = self.parts(inputs, beam=beam, n_best=n_best, batch_size=batch_size, **options)
        return [whole(segments, sides) for segments in parts]

    def timed(self, inputs: Sequence[Input], **options: Any) -> list[list[TimedText]]:
        """Translate sound and keep the times of its segments, without pauses; one without speech has no text.

        Raises:
            DataError: as :meth:`hypotheses`.
            UsageError: as :meth:`hypotheses`; also if the system reads text.
        """
        if "speech" not in self.reads:
            raise UsageError("this system reads text, which has no times")
        check_best_alone("timed", options)
        parts = self.parts(inputs, **options)
        return [[text for part in segments for text in self.timed_texts(part)] for segments in parts]

    def timed_texts(self, part: Part) -> list[TimedText]:
        """Return the texts of a segment with their times: one, but for systems that write times."""
        return [part.timed]

    @torch.inference_mode()
    def parts(
        self,
        inputs: Sequence[Input],
        *,
        source_language: str | None = None,
        target_language: str | None = None,
        sample_rate: int | None = None,
        search: AnySearch | None = None,
        beam: int | None = None,
        n_best: int | None = None,
        batch_size: int = 16,
        maximum_seconds: float = 20.0,
        segmenter: Segmenter = file_segments,
        keep_silence: bool = False,
        detector: SpeechDetector | None = None,
        unreadable: list[DataError] | None = None,
        progress: Callable[[int, int], None] | None = None,
        **numbers: float,
    ) -> list[list[Part]]:
        """Return the segments of each input with their hypotheses; a sentence is one segment.

        Args:
            inputs: sentences, or sound: files and arrays (see :func:`dragoman.shared.systems.sound_arrays.mono`).
            source_language: needed if the system was trained on several.
            target_language: likewise.
            sample_rate: Hz, of arrays; those of files stand in them.
            search: by default beam search (prefix search, for a system that is decoded by CTC).
            beam: how many outputs that search keeps at a time, if no other is given.
            n_best: how many hypotheses of a segment it returns, if no other is given.
            batch_size: how many sentences or segments are translated at a time, at most; fewer long ones (see
                :func:`dragoman.shared.batches.stream.translation_budget`). It does not change the output.
            maximum_seconds: the longest segment of a sound file that is translated as one, at least 1; what the
                system was trained on is a good choice.
            segmenter: divides longer files; by default at their pauses (see shared/sound/segmentation.py).
            keep_silence: translate segments without speech too.
            detector: finds those segments; by default the best that is installed (see
                shared/sound/speech_activity.py).
            unreadable: given this list, inputs that cannot be read have no hypothesis, and their errors are added to
                it.
            progress: called with the number of segments that are done and that of all.
            **numbers: others of the usual search, if no other is given: ``length_penalty``.
        """
        inputs = listed(inputs)
        search = asked_search(
            self.default_search(), search, {"beam": beam, "n_best": n_best, **numbers}, InputTranslator.parts
        )
        check_number("batch_size", batch_size, least=1)
        if not self.inputs:
            raise UsageError("this is a language model: it reads nothing that could be translated")
        codes = self.source_languages, self.output_languages
        source, target = chosen_languages(source_language, target_language, codes=codes, side=self.output.side)
        common = {"source_language": source, "target_language": target}

        def read(item: str | Path) -> list[dict[str, Any]]:
            speech = "speech" in self.reads
            rows_read = sound_rows(item, segmenter, maximum_seconds) if speech else [self.text_row(item)]
            return [row | common for row in rows_read]

        silent: set[int] = set()
        with as_files(inputs, sample_rate, speech="speech" in self.reads) as items:
            rows, owned = rows_of_inputs(items, read, unreadable)
            if "speech" in self.reads and not keep_silence:
                detector = detector or speech_detector()
                silent = rows_without_speech(rows, detector)
                warn_of_silence(rows, silent, detector)
            how: dict[str, Any] = {"batch_size": batch_size, "progress": progress, "unreadable": unreadable}
            results = translate_shown(self, rows, silent, search, **how)
        whole = (span if all(results[i] for i in span) else range(0) for span in owned)
        return [[Part(rows[i], results[i], i in silent) for i in span] for span in whole]

    def text_row(self, item: str | Path) -> dict[str, Any]:
        """Return the row of a text that a user gives.

        Raises:
            DataError: if it is too long for one, or no text that the system could read.
            UsageError: if it is no text.
        """
        return text_row(item)

    def empty_output(self) -> Hypothesis:
        """Return the output of an input without content, which is not shown to the model."""
        return Hypothesis(tokens=[], score=0.0, texts=dict.fromkeys(self.texts, ""))
