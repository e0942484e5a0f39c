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
from torch.autograd.function import once_differentiable
from torch.utils.checkpoint import checkpoint

from shared.batch import Batch, naming_longest
from shared.errors import UsageError
from shared.generator import Encoding
from shared.objectives.objective import Term
from shared.objectives.parts import Part
from shared.padded import Padded

IGNORED = -100  # the label of rows that count for nothing
CHUNK = 2**26  # logits at a time: 256 MiB in fp32, and about twice that while they are worked on


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
    chunk: int = CHUNK,
) -> CrossEntropySums:
    """Project states onto the vocabulary and sum the loss.

    If there are more than ``chunk`` logits, so many are computed at a time, and again in the backward pass, so that
    memory holds the logits of one chunk, not of the batch; that costs one more projection. Rows to be ignored are
    projected too: to leave them out would make the host wait for the device.

    Args:
        states: (N, D).
        project: from (n, D) to logits (n, V); called twice for the same rows, so it must not draw random numbers.
        labels: (N,) int64, :data:`IGNORED` where a row counts for nothing.
        smoothing: eps, the probability mass taken from the label.
        chunk: logits (rows x V) at a time, at least those of one row.

    Raises:
        ValueError: if shapes or numbers do not fit.

    """
    if states.dim() != 2 or labels.shape != states.shape[:1]:
        raise ValueError(f"states {tuple(states.shape)} and labels {tuple(labels.shape)} are not (N, D) and (N,)")
    if not 0 <= smoothing < 1 or chunk < 1:
        raise ValueError(f"need 0 <= smoothing < 1 and chunk >= 1, not {smoothing} and {chunk}")
    count = (labels != IGNORED).sum()
    with torch.no_grad():
        vocabulary = project(states[:1]).shape[-1]
    rows = max(1, chunk // vocabulary)
    if len(states) <= rows:
        return CrossEntropySums(*_sums(states, project, labels, smoothing), count)
    parts = [
        checkpoint(_sums, some, project, some_labels, smoothing, use_reentrant=False, preserve_rng_state=False)
        for some, some_labels in zip(states.split(rows), labels.split(rows), strict=True)
    ]
    loss, nll, correct = (torch.stack(sums).sum(0) for sums in zip(*parts, strict=True))
    return CrossEntropySums(loss, nll, correct, count)


def _sums(
    states: Tensor, project: Callable[[Tensor], Tensor], labels: Tensor, smoothing: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Return loss, nll and number of correct rows, summed over the rows (n, D) that are not ignored."""
    logits = project(states)  # (n, V)
    loss, nll = _SmoothedLoss.apply(logits, labels, smoothing)
    return loss.sum(), nll.sum(), (logits.detach().argmax(-1) == labels).sum()


class _SmoothedLoss(torch.autograd.Function):
    """Rows' losses from logits (n, V), in single precision or better; 0 for ignored rows.

    With p = softmax(logits) and q = eps / (V - 1), the loss is the cross entropy of p with a target that has 1 - eps at
    the label and q elsewhere, so its gradient is p - q everywhere, less 1 - eps - q at the label. Written out, because
    that takes half the passes over the logits that differentiation of the parts takes.
    """

    @staticmethod
    def forward(ctx: Any, logits: Tensor, labels: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
        """Return (n,) losses and (n,) negative log-likelihoods."""
        precision = torch.promote_types(logits.dtype, torch.float32)
        scores = logits.log_softmax(-1, dtype=precision)
        ignored = labels == IGNORED
        wanted = labels.masked_fill(ignored, 0)[:, None]
        rest = smoothing / max(1, logits.shape[-1] - 1)
        nll = -scores.gather(1, wanted)[:, 0]
        loss = (1 - smoothing - rest) * nll - rest * scores.sum(-1) if smoothing else nll
        ctx.save_for_backward(scores, wanted, ignored)
        ctx.smoothing, ctx.rest, ctx.dtype = smoothing, rest, logits.dtype
        nll = nll.masked_fill(ignored, 0)
        ctx.mark_non_differentiable(nll)
        return loss.masked_fill(ignored, 0), nll

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor, _: Tensor) -> tuple[Tensor, None, None]:
        """Return the gradient of the logits."""
        scores, wanted, ignored = ctx.saved_tensors
        result = scores.exp()
        at_label = result.new_full((), ctx.smoothing + ctx.rest - 1).expand(wanted.shape)
        result = result.sub_(ctx.rest).scatter_add_(1, wanted, at_label)
        result.mul_(gradient.masked_fill(ignored, 0)[:, None])
        return result.to(ctx.dtype), None, None


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
        chunk: logits at a time; see :func:`label_smoothed_cross_entropy`.
        prefix: put before the names of the terms, for a second part of this kind.

    """

    def __init__(
        self,
        *,
        smoothing: float = 0.1,
        target_field: str = "target",
        weight: float = 1.0,
        ignore_prefix: int = 0,
        chunk: int = CHUNK,
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
        prefix = Padded(target.values[:, :-1], (target.lengths - 1).clamp(min=0))
        with naming_longest(batch, self.target_field):
            states = self.decode(model, prefix, encoding)
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
