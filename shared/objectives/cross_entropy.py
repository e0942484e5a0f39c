"""Label-smoothed cross entropy over a vocabulary, without ever holding the logits of a whole batch.

Legend: B batch, T target, N = B x T rows, D model, V vocabulary.

The smoothing is fairseq's (``label_smoothed_cross_entropy.py``; Szegedy et al. 2016, section 7, states the idea): the
label keeps ``1 - eps``, and each of the V - 1 other symbols gets ``eps / (V - 1)``. torch's ``label_smoothing`` shares
its mass among all V symbols; ``eps`` here is ``eps * V / (V - 1)`` there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from shared.batch import Batch
from shared.errors import UsageError
from shared.generator import Encoding
from shared.objectives.objective import Term
from shared.objectives.parts import Part
from shared.padded import Padded

IGNORED = -100  # the label of rows that count for nothing


@dataclass(frozen=True)
class CrossEntropySums:
    """Sums over the rows whose label is not ignored; scalars.

    Attributes:
        loss: smoothed cross entropy, with gradient.
        nll: negative log-likelihood of the labels, in nats, detached.
        correct: rows whose most probable symbol is the label, detached.
        count: rows.

    """

    loss: Tensor
    nll: Tensor
    correct: Tensor
    count: Tensor


def label_smoothed_cross_entropy(
    states: Tensor,
    project: Callable[[Tensor], Tensor],
    labels: Tensor,
    *,
    smoothing: float = 0.0,
    chunk: int = 2048,
) -> CrossEntropySums:
    """Project states onto the vocabulary and sum the loss.

    More than ``chunk`` rows are projected ``chunk`` at a time, and again in the backward pass, so that memory holds the
    logits of one chunk, not of the batch; that costs one more projection. Rows to be ignored are projected too: to
    leave them out would make the host wait for the device.

    Args:
        states: (N, D).
        project: from (n, D) to logits (n, V); called twice for the same rows, so it must not draw random numbers.
        labels: (N,) int64, :data:`IGNORED` where a row counts for nothing.
        smoothing: eps, the probability mass taken from the label.
        chunk: rows at a time.

    Raises:
        ValueError: if shapes or numbers do not fit.

    """
    if states.dim() != 2 or labels.shape != states.shape[:1]:
        raise ValueError(f"states {tuple(states.shape)} and labels {tuple(labels.shape)} are not (N, D) and (N,)")
    if not 0 <= smoothing < 1 or chunk < 1:
        raise ValueError(f"need 0 <= smoothing < 1 and chunk >= 1, not {smoothing} and {chunk}")
    count = (labels != IGNORED).sum()
    if len(states) <= chunk:
        return CrossEntropySums(*_sums(states, project, labels, smoothing), count)
    parts = [
        checkpoint(_sums, some, project, some_labels, smoothing, use_reentrant=False, preserve_rng_state=False)
        for some, some_labels in zip(states.split(chunk), labels.split(chunk), strict=True)
    ]
    loss, nll, correct = (torch.stack(sums).sum(0) for sums in zip(*parts, strict=True))
    return CrossEntropySums(loss, nll, correct, count)


def _sums(
    states: Tensor, project: Callable[[Tensor], Tensor], labels: Tensor, smoothing: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Return loss, nll and number of correct rows, summed over the rows (n, D) that are not ignored."""
    logits = project(states)  # (n, V)
    if logits.dtype in (torch.float16, torch.bfloat16):
        logits = logits.float()
    others = max(1, logits.shape[-1] - 1)
    real = labels != IGNORED
    wanted = torch.where(real, labels, 0)[:, None]
    normaliser = logits.logsumexp(-1)
    nll = normaliser - logits.gather(1, wanted)[:, 0]
    loss = nll
    if smoothing:
        rest = smoothing / others
        # The sum over all symbols of -log p, as V * (log sum exp - mean logit).
        everything = logits.shape[-1] * (normaliser - logits.mean(-1))
        loss = (1 - smoothing - rest) * nll + rest * everything
    correct = (logits.detach().argmax(-1) == labels).sum()
    return loss.masked_fill(~real, 0).sum(), nll.detach().masked_fill(~real, 0).sum(), correct


class CrossEntropy(Part):
    """Label-smoothed cross entropy of a decoder's output, per target token, and what it is made of.

    The decoder reads ``target[:, :-1]`` and is asked for ``target[:, 1:]``. Terms: "cross_entropy" (per token, nats),
    and reported only: "nll" (without smoothing), "accuracy" (share of tokens whose most probable symbol is right when
    the right beginning is given).

    Args:
        smoothing: eps, the probability mass that the label gives to all other symbols.
        target_field: batch field (B, T) that begins with the start symbol and ends with the end symbol.
        weight: factor of the term in the loss.
        ignore_prefix: how many tokens after the start symbol are forced at inference, and so are not learned
            (fairseq's ``ignore_prefix_size``).
        chunk: rows of the vocabulary projection at a time; see :func:`label_smoothed_cross_entropy`.
        prefix: put before the names of the terms, for a second part of this kind.

    """

    def __init__(
        self,
        *,
        smoothing: float = 0.1,
        target_field: str = "target",
        weight: float = 1.0,
        ignore_prefix: int = 0,
        chunk: int = 2048,
        prefix: str = "",
    ) -> None:
        super().__init__()
        if not 0 <= smoothing < 1:
            raise UsageError(f"smoothing must be at least 0 and below 1, not {smoothing}")
        if ignore_prefix < 0 or chunk < 1:
            raise UsageError(f"need ignore_prefix >= 0 and chunk >= 1, not {ignore_prefix} and {chunk}")
        self.smoothing, self.target_field, self.weight = smoothing, target_field, weight
        self.ignore_prefix, self.chunk, self.prefix = ignore_prefix, chunk, prefix

    def counts(self, batch: Batch) -> dict[str, Tensor]:
        """Return the number of labels, which is the count of each term."""
        count = (batch[self.target_field].lengths - 1 - self.ignore_prefix).clamp(min=0).sum()
        return {f"{self.prefix}{name}": count for name in ("cross_entropy", "nll", "accuracy")}

    def terms(self, model: Any, batch: Batch, encoding: Encoding) -> dict[str, Term]:
        """Decode with the right beginnings and compare."""
        target = batch[self.target_field]
        states = self.decode(model, Padded(target.values[:, :-1], (target.lengths - 1).clamp(min=0)), encoding)
        labels = target.values[:, 1:].masked_fill(~target.mask[:, 1:], IGNORED)
        labels[:, : self.ignore_prefix] = IGNORED
        sums = label_smoothed_cross_entropy(
            states.flatten(0, 1), model.project, labels.flatten(), smoothing=self.smoothing, chunk=self.chunk
        )
        return {
            f"{self.prefix}cross_entropy": Term(sums.loss, sums.count, self.weight),
            f"{self.prefix}nll": Term(sums.nll, sums.count, 0.0),
            f"{self.prefix}accuracy": Term(sums.correct, sums.count, 0.0),
        }

    def decode(self, model: Any, prefix: Padded, encoding: Encoding) -> Tensor:
        """Return the decoder's states (B, T - 1, D); subclasses may choose another decoder."""
        return model.decode(prefix, encoding)
