"""A system: what is read (reading_model.py), a model, and what is written; it searches, and is saved as a folder.

Users' sentences and sound are translated by input_translator.py, rows by rows.py.

Legend: B batch, P prefix.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from dragoman.shared.batch import Batch
from dragoman.shared.batches.fields import Field, TextField
from dragoman.shared.errors import UsageError
from dragoman.shared.generator import Generator, Hypothesis
from dragoman.shared.machine.memory import refuse_over
from dragoman.shared.nn.symbols import CTC, OUTPUT
from dragoman.shared.padded import Padded
from dragoman.shared.search.bans import Ban
from dragoman.shared.search.beam import BeamSearch
from dragoman.shared.search.rules import Rules
from dragoman.shared.search.search import AnySearch, Search, ruled
from dragoman.shared.search.search_bytes import check_beam, kept_outputs, search_bytes
from dragoman.shared.systems.input_translator import InputTranslator
from dragoman.shared.text import languages


class System(InputTranslator):
    """A model, the fields that turn rows of a manifest into its input, and the field that its output is text of.

    A system may have several inputs and be trained to write several texts. ``reads`` and ``output`` are those of the
    task at hand; :meth:`for_task` returns the same model at another one.

    Args:
        model: a module that is a Generator (see shared/generator.py).
        inputs: what the model was trained to read, by batch field: ``{"speech": SpeechField()}``,
            ``{"source": TextField(...)}``, or both; nothing if it is a language model.
        output: the text field that the model was trained to produce.
        output_name: "translation" or "transcript": the key of the output in ``Hypothesis.texts``.
        source_languages: the language codes that the system was trained to read.
        target_languages: the language codes that it was trained to write.
        ctc_output: the text field that the model's head "ctc" was trained to produce, if it has one; with it, the
            system can be decoded through that head (see shared/systems/combining.py).
        reads: the names of those inputs that are read together to translate. Default: all.
        other_outputs: further text fields that the decoder was trained to produce, by name: what a translator writes
            when it is asked for ``{"transcript": TextField(column="source_text", ...)}`` instead.
        start_symbols: how many of the symbols before an output are the start of every search (see ``Rules``).
        bans: what no search may write, beside what is banned by its own rules.

    Raises:
        DataError: for an unknown language code.
        UsageError: if there is no language, an output's language is that of neither side, or two outputs have one name.

    Attributes:
        pipeline: the Hugging Face Hub's name for the task, of a system whose output is in no language.
        sentence: such a system's task in words; ``{language}`` stands for those of the text.
    """

    pipeline: str = ""
    sentence: str = "Labels {language} text."

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
        reads: list[str] | None = None,
        other_outputs: dict[str, TextField] | None = None,
        start_symbols: int = 1,
        bans: list[Ban] | None = None,
    ) -> None:
        for side, codes in (("source_languages", source_languages), ("target_languages", target_languages)):
            if not codes or isinstance(codes, str):
                raise UsageError(f"{side} must be a list of language codes, not {codes!r}")
        super().__init__(model=model, inputs=inputs, reads=reads, source_languages=source_languages)
        for code in target_languages:
            languages.check(code)
        others = dict(other_outputs or {})
        if output_name in others:
            raise UsageError(f"other_outputs: {output_name!r} is the name of the output itself")
        for field in (output, *others.values()):
            if field.side not in ("source", "target"):
                raise UsageError(
                    f"the output's language column is source_language or target_language, not {field.language_column}"
                )
        self.output = output.evaluating()
        self.output_name = output_name
        self.other_outputs = {name: field.evaluating() for name, field in others.items()}
        self.ctc_output = None if ctc_output is None else ctc_output.evaluating()
        self.target_languages = list(target_languages)
        self.start_symbols = start_symbols
        self.bans = list(bans or [])

    # -- what is written --------------------------------------------------------------------------------------------

    @property
    def texts(self) -> dict[str, TextField]:
        """The texts of each hypothesis, by name: one, but for systems that write several in one pass."""
        return {self.output_name: self.output}

    @property
    def generator(self) -> Generator | None:
        """The model that writes the outputs from left to right, which others may join; None if the system has none."""
        return self.model if isinstance(self.model, Generator) else None

    @property
    def scored(self) -> TextField:
        """The field of the tokens that the decoder writes, by which given outputs are scored."""
        return self.output

    def text_fields(self) -> list[TextField]:
        """Return all text fields that the model reads or writes, each once."""
        written = [self.output, *self.other_outputs.values(), *([self.ctc_output] if self.ctc_output else [])]
        return [*super().text_fields(), *written]

    def symbol_field(self, name: str) -> Field | None:
        """Return the field that a model calls by this name; without ``ctc_output``, a CTC head writes the output."""
        fields = {OUTPUT: self.output, CTC: self.ctc_output or self.output}
        return fields.get(name) or super().symbol_field(name)

    @property
    def output_languages(self) -> list[str]:
        """The codes of the languages that the output can be in."""
        return self.source_languages if self.output.side == "source" else self.target_languages

    def for_task(self, *, reads: Sequence[str] | None = None, writes: str | None = None) -> System:
        """Return a system with the same model that reads other inputs, or writes another text; None: as it does anyway.

        Raises:
            UsageError: if it was not trained to read or write that.
        """
        changed: dict[str, Any] = {}
        if reads is not None and self._known_inputs(reads) != self.reads:
            changed["reads"] = self._known_inputs(reads)
        outputs = {self.output_name: self.output} | self.other_outputs
        if writes is not None and writes not in outputs:
            raise UsageError(f"the system can write {' or '.join(outputs)}, not {writes!r}")
        if writes not in (None, self.output_name):
            changed |= {"output_name": writes, "output": outputs.pop(writes), "other_outputs": outputs}
        if not changed:
            return self
        other = type(self)(**self.arguments | changed).train(self.training)
        other.origin, other.autocast_dtype, other.home = list(self.origin), self.autocast_dtype, self.home
        return other

    # -- translating ------------------------------------------------------------------------------------------------

    def prefix(
        self, codes: Sequence[str], forced: Sequence[Sequence[int]] | None = None, sources: Sequence[str] | None = None
    ) -> Padded:
        """Return the forced start of the output, (B, P), for rows with output in these languages.

        Args:
            codes: of the rows.
            forced: the ids with which the output of each row is to begin, after the start symbols.
            sources: the source languages of the rows, where these symbols depend on them.
        """
        asked: Sequence[str | None] = sources or [None] * len(codes)
        beginnings = [self.output.prefix_ids(*pair) for pair in zip(codes, asked, strict=True)]
        if forced is not None:
            beginnings = [[*start, *ids] for start, ids in zip(beginnings, forced, strict=True)]
        rows = [torch.tensor(ids, dtype=torch.int64) for ids in beginnings]
        return Padded.from_sequences(rows, padding=self.output.tokenizer.pad).to(self.device)

    def default_search(self) -> AnySearch:
        """Return the search used when the caller names none: a beam search, for outputs as long as the field has."""
        return BeamSearch(rules=Rules(maximum_length_extra=max(Rules().extra, self.output.longest)))

    def translate_batch(
        self, batch: Batch, search: AnySearch, *, forced: Sequence[Sequence[int]] | None = None
    ) -> list[list[Hypothesis]]:
        """Translate a batch on the system's device; the best hypothesis of each row comes first.

        Args:
            batch: of B sentences.
            search: how to find outputs.
            forced: the ids with which the output of each row is to begin, after the start symbols; the hypotheses
                contain them.

        Raises:
            UsageError: if the model has no decoder, or the search is none for decoders, or needs more memory than
                there is.
        """
        if self.generator is None:
            raise UsageError("this model has no decoder to translate with: take it to initialise one that has")
        return self.searched(self.generator, batch, search, forced=forced)

    def searched(
        self, generator: Generator, batch: Batch, search: AnySearch, *, forced: Sequence[Sequence[int]] | None = None
    ) -> list[list[Hypothesis]]:
        """Search outputs of a generator over this system's symbols; see :meth:`translate_batch`.

        Raises:
            UsageError: if the search is none for decoders, or needs more memory than there is.
        """
        if not isinstance(search, Search):
            raise UsageError(
                f"{type(search).__name__} does not search the outputs of a decoder: load the model with ctc"
            )
        tokenizer = self.output.tokenizer
        self.check_memory(batch, search)
        outputs = ruled(search, start_symbols=self.start_symbols, bans=self.bans).search(
            generator,
            batch,
            prefix=self.prefix(batch.languages[self.output.side], forced, batch.languages.get("source")),
            end=self.output.end(batch.languages[self.output.side]),
            padding=tokenizer.pad,
        )
        return [[replace(h, texts=self.texts_of(h.tokens)) for h in hypotheses] for hypotheses in outputs]

    def texts_of(self, tokens: Sequence[int]) -> dict[str, str]:
        """Return the texts that the decoder's tokens stand for, by name."""
        return {self.output_name: self.output.decoded(tokens)}

    def check_memory(self, batch: Batch, search: AnySearch, positions: int = 0) -> None:
        """Refuse a search that needs more memory than there is; it would take all of the machine's.

        Outputs are assumed to be as long as the longest text of the batch, or 16 tokens if that is shorter. What a
        decoder keeps of its input counts, too: keys and values of the encoder's states, or of a prompt.

        Args:
            batch: of B sentences.
            search: for it.
            positions: of a CTC head's output.

        Raises:
            UsageError: with both figures; or if the beam has more outputs than there are symbols.
        """
        fields = ((name, field) for name, field in self.input_fields.items() if field.unit == "tokens")
        longest = max((batch[name].values.shape[1] for name, _ in fields), default=0)
        state_bytes = getattr(self.model, "state_bytes", None)
        read_bytes = getattr(self.model, "read_bytes", None) if isinstance(search, Search) else None
        needed = search_bytes(
            search,
            sentences=len(batch),
            vocabulary=self.output.tokenizer.size,
            state=0 if state_bytes is None else state_bytes(max(longest, 16)),
            positions=positions,
        ) + (0 if read_bytes is None else read_bytes(batch, kept_outputs(search)))
        what = f"{type(search).__name__} of {kept_outputs(search):,} outputs for {len(batch):,} inputs at a time"
        refuse_over(needed, what, self.device)
        check_beam(search, self.output.tokenizer.size)
