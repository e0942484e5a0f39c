"""Norms of what convolutions give: each row is normalised over its own frames, so that its batch does not matter.

Legend: B batch, C channels, S frames.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class FrameNorm(nn.Module):
    """Base class of the norms of convolutions: a factor and a summand for each channel."""

    EPSILON = 1e-5

    def __init__(self, *, channels: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))


class ChannelNorm(FrameNorm):
    """Layer normalisation of each frame."""

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        """Normalise x (B, C, S), of whatever lengths, in float32."""
        scale = self.weight.float(), self.bias.float()
        values = F.layer_norm(x.transpose(1, 2).float(), self.weight.shape, *scale, self.EPSILON)
        return values.transpose(1, 2).to(x.dtype).contiguous()  # GELU and its gradient are slow on transposed values


class TimeNorm(FrameNorm):
    """Group normalisation with a group for each channel (Wu and He 2018), over the real frames of each row.

    Others take the padding in, and so give a row other vectors in another batch.
    """

    TOGETHER: tuple[int, ...] = (2,)  # dimensions of (B, C, S)

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        """Normalise x (B, C, S), of which ``lengths`` (B,) are real, in float32."""
        padding = (torch.arange(x.shape[2], device=x.device) >= lengths[:, None])[:, None]
        values, count = x.float(), lengths[:, None, None] * (x.shape[1] if 1 in self.TOGETHER else 1)
        mean = values.masked_fill(padding, 0).sum(self.TOGETHER, keepdim=True) / count
        centred = (values - mean).masked_fill(padding, 0)
        variance = centred.square().sum(self.TOGETHER, keepdim=True) / count
        scale = self.weight[:, None] * (variance + self.EPSILON).rsqrt()
        return (centred * scale + self.bias[:, None]).to(x.dtype)


class WholeNorm(TimeNorm):
    """Group normalisation with one group: all channels of a row's real frames together."""

    TOGETHER = (1, 2)
