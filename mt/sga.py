"""SGA: a masked language model that stays as it is writes translations, all tokens at once, guided by prompts.

Wu et al. 2023, "Extrapolating Multilingual Language Understanding Models as Multilingual Language Generators", section
4; what the paper leaves open is as in the authors' code (XLMR4MT). f(theta, X) is the language model's reading of X
when layer l also attends to the keys and values theta^l; what learns are prompts theta_s, theta_a and theta_d, and two
projections W_K and W_V that all layers share. Three passes through one model make a translation:

- semantics: h_s^1 ... h_s^N = f(theta_s, X), the states that leave each layer; K_s^l = h_s^l W_K, V_s^l = h_s^l W_V;
- alignment: T_0 = f([K_s; K_a], [V_s; V_a]; 2 |X| masks);
- denoising: T_1 = f([K_s; K_d], [V_s; V_d]; T_0), and so on until nothing changes or for a number of loops.

T_i are paths of connectionist temporal classification, which also is both losses (eq. 7): L = L_1 + L_2, where L_2 is
that of T_1, made of a T_0 with noise, into which no gradient flows. What is read of a path has no blanks: the second
best symbol stands in their place. The model folder keeps the number of loops; that of a trained model is changed by
``shared.systems.pretrained.load(folder=..., changes={"loops": 8}).save(...)``.

Differs from the released code: padding of the source is not attended to, and has no place in the losses; positions are
counted as in pre-training; the blank is a symbol that is no text, with a new vector, where the code takes the piece
"▁", and noise masks tokens where the code writes it; the share of noise is drawn for each sentence, not for each batch;
losses are means over tokens, not over sentences.

Differs from the paper, as that code does: noise replaces tokens (:func:`corrupted`), 40 % by the mask, 30 % by any
symbol, of text or not, and 30 % by a token of the sentence, at every place, where the code spares <s>, </s> and
padding, and where the paper deletes or repeats tokens (section 4.4), with shares that it does not give.

Not established: the schedule of the learning rate.

Alignment by Mask-Predict, the paper's other one, is mt/sga_filling.py.

Not implemented: prompts that all passes share.

Legend: B sentences, S source tokens, L tokens of a path, P prompts, N layers, D width, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NotRequired, TypedDict, Unpack, cast

import torch
from torch import Tensor, nn

from dragoman.mt.frozen import HoldsFrozen, frozen
from dragoman.shared.batch import Batch, naming_longest
from dragoman.shared.batches.fields import TextField
from dragoman.shared.described import Described
from dragoman.shared.errors import UsageError
from dragoman.shared.generator import Encoding, Hypothesis
from dragoman.shared.nn.attention import Prompts
from dragoman.shared.nn.embeddings import TextEmbedding
from dragoman.shared.nn.heads import MaskedTokenHead
from dragoman.shared.nn.linear import Linear
from dragoman.shared.nn.symbols import OUTPUT
from dragoman.shared.nn.translator import MEMORY, EncoderModel
from dragoman.shared.padded import Padded
from dragoman.shared.ranges import NonNegativeInt, PositiveInt, Share
from dragoman.shared.search.ctc_greedy import CtcGreedySearch
from dragoman.shared.search.search import AnySearch, Companion, CtcSearch
from dragoman.shared.systems.ctc_system import CtcParts, CtcSystem
from dragoman.shared.systems.system import System

#: The field that is read, and what heads are called: what the two passes that write make of their states.
SOURCE, ALIGNMENT, DENOISING = "source", "alignment", "denoising"
#: Of the tokens that noise changes, the shares that are masked and that become any symbol; the rest become another
#: token of the sentence. Those of the released code.
MASKED, REPLACED = 0.4, 0.3
#: The number of loops if neither a search nor the system names one, as in the released code.
LOOPS = 2


class Prompt(nn.Module):
    """Keys and values that the layers of a model attend to, times a factor of at least 1: all of them learn.

    Args:
        layers: N.
        length: P.
        width: D.
    """

    def __init__(self, *, layers: int, length: int, width: int) -> None:
        super().__init__()
        self.keys_values = nn.Parameter(torch.empty(layers, 2, length, width))
        for keys_or_values in self.keys_values.flatten(0, 1):
            nn.init.xavier_uniform_(keys_or_values)
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self) -> list[Prompts]:
        """Return those of each layer, for all sentences alike."""
        # The maximum of it and 1. The gradient of clamp(min=1) is 0 at 1, where it begins, from torch 2.14 on.
        scaled = self.keys_values * torch.where(self.scale < 1, 1.0, self.scale)
        return [Prompts(keys[None], values[None]) for keys, values in scaled]


class BlankHead(nn.Module):
    """A head for masked tokens and, in the row of one symbol, a new vector that scores the blank.

    A masked language model has never been asked for a blank. The authors let a frequent piece be it, XLM-R's "▁", which
    is text as well; a symbol that is no text with a vector of its own, D + 1 numbers that learn, keeps the two apart.

    Args:
        head: of the language model, to which it belongs.
        blank: the symbol.
    """

    def __init__(self, *, head: MaskedTokenHead, blank: int) -> None:
        super().__init__()
        self._head = (head,)  # inside a tuple, so that its parameters do not get a second name
        self.blank = blank
        self.vector = nn.Parameter(torch.zeros(head.dense.out_features))
        self.bias = nn.Parameter(torch.zeros(()))

    @property
    def of_model(self) -> MaskedTokenHead:
        """The language model's head."""
        return self._head[0]

    def forward(self, states: Tensor) -> Tensor:
        """Return logits (..., V) of states (..., D)."""
        hidden = self._head[0].transform(states)
        logits = self._head[0].projection(hidden)
        logits[..., self.blank] = (hidden @ self.vector + self.bias).to(logits.dtype)
        return logits


def corrupted(tokens: Padded, *, most: float, mask: int, vocabulary: int) -> Padded:
    """Change a share of the tokens (B, L) of each sentence, drawn evenly between 0 and ``most``.

    As in the released code, a token becomes the mask, any symbol, or a token of the sentence (``MASKED``,
    ``REPLACED``), and the length stays; nothing is deleted or repeated, as it is in the paper.
    """
    values, lengths = tokens.values, tokens.lengths[:, None]
    hit, kind, place = torch.rand(3, *values.shape, device=values.device)
    places = torch.minimum((place * lengths).long(), (lengths - 1).clamp(min=0))
    drawn = torch.randint(vocabulary, values.shape, device=values.device)
    noise = torch.where(kind < MASKED + REPLACED, drawn, values.gather(1, places))
    noise = noise.masked_fill(kind < MASKED, mask)
    share = most * torch.rand(len(values), 1, device=values.device)
    return Padded(torch.where(hit < share, noise, values), tokens.lengths)


class GeneratorParts(TypedDict):
    """The arguments that other generators hand on to :class:`SemanticGenerator`."""

    reader: EncoderModel
    blank: int
    mask: int
    prompts: NotRequired[int]
    factor: NotRequired[int]
    denoises: NotRequired[bool]
    noise: NotRequired[float]


class SemanticGenerator(Described, HoldsFrozen):
    """A masked language model with prompts that make it translate; it neither learns nor drops anything out.

    Args:
        reader: the language model, which reads "source" and has one head, for masked tokens.
        blank: a symbol that is no text; its meaning in the output is new.
        mask: the symbol for a masked token.
        prompts: P, of each pass; published: 128.
        factor: tokens of a path for each token of the source.
        denoises: there is a denoising pass.
        noise: the greatest share of the tokens that are changed before denoising, in training.

    Raises:
        ValueError: if the reader reads something else, or has another head.
    """

    def __init__(
        self,
        *,
        reader: EncoderModel,
        blank: int,
        mask: int,
        prompts: PositiveInt = 128,
        factor: PositiveInt = 2,
        denoises: bool = True,
        noise: Share = 0.2,
    ) -> None:
        super().__init__()
        heads = list(reader.heads.values())
        if len(heads) != 1 or not isinstance(heads[0], MaskedTokenHead):
            raise ValueError(
                f"the reader must have one head for masked tokens, not {', '.join(reader.heads) or 'none'}"
            )
        reader.without_heads().check_read(SOURCE)
        layers, width = reader.encoder.depth, reader.encoder.width
        embedding = cast(TextEmbedding, reader.embeddings[SOURCE])
        for name, symbol in (("blank", blank), ("mask", mask)):
            if not 0 <= symbol < embedding.vocabulary:
                raise ValueError(f"the symbol {name} {symbol} is outside the vocabulary of {embedding.vocabulary}")
        self.reader = frozen(reader)
        self.reader.encoder.taps = list(range(1, layers + 1))
        self.vocabulary = embedding.vocabulary
        self.blank = blank
        self.mask = mask
        self.factor = factor
        self.noise = noise
        self.semantic = Prompt(layers=layers, length=prompts, width=width)
        self.alignment = Prompt(layers=layers, length=prompts, width=width)
        self.denoising = Prompt(layers=layers, length=prompts, width=width) if denoises else None
        self.keys = Linear(width, width)
        self.values = Linear(width, width)
        self.head = BlankHead(head=heads[0], blank=blank)

    @property
    def heads(self) -> dict[str, BlankHead]:
        """The one head, by the names of the passes whose states it reads."""
        return dict.fromkeys([ALIGNMENT] if self.denoising is None else [ALIGNMENT, DENOISING], self.head)

    def symbol_fields(self) -> dict[str, str]:
        """See shared/nn/symbols.py."""
        return {f"reader.embeddings.{SOURCE}": SOURCE} | {f"reader.heads.{name}": OUTPUT for name in self.reader.heads}

    def symbol_arguments(self) -> dict[str, nn.Module]:
        """See shared/nn/symbols.py."""
        return dict.fromkeys(["blank", "mask"], self.reader.embeddings[SOURCE])

    def guide(self, source: Padded) -> tuple[Padded, list[Prompts]]:
        """Read a source (B, S): the first pass.

        Returns:
            The states (B, S, D) of the last layer; and, of those of each layer, the keys and values that guide this
            layer in the other passes.
        """
        states, tapped = self.reader.encoder(self.reader.embeddings[SOURCE](source), prompts=self.semantic())
        layers = (tapped[number].values for number in self.reader.encoder.taps)
        return states, [Prompts(self.keys(layer), self.values(layer), source.mask) for layer in layers]

    def align(self, guide: Sequence[Prompts], lengths: Tensor) -> Padded:
        """Return the logits (B, L, V) of T_0, with L the ``factor`` times the lengths (B,) of the sources."""
        rows, length = guide[0].keys.shape[:2]
        masks = torch.full((rows, self.factor * length), self.mask, device=lengths.device)
        return self.guided(Padded(masks, self.factor * lengths), guide, self.alignment).map(self.head)

    def denoise(self, guide: Sequence[Prompts], tokens: Padded) -> Padded:
        """Return the logits (B, L, V) of T_i + 1 for the tokens (B, L) of T_i.

        Raises:
            UsageError: if the model has no denoising pass.
        """
        if self.denoising is None:
            raise UsageError("this model has no denoising pass: decode it with 0 loops")
        return self.guided(tokens, guide, self.denoising).map(self.head)

    def proposed(self, logits: Padded) -> Padded:
        """Return the best symbols (B, L) of logits (B, L, V) that are no blanks, as the denoising pass reads them."""
        best, second = logits.values.topk(2, dim=-1).indices.unbind(-1)
        return Padded(torch.where(best == self.blank, second, best), logits.lengths)

    def encode(self, batch: Batch, field: str | None = None) -> Encoding:
        """Make T_0 and, if the model denoises, T_1; in training, of a T_0 with noise.

        Args:
            batch: with the field "source".
            field: this one, or None.

        Returns:
            The memory "source" (B, S, D), and the extras "logits.alignment" and "logits.denoising" (B, L, V).

        Raises:
            DataError: if a row is longer than the language model has positions, naming it.
            UsageError: for another field.
        """
        check_field(field)
        source = batch[SOURCE]
        with naming_longest(batch, SOURCE):
            states, guide = self.guide(source)
            aligned = self.align(guide, source.lengths)
        written: dict[str, Tensor | Padded] = {f"logits.{ALIGNMENT}": aligned}
        if self.denoising is not None:
            tokens = self.proposed(aligned)
            if self.training and self.noise:
                tokens = corrupted(tokens, most=self.noise, mask=self.mask, vocabulary=self.vocabulary)
            written[f"logits.{DENOISING}"] = self.denoise(guide, tokens)
        return Encoding({MEMORY: states}, written)

    def refined(self, batch: Batch, loops: int) -> Padded:
        """Return the logits (B, L, V) of the last T_i: until no sentence changes, or after a number of loops.

        Raises:
            DataError: if a row is longer than the language model has positions, naming it.
            UsageError: if there are to be loops, but the model has no denoising pass.
        """
        source = batch[SOURCE]
        with naming_longest(batch, SOURCE):
            _, guide = self.guide(source)
            logits = self.align(guide, source.lengths)
        return self.looped(guide, self.proposed(logits), loops) if loops else logits

    def looped(self, guide: Sequence[Prompts], tokens: Padded, loops: int) -> Padded:
        """Return the logits (B, L, V) of the last of some loops over tokens (B, L); none follows one without changes.

        Args:
            guide: of the sources.
            tokens: a path, without blanks.
            loops: at least one.

        Raises:
            UsageError: if the model has no denoising pass.
        """
        for _ in range(loops):
            logits = self.denoise(guide, tokens)
            before, tokens = tokens, self.proposed(logits)
            if bool(((tokens.values == before.values) | ~tokens.mask).all()):
                break
        return logits

    def guided(self, tokens: Padded, guide: Sequence[Prompts], prompt: Prompt) -> Padded:
        """Return the last layer's states (B, L, D) of tokens (B, L), read under the guide and a pass's own prompt."""
        prompts = [guided.joined(trained) for guided, trained in zip(guide, prompt(), strict=True)]
        states, _ = self.reader.encoder(self.reader.embeddings[SOURCE](tokens), prompts=prompts)
        return states


def check_field(field: str | None) -> None:
    """Refuse, by UsageError, to encode another field than the source."""
    if field not in (None, SOURCE):
        raise UsageError(f"the model reads {SOURCE!r}, not {field!r}")


class Refinement(Described):
    """A search through the output of an :class:`SgaSystem` after a number of loops.

    Args:
        loops: how often what was written is denoised, at most; 0 for what alignment gives.
        search: for the output of the last loop; by default the best path.
    """

    def __init__(self, *, loops: NonNegativeInt = LOOPS, search: CtcSearch | None = None) -> None:
        self.loops = loops
        self.search = search or CtcGreedySearch()

    def decode(
        self, log_probabilities: Padded, *, blank: int, ids: Sequence[str] = (), companion: Companion | None = None
    ) -> list[list[Hypothesis]]:
        """Search outputs; see :class:`dragoman.shared.search.search.CtcSearch`."""
        return self.search.decode(log_probabilities, blank=blank, ids=ids, companion=companion)


def check_symbols(system: System, shown: Sequence[str] = ()) -> None:
    """Refuse, by UsageError, a system that no language model alone can be, or that is not told which language to write.

    Args:
        system: whose source may tell it.
        shown: the other symbols that its model reads.
    """
    source = system.inputs.get(SOURCE)
    if not isinstance(source, TextField) or source.tokenizer.fingerprint != system.output.tokenizer.fingerprint:
        raise UsageError("a masked language model writes with the tokenizer of the text that it reads, and no other")
    told = any("{target_" in symbol for symbol in (*source.prefix, *source.suffix, *shown))
    if len(system.target_languages) > 1 and not told:
        raise UsageError(f"nothing in the source tells which of {', '.join(system.target_languages)} is to be written")


class SgaSystem(CtcSystem):
    """A translator that reads and writes with the symbols of one masked language model.

    Other searches than a :class:`Refinement` work on the output after the system's own number of loops.

    Args:
        model: a SemanticGenerator.
        loops: of searches that name no number; a model that does not denoise has none.
        parts: see :class:`CtcSystem`; the input is ``{"source": TextField(...)}``.

    Raises:
        DataError: for an unknown language code.
        UsageError: if it does not read and write with the same tokenizer, nothing tells it which language to write, or
            ``loops`` is negative.
    """

    model: SemanticGenerator

    def __init__(self, *, model: SemanticGenerator, loops: int = LOOPS, **parts: Unpack[CtcParts]) -> None:
        super().__init__(model=model, head=[*model.heads][-1], **parts)
        asked = Refinement(loops=loops)
        self.search = asked if model.denoising is not None else Refinement(loops=0)
        check_symbols(self)

    def default_search(self) -> AnySearch:
        """Return the search used when the caller names none."""
        return self.search

    def scores(self, batch: Batch, search: CtcSearch) -> Padded:
        """Return the log-probabilities (B, L, V) of the output after the loops of a search."""
        logits = self.model.refined(batch, (search if isinstance(search, Refinement) else self.search).loops)
        return logits.map(lambda values: values.float().log_softmax(-1))

    def check_memory(self, batch: Batch, search: AnySearch, positions: int = 0) -> None:
        """Refuse a search that needs more memory than there is; see :meth:`System.check_memory`."""
        inner: AnySearch = search.search if isinstance(search, Refinement) else search
        super().check_memory(batch, inner, positions)
