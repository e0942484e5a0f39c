"""Masked prediction: a model is asked what stood at places that were hidden from it (Devlin et al. 2019, section 3.1).

Tokens are hidden by a field, in workers (shared/batches/masked_text.py). Frames are hidden in ``Objective.prepare``:
draw a mask with ``dragoman.shared.nn.spans.spans``, and take its places with :func:`places_of`.

Legend: B batch, L length, M masked places, D width, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import add
from typing import Any

import torch
from torch import Tensor

from dragoman.shared.batch import Batch
from dragoman.shared.generator import Encoding
from dragoman.shared.nn.translator import MEMORY
from dragoman.shared.objectives.cross_entropy import CHUNK, IGNORED, CrossEntropySums, label_smoothed_cross_entropy
from dragoman.shared.objectives.objective import Term
from dragoman.shared.objectives.parts import Part, check_head
from dragoman.shared.padded import Padded
from dragoman.shared.ranges import ShareBelowOne


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
    states: Tensor, projection: Any, batch: Batch, field: str, *, label_smoothing: float
) -> CrossEntropySums:
    """Compare what a projection makes of states (B, M, D) at ``<field>.places`` with ``<field>.labels``."""
    labels = batch[f"{field}.labels"].values.masked_fill(~batch[f"{field}.places"].mask, IGNORED)
    return label_smoothed_cross_entropy(
        states.flatten(0, 1), projection, labels.flatten(), label_smoothing=label_smoothing, chunk=CHUNK
    )


class AtPlaces(Part):
    """Base class of parts whose loss is the cross entropy of tokens at places, per token.

    Reads ``<field>.places`` and ``<field>.labels`` of one batch field or several. Terms: the name (nats), and, reported
    only, "<name>_accuracy". A subclass says of which states.

    Args:
        name: of the term.
        fields: whose tokens are asked for.
        source: see :class:`Part`.
        label_smoothing: label smoothing.
        weight: factor of the term in the loss.
    """

    def __init__(
        self,
        *,
        name: str,
        fields: Sequence[str],
        source: str | None = None,
        label_smoothing: ShareBelowOne,
        weight: float,
    ) -> None:
        super().__init__(source=source)
        self.name = name
        self.fields = tuple(fields)
        self.label_smoothing = label_smoothing
        self.weight = weight

    def counts(self, batch: Batch) -> dict[str, Tensor]:
        """Return the number of tokens at places, which is the count of each term."""
        count = _added([batch[f"{field}.places"].lengths.sum() for field in self.fields])
        return {self.name: count, f"{self.name}_accuracy": count}

    def compared(self, projection: Any, batch: Batch, states: Mapping[str, Tensor]) -> dict[str, Term]:
        """Return the terms of what a projection makes of the states (B, M, D) at the places of each field."""
        sums = [
            compare_at_places(states[field], projection, batch, field, label_smoothing=self.label_smoothing)
            for field in self.fields
        ]
        count = _added([one.count for one in sums])
        return {
            self.name: Term(_added([one.loss for one in sums]), count, self.weight),
            f"{self.name}_accuracy": Term(_added([one.correct for one in sums]), count, 0.0),
        }


def _added(values: Sequence[Tensor]) -> Tensor:
    return reduce(add, values)


class MaskedTokens(AtPlaces):
    """Cross entropy of the tokens at masked places, per masked token; only these are projected to the vocabulary.

    Reads the batch fields ``<field>.places`` and ``<field>.labels``. Terms: "masked" (nats), and reported only:
    "masked_accuracy".

    Args:
        head: name of a ``MaskedTokenHead`` in ``model.heads``.
        field: batch field whose tokens are masked.
        memory: which memory of the encoding holds the field's states.
        label_smoothing: label smoothing.
        weight: factor of the term in the loss.
        prefix: put before the names of the terms, for a second part of this kind.
    """

    def __init__(
        self,
        *,
        head: str = "masked",
        field: str = "source",
        memory: str = MEMORY,
        label_smoothing: ShareBelowOne = 0.0,
        weight: float = 1.0,
        prefix: str = "",
    ) -> None:
        super().__init__(name=f"{prefix}masked", fields=[field], label_smoothing=label_smoothing, weight=weight)
        self.head = head
        self.field = field
        self.memory = memory

    def check(self, model: Any) -> None:
        """Raise UsageError if the model lacks the head."""
        check_head(model, self.head)

    def terms(self, model: Any, batch: Batch, encoding: Encoding) -> dict[str, Term]:
        """Gather the states of masked tokens, and compare what the head says with what stood there."""
        head = model.heads[self.head]
        states = head.transform(at_places(encoding.memories[self.memory].values, batch[f"{self.field}.places"]))
        return self.compared(head.projection, batch, {self.field: states})
