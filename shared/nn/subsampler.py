"""Subsamplers: fewer frames, each of the model's width.

Legend: B batch, T frames, F features, C channels, D model width.
"""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dragoman.shared.described import Described
from dragoman.shared.nn.layer import layer_norm
from dragoman.shared.nn.linear import Linear
from dragoman.shared.padded import Padded
from dragoman.shared.ranges import PositiveInt


class HalvingSubsampler(nn.Module):
    """Convolutions over time, padded, each with stride 2: of t frames (t - 1) // 2 + 1 are left."""

    STRIDE = 2
    convolutions: nn.ModuleList

    @property
    def stride(self) -> int:
        """The number of frames from one vector to the next."""
        return self.STRIDE ** len(self.convolutions)

    def lengths(self, frames: Tensor) -> Tensor:
        """Return how many of `frames` frames are left after all convolutions, (B,) int64."""
        for _ in self.convolutions:
            frames = self.halved(frames)
        return frames

    def halved(self, frames: Tensor) -> Tensor:
        """Return how many of `frames` frames are left after one convolution, (B,) int64."""
        return torch.div(frames - 1, self.STRIDE, rounding_mode="floor") + 1


class Conv1dSubsampler(Described, HalvingSubsampler):
    """Convolutions over time with stride 2, each followed by a gated linear unit (fairseq's s2t Conv1dSubsampler).

    Synnaeve et al. 2019 (arXiv 1911.08460), section 2. A row's result does not depend on the others of its batch: what
    is beyond its length counts as zero before every convolution.

    Args:
        inputs: F.
        channels: of the inner convolutions, before the gates halve them.
        width: D.
        kernels: the width of each convolution in frames, odd; as many numbers as convolutions.
    """

    def __init__(
        self,
        *,
        inputs: PositiveInt = 80,
        channels: PositiveInt = 1024,
        width: PositiveInt,
        kernels: list[PositiveInt] | None = None,
    ) -> None:
        super().__init__()
        kernels = [5, 5] if kernels is None else list(kernels)
        if not kernels or any(kernel % 2 == 0 for kernel in kernels):
            raise ValueError(f"kernels must be odd numbers, at least one, not {kernels}")
        if channels % 2:
            raise ValueError(f"channels must be even, not {channels}")
        outputs = [*[channels] * (len(kernels) - 1), 2 * width]
        entering = [inputs, *[size // 2 for size in outputs[:-1]]]
        self.inputs = inputs
        self.width = width
        self.convolutions = nn.ModuleList(
            nn.Conv1d(before, after, kernel, stride=self.STRIDE, padding=kernel // 2)
            for before, after, kernel in zip(entering, outputs, kernels, strict=True)
        )

    def forward(self, features: Padded) -> Padded:
        """Subsample features (B, T, F) to (B, T', D); padded places hold nothing of meaning."""
        x = features
        for convolution in self.convolutions:
            # Features are in single precision even where the model is not.
            values = (x.values * x.mask[..., None]).transpose(1, 2).to(cast(nn.Conv1d, convolution).weight.dtype)
            x = Padded(F.glu(convolution(values), dim=1).transpose(1, 2), self.halved(x.lengths), full=x.full)
        return x


class ConvolutionalStem(Described, nn.Module):
    """Two convolutions of three frames, each followed by GELU, the second with stride 2 (Radford et al. 2022, 2.2).

    A row's result does not depend on the others of its batch: what is beyond its length counts as zero.
    """

    KERNEL, STRIDE = 3, 2

    def __init__(self, *, inputs: PositiveInt = 80, width: PositiveInt) -> None:
        super().__init__()
        self.inputs = inputs
        self.width = width
        self.first = nn.Conv1d(inputs, width, self.KERNEL, padding=self.KERNEL // 2)
        self.second = nn.Conv1d(width, width, self.KERNEL, stride=self.STRIDE, padding=self.KERNEL // 2)

    @property
    def stride(self) -> int:
        """The number of frames from one vector to the next."""
        return self.STRIDE

    def lengths(self, frames: Tensor) -> Tensor:
        """Return how many of `frames` frames are left, (B,) int64."""
        return torch.div(frames - 1, self.STRIDE, rounding_mode="floor") + 1

    def forward(self, features: Padded) -> Padded:
        """Subsample features (B, T, F) to (B, T', D); padded places hold nothing of meaning."""
        mask = features.mask[:, None]
        # Features are in single precision even where the model is not.
        values = features.values.transpose(1, 2).to(self.first.weight.dtype) * mask
        values = F.gelu(self.first(values)) * mask
        return Padded(F.gelu(self.second(values)).transpose(1, 2), self.lengths(features.lengths), full=features.full)


class StackedFrames(Described, nn.Module):
    """Frames side by side, normalised and projected (as w2v-BERT 2.0 has them: Barrault et al. 2023).

    Frames at the end that do not fill a stack are left out, but for a row that has no other.

    Args:
        inputs: F.
        width: D.
        stride: how many frames become one.
        norm_epsilon: added to the variance by which the norm divides.
    """

    def __init__(
        self, *, inputs: PositiveInt = 80, width: PositiveInt, stride: PositiveInt = 2, norm_epsilon: float = 1e-5
    ) -> None:
        super().__init__()
        self.inputs = inputs
        self.width = width
        self.stride = stride
        self.norm = layer_norm(inputs * stride, norm_epsilon)
        self.projection = Linear(inputs * stride, width)

    def lengths(self, frames: Tensor) -> Tensor:
        """Return how many of `frames` frames are left, (B,) int64."""
        return torch.div(frames, self.stride, rounding_mode="floor").clamp(min=1)

    def forward(self, features: Padded) -> Padded:
        """Subsample features (B, T, F) to (B, T', D); padded places hold nothing of meaning."""
        # Features are in single precision even where the model is not.
        values = (features.values * features.mask[..., None]).to(self.norm.weight.dtype)
        count = int(self.lengths(torch.tensor(values.shape[1])))
        values = F.pad(values, (0, 0, 0, max(0, count * self.stride - values.shape[1])))[:, : count * self.stride]
        stacked = values.unflatten(1, (count, self.stride)).flatten(2)
        return Padded(self.projection(self.norm(stacked)), self.lengths(features.lengths), full=features.full)
