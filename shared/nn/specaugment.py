"""SpecAugment: bands of frequencies and stretches of time, drawn at random, are hidden in training.

Legend: B batch, T frames, F mel bins, M masks.

Park et al. 2019, section 2, without time warping.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from dragoman.shared.described import Described
from dragoman.shared.padded import Padded
from dragoman.shared.ranges import NonNegativeInt, Share


class SpecAugment(Described, nn.Module):
    """Hide bands and stretches; each row draws its own, and knows its own length.

    The policies of the paper: LB is the default, LD has two masks of each kind (``frequency_masks=2, time_masks=2``).
    What is hidden becomes 0, which is the mean of normalised features.

    Args:
        frequency_masks: how many bands.
        frequency_width: the widest band, in bins (F in the paper); widths are uniform from 0 to it.
        time_masks: how many stretches.
        time_width: the widest stretch, in frames (T in the paper).
        time_share: no stretch is wider than this share of the row's own length (p in the paper).
    """

    def __init__(
        self,
        *,
        frequency_masks: NonNegativeInt = 1,
        frequency_width: NonNegativeInt = 27,
        time_masks: NonNegativeInt = 1,
        time_width: NonNegativeInt = 100,
        time_share: Share = 1.0,
    ) -> None:
        super().__init__()
        self.frequency_masks = frequency_masks
        self.frequency_width = frequency_width
        self.time_masks = time_masks
        self.time_width = time_width
        self.time_share = time_share

    def forward(self, features: Padded) -> Padded:
        """Hide parts of features (B, T, F) in training; give them back as they are in evaluation.

        Random numbers come from torch's generator on the features' device, which is never waited for.
        """
        if not self.training:
            return features
        rows, _, bins = features.values.shape
        hidden = torch.zeros((), dtype=torch.bool, device=features.device)
        if self.frequency_masks:
            size = torch.full((rows, 1), bins, device=features.device)
            widest = size.clamp(max=self.frequency_width)
            hidden = hidden | _stretches(size, widest, self.frequency_masks, bins)[:, None, :]
        if self.time_masks:
            size = features.lengths[:, None]
            widest = (size * self.time_share).long().clamp(max=self.time_width)
            hidden = hidden | _stretches(size, widest, self.time_masks, features.values.shape[1])[:, :, None]
        return features.map(lambda values: values.masked_fill(hidden, 0.0))


def _stretches(size: Tensor, widest: Tensor, masks: int, length: int) -> Tensor:
    """Return the union (B, length) bool of ``masks`` stretches inside the first ``size`` (B, 1) elements.

    A stretch's width is uniform on 0 ... widest (B, 1), its start uniform on where it fits.
    """
    uniform = torch.rand(2, size.shape[0], masks, device=size.device)
    width = (uniform[0] * (widest + 1)).long().clamp(max=widest)
    start = (uniform[1] * (size - width + 1)).long().clamp(max=size - width)
    places = torch.arange(length, device=size.device)
    inside = (places >= start[..., None]) & (places < (start + width)[..., None])
    return inside.any(1)
