"""Masked prediction: a model is asked what stood at places that were hidden from it (Devlin et al. 2019, section 3.1).

Tokens are hidden by a field, in workers (shared/corpus/masked_text.py). Frames are hidden in ``Objective.prepare``:
draw a mask with ``shared.nn.spans.spans``, and take its places with :func:`places_of`.

Legend: B batch, L length, M masked places, D width, V vocabulary.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from shared.batch import Batch
from shared.errors import UsageError
from shared.generator import Encoding
from shared.nn.translator import MEMORY
from shared.objectives.cross_entropy import CHUNK, IGNORED, CrossEntropySums, label_smoothed_cross_entropy
from shared.objectives.objective import Term
from shared.objectives.parts import Part, check_head
from shared.padded import Padded


def places_of(mask: Tensor) -> Padded:
    """Return where a mask (B, L) is True: (B, M) int64, in order, as labels and :func:`at_places` need them."""
    rows, length = mask.shape
    everywhere = torch.arange(length, device=mask.device).expand(rows, length)
    sizes = torch.full((rows,), length, device=mask.device)
    return Padded(everywhere, sizes).keep(mask)


def at_places(states: Tensor, places: Padded) -> Tensor:
    """Return the states (B, M, D) of ``states`` (B, L, D) at places (B, M); those of padding mean nothing."""
    index = places.values.masked_fill(~places.mask, 0)[..., None]
    return states.gather(1, index.expand(-1, -1, states.shape[-1]))


def compare_at_places(
    states: Tensor, projection: Any, batch: Batch, field: str, *, smoothing: float
) -> CrossEntropySums:
    """Compare what a projection makes of states (B, M, D) at ``<field>.places`` with ``<field>.labels``."""
    labels = batch[f"{field}.labels"].values.masked_fill(~batch[f"{field}.places"].mask, IGNORED)
    return label_smoothed_cross_entropy(
        states.flatten(0, 1), projection, labels.flatten(), smoothing=smoothing, chunk=CHUNK
    )


class MaskedTokens(Part):
    """Cross entropy of the tokens at masked places, per masked token; only these are projected to the vocabulary.

    Reads the batch fields ``<field>.places`` and ``<field>.labels``. Terms: "masked" (nats), and reported only:
    "masked_accuracy".

    Args:
        head: name of a ``MaskedTokenHead`` in ``model.heads``.
        field: batch field whose tokens are masked.
        memory: which memory of the encoding holds the field's states.
        smoothing: label smoothing.
        weight: factor of the term in the loss.
        prefix: put before the names of the terms, for a second part of this kind.

    Raises:
        UsageError: for an argument out of its range.

    """

    def __init__(
        self,
        *,
        head: str = "masked",
        field: str = "source",
        memory: str = MEMORY,
        smoothing: float = 0.0,
        weight: float = 1.0,
        prefix: str = "",
    ) -> None:
        super().__init__()
        if not 0 <= smoothing < 1:
            raise UsageError(f"smoothing must be at least 0 and below 1, not {smoothing}")
        self.head = head
        self.field = field
        self.memory = memory
        self.smoothing = smoothing
        self.weight = weight
        self.prefix = prefix

    def check(self, model: Any) -> None:
        """Raise UsageError if the model lacks the head."""
        check_head(model, self.head)

    def counts(self, batch: Batch) -> dict[str, Tensor]:
        """Return the number of masked tokens, which is the count of each term."""
        count = batch[f"{self.field}.places"].lengths.sum()
        return {f"{self.prefix}{name}": count for name in ("masked", "masked_accuracy")}

    def terms(self, model: Any, batch: Batch, encoding: Encoding) -> dict[str, Term]:
        """Gather the states of masked tokens, and compare what the head says with what stood there."""
        head = model.heads[self.head]
        states = head.transform(at_places(encoding.memories[self.memory].values, batch[f"{self.field}.places"]))
        sums = compare_at_places(states, head.projection, batch, self.field, smoothing=self.smoothing)
        return {
            f"{self.prefix}masked": Term(sums.loss, sums.count, self.weight),
            f"{self.prefix}masked_accuracy": Term(sums.correct, sums.count, 0.0),
        }
