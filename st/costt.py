"""COSTT: consecutive decoding of transcript and translation behind CTC shrinking (Dong et al. 2021, AAAI, section 3).

The acoustic encoder learns the labels of the transcript by CTC, and its states are shrunk to one for each label. The
semantic encoder reads those; the decoder writes both texts as one sequence::

    L = a L_CTC + (1 - a) L_CE(z_1 .. z_m <sep> y_1 .. y_n)

Before that, the decoder is trained on text alone: without sound, its memory is a constant. So the trained folder
translates text as well: the text is forced as the transcript. ``recipes/base/costt.yaml`` composes the stages.

Differs from the paper: CTC's labels are pieces instead of phonemes, and its loss is a mean over labels, where the
release sums over a sentence; convolutions instead of stacked frames. The CTC head may judge the transcript in the
search (``search_ctc_weight``), and does in almanac/costt and own/costt, but for the arms ``world2`` and ``from_mbart``
of the first. The second stage of these trains the acoustic encoder by CTC alone, as the authors' slides say; that of
mustc/costt and covost2/costt trains all of the model, also by writing the transcript.

Differs from the release: it drops out what its semantic encoder reads, and has nothing to attend to where all labels
are blank; here one state is kept. The template's confidence penalty is read by no line of the release, and is not here.

Not established: the paper's a (0.5 is that of the released template, dqqcasia/st), rates and updates of the first
stages.

Legend: B batch, S states, S' shrunk states, D width, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack, cast

import torch
from torch import Tensor, nn

from dragoman.shared.batch import Batch
from dragoman.shared.batches.fields import Field, TextField
from dragoman.shared.errors import UsageError
from dragoman.shared.generator import Encoding, Hypothesis
from dragoman.shared.nn.embeddings import TextEmbedding
from dragoman.shared.nn.heads import CtcHead, TiedProjection, head_logits
from dragoman.shared.nn.shrinking import ctc_shrink
from dragoman.shared.nn.transformer import Encoder, fresh
from dragoman.shared.nn.translator import MEMORY, SPEECH
from dragoman.shared.objectives.objective import Term
from dragoman.shared.objectives.parts import Part
from dragoman.shared.padded import Padded
from dragoman.shared.search.beam import BeamSearch
from dragoman.shared.search.rules import Rules
from dragoman.shared.search.search import AnySearch
from dragoman.shared.systems.pretrained import speech_front_end, text_translator, with_speech
from dragoman.shared.systems.reading_model import ReadingModel
from dragoman.shared.systems.system import System
from dragoman.st.joined_text import JoinedText
from dragoman.st.tandem import ACOUSTIC, TandemParts, TandemTranslator

#: The tap of those acoustic states that the semantic encoder reads.
SHRUNK = "shrunk"
#: Tokens of both texts together, unless a search says otherwise.
LONGEST_OUTPUT = 1000


class Costt(TandemTranslator):
    """Acoustic encoder, CTC shrinking, semantic encoder, decoder.

    Args:
        positions: of the shrunk states, such as SinusoidalPositions; None for none.
        shrinking: False keeps all states, for comparison.
        parts: see :class:`TandemTranslator`; ``target_embedding`` is of both texts' tokens.
    """

    READ = SHRUNK

    def __init__(
        self, *, positions: nn.Module | None = None, shrinking: bool = True, **parts: Unpack[TandemParts]
    ) -> None:
        super().__init__(positions=positions, **parts)
        self.shrinking = shrinking

    @property
    def taps(self) -> list[int | str]:
        """The semantic encoder's layers, and for speech the acoustic states, before and after shrinking."""
        return [*super().taps, SHRUNK]

    def heard(self, batch: Batch) -> Encoding:
        """Encode and shrink speech: the taps "acoustic" (B, S, D) and "shrunk" (B, S', D), and the head's logits."""
        heard = super().heard(batch)
        states, logits = self.tap(heard, ACOUSTIC), head_logits(self, heard, "ctc")
        kept = ctc_shrink(states, logits.values, cast(CtcHead, self.heads["ctc"]).blank) if self.shrinking else states
        return Encoding({}, heard.extras | {f"tap.{SHRUNK}": kept, "logits.ctc": logits})

    def encode(self, batch: Batch, field: str | None = None) -> Encoding:
        """Encode speech, or text that has an embedding; without either, the memory is constant.

        Args:
            batch: of B sentences.
            field: which; by default speech before text, of what the batch has.

        Returns:
            The memory "source" (B, S', D); of speech, also what :meth:`heard` returns. The constant memory of the
            consecutive text model is ones (B, 1, D).
        """
        field = field or self.default_field(batch)
        if field is not None:
            return super().encode(batch, field)
        ones = self.target_embedding.weight.new_ones(len(batch), 1, self.decoder.width)
        return Encoding({MEMORY: Padded(ones, torch.ones(len(batch), dtype=torch.int64, device=ones.device))})


class KeptShare(Part):
    """Reports what shrinking keeps: the mean of S' / S over sentences, "kept", and S' / labels, "kept_per_label".

    Without blanks, a head that finds every label keeps one state for each. One that has learned too little finds blanks
    instead, and what is said there is lost: a validation with fewer states than ``FEWEST`` a label sets off an alarm.

    Args:
        source: the batch field whose encoding it reads; by default the objective's own.
        field: the batch field of the head's labels, between a start and an end symbol.
    """

    FEWEST = 2 / 3

    def __init__(self, *, source: str | None = None, field: str = "transcript") -> None:
        super().__init__(source=source)
        self.field = field

    def counts(self, batch: Batch) -> dict[str, Tensor]:
        """Return the number of sentences, and of labels."""
        labels = (batch[self.field].lengths - 2).clamp(min=0)
        return {"kept": torch.ones_like(labels).sum(), "kept_per_label": labels.sum()}

    def terms(self, model: Any, batch: Batch, encoding: Encoding) -> dict[str, Term]:
        """Compare the number of states after shrinking with that before it, and with that of labels."""
        kept, states = model.tap(encoding, SHRUNK).lengths, model.tap(encoding, ACOUSTIC).lengths
        sums = {"kept": (kept / states.clamp(min=1)).sum(), "kept_per_label": kept.sum()}
        return {name: Term(sums[name], count, 0.0) for name, count in self.counts(batch).items()}

    def alarms(self, means: dict[str, float]) -> list[str]:
        """Return a warning if labels are lost; ``means`` are those of a validation."""
        kept = means.get("kept_per_label", 1.0)
        if kept >= self.FEWEST:
            return []
        return [
            f"shrinking keeps {kept:.2f} states for each label of CTC, so that part of what is said is lost: train the "
            "acoustic encoder for longer, or read all states (--shrinking False)"
        ]


class CosttSystem(System):
    """Writes transcript and translation of speech; of text, or of speech with its transcript, the translation.

    Given the input "source", that text is forced as the transcript: ``reads: [source]`` translates text,
    ``reads: [speech, source]`` translates speech whose transcript is known.

    Args:
        model: a Costt, or another model whose decoder learned to write both texts.
        inputs: {"speech": SpeechField(), "source": TextField(...)}.
        output: both texts joined; the last one is the system's output.
        source_languages: the language codes that the system was trained to read.
        target_languages: the language codes that it was trained to write.
        ctc_output: the text field that the head "ctc" was trained to produce.
        output_name: the name of the output among the joined texts.
        reads: of the inputs. Default: speech.

    Raises:
        UsageError: if the output is not a joined text of that name, or the text input has a tokenizer of its own.
    """

    output: JoinedText

    def __init__(
        self,
        *,
        model: nn.Module,
        inputs: dict[str, Field],
        output: JoinedText,
        source_languages: list[str],
        target_languages: list[str],
        ctc_output: TextField | None = None,
        output_name: str = "translation",
        reads: list[str] | None = None,
    ) -> None:
        if not isinstance(output, JoinedText):
            raise UsageError(f"the output of a consecutive decoder is a JoinedText, not a {type(output).__name__}")
        *_, last = output.fields
        if last != output_name:
            raise UsageError(f"the last of the joined texts is {last!r}, not {output_name!r}")
        source = inputs.get("source")
        if source is not None and (
            not isinstance(source, TextField) or source.tokenizer.fingerprint != output.tokenizer.fingerprint
        ):
            raise UsageError(
                "the input 'source' is forced as the transcript: it must be text of the output's tokenizer"
            )
        super().__init__(
            model=model,
            inputs=inputs,
            output=output,
            output_name=output_name,
            source_languages=source_languages,
            target_languages=target_languages,
            ctc_output=ctc_output,
            reads=["speech"] if reads is None else reads,
        )

    @property
    def texts(self) -> dict[str, TextField]:
        """The joined texts."""
        return dict(self.output.fields)

    def text_fields(self) -> list[TextField]:
        """Return all text fields, with each of the joined ones."""
        fields = [field for field in super().text_fields() if field is not self.output]
        return [*fields, *self.output.fields.values()]

    def default_search(self) -> AnySearch:
        """Return the search used when the caller names none: both texts have to fit into an output."""
        return BeamSearch(rules=Rules(maximum_length_extra=LONGEST_OUTPUT))

    def for_task(self, *, reads: Sequence[str] | None = None, writes: str | None = None) -> System:
        """Return a system with the same model that reads other inputs.

        Raises:
            UsageError: if it was not trained to read them, or if only one of the texts is to be written.
        """
        if writes in self.texts and writes != self.output_name:
            raise UsageError(
                f"{' and '.join(self.texts)} are written together, not {writes!r} alone: it is in the texts of every "
                "hypothesis"
            )
        return super().for_task(reads=reads, writes=writes)

    def texts_of(self, tokens: Sequence[int]) -> dict[str, str]:
        """Return both texts; the translation is empty where the decoder has not come to it."""
        tokenizer = self.output.tokenizer
        return {name: tokenizer.decode(ids) for name, ids in self.output.split(tokens).items()}

    def translate_batch(
        self, batch: Batch, search: AnySearch, *, forced: Sequence[Sequence[int]] | None = None
    ) -> list[list[Hypothesis]]:
        """Translate a batch; the best hypothesis of each row comes first.

        Args:
            batch: of B sentences.
            search: how to find outputs.
            forced: the ids with which the joined texts begin; those of the input "source" and the separator, if it is
                read.

        Raises:
            UsageError: if beginnings are given for rows whose source is forced anyway, and as in ``System``.
        """
        if "source" in self.reads:
            if forced is not None:
                raise UsageError("the transcript is forced already: it is the input 'source'")
            source = cast(TextField, self.inputs["source"])
            forced = [[*source.inner(row.tolist()), self.output.separator] for row in batch["source"].rows()]
        return super().translate_batch(batch, search, forced=forced)


def shrinking_translator(
    *,
    speech: ReadingModel,
    text: System,
    layers: int = 2,
    kernels: list[int] | None = None,
    channels: int = 1024,
    dropout: float = 0.1,
    source_languages: list[str] | None = None,
    target_languages: list[str] | None = None,
) -> System:
    """Put an encoder of speech, new layers that CTC teaches, and its shrinking below a translator of text.

    CTC's labels are the pieces of the text that the translator reads, scored by their vectors; its blank is the padding
    symbol. The text's encoder is the semantic one, and its decoder writes the translation alone.

    Args:
        speech: an encoder of speech, or a translator of it; heads and decoder are left behind.
        text: a Translator of text, whose output is that of the new system.
        layers: how many new layers, each like those of the text's encoder.
        kernels: of the new convolutions below them, each of which halves the frames; [3] if None.
        channels: of the inner ones.
        dropout: of their outputs.
        source_languages: codes of what will be read; by default those of the text.
        target_languages: codes of what will be written; by default those of the text.

    Raises:
        UsageError: if either system is something else.
    """
    above, read = text_translator(system=text), text.inputs.get("source")
    vectors = dict(above.embeddings.items()).get("source")
    if not isinstance(read, TextField) or not isinstance(vectors, TextEmbedding):
        raise UsageError(f"text: {type(above).__name__} reads no text whose pieces could be labels")
    front_end = speech_front_end(
        speech=speech, width=above.encoder.width, kernels=kernels or [3], channels=channels, dropout=dropout
    )
    head = CtcHead(
        tap=ACOUSTIC,
        width=above.encoder.width,
        vocabulary=vectors.vocabulary,
        blank=read.tokenizer.pad,
        projection=TiedProjection(embedding=vectors),
    )
    model = Costt(
        embeddings={SPEECH: front_end, **above.embeddings},
        acoustic=Encoder(layer=fresh(above.encoder.layers[0]), layers=layers),
        encoder=above.encoder,
        target_embedding=above.target_embedding,
        decoder=above.decoder,
        projection=above.projection,
        heads={"ctc": head},
    )
    system = with_speech(
        model=model, speech=speech, text=text, source_languages=source_languages, target_languages=target_languages
    )
    labels = TextField(column="source_text", tokenizer=read.tokenizer, prefix=["<s>"], suffix=["</s>"])
    found = System(**system.arguments | {"ctc_output": labels})
    found.origin = system.origin
    return found
