"""From the states of an encoder to one number for several texts: a mixture of layers, pooling, a feed-forward net.

The parts of metrics that are trained on the judgements of people (Rei et al. 2020, "COMET", sections 2.1 to 2.4).

Legend: B segments, L length, D model width, M mixed layers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn

from dragoman.shared.annotations import Checked
from dragoman.shared.batch import Batch
from dragoman.shared.errors import UsageError
from dragoman.shared.nn.linear import Linear
from dragoman.shared.nn.translator import EncoderModel
from dragoman.shared.padded import Padded
from dragoman.shared.ranges import PositiveInt

#: Under the root of what normalises a text's states, as unbabel-comet has it.
EPSILON = 1e-12


def sparsemax(scores: Tensor) -> Tensor:
    """Return the point of the probability simplex that is nearest to scores (M,): some of its entries may be 0.

    Martins and Astudillo 2016, "From Softmax to Sparsemax", algorithm 1.
    """
    descending = scores.sort(descending=True).values
    sums = descending.cumsum(0)
    sizes = torch.arange(1, len(scores) + 1, device=scores.device, dtype=scores.dtype)
    support = int((1 + sizes * descending > sums).sum())
    threshold = (sums[support - 1] - 1) / support
    return (scores - threshold).clamp(min=0)


def softmax(scores: Tensor) -> Tensor:
    """Return the softmax of scores (M,)."""
    return scores.softmax(0)


TRANSFORMATIONS: dict[str, Callable[[Tensor], Tensor]] = {"softmax": softmax, "sparsemax": sparsemax}


class LayerMix(Checked, nn.Module):
    """A weighted mean of the states of all layers, times a trained number (Peters et al. 2018; Rei et al., eq. 1).

    Args:
        layers: M.
        transformation: what makes weights of trained numbers: "softmax" or "sparsemax".
        normalised: shift and scale the states of each text and layer to mean 0 and variance 1 first, over all elements
            and dimensions together.
    """

    def __init__(
        self,
        *,
        layers: PositiveInt,
        transformation: Literal["softmax", "sparsemax"] = "softmax",
        normalised: bool = False,
    ) -> None:
        super().__init__()
        self.transformation = transformation
        self.normalised = normalised
        self.scores = nn.Parameter(torch.zeros(layers))
        self.gamma = nn.Parameter(torch.ones(1))

    def forward(self, states: Sequence[Padded]) -> Padded:
        """Mix the states (B, L, D) of M layers."""
        weights = TRANSFORMATIONS[self.transformation](self.scores)
        values = [self._normalise(layer) if self.normalised else layer.values for layer in states]
        mixed = sum(weight * value for weight, value in zip(weights, values, strict=True))
        return states[0].map(lambda _: self.gamma * mixed)

    @staticmethod
    def _normalise(states: Padded) -> Tensor:
        mask = states.mask[..., None]
        count = states.lengths.reshape(-1, 1, 1) * states.values.shape[-1]
        mean = states.values.masked_fill(~mask, 0).sum((1, 2), keepdim=True) / count
        centred = states.values - mean
        variance = centred.masked_fill(~mask, 0).square().sum((1, 2), keepdim=True) / count
        return centred / (variance + EPSILON).sqrt()


def first(states: Padded) -> Tensor:
    """Return the states (B, D) of the first elements."""
    return states.values[:, 0]


def largest(states: Padded) -> Tensor:
    """Return the largest value of each dimension, (B, D)."""
    return states.values.masked_fill(~states.mask[..., None], -torch.inf).amax(1)


POOLING: dict[str, Callable[[Padded], Tensor]] = {"mean": Padded.mean, "first": first, "largest": largest}
ACTIVATIONS: dict[str, type[nn.Module]] = {"tanh": nn.Tanh, "sigmoid": nn.Sigmoid}


class Regressor(nn.Module):
    """An encoder, a vector of its states of a text, and a feed-forward net from vectors to a number.

    Args:
        model: an encoder that is tapped at the layers that are read.
        mix: of the tapped layers; None if there is one alone.
        vectors: how many vectors of width D the net reads, one behind the other.
        pooling: what makes a vector of a text's states: "mean", "first" or "largest".
        hidden: the widths of the net's inner layers.
        activation: behind each of them: "tanh" or "sigmoid".
        final_activation: behind the last layer, likewise; None for nothing.

    Raises:
        UsageError: for unknown names, or several taps without a mixture.
    """

    def __init__(
        self,
        *,
        model: EncoderModel,
        mix: LayerMix | None,
        vectors: PositiveInt,
        pooling: str = "mean",
        hidden: Sequence[int] = (3072, 1024),
        activation: str = "tanh",
        final_activation: str | None = None,
    ) -> None:
        super().__init__()
        for name, value, names in (
            ("pooling", pooling, POOLING),
            ("activation", activation, ACTIVATIONS),
            ("final_activation", final_activation or activation, ACTIVATIONS),
        ):
            if value not in names:
                raise UsageError(f"{name} must be one of {', '.join(names)}, not {value!r}")
        taps = len(model.taps)
        if taps != (1 if mix is None else len(mix.scores)):
            raise UsageError(f"the encoder has {taps} taps, and what reads them is made for another number")
        self.model = model
        self.mix = mix
        self.pooling = pooling
        widths = [vectors * model.encoder.width, *hidden]
        parts: list[nn.Module] = []
        for before, behind in zip(widths, widths[1:], strict=False):
            parts += [Linear(before, behind), ACTIVATIONS[activation]()]
        parts.append(Linear(widths[-1], 1))
        if final_activation is not None:
            parts.append(ACTIVATIONS[final_activation]())
        self.estimator = nn.Sequential(*parts)

    def vectors(self, tokens: Padded) -> Tensor:
        """Return a vector (B, D) for each text of tokens (B, L) int64."""
        encoding = self.model.encode(Batch({"source": tokens}), "source")
        states = [self.model.tap(encoding, tap) for tap in self.model.taps]
        return POOLING[self.pooling](states[0] if self.mix is None else self.mix(states))


class SegmentRegressor(Regressor):
    """A score for a translation, seen beside its source and, if it was trained so, its reference.

    Each text becomes a vector of its own: h of the hypothesis, s of the source, r of the reference. The net reads
    [h; r; h * r; |h - r|; h * s; |h - s|] (Rei et al. 2020, section 2.4), or without a reference
    [h; s; h * s; |h - s|].

    Args:
        with_reference: whether it reads references.
        options: those of :class:`Regressor`, without ``vectors``.
    """

    def __init__(self, *, with_reference: bool = True, **options: Any) -> None:
        super().__init__(vectors=6 if with_reference else 4, **options)
        self.with_reference = with_reference

    def forward(self, hypothesis: Tensor, source: Tensor, reference: Tensor | None = None) -> Tensor:
        """Return the scores (B,) of vectors (B, D).

        Raises:
            UsageError: if a reference is missing, or is given to a model that reads none.
        """
        if (reference is not None) != self.with_reference:
            raise UsageError(f"this model reads {'a' if self.with_reference else 'no'} reference")
        parts = [hypothesis, source, hypothesis * source, (hypothesis - source).abs()]
        if reference is not None:
            product, distance = hypothesis * reference, (hypothesis - reference).abs()
            parts = [hypothesis, reference, product, distance, parts[2], parts[3]]
        return self.estimator(torch.cat(parts, dim=-1)).squeeze(-1)


class JointRegressor(Regressor):
    """A score for a translation that stands with its source, a reference or both in one sequence.

    The net reads the state of the first symbol (Wan et al. 2022, "UniTE"; Rei et al. 2022, "CometKiwi", section 2.1).

    Args:
        options: those of :class:`Regressor`, without ``vectors`` and ``pooling``.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(vectors=1, pooling="first", **options)

    def forward(self, tokens: Padded) -> Tensor:
        """Return the scores (B,) of sequences of tokens (B, L) int64."""
        return self.estimator(self.vectors(tokens)).squeeze(-1)
