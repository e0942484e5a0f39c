"""A system that is decoded through a CTC head: it needs no decoder, and what decoder it has stays idle.

Legend: B batch, S encoder positions, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NotRequired, TypedDict

from torch import nn

from dragoman.shared.batch import Batch
from dragoman.shared.batches.fields import Field, TextField
from dragoman.shared.errors import UsageError
from dragoman.shared.generator import Generator, Hypothesis, Scorer
from dragoman.shared.nn.heads import head_log_probabilities
from dragoman.shared.nn.symbols import OUTPUT
from dragoman.shared.padded import Padded
from dragoman.shared.search.ctc_prefix import CtcPrefixSearch
from dragoman.shared.search.search import AnySearch, Companion, CtcSearch
from dragoman.shared.systems.system import System


class CtcParts(TypedDict):
    """The arguments of :class:`CtcSystem` that do not depend on its model."""

    inputs: dict[str, Field]
    output: TextField
    output_name: NotRequired[str]
    source_languages: list[str]
    target_languages: list[str]
    language_model: NotRequired[nn.Module | None]
    lm_weight: NotRequired[float]
    reads: NotRequired[list[str] | None]


class CtcSystem(System):
    """A recogniser, or translator, whose output is read off its encoder (Graves et al. 2006).

    Args:
        model: an encoder with the head: an EncoderModel, a Translator.
        inputs: what the model reads, by batch field.
        output: the text field that the head was trained to produce.
        output_name: "translation" or "transcript".
        source_languages: the language codes that the system was trained to read.
        target_languages: the language codes that it was trained to write.
        head: name of the head in ``model.heads``; it knows its layer (``tap``) and its ``blank``.
        language_model: over the same vocabulary, for prefix search; None for none.
        lm_weight: of its log-probabilities.
        reads: the names of the inputs that are read together. Default: all.
        decoder_output: the text field that the model's idle decoder was trained to produce, if it has one.

    Raises:
        DataError: for an unknown language code.
        UsageError: if the model has no such head, or there is no language.
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
        head: str = "ctc",
        language_model: nn.Module | None = None,
        lm_weight: float = 0.0,
        reads: list[str] | None = None,
        decoder_output: TextField | None = None,
    ) -> None:
        super().__init__(
            model=model,
            inputs=inputs,
            output=output,
            output_name=output_name,
            source_languages=source_languages,
            target_languages=target_languages,
            reads=reads,
        )
        heads = getattr(model, "heads", {})
        if head not in heads:
            raise UsageError(f"the model has no head {head!r} for CTC, only {sorted(heads)}")
        if language_model is not None and not isinstance(language_model, Scorer):
            raise UsageError(f"a {type(language_model).__name__} is no language model")
        self.head = head
        self.language_model = language_model
        self.lm_weight = lm_weight
        self.decoder_output = decoder_output

    @property
    def generator(self) -> Generator | None:
        """None: the outputs are read off the encoder."""
        return None

    def text_fields(self) -> list[TextField]:
        """Return all text fields that the model reads or writes, each once."""
        return [*super().text_fields(), *([self.decoder_output] if self.decoder_output else [])]

    def symbol_field(self, name: str) -> Field | None:
        """Return the field that a model calls by this name; the head writes the output, the idle decoder its own."""
        if name == OUTPUT and self.decoder_output is not None:
            return self.decoder_output
        return super().symbol_field(name)

    def default_search(self) -> AnySearch:
        """Return the search used when the caller names none."""
        return CtcPrefixSearch()

    def translate_batch(
        self, batch: Batch, search: AnySearch, *, forced: Sequence[Sequence[int]] | None = None
    ) -> list[list[Hypothesis]]:
        """Read the outputs of a batch off the head; the best hypothesis of each row comes first.

        Raises:
            UsageError: if the search is for decoders, or needs more memory than there is; if beginnings are forced,
                which CTC cannot do.
        """
        if forced is not None:
            raise UsageError("the beginning of an output cannot be forced on a system that is decoded by CTC")
        if not isinstance(search, CtcSearch):
            raise UsageError(f"{type(search).__name__} needs a decoder: this system is decoded by CTC")
        scores = self.scores(batch, search)
        self.check_memory(batch, search, positions=scores.values.shape[1])
        model: Any = self.model
        companion = None
        if isinstance(self.language_model, Scorer):
            prefix = self.prefix(batch.languages[self.output.side])
            companion = Companion(self.language_model, self.lm_weight, batch, prefix, self.output.tokenizer.eos)
        hypotheses = search.decode(scores, blank=model.heads[self.head].blank, ids=batch.ids, companion=companion)
        return [[replace(h, texts=self.texts_of(h.tokens)) for h in some] for some in hypotheses]

    def scores(self, batch: Batch, search: CtcSearch) -> Padded:
        """Return the log-probabilities (B, S, V) that a search works on; most searches do not decide over them."""
        model: Any = self.model
        return head_log_probabilities(model, model.encode(batch), self.head)
