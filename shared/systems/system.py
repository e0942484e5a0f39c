"""A system: a model together with what it reads and writes, which translates and is saved (see saved_model.py).

Legend: B batch, P prefix.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, overload

import numpy as np
import torch
from torch import nn

from shared.batch import Batch
from shared.corpus.fields import Field, TextField, blank_rows
from shared.corpus.loader import collate, evaluation_batches
from shared.corpus.speech_activity import SpeechDetector, rows_without_speech, speech_detector, warn_of_silence
from shared.corpus.stream import translation_budget
from shared.errors import DataError, UsageError
from shared.generator import Generator, Hypothesis
from shared.machine.memory import refuse_over
from shared.nn.state import evaluating
from shared.padded import Padded
from shared.search.beam import BeamSearch
from shared.search.search import AnySearch, Search
from shared.search.search_bytes import kept_outputs, search_bytes
from shared.systems.inputs import chosen_language, joined, sound_rows, text_row
from shared.systems.saved_model import SavedModel
from shared.text import languages
from shared.text.tokenizer import Tokenizer


class System(SavedModel):
    """A model, the fields that turn rows of a manifest into its input, and the field that its output is text of.

    Args:
        model: a module that is a Generator (see shared/generator.py).
        inputs: what the model reads, by batch field: ``{"speech": SpeechField()}``, ``{"source": TextField(...)}``;
            nothing if it is a language model.
        output: the text field that the model was trained to produce.
        output_name: "translation" or "transcript": the key of the output in ``Hypothesis.texts``.
        source_languages: the language codes that the system was trained to read.
        target_languages: the language codes that it was trained to write.
        ctc_output: the text field that the model's head "ctc" was trained to produce, if it has one; with it, the
            system can be decoded through that head (see shared/systems/combining.py).

    Raises:
        DataError: for an unknown language code.
        UsageError: if there is no language.

    """

    def __init__(
        self,
        *,
        model: nn.Module,
        inputs: dict[str, Field],
        output: TextField,
        output_name: str = "translation",
        source_languages: list[str],
        target_languages: list[str],
        ctc_output: TextField | None = None,
    ) -> None:
        super().__init__()
        for side, codes in (("source_languages", source_languages), ("target_languages", target_languages)):
            if not codes or isinstance(codes, str):
                raise UsageError(f"{side} must be a list of language codes, not {codes!r}")
            for code in codes:
                languages.check(code)
        if output.side not in ("source", "target"):
            raise UsageError(
                f"the output's language column is source_language or target_language, not {output.language_column}"
            )
        self.model = model
        self.inputs = {name: field.evaluating() for name, field in inputs.items()}
        self.output = output.evaluating()
        self.ctc_output = None if ctc_output is None else ctc_output.evaluating()
        self.output_name = output_name
        self.source_languages = list(source_languages)
        self.target_languages = list(target_languages)
        self.origin = []

    def autocast(self) -> AbstractContextManager[Any]:
        """Return the context for which the matrices were stored (``autocast_dtype``)."""
        if self.autocast_dtype is None:
            return nullcontext()
        return torch.autocast(self.device.type, dtype=self.autocast_dtype)

    # -- translating ------------------------------------------------------------------------------------------------

    def prefix(self, codes: Sequence[str]) -> Padded:
        """Return the forced start of the output, (B, P), for rows with output in these languages."""
        rows = [torch.tensor(self.output.prefix_ids(code), dtype=torch.int64) for code in codes]
        return Padded.from_sequences(rows, padding=self.output.tokenizer.pad).to(self.device)

    def default_search(self) -> AnySearch:
        """Return the search of those who name none."""
        return BeamSearch()

    def translate_batch(self, batch: Batch, search: AnySearch) -> list[list[Hypothesis]]:
        """Translate a batch on the system's device; the best hypothesis of each row comes first.

        Raises:
            UsageError: if the model has no decoder, or the search is none for decoders, or needs more memory than
                there is.

        """
        if not isinstance(self.model, Generator):
            raise UsageError("this model has no decoder to translate with: take it to initialise one that has")
        if not isinstance(search, Search):
            raise UsageError(f"{type(search).__name__} is no search for a decoder: the system needs --ctc")
        tokenizer = self.output.tokenizer
        self.check_memory(batch, search)
        found = search.search(
            self.model,
            batch,
            prefix=self.prefix(batch.languages[self.output.side]),
            end=tokenizer.eos,
            padding=tokenizer.pad,
        )
        return [
            [Hypothesis(h.tokens, h.score, {self.output_name: tokenizer.decode(h.tokens)}) for h in hypotheses]
            for hypotheses in found
        ]

    def check_memory(self, batch: Batch, search: AnySearch, positions: int = 0) -> None:
        """Refuse a search that needs more memory than there is; it would take all of the machine's.

        Outputs are assumed to be as long as the longest text of the batch, or 16 tokens if that is shorter.

        Args:
            batch: of B sentences.
            search: for it.
            positions: of a CTC head's output.

        Raises:
            UsageError: with both figures.

        """
        fields = ((name, field) for name, field in self.inputs.items() if field.unit == "tokens")
        longest = max((batch[name].values.shape[1] for name, _ in fields), default=0)
        state_bytes = getattr(self.model, "state_bytes", None)
        needed = search_bytes(
            search,
            sentences=len(batch),
            vocabulary=self.output.tokenizer.size,
            state=0 if state_bytes is None else state_bytes(max(longest, 16)),
            positions=positions,
        )
        what = f"{type(search).__name__} of {kept_outputs(search):,} outputs for {len(batch):,} inputs at a time"
        refuse_over(needed, what, self.device)

    @overload
    def translate(self, inputs: str | Path, **options: Any) -> str: ...

    @overload
    def translate(self, inputs: Sequence[str | Path], **options: Any) -> list[str]: ...

    def translate(self, inputs: str | Path | Sequence[str | Path], **options: Any) -> str | list[str]:
        """Translate text, or sound files if the system reads speech, to the best text of each.

        Args:
            inputs: one sentence or sound file, or a list of them.
            **options: those of :meth:`hypotheses`.

        Returns:
            The text of a single input, a list of texts for a list; empty where an input has no content.

        Raises:
            DataError: as :meth:`hypotheses`.
            UsageError: as :meth:`hypotheses`.

        """
        if isinstance(inputs, str | Path):
            return self.translate([inputs], **options)[0]
        found = self.hypotheses(inputs, **options)
        return [best[0].texts[self.output_name] if best else "" for best in found]

    @torch.inference_mode()
    def hypotheses(
        self,
        inputs: Sequence[str | Path],
        *,
        source_language: str | None = None,
        target_language: str | None = None,
        search: AnySearch | None = None,
        batch_size: int = 16,
        maximum_seconds: float = 20.0,
        keep_silence: bool = False,
        detector: SpeechDetector | None = None,
        unreadable: list[DataError] | None = None,
    ) -> list[list[Hypothesis]]:
        """Translate text, or sound files if the system reads speech; return the n-best hypotheses of each input.

        A sound file longer than ``maximum_seconds`` is divided at its quietest pauses (see shared/corpus/pauses.py),
        its segments are translated, and their texts are put together again. Segments without speech are not shown to
        the model, which would make something up: they give empty output, and a warning names file and time.

        Args:
            inputs: sentences or sound files. Blank sentences give empty output.
            source_language: needed if the system was trained on several.
            target_language: likewise.
            search: beam search with its defaults if not given (prefix search, for a system that is decoded by CTC).
            batch_size: how many sentences or segments are translated at a time, at most; fewer long ones (see
                :func:`shared.corpus.stream.translation_budget`). It does not change the output.
            maximum_seconds: the longest segment of a sound file that is translated as one, at least 1; what the
                system was trained on is a good choice.
            keep_silence: translate segments without speech too.
            detector: finds those segments; by default the best that is installed (see
                shared/corpus/speech_activity.py).
            unreadable: given this list, inputs that cannot be read have no hypothesis, and their errors are added to
                it.

        Returns:
            The hypotheses of each input, the best first. A divided file has one hypothesis: the best ones of its
            segments in order, with the mean of their scores.

        Raises:
            DataError: if a file cannot be read, or text is not valid Unicode; naming it.
            UsageError: if a language is unknown to the system or has to be named, an input is not what the system
                reads, or a number is out of its range.

        """
        if isinstance(inputs, str | Path):
            raise UsageError(f"give a list of inputs, not {str(inputs)!r} alone")
        if batch_size < 1:
            raise UsageError(f"batch_size must be at least 1, not {batch_size}")
        if not self.inputs:
            raise UsageError("this is a language model: it reads nothing that could be translated")
        common = {
            "source_language": chosen_language("source", source_language, self.source_languages),
            "target_language": chosen_language("target", target_language, self.target_languages),
        }
        rows: list[dict[str, Any]] = []
        owned: list[range] = []  # the rows of each input
        for item in inputs:
            try:
                parts = sound_rows(item, maximum_seconds) if "speech" in self.inputs else [text_row(item)]
            except DataError as error:
                if unreadable is None:
                    raise
                unreadable.append(error)
                parts = []
            owned.append(range(len(rows), len(rows) + len(parts)))
            rows += [part | common for part in parts]
        silent: set[int] = set()
        if "speech" in self.inputs and not keep_silence:
            detector = detector or speech_detector()
            silent = rows_without_speech(rows, detector)
            warn_of_silence([rows[i] for i in sorted(silent)], detector)
        found = self._translate_rows(rows, search or self.default_search(), batch_size, silent)
        sides = {"transcript": "source", "translation": "target", self.output_name: self.output.side}
        results = []
        for own in owned:
            # Segments that were skipped have no score that could count in the file's mean.
            shown = [i for i in own if i not in silent] or own[:1]
            if len(own) > 1:
                results.append([joined([found[i][0] for i in shown], common, sides)])
            else:
                results.append(found[own[0]] if own else [])
        return results

    def _translate_rows(
        self, rows: list[dict[str, Any]], search: AnySearch, batch_size: int, silent: set[int]
    ) -> list[list[Hypothesis]]:
        results = [[self.empty_output()] for _ in rows]
        todo = [i for i in np.flatnonzero(~blank_rows(self.inputs, rows)).tolist() if i not in silent]
        some = [rows[i] for i in todo]
        with evaluating(self):
            for numbers in evaluation_batches(some, self.inputs, translation_budget(batch_size)):
                part = [some[i] for i in numbers.tolist()]
                batch = collate(part, self.inputs, np.random.default_rng(0)).to(self.device)
                with self.autocast():
                    outputs = self.translate_batch(batch, search)
                for i, hypotheses in zip(numbers.tolist(), outputs, strict=True):
                    results[todo[i]] = hypotheses
        return results

    def empty_output(self) -> Hypothesis:
        """Return the output of an input without content, which is not shown to the model."""
        return Hypothesis(tokens=[], score=0.0, texts={self.output_name: ""})


def tokenizer_of_rows(system: System, name: str) -> Tokenizer | None:
    """Return the tokenizer to whose symbols the rows of a parameter belong, or None if they are not symbols'."""
    embedding = re.match(r"model\.embeddings\.([^.]+)\.tokens\.", name)
    if embedding:
        return getattr(system.inputs.get(embedding[1]), "tokenizer", None)
    if re.match(r"model\.(target_embedding\.tokens|projection|heads\.[^.]+\.projection)\.", name):
        return system.output.tokenizer
    return None
