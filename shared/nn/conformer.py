"""The Conformer layer: attention with relative positions and a convolution, between two halves of a feed-forward net.

Gulati et al. 2020, Interspeech, "Conformer: Convolution-augmented Transformer for Speech Recognition", arXiv
2005.08100, sections 2.1 to 2.4:

    x <- x + 1/2 FeedForward(x); x <- x + Attention(x); x <- x + Convolution(x); x <- Norm(x + 1/2 FeedForward(x))

where each module normalises what enters it. Not for decoders: every frame sees the whole sequence.

Differs from the paper: in the convolution, in place of batch normalisation, channels of a frame are normalised: what a
row becomes does not depend on the others of its batch, nor on how many processes train. Two one-dimensional
convolutions subsample (recipes/base/speech.yaml), as in fairseq's s2t_conformer.

Legend: R rows, L length, D model width, H heads, d = D / H, K kernel.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dragoman.shared.annotations import Checked
from dragoman.shared.nn.attention import MultiHeadAttention, Prompts, projection
from dragoman.shared.nn.dropout import dropout
from dragoman.shared.nn.layer import EncoderLayer, activation_module, layer_norm
from dragoman.shared.nn.linear import Linear
from dragoman.shared.nn.positions import SinusoidalPositions
from dragoman.shared.padded import Padded
from dragoman.shared.ranges import NonNegativeInt, PositiveInt


class RelativeAttention(MultiHeadAttention):
    """Attention of a sequence to itself, by content and by distance (Dai et al. 2019, section 3.3).

    The score of key j for query i is ((q_i + u) k_j + (q_i + v) W r_{i-j}) / sqrt(d), where r are sinusoids.

    Args:
        width: D.
        heads: H, which divides D.
        dropout: of attention weights.
    """

    def __init__(self, *, width: int, heads: int, dropout: float = 0.0) -> None:
        super().__init__(width=width, heads=heads, dropout=dropout)
        self.queries_keys_values = projection(width, width, 3)
        self.distances = SinusoidalPositions(width=width, offset=0, endpoint=False)
        self.distance_keys = Linear(width, width, bias=False)
        nn.init.xavier_uniform_(self.distance_keys.weight)
        self.content_bias = nn.Parameter(torch.zeros(heads, 1, width // heads))
        self.distance_bias = nn.Parameter(torch.zeros(heads, 1, width // heads))

    def forward(self, x: Tensor, *, mask: Tensor | None = None) -> Tensor:
        """Attend from x (R, L, D) to itself, where ``mask`` (R, L) bool is True; None: everywhere. (R, L, D)."""
        rows, length, _ = x.shape
        queries, keys, values = self.split(self.queries_keys_values(x), 3)
        # From the sequence's last element to its first one, seen from the last, down to the other way round.
        distances = self.distance_keys(self.distances(2 * length - 1, 1 - length, like=x).flip(0))
        distances = distances.view(2 * length - 1, self.heads, -1).permute(1, 2, 0)
        scores = by_key((queries + self.distance_bias) @ distances) * distances.shape[1] ** -0.5
        if mask is not None:
            scores = scores.masked_fill(~mask[:, None, None, :], float("-inf"))
        attended = self.attend(queries + self.content_bias, keys, values, scores)
        return self.output(attended.transpose(1, 2).reshape(rows, length, self.width))


class ClippedAttention(MultiHeadAttention):
    """Attention of a sequence to itself, by content and by a trained vector for each distance (Shaw et al. 2018).

    The score of key j for query i is q_i (k_j + r_{j-i}) / sqrt(d), with one vector for all that is further than the
    furthest distance on its side. Values have none.

    Args:
        width: D.
        heads: H, which divides D.
        behind: the furthest distance of a key before its query.
        ahead: of a key after it.
        dropout: of attention weights.
    """

    def __init__(
        self, *, width: int, heads: int, behind: NonNegativeInt, ahead: NonNegativeInt, dropout: float = 0.0
    ) -> None:
        super().__init__(width=width, heads=heads, dropout=dropout)
        self.behind = behind
        self.ahead = ahead
        self.queries_keys_values = projection(width, width, 3)
        self.distance_keys = nn.Parameter(torch.empty(behind + 1 + ahead, width // heads))
        nn.init.xavier_uniform_(self.distance_keys)

    def forward(self, x: Tensor, *, mask: Tensor | None = None) -> Tensor:
        """Attend from x (R, L, D) to itself, where ``mask`` (R, L) bool is True; None: everywhere. (R, L, D)."""
        rows, length, _ = x.shape
        queries, keys, values = self.split(self.queries_keys_values(x), 3)
        places = torch.arange(length, device=x.device)
        distances = (places - places[:, None]).clamp(-self.behind, self.ahead) + self.behind
        # One product for each distance that is told apart, and each is then put where it belongs.
        by_distance = queries @ self.distance_keys.to(queries.dtype).T * queries.shape[-1] ** -0.5
        scores = by_distance.gather(-1, distances.expand(rows, self.heads, -1, -1))
        if mask is not None:
            scores = scores.masked_fill(~mask[:, None, None, :], float("-inf"))
        attended = self.attend(queries, keys, values, scores)
        return self.output(attended.transpose(1, 2).reshape(rows, length, self.width))


def by_key(scores: Tensor) -> Tensor:
    """Turn scores by distance, L - 1 to 1 - L (..., L, 2 L - 1), into those by key 0 to L - 1 (..., L, L).

    Query i finds key j, which is i - j before it, in column L - 1 - i + j: one further left from row to row, so that
    rows of one element less, taken out of the same memory, have all keys in the same columns.
    """
    length = scores.shape[-2]
    if length == 1:
        return scores
    short = 2 * length - 2
    flat = scores.flatten(-2)[..., length - 1 : length - 1 + length * short]
    return flat.unflatten(-1, (length, short))[..., :length]


class ConvolutionModule(Checked, nn.Module):
    """A gated linear unit, a depthwise convolution over time, swish and a linear map (Gulati et al. 2020, section 2.2).

    Args:
        width: D.
        kernel: K, in frames; odd, so that a frame is in the middle of what it sees, unless ``causal``.
        norm_epsilon: added to the variance by which the norms divide.
        causal: a frame is the last of what it sees.

    Raises:
        ValueError: if the kernel is even and has a middle.
    """

    def __init__(self, *, width: int, kernel: PositiveInt, norm_epsilon: float, causal: bool = False) -> None:
        super().__init__()
        if kernel % 2 == 0 and not causal:
            raise ValueError(f"kernel must be odd, not {kernel}")
        self.before = kernel - 1 if causal else kernel // 2
        self.norm = layer_norm(width, norm_epsilon)
        self.gated = Linear(width, 2 * width, bias=False)
        padding = 0 if causal else self.before
        self.depthwise = nn.Conv1d(width, width, kernel, padding=padding, groups=width, bias=False)
        self.causal = causal
        self.depthwise_norm = layer_norm(width, norm_epsilon)
        self.activation = activation_module("swish")
        self.output = Linear(width, width, bias=False)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Convolve x (R, L, D); where ``mask`` (R, L) is False, a neighbour finds 0."""
        h = F.glu(self.gated(self.norm(x)), dim=-1)
        if mask is not None:
            h = h.masked_fill(~mask[..., None], 0)
        h = h.transpose(1, 2)
        h = self.depthwise(F.pad(h, (self.before, 0)) if self.causal else h).transpose(1, 2)
        return self.output(self.activation(self.depthwise_norm(h)))


class FeedForward(nn.Module):
    """A norm and a feed-forward net (Gulati et al. 2020, section 2.3).

    Args:
        width: D.
        inner: its inner width.
        dropout: inside it.
        activation: "swish" in the paper; see :class:`dragoman.shared.nn.layer.Layer`.
        norm_epsilon: added to the variance by which the norm divides.
    """

    def __init__(self, *, width: int, inner: int, dropout: float, activation: str, norm_epsilon: float) -> None:
        super().__init__()
        self.norm = layer_norm(width, norm_epsilon)
        self.inner = Linear(width, inner)
        self.activation = activation_module(activation)
        self.outer = Linear(inner, width)
        self.dropout = dropout

    def forward(self, x: Tensor) -> Tensor:
        """Return what is added to x (R, L, D)."""
        return self.outer(dropout(self.activation(self.inner(self.norm(x))), self.dropout, self.training))


class ConformerLayer(EncoderLayer):
    """One layer of a Conformer encoder.

    Args:
        width: D.
        heads: of the attention.
        feedforward: inner width of both feed-forward nets.
        kernel: K of the depthwise convolution, in frames.
        dropout: of what each module adds.
        attention_dropout: of attention weights.
        activation_dropout: inside the feed-forward nets.
        activation: of the feed-forward nets: "swish", "relu", "gelu" or "gelu_tanh".
        norm_epsilon: added to the variance by which a normalisation divides.
        distances: the furthest distances, behind and ahead, of which the attention has trained vectors: see
            :class:`ClippedAttention`. None: it has the paper's own, :class:`RelativeAttention`.
        causal: the convolution sees no later frame, as the attention does.

    Raises:
        ValueError: for an even kernel with a middle, or other than two distances.
    """

    def __init__(
        self,
        *,
        width: int,
        heads: int,
        feedforward: int,
        kernel: int = 31,
        dropout: float = 0.1,
        attention_dropout: float = 0.0,
        activation_dropout: float = 0.0,
        activation: str = "swish",
        norm_epsilon: float = 1e-5,
        distances: list[int] | None = None,
        causal: bool = False,
    ) -> None:
        super().__init__(
            width=width,
            feedforward=feedforward,
            dropout=dropout,
            activation_dropout=activation_dropout,
            pre_norm=False,
            norm_epsilon=norm_epsilon,
        )
        self.first, self.second = (
            FeedForward(
                width=width,
                inner=feedforward,
                dropout=activation_dropout,
                activation=activation,
                norm_epsilon=norm_epsilon,
            )
            for _ in range(2)
        )
        if distances is None:
            self.self_attention: nn.Module = RelativeAttention(width=width, heads=heads, dropout=attention_dropout)
        elif len(distances) == 2:
            self.self_attention = ClippedAttention(
                width=width, heads=heads, behind=distances[0], ahead=distances[1], dropout=attention_dropout
            )
        else:
            raise ValueError(f"distances must be two, behind and ahead, not {distances}")
        self.self_attention_norm = layer_norm(width, norm_epsilon)
        self.convolution = ConvolutionModule(width=width, kernel=kernel, norm_epsilon=norm_epsilon, causal=causal)
        self.norm = layer_norm(width, norm_epsilon)

    def forward(
        self,
        x: Tensor,
        *,
        mask: Tensor | None = None,
        memories: Mapping[str, Padded] | None = None,
        prompts: Prompts | None = None,
    ) -> Tensor:
        """Apply the layer to x (R, L, D); mask (R, L) bool is True where an element is real, at least one a row.

        Raises:
            ValueError: if there are memories or prompts.
        """
        if memories or prompts is not None:
            raise ValueError("a Conformer layer attends to its own sequence only, not to memories or prompts")
        x = x + self.drop(self.first(x)) / 2
        x = x + self.drop(self.self_attention(self.self_attention_norm(x), mask=mask))
        x = x + self.drop(self.convolution(x, mask))
        return self.norm(x + self.drop(self.second(x)) / 2)
