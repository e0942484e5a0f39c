"""Label-smoothed cross entropy over a vocabulary, without ever holding the logits of a whole batch.

Legend: B batch, T target, N = B x T rows, D model, V vocabulary, K labels of a row.

The smoothing is fairseq's (``label_smoothed_cross_entropy.py``; Szegedy et al. 2016, section 7, states the idea): the
label keeps ``1 - eps``, and each of the V - 1 other symbols gets ``eps / (V - 1)``. torch's ``label_smoothing`` shares
its mass among all V symbols; ``eps`` here is ``eps * V / (V - 1)`` there.

A row may also have several labels with weights, as a teacher gives them (Hinton et al. 2015, arXiv 1503.02531).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Protocol, TypedDict

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from dragoman.shared.batch import Batch, naming_longest
from dragoman.shared.generator import Encoding
from dragoman.shared.nn.linear import linear, write_product
from dragoman.shared.nn.lookup import announce_gradient
from dragoman.shared.objectives.objective import Term
from dragoman.shared.objectives.parts import Part
from dragoman.shared.padded import Padded
from dragoman.shared.ranges import NonNegativeInt, PositiveInt, ShareBelowOne

IGNORED = -100  # the label of rows that count for nothing
CHUNK = 2**26  # logits at a time: 256 MiB in fp32; on a GPU, twice that while they are worked on
BLOCK, FEWEST = 2**21, 32  # logits that a CPU works on while a cache holds them; and the fewest rows, for its threads
_backend: ContextVar[str | None] = ContextVar("backend", default=None)  # that compiles losses; None for none


@contextmanager
def compiled_losses(backend: str | None) -> Iterator[None]:
    """Let losses over a vocabulary be compiled inside: what follows the product becomes a kernel or two.

    Args:
        backend: of torch.compile, such as "inductor"; None for plain losses.
    """
    token = _backend.set(backend)
    try:
        yield
    finally:
        _backend.reset(token)


@dataclass(frozen=True)
class CrossEntropySums:
    """Sums over the rows whose label is not ignored; scalars.

    Attributes:
        loss: smoothed cross entropy, with gradient.
        nll: negative log-likelihood of the (first) labels, in nats, detached.
        correct: rows no symbol of which is more probable than the (first) label, detached.
        count: rows.
        reported: other sums by name, detached.
    """

    loss: Tensor
    nll: Tensor
    correct: Tensor
    count: Tensor
    reported: Mapping[str, Tensor] = field(default_factory=dict)


class Linear(Protocol):
    """A linear map to the vocabulary: ``weight`` (V, D), and ``bias`` (V,) or None."""

    @property
    def weight(self) -> Tensor:
        """The matrix."""

    @property
    def bias(self) -> Tensor | None:
        """The vector that is added to the logits."""


def label_smoothed_cross_entropy(
    states: Tensor,
    projection: Linear,
    labels: Tensor,
    *,
    weights: Tensor | None = None,
    label_smoothing: float = 0.0,
    chunk: int = CHUNK,
) -> CrossEntropySums:
    """Project states onto the vocabulary and sum the loss.

    ``chunk`` logits are computed at a time, and from them at once what the backward pass will want: the gradients of
    the states and of the matrix, which are as large as these are. So memory holds the logits of one chunk, not of the
    batch, and nothing is computed twice (the idea is that of Hsu et al. 2024, arXiv 2410.10989, section 3.2). The price
    is that only one backward pass can be done, and no second derivative. Rows to be ignored are projected too: to leave
    them out would make the host wait for the device.

    Args:
        states: (N, D).
        projection: onto the vocabulary.
        labels: (N,) int64, :data:`IGNORED` where a row counts for nothing; with ``weights`` (N, K), of which the first
            says whether a row counts. A symbol that is there twice has the sum of its weights.
        weights: (N, K), those of a row adding up to 1: the share of each label in the row's target.
        label_smoothing: eps, the probability mass taken from the label; of several, from the first one's share.
        chunk: logits (rows x V) at a time, at least those of one row.

    Raises:
        ValueError: if shapes or numbers do not fit.
    """
    expected = states.shape[:1] if weights is None else (len(states), *weights.shape[1:])
    if states.dim() != 2 or labels.shape != expected or (weights is not None and weights.shape != labels.shape):
        shape = "(N,)" if weights is None else f"(N, K), with weights {tuple(weights.shape)}"
        raise ValueError(f"states {tuple(states.shape)} and labels {tuple(labels.shape)} are not (N, D) and {shape}")
    if not 0 <= label_smoothing < 1 or chunk < 1:
        raise ValueError(f"need 0 <= label_smoothing < 1 and chunk >= 1, not {label_smoothing} and {chunk}")
    weight, bias = projection.weight, projection.bias
    rows = max(1, chunk // len(weight))
    learning = torch.is_grad_enabled()  # inside of what follows it never is
    loss, nll, correct = _ProjectedLoss.apply(states, weight, bias, labels, weights, label_smoothing, rows, learning)
    return CrossEntropySums(loss, nll, correct, (_first(labels) != IGNORED).sum())


def _first(labels: Tensor) -> Tensor:
    """Return the label (N,) that counts as the right one."""
    return labels if labels.dim() == 1 else labels[:, 0]


class _ProjectedLoss(torch.autograd.Function):
    """Sums of losses, negative log-likelihoods and right rows; logits are projected as autocast would.

    With p = softmax(logits) and q = eps / (V - 1), a row's loss is the cross entropy of p with a target that has
    1 - eps at the label and q elsewhere, so its gradient is p - q everywhere, less 1 - eps - q at the label. Of several
    labels, the target has the first one's weight times that, and the others' weights as they are.
    """

    @staticmethod
    def forward(
        ctx: Any,
        states: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        labels: Tensor,
        weights: Tensor | None,
        label_smoothing: float,
        rows: int,
        learning: bool,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return three scalars."""
        device, vocabulary = states.device.type, len(weight)
        cast = torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device)
        dtype = torch.get_autocast_dtype(device) if cast else weight.dtype
        precision = torch.promote_types(dtype, torch.float32)
        sums = (*(states.new_zeros((), dtype=precision) for _ in range(2)), labels.new_zeros(()))
        wanted = [needed and learning for needed in ctx.needs_input_grad[:3]]
        gradients = [
            torch.zeros_like(x) if x is not None and needed else None
            for x, needed in zip((states, weight, bias), wanted, strict=True)
        ]
        parts = max(1, math.ceil(len(states) / rows))
        rows = max(1, math.ceil(len(states) / parts))  # parts of one size: small ones are slow
        matrix = weight.to(dtype)
        # Written again and again: fresh memory of this size would cost as much as what is done with it.
        logits = states.new_empty(rows, vocabulary, dtype=dtype) if parts > 1 else linear(states.to(dtype), matrix)
        compiled = _backend.get()
        block = min(rows, max(FEWEST, BLOCK // vocabulary)) if device == "cpu" and compiled is None else rows
        in_place = compiled is not None or (device == "cpu" and dtype == precision)
        scores = None if in_place else torch.empty_like(logits[:block], dtype=precision)
        lose = functools.partial(_lose, scores=scores) if compiled is None else _compiled(compiled)
        for start in range(0, len(states), rows):
            part = slice(start, start + rows)
            x, part_labels = states[part].to(dtype), labels[part]
            part_weights = None if weights is None else weights[part].split(block)
            part_logits = logits[: len(x)]
            if parts > 1:
                write_product(part_logits, x, matrix.T)
            if bias is not None:
                part_logits += bias
            blocks = zip(part_logits.split(block), part_labels.split(block), strict=True)
            for number, (block_logits, block_labels) in enumerate(blocks):
                block_weights = None if part_weights is None else part_weights[number]
                block_sums = lose(block_logits, block_labels, block_weights, label_smoothing, any(wanted))
                for total, value in zip(sums, block_sums, strict=True):
                    total += value
                if any(wanted):
                    _take_from_labels(block_logits, block_labels, block_weights, label_smoothing)
            if any(wanted):
                real = (_first(part_labels) != IGNORED)[:, None]
                add_gradients(gradients, part_logits, part, x, matrix, real)
        loss, nll, correct = sums
        ctx.gradients, ctx.weight = gradients, weight
        ctx.mark_non_differentiable(nll, correct)
        return loss, nll, correct

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, scale: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients, scaled in place."""
        if ctx.gradients is None:
            raise RuntimeError("label_smoothed_cross_entropy keeps its gradients for one backward pass")
        gradients, ctx.gradients = ctx.gradients, None
        if gradients[1] is not None:
            announce_gradient(ctx.weight)
        return (*(None if x is None else x.mul_(scale) for x in gradients), None, None, None, None, None)


def _lose(
    logits: Tensor,
    labels: Tensor,
    weights: Tensor | None,
    label_smoothing: float,
    learning: bool,
    *,
    scores: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the sums of some rows; if anything is to learn, leave in ``logits`` (n, V) probabilities - q.

    ``scores`` (n or more, V) is where they are normalised, in at least single precision; by default, the logits.
    """
    scores = logits if scores is None else scores[: len(logits)]
    torch.log_softmax(logits, -1, dtype=scores.dtype, out=scores)
    label, ignored, at_label, everywhere = _targets(labels, weights, label_smoothing, logits.shape[1])
    of_labels = scores.gather(1, label)  # (n, K)
    lost = -(at_label * of_labels).sum(-1)
    if label_smoothing:  # the sum over the vocabulary is a pass over all logits: not made for nothing
        lost -= (everywhere * scores.sum(-1, keepdim=True))[:, 0]
    loss, nll = (values.masked_fill(ignored, 0).sum() for values in (lost, -of_labels[:, 0]))
    correct = ((of_labels[:, 0] == scores.amax(-1)) & ~ignored).sum()
    if learning:  # written over what is not needed any more, without a third (n, V)
        torch.sub(scores.exp_(), everywhere, out=logits)
    return loss, nll, correct


def _lose_at_once(
    logits: Tensor, labels: Tensor, weights: Tensor | None, label_smoothing: float, learning: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Do what :func:`_lose` does in a form of which a compiler makes two passes, without a copy of the logits."""
    exact = logits.to(torch.promote_types(logits.dtype, torch.float32))
    label, ignored, at_label, everywhere = _targets(labels, weights, label_smoothing, logits.shape[1])
    normaliser = exact.logsumexp(-1, keepdim=True)
    of_labels = exact.gather(1, label)  # (n, K)
    lost = -(at_label * (of_labels - normaliser)).sum(-1)
    if label_smoothing:
        lost = lost - (everywhere * (exact.sum(-1, keepdim=True) - logits.shape[1] * normaliser))[:, 0]
    loss, nll = (values.masked_fill(ignored, 0).sum() for values in (lost, (normaliser - of_labels)[:, 0]))
    correct = ((of_labels[:, 0] == exact.amax(-1)) & ~ignored).sum()
    if learning:
        logits.copy_((exact - normaliser).exp() - everywhere)
    return loss, nll, correct


@functools.cache
def _compiled(backend: str) -> Callable[..., tuple[Tensor, Tensor, Tensor]]:
    return torch.compile(_lose_at_once, dynamic=True, backend=backend)


def _take_from_labels(logits: Tensor, labels: Tensor, weights: Tensor | None, label_smoothing: float) -> None:
    """Make probabilities - q the gradient of the loss by the logits (n, V): probabilities - target."""
    label, _, at_label, _ = _targets(labels, weights, label_smoothing, logits.shape[1])
    taken = at_label.to(logits.dtype) if isinstance(at_label, Tensor) else logits.new_full((), at_label)
    logits.scatter_add_(1, label, -taken.expand_as(label))


def _targets(
    labels: Tensor, weights: Tensor | None, label_smoothing: float, vocabulary: int
) -> tuple[Tensor, Tensor, Tensor | float, Tensor | float]:
    """Return the labels (n, K) with 0 for ignored rows, which those are (n,), and :func:`_target`."""
    ignored = _first(labels) == IGNORED
    label = (labels[:, None] if weights is None else labels).masked_fill(ignored[:, None], 0)
    return label, ignored, *_target(weights, label_smoothing, vocabulary)


def _target(weights: Tensor | None, label_smoothing: float, vocabulary: int) -> tuple[Tensor | float, Tensor | float]:
    """Return the two parts of rows' targets: what their labels have beyond all symbols, and what all symbols have.

    They are (n, K) and (n, 1); without weights (n, K), numbers.
    """
    rest = label_smoothing / max(1, vocabulary - 1)
    if weights is None:
        return 1 - label_smoothing - rest, rest
    first, others = weights[:, :1], weights[:, 1:]
    return torch.cat([first * (1 - label_smoothing - rest), others], dim=1), first * rest


def add_gradients(
    gradients: list[Tensor | None], gradient: Tensor, part: slice, x: Tensor, matrix: Tensor, real: Tensor
) -> None:
    """Add what some rows contribute.

    Args:
        gradients: of states (N, D), matrix (V, D) and bias (V,); None for what does not learn.
        gradient: of logits (n, V).
        part: which states these are.
        x: (n, D), the states.
        matrix: (V, D).
        real: (n, 1) bool, False for rows to be ignored: they are left out here, where they are small.
    """
    of_states, of_matrix, of_bias = gradients
    if of_states is not None:
        torch.mul(linear(gradient, matrix.T), real, out=of_states[part])
    if of_matrix is not None:
        write_product(of_matrix, gradient.T, x * real, add=True)
    if of_bias is not None:
        of_bias += (real.to(gradient.dtype).T @ gradient)[0]


class CrossEntropyParts(TypedDict, total=False):
    """The arguments that objectives of other kinds hand on to :class:`CrossEntropy`."""

    label_smoothing: float
    target_field: str
    weight: float
    prefix: str
    source: str | None


class CrossEntropy(Part):
    """Label-smoothed cross entropy of a decoder's output, per target token, and what it is made of.

    The decoder reads ``target[:, :-1]`` and is asked for ``target[:, 1:]``. Terms: "cross_entropy" (per token, nats),
    and reported only: "nll" (without smoothing), "accuracy" (share of tokens whose most probable symbol is right when
    the right beginning is given).

    Args:
        label_smoothing: eps, the probability mass that the label gives to all other symbols.
        target_field: batch field (B, T) that begins with the start symbol and ends with the end symbol.
        weight: factor of the term in the loss.
        ignore_prefix: how many tokens after the start symbol are forced at inference, and so are not learned
            (fairseq's ``ignore_prefix_size``).
        chunk: logits at a time; see :func:`label_smoothed_cross_entropy`.
        prefix: put before the names of the terms, for a second part of this kind.
        source: the batch field whose encoding the decoder reads; by default the objective's own.
    """

    def __init__(
        self,
        *,
        label_smoothing: ShareBelowOne = 0.1,
        target_field: str = "target",
        weight: float = 1.0,
        ignore_prefix: NonNegativeInt = 0,
        chunk: PositiveInt = CHUNK,
        prefix: str = "",
        source: str | None = None,
    ) -> None:
        super().__init__(source=source)
        self.label_smoothing = label_smoothing
        self.target_field = target_field
        self.weight = weight
        self.ignore_prefix = ignore_prefix
        self.chunk = chunk
        self.prefix = prefix

    def counts(self, batch: Batch) -> dict[str, Tensor]:
        """Return the number of labels, which is the count of each term."""
        count = (batch[self.target_field].lengths - 1 - self.ignore_prefix).clamp(min=0).sum()
        return {f"{self.prefix}{name}": count for name in ("cross_entropy", "nll", "accuracy")}

    def terms(self, model: Any, batch: Batch, encoding: Encoding) -> dict[str, Term]:
        """Decode with the right beginnings and compare."""
        prefix = self.beginnings(batch)
        with naming_longest(batch, self.target_field):
            states = self.decode(model, prefix, encoding)
        return self.terms_of(model, batch, states)

    def beginnings(self, batch: Batch) -> Padded:
        """Return what the decoder reads, (B, T - 1) int64."""
        target = batch[self.target_field]
        return Padded(target.values[:, :-1], (target.lengths - 1).clamp(min=0))

    def terms_of(self, model: Any, batch: Batch, states: Tensor) -> dict[str, Term]:
        """Return the terms of the decoder's states (B, T - 1, D); subclasses may add others that read them."""
        target = batch[self.target_field]
        labels = target.values[:, 1:].masked_fill(~target.mask[:, 1:], IGNORED)
        labels[:, : self.ignore_prefix] = IGNORED
        sums = self.compare(model, batch, states.flatten(0, 1), labels.flatten())
        return {
            f"{self.prefix}cross_entropy": Term(sums.loss, sums.count, self.weight),
            f"{self.prefix}nll": Term(sums.nll, sums.count, 0.0),
            f"{self.prefix}accuracy": Term(sums.correct, sums.count, 0.0),
            **{f"{self.prefix}{name}": Term(value, sums.count, 0.0) for name, value in sums.reported.items()},
        }

    def decode(self, model: Any, prefix: Padded, encoding: Encoding) -> Tensor:
        """Return the decoder's states (B, T - 1, D); subclasses may choose another decoder."""
        return model.decode(prefix, encoding)

    def compare(self, model: Any, batch: Batch, states: Tensor, labels: Tensor) -> CrossEntropySums:
        """Return the sums for states (N, D) and their labels (N,); subclasses may add labels of their own."""
        return label_smoothed_cross_entropy(
            states, model.projection, labels, label_smoothing=self.label_smoothing, chunk=self.chunk
        )
