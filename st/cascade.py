"""Cascade: a recogniser writes a transcript, and a text translator reads it.

    z* = argmax_z p(z | x),    y* = argmax_y p(y | z*)

Ney 1999, "Speech Translation: Coupling of Recognition and Translation", ICASSP. Every direct speech translator is
compared with it. Both parts are whole systems with tokenizers of their own; the cascade is one system in one folder,
whose transcript and translation are scored in one pass. ``BestOf`` and ``Marginal`` look at the n best transcripts
instead of one. A restorer of case and punctuation can stand between the parts (own/restorer), and the translator can
learn from what the recogniser writes (Peitz et al. 2012; almanac/cascade_matched).

Differs from lattice coupling: n paths represent the lattice. A translator that reads lattices is another method.

Legend: B sentences, N transcripts of each.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import torch
from torch import nn

from dragoman.shared.batch import Batch
from dragoman.shared.batches.fields import TextField
from dragoman.shared.batches.loader import collate
from dragoman.shared.batches.stream import translation_budget
from dragoman.shared.described import Described
from dragoman.shared.errors import UsageError
from dragoman.shared.generator import Generator, Hypothesis
from dragoman.shared.ranges import NonNegativeFloat, PositiveFloat, PositiveInt
from dragoman.shared.search.search import AnySearch
from dragoman.shared.systems.rows import translate_rows
from dragoman.shared.systems.system import System
from dragoman.shared.text.tokenizer import Tokenizer
from dragoman.st.marginal import MarginalGenerator

Row = dict[str, Any]
#: Hypotheses of each recording, best first, each with the number of the transcript that it translates.
Translated = list[list[tuple[int, Hypothesis]]]


@dataclass(frozen=True)
class Heard:
    """The transcripts of one recording, the best first; none of them is empty.

    Attributes:
        rows: a row for the translator of each transcript.
        scores: those of the recogniser's search, of each.
    """

    rows: list[Row]
    scores: list[float]


class Mixing(Protocol):
    """Decides between translations of several transcripts.

    Attributes:
        hypotheses: the number of transcripts that it looks at, N.
    """

    hypotheses: int

    def translate(self, translator: System, heard: list[Heard], search: AnySearch) -> Translated:
        """Return the hypotheses of each recording."""
        ...


class OneBest(Described):
    """Translates the best transcript: ``argmax_y p(y | z*)``."""

    hypotheses = 1

    def __init__(self) -> None:
        """Take no arguments: there is nothing to set."""

    def translate(self, translator: System, heard: list[Heard], search: AnySearch) -> Translated:
        """See :class:`Mixing`."""
        outputs = translated(translator, [one.rows[0] for one in heard], search)
        return [[(0, hypothesis) for hypothesis in hypotheses] for hypotheses in outputs]


class BestOf(Described):
    """Translates N transcripts, and takes the best pair.

    ``argmax_{z, y} log p(y | z) / |y|^a + w log p(z | x) / |z|^a``; lengths and their exponents are those of the two
    searches.

    Args:
        hypotheses: N.
        weight: w, of the recogniser.
    """

    def __init__(self, *, hypotheses: PositiveInt, weight: NonNegativeFloat = 1.0) -> None:
        self.hypotheses = hypotheses
        self.weight = weight

    def translate(self, translator: System, heard: list[Heard], search: AnySearch) -> Translated:
        """See :class:`Mixing`; scores are those of the pairs."""
        rows = [row for one in heard for row in one.rows]
        outputs = iter(translated(translator, rows, search))
        results = []
        for one in heard:
            pairs, wanted = [], 0
            for number, score in enumerate(one.scores):
                hypotheses = next(outputs)
                wanted = max(wanted, len(hypotheses))
                pairs += [(number, replace(h, score=h.score + self.weight * score)) for h in hypotheses]
            # What normalizers leave nothing of is not read: its empty translation has no score of its own.
            pairs = [pair for pair in pairs if pair[1].tokens] or pairs
            pairs.sort(key=lambda pair: -pair[1].score)
            results.append(pairs[:wanted])
        return results


class Marginal(Described):
    """Averages over N transcripts at every token: ``p(y_t | y_<t, x) = sum_n q_n p(y_t | y_<t, z_n)``.

    ``q = softmax(score / temperature)`` over the scores of the recogniser's search.

    Args:
        hypotheses: N.
        temperature: towards 0, only the best transcript counts; the higher, the more equally all do.
    """

    def __init__(self, *, hypotheses: PositiveInt, temperature: PositiveFloat = 1.0) -> None:
        self.hypotheses = hypotheses
        self.temperature = temperature

    def translate(self, translator: System, heard: list[Heard], search: AnySearch) -> Translated:
        """See :class:`Mixing`; every translation is of all transcripts, and shown with the best.

        Raises:
            UsageError: if the translator does not write from left to right.
        """
        if not heard:
            return []
        if not isinstance(translator.model, Generator):
            raise UsageError("Marginal needs a translator that writes from left to right: it averages next tokens")
        number = max(len(one.rows) for one in heard)
        # A missing transcript is the best one once more, with no weight: all sentences then have as many.
        rows = [row for one in heard for row in [*one.rows, *[one.rows[0]] * (number - len(one.rows))]]
        log_weights = torch.full((len(heard), number), float("-inf"), dtype=torch.float32)
        for place, one in enumerate(heard):
            log_weights[place, : len(one.scores)] = (torch.tensor(one.scores) / self.temperature).log_softmax(0)
        inner, outer = (batch_of(translator, some) for some in (rows, [one.rows[0] for one in heard]))
        translator.check_memory(inner, search)
        generator = MarginalGenerator(translator.model, inner, log_weights.to(translator.device))
        outputs = translator.searched(generator, outer, search)
        return [[(0, hypothesis) for hypothesis in hypotheses] for hypotheses in outputs]


def translated(translator: System, rows: list[Row], search: AnySearch) -> list[list[Hypothesis]]:
    """Translate rows, in batches that fit into memory."""
    budget = translation_budget(max(1, len(rows)))
    by_number = dict(translate_rows(translator, rows, search=search, budget=budget))
    return [by_number[number] for number in range(len(rows))]


def batch_of(translator: System, rows: list[Row]) -> Batch:
    """Return rows as one batch on the translator's device."""
    return collate(rows, translator.input_fields, np.random.default_rng(0)).to(translator.device)


class Cascade(System):
    """A recogniser and a text translator as one system that writes transcript and translation.

    An empty transcript has an empty translation, which the translator does not see.

    Args:
        recogniser: a system that writes transcripts: by its decoder, or by CTC.
        translator: a text translator of the recogniser's languages.
        restorer: a text system between the two, for a translator that was trained on written text: it reads the
            transcript and writes it with case and punctuation. The transcript that is scored is the recogniser's.
        recogniser_search: of the recogniser; by default its own. It must find as many hypotheses as ``mixing`` needs.
        mixing: what is made of several transcripts; by default only the best one is translated.

    Raises:
        UsageError: if the parts do not fit together.
    """

    def __init__(
        self,
        *,
        recogniser: System,
        translator: System,
        restorer: System | None = None,
        recogniser_search: AnySearch | None = None,
        mixing: Mixing | None = None,
    ) -> None:
        check_parts(recogniser, translator, restorer)
        parts = {"recogniser": recogniser, "translator": translator} | ({"restorer": restorer} if restorer else {})
        super().__init__(
            model=nn.ModuleDict(parts),
            inputs=recogniser.inputs,
            reads=recogniser.reads,
            output=translator.output,
            output_name=translator.output_name,
            source_languages=[code for code in recogniser.source_languages if code in translator.source_languages],
            target_languages=translator.target_languages,
        )
        self.recogniser_search = recogniser_search or recogniser.default_search()
        self.mixing = mixing or OneBest()
        available = getattr(self.recogniser_search, "n_best", 1)
        if available < self.mixing.hypotheses:
            raise UsageError(
                f"{type(self.mixing).__name__} needs {self.mixing.hypotheses} hypotheses of the recogniser, whose "
                f"search finds {available}: give recogniser_search with n_best"
            )
        self.origin = [line for part in parts.values() for line in part.origin]

    @property
    def recogniser(self) -> System:
        """The system that writes the transcripts."""
        return self.model["recogniser"]  # type: ignore[index]

    @property
    def translator(self) -> System:
        """The system that translates them."""
        return self.model["translator"]  # type: ignore[index]

    @property
    def restorer(self) -> System | None:
        """The system between the two, if there is one."""
        return self.arguments.get("restorer")

    @property
    def texts(self) -> dict[str, TextField]:
        """The transcript and the translation."""
        return self.recogniser.texts | self.translator.texts

    def text_fields(self) -> list[TextField]:
        """Return those of all parts."""
        return [field for part in self.model.children() for field in part.text_fields()]  # type: ignore[operator]

    def symbol_parts(self) -> Iterator[tuple[str, nn.Module, Tokenizer]]:
        """Yield those of all parts."""
        for name, system in self.model.named_children():
            for part, module, tokenizer in system.symbol_parts():  # type: ignore[operator]
                yield f"model.{name}.{part}", module, tokenizer

    def default_search(self) -> AnySearch:
        """Return the translator's."""
        return self.translator.default_search()

    def for_task(self, *, reads: Sequence[str] | None = None, writes: str | None = None) -> System:
        """Return the cascade with other inputs of its recogniser; the recogniser, if its text is to be written.

        Raises:
            UsageError: if neither part reads or writes that.
        """
        recogniser = self.recogniser.for_task(reads=reads)
        if writes == recogniser.output_name:
            return recogniser
        if writes not in (None, self.output_name):
            raise UsageError(f"the cascade can write {' or '.join(self.texts)}, not {writes!r}")
        if recogniser is self.recogniser:
            return self
        other = Cascade(**self.arguments | {"recogniser": recogniser}).train(self.training)
        other.autocast_dtype = self.autocast_dtype
        return other

    def translate_batch(
        self, batch: Batch, search: AnySearch, *, forced: Sequence[Sequence[int]] | None = None
    ) -> list[list[Hypothesis]]:
        """Recognise a batch and translate the transcripts; the best hypothesis of each row comes first.

        Scores and tokens are those of the translation.

        Args:
            batch: of B sentences.
            search: of the translator.
            forced: not for cascades.

        Raises:
            UsageError: if beginnings are forced, or a search does not fit its system.
        """
        if forced is not None:
            raise UsageError("the beginning of a cascade's output cannot be forced: force that of its translator")
        recognised = self.recogniser.translate_batch(batch, self.recogniser_search)
        spoken = [self._transcripts(hypotheses) for hypotheses in recognised]
        rows = [[self._row(batch, place, h) for h in transcripts] for place, transcripts in enumerate(spoken)]
        shown = [place for place, transcripts in enumerate(spoken) if transcripts]
        if self.restorer is not None:
            rows = self._restored(self.restorer, rows)
        heard = [Heard(rows[place], [h.score for h in spoken[place]]) for place in shown]
        results = [[self.empty_output()] for _ in spoken]
        for place, hypotheses in zip(shown, self.mixing.translate(self.translator, heard, search), strict=True):
            results[place] = [replace(h, texts=spoken[place][number].texts | h.texts) for number, h in hypotheses]
        return results

    def _transcripts(self, hypotheses: list[Hypothesis]) -> list[Hypothesis]:
        """Return what there is to translate of a recording: nothing, if the best transcript is empty."""
        name = self.recogniser.output_name
        said = [bool(h.texts[name].strip()) for h in hypotheses[: self.mixing.hypotheses]]
        return [h for h, any_word in zip(hypotheses, said, strict=False) if any_word] if said[0] else []

    def _row(self, batch: Batch, place: int, hypothesis: Hypothesis) -> Row:
        """Return a transcript as a row for the translator."""
        [field] = self.translator.input_fields.values()
        assert isinstance(field, TextField)
        row: Row = {f"{side}_language": codes[place] for side, codes in batch.languages.items()}
        name = batch.ids[place] if batch.ids else str(place)
        return row | {"id": name, field.column: hypothesis.texts[self.recogniser.output_name]}

    def _restored(self, restorer: System, rows: list[list[Row]]) -> list[list[Row]]:
        """Return the rows with restored texts; where the restorer writes nothing, the text stays as it is."""
        [field] = self.translator.input_fields.values()
        [read] = restorer.input_fields.values()
        assert isinstance(field, TextField) and isinstance(read, TextField)
        flat = [row | {read.column: row[field.column]} for some in rows for row in some]
        restored = iter(translated(restorer, flat, restorer.default_search()))
        written = (next(restored)[0].texts[restorer.output_name].strip() for _ in flat)
        return [[row | {field.column: next(written) or row[field.column]} for row in some] for some in rows]


def check_parts(recogniser: System, translator: System, restorer: System | None) -> None:
    """Refuse systems that do not make a cascade.

    Raises:
        UsageError: naming what does not fit.
    """
    if recogniser.output.side != "source":
        raise UsageError(f"the recogniser writes {recogniser.output_name}, in the target language, and no transcript")
    for name, system in {"translator": translator, "restorer": restorer}.items():
        fields = [] if system is None else list(system.input_fields.values())
        if system is not None and not (len(fields) == 1 and isinstance(fields[0], TextField)):
            raise UsageError(f"the {name} reads {' and '.join(system.reads) or 'nothing'}, not one text")
    if translator.output_name == recogniser.output_name:
        raise UsageError(f"recogniser and translator both write {translator.output_name!r}")
    if restorer is not None and restorer.output.side != "source":
        raise UsageError(f"the restorer writes {restorer.output_name}, in the target language, and no transcript")
    if not {*recogniser.source_languages} & {*translator.source_languages}:
        raise UsageError(
            f"the recogniser writes {', '.join(recogniser.source_languages)}, "
            f"the translator reads {', '.join(translator.source_languages)}"
        )
