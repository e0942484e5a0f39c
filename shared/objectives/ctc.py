"""Connectionist temporal classification on a layer of the encoder (Graves et al. 2006).

Legend: B batch, S encoder positions, L labels, D model, V vocabulary.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from dragoman.shared.batch import Batch
from dragoman.shared.generator import Encoding
from dragoman.shared.nn.heads import head_log_probabilities
from dragoman.shared.objectives.objective import Term
from dragoman.shared.objectives.parts import Part, check_head
from dragoman.shared.ranges import NonNegativeInt


def ctc_loss(scores: Tensor, labels: Tensor, positions: Tensor, lengths: Tensor, blank: int) -> Tensor:
    """Return the loss of each sentence, (B,); 0 where no alignment is possible.

    torch's gradient on GPUs adds up in any order. Where the same bits are asked for, a CPU computes it.

    Args:
        scores: (B, S, V) log-probabilities, float32.
        labels: (B, L) int64.
        positions: (B,) how many of S are real.
        lengths: (B,) how many of L are real.
        blank: the blank symbol.
    """
    device = scores.device
    if device.type != "cpu" and torch.are_deterministic_algorithms_enabled():
        scores, labels, positions, lengths = scores.cpu(), labels.cpu(), positions.cpu(), lengths.cpu()
    by_position = scores.transpose(0, 1)
    losses = F.ctc_loss(by_position, labels, positions, lengths, blank, reduction="none", zero_infinity=True)
    return losses.to(device)


class Ctc(Part):
    """CTC loss per label token, of a head of the model that reads states of its encoder.

    A sentence is infeasible if its labels, and a blank between each two that are equal, do not fit into its encoder
    positions. Such a sentence has loss 0 here and is counted: the reported term "ctc_infeasible" is their share.

    Args:
        weight: factor of the term in the loss.
        field: batch field of the labels: start symbols, tokens, end symbols.
        head: name of the head in ``model.heads``; it knows its layer (``tap``) and its ``blank``.
        strip_prefix: how many start symbols of the field are not labels.
        strip_suffix: how many end symbols are not labels.
        prefix: put before the names of the terms, for a second part of this kind.
        source: the batch field whose encoding the head reads; by default the objective's own.
    """

    def __init__(
        self,
        *,
        weight: float = 1.0,
        field: str = "transcript",
        head: str = "ctc",
        strip_prefix: NonNegativeInt = 1,
        strip_suffix: NonNegativeInt = 1,
        prefix: str = "",
        source: str | None = None,
    ) -> None:
        super().__init__(source=source)
        self.weight = weight
        self.field = field
        self.head = head
        self.prefix = prefix
        self.strip_prefix = strip_prefix
        self.strip_suffix = strip_suffix

    def check(self, model: Any) -> None:
        """Raise UsageError if the model lacks the head."""
        check_head(model, self.head)

    def counts(self, batch: Batch) -> dict[str, Tensor]:
        """Return the number of labels, and of sentences."""
        lengths = self._lengths(batch)
        return {f"{self.prefix}ctc": lengths.sum(), f"{self.prefix}ctc_infeasible": torch.ones_like(lengths).sum()}

    def terms(self, model: Any, batch: Batch, encoding: Encoding) -> dict[str, Term]:
        """Compare all alignments of the labels with the head's output."""
        head = model.heads[self.head]
        scores = head_log_probabilities(model, encoding, self.head)  # (B, S, V)
        labels, lengths = batch[self.field].values[:, self.strip_prefix :], self._lengths(batch)
        # What stands beyond the lengths is read by no one, but has to be a symbol that exists.
        positions = torch.arange(labels.shape[1], device=labels.device)
        real = positions < lengths[:, None]
        labels = torch.where(real, labels, head.blank)
        repeats = ((labels[:, 1:] == labels[:, :-1]) & real[:, 1:]).sum(1)
        infeasible = lengths + repeats > scores.lengths
        losses = ctc_loss(scores.values, labels, scores.lengths, lengths, head.blank)
        counts = self.counts(batch)
        return {
            f"{self.prefix}ctc": Term(losses.sum(), counts[f"{self.prefix}ctc"], self.weight),
            f"{self.prefix}ctc_infeasible": Term(infeasible.sum(), counts[f"{self.prefix}ctc_infeasible"], 0.0),
        }

    def _lengths(self, batch: Batch) -> Tensor:
        """Return the number of labels of each sentence, (B,)."""
        return (batch[self.field].lengths - self.strip_prefix - self.strip_suffix).clamp(min=0)
