"""From the states of an encoder to scores of labels, and what is trained: of whole texts, of words, of spans.

Legend: B texts, L tokens, W words or windows, C labels, D width.
"""

from __future__ import annotations

from typing import Any, Literal, TypedDict, Unpack

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dragoman.mt.understanding.spans import windows_of
from dragoman.shared.batch import Batch
from dragoman.shared.described import Described
from dragoman.shared.generator import Encoding
from dragoman.shared.nn.dropout import dropout
from dragoman.shared.nn.linear import Linear
from dragoman.shared.nn.translator import MEMORY
from dragoman.shared.objectives.masked import at_places
from dragoman.shared.objectives.objective import Term
from dragoman.shared.objectives.parts import Encode, Part, check_head
from dragoman.shared.padded import Padded
from dragoman.shared.ranges import NonNegativeFloat, PositiveInt, ShareBelowOne


class LabelHead(Described, nn.Module):
    """Scores of the labels of a text, from one vector of it: a dense layer with tanh, and a matrix.

    With "first", what BERT and RoBERTa have (Devlin et al. 2019, section 4.1; Liu et al. 2019).

    Args:
        width: D.
        labels: C.
        pooling: the text's vector: "first", the state of its first symbol; "last", that of its last one; "before_last",
            that of the one before, where the text's language stands behind ``</s>`` (mBART); or "mean".
        dense: have the dense layer.
        dropout: of what the matrix reads, and of what the dense layer reads.
    """

    def __init__(
        self,
        *,
        width: PositiveInt,
        labels: PositiveInt,
        pooling: Literal["first", "last", "before_last", "mean"] = "first",
        dense: bool = True,
        dropout: ShareBelowOne = 0.1,
    ) -> None:
        super().__init__()
        self.pooling = pooling
        self.dropout = dropout
        self.dense = Linear(width, width) if dense else None
        self.output = Linear(width, labels)
        for matrix in (self.output, *([self.dense] if self.dense else [])):
            nn.init.normal_(matrix.weight, std=0.02)
            nn.init.zeros_(matrix.bias)

    def forward(self, states: Padded) -> Tensor:
        """Return logits (B, C) of states (B, L, D)."""
        pooled = self._pooled(states)
        if self.dense is not None:
            pooled = torch.tanh(self.dense(dropout(pooled, self.dropout, self.training)))
        return self.output(dropout(pooled, self.dropout, self.training))

    def _pooled(self, states: Padded) -> Tensor:
        if self.pooling == "mean":
            return states.mean().to(states.values.dtype)
        places = torch.zeros_like(states.lengths)
        if self.pooling != "first":
            places = (states.lengths - (1 if self.pooling == "last" else 2)).clamp(min=0)
        return states.values[torch.arange(len(states), device=places.device), places]


class WordLabelHead(Described, nn.Module):
    """Scores of the labels of words, from the state of each word's first piece (Devlin et al. 2019, section 5.3).

    Args:
        width: D.
        labels: C.
        dropout: of the states.
    """

    def __init__(self, *, width: PositiveInt, labels: PositiveInt, dropout: ShareBelowOne = 0.1) -> None:
        super().__init__()
        self.dropout = dropout
        self.output = Linear(width, labels)
        nn.init.normal_(self.output.weight, std=0.02)
        nn.init.zeros_(self.output.bias)

    def forward(self, states: Tensor) -> Tensor:
        """Return logits (B, W, C) of states (B, W, D)."""
        return self.output(dropout(states, self.dropout, self.training))


class SpanHead(Described, nn.Module):
    """Scores of each token as the first and as the last one of an answer (Devlin et al. 2019, section 4.2).

    Args:
        width: D.
    """

    def __init__(self, *, width: PositiveInt) -> None:
        super().__init__()
        self.output = Linear(width, 2)
        nn.init.normal_(self.output.weight, std=0.02)
        nn.init.zeros_(self.output.bias)

    def forward(self, states: Padded) -> Tensor:
        """Return logits (B, L, 2) of states (B, L, D), -inf for padding."""
        return self.output(states.values).float().masked_fill(~states.mask[..., None], -torch.inf)


class HeadNames(TypedDict, total=False):
    """The arguments of :class:`HeadPart`."""

    head: str
    labels: str
    source: str
    weight: NonNegativeFloat


def label_logits(model: Any, batch: Batch, encoding: Encoding, head: str, field: str) -> Tensor:
    """Return what a head of a model says: (B, C), or of words (B, W, C), which stand at ``<field>.places``."""
    module, states = model.heads[head], encoding.memories[MEMORY]
    if isinstance(module, WordLabelHead):
        return module(at_places(states.values, batch[f"{field}.places"]))
    return module(states)


class HeadPart(Part):
    """Base class of parts that compare the scores of a head with a batch field.

    Terms: the field's name (nats), and reported only, that with "_accuracy" behind it.

    Args:
        head: its name in ``model.heads``.
        labels: the batch field with what is right.
        source: the batch field that is labelled.
        weight: factor of the term in the loss.
    """

    def __init__(
        self, *, head: str = "label", labels: str = "label", source: str = "source", weight: NonNegativeFloat = 1.0
    ) -> None:
        super().__init__(source=source)
        self.head = head
        self.labels = labels
        self.field = source
        self.weight = weight

    def check(self, model: Any) -> None:
        """Raise UsageError if the model lacks the head."""
        check_head(model, self.head)

    def counts(self, batch: Batch) -> dict[str, Tensor]:
        """Return the number of labels, or of windows, which is the count of both terms."""
        count = batch[self.labels].lengths.sum()
        return {self.labels: count, f"{self.labels}_accuracy": count}

    def _terms(self, batch: Batch, loss: Tensor, right: Tensor) -> dict[str, Term]:
        """Return the terms of a loss and the number of what was right, both summed."""
        count = batch[self.labels].lengths.sum()
        return {self.labels: Term(loss, count, self.weight), f"{self.labels}_accuracy": Term(right, count, 0.0)}


class LabelCrossEntropy(HeadPart):
    """Cross entropy of labels, per label: those of texts, or of their words.

    Reads the batch field ``labels`` (B, 1), or (B, W).

    Args:
        label_smoothing: the share of the probability that all C labels share (torch's definition).
        **names: those of :class:`HeadPart`, whose head is a :class:`LabelHead` or :class:`WordLabelHead`.
    """

    def __init__(self, *, label_smoothing: ShareBelowOne = 0.0, **names: Unpack[HeadNames]) -> None:
        super().__init__(**names)
        self.label_smoothing = label_smoothing

    def terms(self, model: Any, batch: Batch, encoding: Encoding) -> dict[str, Term]:
        """Compare the head's scores with the labels."""
        labels = batch[self.labels]
        logits = label_logits(model, batch, encoding, self.head, self.field).float()
        flat, wanted = logits.flatten(0, -2), labels.values.flatten().masked_fill(~labels.mask.flatten(), -100)
        loss = F.cross_entropy(flat, wanted, reduction="sum", label_smoothing=self.label_smoothing)
        return self._terms(batch, loss, (flat.argmax(-1) == wanted).sum())


class SpanCrossEntropy(HeadPart):
    """Half the cross entropy of an answer's first token and of its last one, per window.

    As ``ForQuestionAnswering`` of transformers has it, which lets padding have probability, too. Reads what a
    :class:`~dragoman.mt.understanding.spans.WindowsField` and an ``AnswerField`` make of rows, by a :class:`SpanHead`;
    right are windows of which both tokens are. Arguments are those of :class:`HeadPart`.
    """

    def evaluate(self, model: Any, batch: Batch, encode: Encode) -> dict[str, Term]:
        """Encode the windows, and compare the head's scores with the places of answers."""
        labels = batch[self.labels]
        wanted = labels.values[labels.mask]  # (W, 2)
        encoding = model.encode(windows_of(batch, self.field), self.field)
        logits = model.heads[self.head](encoding.memories[MEMORY])
        losses = F.cross_entropy(logits, wanted, reduction="none")  # (W, 2): tokens are the classes
        return self._terms(batch, losses.sum() / 2, (logits.argmax(1) == wanted).all(1).sum())
