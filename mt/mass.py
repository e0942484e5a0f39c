"""MASS: the encoder reads a sentence without a fragment, and the decoder writes the fragment.

Song et al. 2019, "MASS: Masked Sequence to Sequence Pre-training for Language Generation", sections 3.1 and 3.2, and
the released code for unsupervised translation. Of a sentence x, a fragment from u to v is hidden from the encoder, and
everything else from the decoder:

    L = - sum_x log P(x_u:v | x_without_u:v) = - sum_x sum_{t=u..v} log P(x_t | x_{u-1}, ..., x_{t-1}; x_without_u:v)

So the decoder has to find in the encoder's states what it cannot read by itself, as in translation. With a fragment of
one token, MASS is a masked language model; with the whole sentence, a language model.

Differs from the released code: a symbol before the text names its language, where the code adds a vector to each token;
encoder and decoder share their token vectors; attention to the encoder has one output projection, where the code has
one for each language; pieces are SentencePiece's, and texts of fewer than 5 are read.

Not established: whether the decoder sees the encoder's states of masks (as in the released code, it does not:
``see_masks``); updates and warm-up of fine-tuning.

Not implemented: the variant that reads pairs.

Legend: B sentences, S tokens, K tokens of a fragment, W tokens whose states the decoder sees, D width.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from dragoman.shared.batch import Batch, naming_longest
from dragoman.shared.batches.fields import TextField
from dragoman.shared.batches.manifest import Row
from dragoman.shared.batches.masked_text import MaskedText
from dragoman.shared.errors import UsageError
from dragoman.shared.generator import Encoding
from dragoman.shared.nn.translator import MEMORY
from dragoman.shared.objectives.masked import AtPlaces, at_places
from dragoman.shared.objectives.objective import Term
from dragoman.shared.padded import Padded
from dragoman.shared.ranges import Share, ShareBelowOne


def check_symbols(field: TextField) -> None:
    """Refuse a text whose first or last token is not a symbol that the decoder begins or ends with, by UsageError."""
    if (len(field.prefix), len(field.suffix)) != (1, 1):
        raise UsageError(
            "a fragment needs a text with one symbol before it and one behind it, "
            f"not {len(field.prefix)} and {len(field.suffix)}"
        )


class MaskedFragment(MaskedText):
    """A text without a fragment; the batch also gets ``<name>.places`` and ``<name>.labels`` of the fragment.

    ``<name>.seen`` has the places whose states the decoder sees. The end symbol may be part of the fragment, since the
    decoder has to learn it, too.

    Args:
        field: the text as it is, whose tokenizer has a mask; one symbol stands before it, and one behind it.
        share: length of the fragment, as a share of the pieces and the end symbol, rounded; at least one token.
        masked: share of the fragment's tokens that become the mask.
        replaced: share of them that become another piece; the rest stays.
        at_start: share of the texts whose fragment is their beginning.
        at_end: share of the texts whose fragment is their end; in the rest, every place is equally likely.
        see_masks: let the decoder see the states of masks, too; the released code hides them, the paper is silent.

    Raises:
        UsageError: if two shares add up to more than 1, or the text has other symbols around it.
    """

    def __init__(
        self,
        *,
        field: TextField,
        share: Share = 0.5,
        masked: Share = 0.8,
        replaced: Share = 0.1,
        at_start: Share = 0.2,
        at_end: Share = 0.2,
        see_masks: bool = False,
    ) -> None:
        super().__init__(field=field, share=share, masked=masked, replaced=replaced)
        if at_start + at_end > 1:
            raise UsageError(f"at_start and at_end must add up to at most 1, not {at_start} and {at_end}")
        check_symbols(field)
        self.at_start = at_start
        self.at_end = at_end
        self.see_masks = see_masks

    def __call__(self, row: Row, rng: np.random.Generator) -> dict[str, Tensor]:
        """Return the tokens (S,), the places (K,) and labels (K,) of the fragment, and the places that are seen (W,).

        Raises:
            DataError: if the row has no text, or no language where a symbol needs it.
        """
        tensors = super().__call__(row, rng)
        seen = torch.ones_like(tensors[""]) if self.see_masks else tensors[""] != self.mask
        return tensors | {"seen": seen.nonzero()[:, 0]}

    def choose(self, pieces: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return which of the pieces (N,) and the end symbol behind them are the fragment, (K,) int64."""
        count = max(1, round(self.share * (len(pieces) + 1)))
        last = len(pieces) + 1 - count
        kind, start = rng.random(), int(rng.integers(last + 1))
        if kind < self.at_start + self.at_end:
            start = 0 if kind < self.at_start else last
        return np.arange(start, start + count)


class FragmentCrossEntropy(AtPlaces):
    """Cross entropy of a fragment's tokens, each given those before it and what the encoder read, per token.

    The decoder reads the token before the fragment and all of it but the last, with their positions in the sentence. Of
    the encoder's states it sees those in ``<field>.seen``. Terms: "fragment" (nats), and reported only:
    "fragment_accuracy".

    Args:
        field: the batch field that MaskedFragment made, or another field with the same parts.
        target_field: the batch field with the same text as it is, and the same symbols around it.
        label_smoothing: label smoothing.
        weight: factor of the term in the loss.
        prefix: put before the names of the terms, for a second part of this kind.
    """

    def __init__(
        self,
        *,
        field: str = "source",
        target_field: str = "target",
        label_smoothing: ShareBelowOne = 0.0,
        weight: float = 1.0,
        prefix: str = "",
    ) -> None:
        super().__init__(
            name=f"{prefix}fragment", fields=[field], source=field, label_smoothing=label_smoothing, weight=weight
        )
        self.field = field
        self.target_field = target_field

    def terms(self, model: Any, batch: Batch, encoding: Encoding) -> dict[str, Term]:
        """Decode the fragment, and compare."""
        places, seen = (batch[f"{self.field}.{name}"] for name in ("places", "seen"))
        with naming_longest(batch, self.target_field):
            embedded = model.target_embedding(batch[self.target_field]).values
        read = Padded(at_places(embedded, places.map(lambda place: place - 1)), places.lengths)
        memory = Padded(at_places(encoding.memories[MEMORY].values, seen), seen.lengths)
        states = model.decoder(read, {MEMORY: memory}).values
        return self.compared(model.projection, batch, {self.field: states})
