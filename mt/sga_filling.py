"""SGA whose alignment is Mask-Predict: the guided language model fills masks, and denoises what it has filled.

Wu et al. 2023, sections 4.3, 4.4 and 5.5: for question and story generation, where one source has many outputs, the
paper aligns by Mask-Predict (Ghazvininejad et al. 2019; mt/mask_predict.py) in place of CTC (mt/sga.py, whose passes,
prompts and loops these are). n is read off the source, T_0 are n masks that are filled in some passes, and T_1 is a
path of connectionist temporal classification that is denoised from the tokens of T_0, each taken twice:

    L = - log P(y_masks | x, y_obs) - w log P(n | x) - log P_ctc(y | x, T_0)

In training T_0 is the target, with the most probable tokens in the place of its masks, and noise; no gradient flows
into it. What the paper leaves open is as in the authors' code (XLMR4MT): n is a linear map of the first state that the
first pass makes of the source; the filling tries one length; denoising is one loop.

Differs from the released code: n does not count the symbols around the text, nor does denoising read or write them;
tokens that were shown stay as they are in T_0, where the code writes them anew in training, though not in decoding; the
share of noise is drawn for each sentence up to 20 %, where it is always that; any length is possible, where there are
50; and what mt/sga.py says of both. A mask is evenly drawn as in mt/mask_predict.py: how the code draws it stands in
data that it does not come with.

Of several lengths, or outputs asked for, each is denoised; they keep the scores and the order that filling gave them.

Legend: B sentences, S source tokens, R rows, L target positions, M masked tokens, N longest output, D width, V
vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NotRequired, TypedDict, Unpack

import torch
from torch import Tensor, nn

from dragoman.mt.mask_predict import FilledTokens, FillingSystem, check_filler
from dragoman.mt.sga import (
    DENOISING,
    SOURCE,
    BlankHead,
    GeneratorParts,
    SemanticGenerator,
    check_field,
    check_symbols,
    corrupted,
)
from dragoman.shared.batch import Batch, naming_longest
from dragoman.shared.batches.fields import Field, TextField
from dragoman.shared.errors import UsageError
from dragoman.shared.generator import Encoding, Generator, Hypothesis
from dragoman.shared.nn.attention import Prompts
from dragoman.shared.nn.heads import MaskedTokenHead
from dragoman.shared.nn.linear import Linear
from dragoman.shared.nn.positions import LearnedPositions
from dragoman.shared.nn.translator import MEMORY
from dragoman.shared.objectives.ctc import Ctc
from dragoman.shared.objectives.masked import at_places
from dragoman.shared.objectives.objective import Term
from dragoman.shared.padded import Padded
from dragoman.shared.ranges import NonNegativeFloat, NonNegativeInt, PositiveInt, ShareBelowOne
from dragoman.shared.search.ctc_greedy import CtcGreedySearch
from dragoman.shared.search.filling import FillingSearch
from dragoman.shared.search.search import AnySearch

#: Passes over an output, and loops of denoising after them, if neither a search nor the system says otherwise: those of
#: the paper's table 3, and of the released code.
ITERATIONS, LOOPS = 4, 1
#: Symbols before and behind a target, which are neither filled nor denoised.
AROUND = 1


class GuidedFiller(SemanticGenerator):
    """A masked language model whose prompts make it fill masks, of which it says how many there should be.

    Args:
        longest: N.
        parts: see :class:`SemanticGenerator`; ``factor`` is how often denoising reads each token that was filled.

    Raises:
        ValueError: if the language model has too few positions for an output of N tokens, or for its path.
    """

    def __init__(self, *, longest: PositiveInt = 250, **parts: Unpack[GeneratorParts]) -> None:
        super().__init__(**parts)
        positions = getattr(self.reader.embeddings[SOURCE], "positions", None)
        needed = max(longest + 2 * AROUND, longest * self.factor if self.denoising is not None else 0)
        if isinstance(positions, LearnedPositions) and needed > positions.length:
            raise ValueError(
                f"outputs of {longest} tokens need {needed} positions, but the language model has {positions.length}"
            )
        self.lengths = Linear(self.reader.encoder.width, longest + 1)
        if self.denoising is None:
            self.head.requires_grad_(False)  # the blank, which nothing writes

    @property
    def heads(self) -> dict[str, BlankHead]:
        """The head that denoising reads its path off, if there is denoising."""
        return {} if self.denoising is None else {DENOISING: self.head}

    @property
    def projection(self) -> MaskedTokenHead:
        """The language model's own head, which fills masks; it knows no blank."""
        return self.head.of_model

    def encode(self, batch: Batch, field: str | None = None) -> Encoding:
        """Read the sources of a batch.

        Args:
            batch: with the field "source".
            field: this one, or None.

        Returns:
            The memory "source" (B, S, D); the extra "lengths" (B, N + 1): logits, that of 0 minus infinity; and of each
            layer l, "guide.keys.l" and "guide.values.l" (B, S, D).

        Raises:
            DataError: if a row is longer than the language model has positions, naming it.
            UsageError: for another field.
        """
        check_field(field)
        source = batch[SOURCE]
        with naming_longest(batch, SOURCE):
            states, guide = self.guide(source)
        logits = self.lengths(states.values[:, 0]).float()
        nothing = torch.arange(logits.shape[1], device=logits.device) == 0
        extras: dict[str, Tensor | Padded] = {"lengths": logits.masked_fill(nothing, float("-inf"))}
        for number, prompts in enumerate(guide, start=1):
            extras[f"guide.keys.{number}"] = Padded(prompts.keys, source.lengths, full=source.full)
            extras[f"guide.values.{number}"] = Padded(prompts.values, source.lengths, full=source.full)
        return Encoding({MEMORY: states}, extras)

    def guide_of(self, encoding: Encoding) -> list[Prompts]:
        """Return the guide of each layer that an encoding of R rows holds."""
        guide = []
        for number in range(1, self.reader.encoder.depth + 1):
            keys, values = (encoding.extras[f"guide.{name}.{number}"] for name in ("keys", "values"))
            assert isinstance(keys, Padded) and isinstance(values, Padded)
            guide.append(Prompts(keys.values, values.values, keys.mask))
        return guide

    def length_scores(self, encoding: Encoding) -> Tensor:
        """Return log-probabilities (B, N + 1) of lengths; see shared/generator.py."""
        logits = encoding.extras["lengths"]
        assert isinstance(logits, Tensor)
        return logits.log_softmax(-1)

    def read(self, tokens: Padded, encoding: Encoding) -> Tensor:
        """Return the states (R, L, D) of tokens (R, L), some of which are masks, in the pass of alignment."""
        return self.guided(tokens, self.guide_of(encoding), self.alignment).values

    def fill(self, tokens: Padded, encoding: Encoding) -> Tensor:
        """Return the logits (R, L, V) of the token at each place of tokens (R, L); the blank's are minus infinity."""
        return self.without_blank(self.projection(self.read(tokens, encoding)))

    def without_blank(self, logits: Tensor) -> Tensor:
        """Return logits (..., V) of tokens: the blank, which denoising never reads, is none."""
        never = torch.arange(logits.shape[-1], device=logits.device) == self.blank
        return logits.masked_fill(never, float("-inf"))

    def doubled(self, text: Padded) -> Padded:
        """Return a text (R, L) with each token ``factor`` times, (R, ``factor`` L), as denoising reads it."""
        return Padded(text.values.repeat_interleave(self.factor, dim=1), self.factor * text.lengths)


class DenoisedTokens(FilledTokens):
    """The loss of both passes of a GuidedFiller: of the masked target tokens, and of the path made of what fills them.

    Terms: those of FilledTokens; "denoising_ctc" and, reported only, "denoising_ctc_infeasible" (see Ctc).

    Args:
        label_smoothing: of the masked tokens.
        weight: factor of their term in the loss.
        denoising_weight: factor of the path's.
    """

    def __init__(
        self,
        *,
        label_smoothing: ShareBelowOne = 0.1,
        weight: float = 1.0,
        denoising_weight: NonNegativeFloat = 1.0,
    ) -> None:
        super().__init__(label_smoothing=label_smoothing, weight=weight)
        self.ctc = Ctc(
            field="target",
            head=DENOISING,
            weight=denoising_weight,
            strip_prefix=AROUND,
            strip_suffix=AROUND,
            prefix=f"{DENOISING}_",
        )

    def check(self, model: Any) -> None:
        """Raise UsageError if the model is no GuidedFiller, or does not denoise."""
        check_filler(self, model, GuidedFiller)
        self.ctc.check(model)

    def counts(self, batch: Batch) -> dict[str, Tensor]:
        """Return the counts of the terms of both passes."""
        return super().counts(batch) | self.ctc.counts(batch)

    def terms(self, model: Any, batch: Batch, encoding: Encoding) -> dict[str, Term]:
        """Fill the masks of the target, and denoise what was filled."""
        target, places = batch["target"], batch["target.places"]
        states = at_places(model.read(target, encoding), places)
        with torch.no_grad():
            best = model.without_blank(model.projection(states)).argmax(-1)
            path = model.doubled(text_of(placed(target, places, best)))
            if model.training and model.noise:
                path = corrupted(path, most=model.noise, mask=model.mask, vocabulary=model.vocabulary)
        whole = placed(target, places, batch["target.labels"].values)
        logits = model.denoise(model.guide_of(encoding), path)
        written = Encoding(encoding.memories, encoding.extras | {f"logits.{DENOISING}": logits})
        return self.filled(model, batch, states) | self.ctc.terms(model, batch.with_fields(target=whole), written)


def placed(tokens: Padded, places: Padded, values: Tensor) -> Padded:
    """Return tokens (B, L) with values (B, M) at places (B, M)."""
    behind = tokens.values.shape[1]  # where the padding of places goes
    index = places.values.masked_fill(~places.mask, behind)
    wider = nn.functional.pad(tokens.values, (0, 1)).scatter(1, index, values)
    return Padded(wider[:, :behind], tokens.lengths)


def text_of(tokens: Padded) -> Padded:
    """Return tokens (B, L) without the symbols around them, (B, L - 1)."""
    return Padded(tokens.values[:, AROUND:], (tokens.lengths - 2 * AROUND).clamp(min=0))


class Encoded:
    """A Filler whose batch has been encoded, so that what denoises afterwards reads the same encoding."""

    def __init__(self, filler: GuidedFiller, encoding: Encoding) -> None:
        self.mask = filler.mask
        self.length_scores = filler.length_scores
        self.fill = filler.fill
        self._encoding = encoding

    def encode(self, batch: Batch) -> Encoding:
        """Return the encoding that there is."""
        return self._encoding


class FillingParts(TypedDict):
    """The arguments of :class:`GuidedFillingSystem` that do not depend on its model."""

    inputs: dict[str, Field]
    output: TextField
    output_name: NotRequired[str]
    source_languages: list[str]
    target_languages: list[str]
    reads: NotRequired[list[str] | None]


class GuidedFillingSystem(FillingSystem):
    """A translator that fills masks, and denoises what was filled, with one masked language model.

    Args:
        model: a GuidedFiller.
        loops: how often what was filled is denoised, at most; 0 for what alignment gives. The model folder keeps it.
        parts: see :class:`System`; the input is ``{"source": TextField(...)}``.

    Raises:
        DataError: for an unknown language code.
        UsageError: if it does not read and write with the same tokenizer, nothing tells it which language to write, or
            there are to be loops, but the model has no denoising pass.
    """

    model: GuidedFiller

    def __init__(self, *, model: GuidedFiller, loops: NonNegativeInt = LOOPS, **parts: Unpack[FillingParts]) -> None:
        super().__init__(model=model, **parts)
        if loops and model.denoising is None:
            raise UsageError("this model has no denoising pass: decode it with 0 loops")
        check_symbols(self, shown=self.output.prefix)
        self.loops = loops

    def default_search(self) -> AnySearch:
        """Return the search used when the caller names none."""
        return FillingSearch(iterations=ITERATIONS, beam=1)

    @torch.no_grad()
    def searched(
        self, generator: Generator, batch: Batch, search: AnySearch, *, forced: Sequence[Sequence[int]] | None = None
    ) -> list[list[Hypothesis]]:
        """Fill the masks of a batch, and denoise each hypothesis; see :meth:`System.searched`."""
        if not self.loops or not len(batch):
            return super().searched(generator, batch, search, forced=forced)
        encoding = self.model.encode(batch)
        filler: Any = Encoded(self.model, encoding)
        found = super().searched(filler, batch, search, forced=forced)
        texts = [torch.tensor(one.tokens[:-1]) for some in found for one in some]  # without the end symbol
        owners = torch.tensor([row for row, some in enumerate(found) for _ in some], device=self.device)
        path = self.model.doubled(Padded.from_sequences(texts, self.output.tokenizer.pad).to(owners.device))
        logits = self.model.looped(self.model.guide_of(encoding.select(owners)), path, self.loops)
        scores = logits.map(lambda values: values.float().log_softmax(-1))
        ids = [batch.ids[row] for row in owners.tolist()] if batch.ids else ()
        read = iter(CtcGreedySearch().decode(scores, blank=self.model.blank, ids=ids))
        return [[self._denoised(one, next(read)[0]) for one in some] for some in found]

    def _denoised(self, filled: Hypothesis, read: Hypothesis) -> Hypothesis:
        """Return a hypothesis with other tokens, and its end symbol."""
        tokens = [*read.tokens, filled.tokens[-1]]
        return replace(filled, tokens=tokens, texts=self.texts_of(tokens))
