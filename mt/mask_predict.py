"""Mask-Predict: a translator whose decoder sees both sides, learns masked tokens, and writes all of them at once.

Ghazvininejad et al. 2019, EMNLP, "Mask-Predict: Parallel Decoding of Conditional Masked Language Models", arXiv
1904.09324. Of a translation y of n tokens, 1 to n, evenly drawn, are masked (section 2.2); the others are y_obs:

    L = - log P(y_masks | x, y_obs) - w log P(n | x)

The length is read off the encoder's state of a symbol LENGTH before the source (section 2.3), whose vector and those of
the lengths are one table. Decoding is ``shared/search/filling.py`` (section 3).

Differs from the paper: the language's symbol stands before the decoder's tokens and the end symbol behind them, never
masked, and not counted by the length. Differs from the released code: n may be drawn (there at most n - 1); the
length's loss is a mean over sentences with a weight of its own, where the code adds sums and divides them by the masked
tokens; parameters begin as in other translators here, not as BERT's.

The decoder may begin with a stack that was trained on masked tokens and attends to another text (VECO's,
recipes/base/mask_predict_from_veco.yaml), or be a masked language model that stays as it is (SGA's, mt/sga_filling.py).

Legend: B sentences, S source tokens, L target positions, M masked tokens, N longest output, D width, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dragoman.shared.batch import Batch
from dragoman.shared.batches.fields import TextField
from dragoman.shared.batches.masked_text import MaskedText
from dragoman.shared.described import Described
from dragoman.shared.errors import UsageError
from dragoman.shared.generator import Encoding, Filler, Generator, Hypothesis
from dragoman.shared.nn.embeddings import TextEmbedding
from dragoman.shared.nn.heads import MaskedTokenHead
from dragoman.shared.nn.symbols import OUTPUT
from dragoman.shared.nn.transformer import Encoder
from dragoman.shared.nn.translator import MEMORY, FieldEncoder
from dragoman.shared.objectives.masked import AtPlaces, at_places
from dragoman.shared.objectives.objective import Term
from dragoman.shared.objectives.parts import Part
from dragoman.shared.padded import Padded
from dragoman.shared.ranges import NonNegativeFloat, PositiveInt, ShareBelowOne
from dragoman.shared.search.filling import FillingSearch
from dragoman.shared.search.search import AnySearch
from dragoman.shared.systems.system import System


class EvenlyMaskedText(MaskedText):
    """A text of which one token, two, or any number up to all are masked; see MaskedText.

    Args:
        field: the text as it is, whose tokenizer has a mask.
    """

    def __init__(self, *, field: TextField) -> None:
        super().__init__(field=field, masked=1.0, replaced=0.0)

    def choose(self, pieces: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return which of a text's pieces (N,) are masked, in order, (M,) int64."""
        count = int(rng.integers(1, len(pieces) + 1)) if len(pieces) else 0
        return np.sort(rng.choice(len(pieces), count, replace=False, shuffle=False))


class MaskFiller(Described, FieldEncoder):
    """An encoder-decoder whose decoder sees all tokens that are there, and which says how many there should be.

    Args:
        embeddings: by batch field, as of a Translator.
        encoder: from (B, S + 1, D) to states; the first is that of the symbol LENGTH.
        target_embedding: of the target tokens.
        decoder: an Encoder, since it sees what comes later, whose layers attend to the memory "source".
        projection: from the decoder's states to logits; it may be a MaskedTokenHead.
        mask: the symbol for a masked token.
        longest: N.

    Raises:
        ValueError: if widths differ, or the decoder attends to anything else.
    """

    encoder: Encoder

    def __init__(
        self,
        *,
        embeddings: dict[str, nn.Module],
        encoder: Encoder,
        target_embedding: TextEmbedding,
        decoder: Encoder,
        projection: nn.Module,
        mask: int,
        longest: PositiveInt = 250,
    ) -> None:
        super().__init__()
        self._set_encoder(embeddings, encoder, None)
        if decoder.memories != [MEMORY] or decoder.width != target_embedding.width:
            raise ValueError(
                f"the decoder must have the target embedding's width {target_embedding.width} and attend to "
                f"{MEMORY!r}, but has {decoder.width} and attends to {decoder.memories}"
            )
        if not 0 <= mask < target_embedding.vocabulary:
            raise ValueError(f"the mask {mask} is outside the vocabulary of {target_embedding.vocabulary}")
        self.target_embedding = target_embedding
        self.decoder = decoder
        self.projection = projection
        self.mask = mask
        self.lengths = nn.Embedding(longest + 1, encoder.width)  # the vector of 0 is that of LENGTH
        nn.init.normal_(self.lengths.weight, std=0.02)

    @property
    def longest(self) -> int:
        """N, the greatest length that can be written."""
        return self.lengths.num_embeddings - 1

    def symbol_fields(self) -> dict[str, str]:
        """See shared/nn/symbols.py."""
        return super().symbol_fields() | dict.fromkeys(("target_embedding", "projection"), OUTPUT)

    def symbol_arguments(self) -> dict[str, nn.Module]:
        """See shared/nn/symbols.py."""
        return {"mask": self.target_embedding}

    def encode_embedded(self, embedded: Padded, memories: Mapping[str, Padded] | None = None) -> Encoding:
        """Encode what has been embedded (B, S, D).

        Returns:
            The memory "source" (B, S, D), and the extra "lengths" (B, N + 1): logits, that of 0 minus infinity.
        """
        first = self.lengths.weight[0].expand(len(embedded), 1, -1).to(embedded.values.dtype)
        longer = Padded(torch.cat([first, embedded.values], dim=1), embedded.lengths + 1, full=embedded.full)
        states = super().encode_embedded(longer, memories).memories[MEMORY].values
        logits = F.linear(states[:, 0], self.lengths.weight.to(states.dtype)).float()
        nothing = torch.arange(self.longest + 1, device=logits.device) == 0
        memory = Padded(states[:, 1:], embedded.lengths, full=embedded.full)
        return Encoding({MEMORY: memory}, {"lengths": logits.masked_fill(nothing, float("-inf"))})

    def length_scores(self, encoding: Encoding) -> Tensor:
        """Return log-probabilities (B, N + 1) of lengths; see shared/generator.py."""
        logits = encoding.extras["lengths"]
        assert isinstance(logits, Tensor)
        return logits.log_softmax(-1)

    def read(self, tokens: Padded, encoding: Encoding) -> Tensor:
        """Return the decoder's states (R, L, D) of tokens (R, L), some of which are masks."""
        states, _ = self.decoder(self.target_embedding(tokens), memories=encoding.memories)
        return states.values

    def fill(self, tokens: Padded, encoding: Encoding) -> Tensor:
        """Return the logits (R, L, V) of the token at each place of tokens (R, L)."""
        return self.projection(self.read(tokens, encoding))


@runtime_checkable
class MaskedDecoder(Filler, Protocol):
    """A Filler whose logits are made of states of a decoder, so that losses project those of masked tokens only.

    Attributes:
        projection: from states (..., D) to logits (..., V): a linear map, or a MaskedTokenHead.
    """

    @property
    def projection(self) -> Any:
        """The map."""

    def read(self, tokens: Padded, encoding: Encoding) -> Tensor:
        """Return the decoder's states (R, L, D) of tokens (R, L), some of which are masks."""
        ...


def check_filler(part: Part, model: Any, kind: type) -> None:
    """Refuse a model that is no Filler of a kind, by UsageError."""
    if not isinstance(model, kind):
        raise UsageError(
            f"{type(part).__name__} needs a {kind.__name__}, which fills masks, but the model is {type(model).__name__}"
        )


class FilledTokens(AtPlaces):
    """Cross entropy of the masked target tokens, per masked token; terms "filled" and, reported only, its accuracy.

    Reads ``target`` (EvenlyMaskedText), ``target.places`` and ``target.labels``. The model is any MaskedDecoder.

    Args:
        label_smoothing: label smoothing.
        weight: factor of the term in the loss.
    """

    def __init__(self, *, label_smoothing: ShareBelowOne = 0.1, weight: float = 1.0) -> None:
        super().__init__(name="filled", fields=["target"], label_smoothing=label_smoothing, weight=weight)

    def check(self, model: Any) -> None:
        """Raise UsageError if the model is no MaskedDecoder."""
        check_filler(self, model, MaskedDecoder)

    def terms(self, model: Any, batch: Batch, encoding: Encoding) -> dict[str, Term]:
        """Read the target with its masks, and compare what is written there with what stood there."""
        return self.filled(model, batch, at_places(model.read(batch["target"], encoding), batch["target.places"]))

    def filled(self, model: MaskedDecoder, batch: Batch, states: Tensor) -> dict[str, Term]:
        """Compare what the model makes of its states (B, M, D) of the masked tokens with these."""
        head = model.projection
        if isinstance(head, MaskedTokenHead):
            return self.compared(head.projection, batch, {"target": head.transform(states)})
        return self.compared(head, batch, {"target": states})


class OutputLength(Part):
    """Cross entropy of the target's length, per sentence; terms "length" and, reported only, "length_accuracy".

    The model is any Filler.

    Args:
        around: how many symbols of the field "target" do not count: those before and behind the text.
        weight: factor of the term in the loss.
    """

    def __init__(self, *, around: int = 2, weight: NonNegativeFloat = 0.1) -> None:
        super().__init__()
        self.around = around
        self.weight = weight

    def check(self, model: Any) -> None:
        """Raise UsageError if the model is no Filler."""
        check_filler(self, model, Filler)

    def counts(self, batch: Batch) -> dict[str, Tensor]:
        """Return the number of sentences, which is the count of each term."""
        return dict.fromkeys(("length", "length_accuracy"), torch.ones_like(batch["target"].lengths).sum())

    def terms(self, model: Any, batch: Batch, encoding: Encoding) -> dict[str, Term]:
        """Compare the lengths; those beyond the longest output count as the longest."""
        scores = model.length_scores(encoding)
        lengths = (batch["target"].lengths - self.around).clamp(1, scores.shape[1] - 1)
        counts = self.counts(batch)
        right = scores.argmax(-1) == lengths
        return {
            "length": Term(F.nll_loss(scores, lengths, reduction="sum"), counts["length"], self.weight),
            "length_accuracy": Term(right.sum(), counts["length_accuracy"], 0.0),
        }


class FillingSystem(System):
    """A translator whose model is a Filler."""

    @property
    def generator(self) -> Generator | None:
        """None: the outputs are not written from left to right."""
        return None

    def default_search(self) -> AnySearch:
        """Return the search used when the caller names none."""
        return FillingSearch()

    def translate_batch(
        self, batch: Batch, search: AnySearch, *, forced: Sequence[Sequence[int]] | None = None
    ) -> list[list[Hypothesis]]:
        """Fill the masks of a batch; the best hypothesis of each row comes first.

        Raises:
            UsageError: if the search fills no masks, or needs more memory than there is; if beginnings are forced.
        """
        if forced is not None:
            raise UsageError("the beginning of an output cannot be forced on a system that fills masks")
        if not isinstance(search, FillingSearch):
            raise UsageError(f"{type(search).__name__} fills no masks, as this system needs: a FillingSearch does")
        model: Any = self.model
        return self.searched(model, batch, search)

    def check_memory(self, batch: Batch, search: AnySearch, positions: int = 0) -> None:
        """Refuse a search that needs more memory than there is; outputs are taken to be as long as the inputs."""
        longest = max((batch[name].values.shape[1] for name in self.reads), default=0)
        super().check_memory(batch, search, max(positions, longest))
