"""Draws from rows for training: masks of spans of time and of channels, and other elements of a row.

Legend: B batch, R rows, L length, K other elements, S frames, D width.

Baevski et al. 2020, section 3.1 and appendix B. What is drawn is what fairseq's compute_mask_indices draws: spans of
one length, which may overlap; but each row's on its own.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from dragoman.shared.described import Described
from dragoman.shared.padded import Padded
from dragoman.shared.ranges import NonNegativeInt, PositiveInt, Share


def spans(sizes: Tensor, length: int, *, probability: float, span: int, least: int = 0) -> Tensor:
    """Draw spans in rows of elements.

    A row of n elements has ``probability * n / span`` spans, rounded up or down at random so that the mean is right.
    They begin at different places and are cut at the row's end.

    Args:
        sizes: (R,) int64, the number of elements of each row.
        length: L, at least the largest size.
        probability: the share of elements that the spans would cover if they did not overlap.
        span: elements of one.
        least: spans of any row.

    Returns:
        (R, L) bool, True inside spans, False behind the end of a row.
    """
    device, rows = sizes.device, len(sizes)
    count = (probability * sizes / span + torch.rand(rows, device=device)).long().clamp(min=least)
    starts = torch.where(sizes - span <= count, count + 1, sizes - span)  # that many places may be a start
    width = length + least + 1
    places = torch.arange(width, device=device)
    keys = torch.rand(rows, width, device=device).masked_fill(places >= starts[:, None], -1)
    ranks = keys.argsort(dim=1, descending=True).argsort(dim=1)
    begun = (ranks < count[:, None]).int().cumsum(1)[:, :length]
    ended = torch.nn.functional.pad(begun, (span, 0))[:, :length]
    return (begun > ended) & (places[:length] < sizes[:, None])


def others(sizes: Tensor, count: int) -> Tensor:
    """Draw for each element of rows some others of its row, with repetition.

    Args:
        sizes: (R,) int64, the number of elements of each row, at least 2.
        count: K, for each element.

    Returns:
        (R, L, K) int64, the others' numbers; L is the largest size. Behind the end of a row they mean nothing.
    """
    device, longest = sizes.device, int(sizes.max())
    rest = (sizes - 1)[:, None, None]
    drawn = (torch.rand(len(sizes), longest, count, device=device) * rest).long()
    drawn = drawn.minimum(rest - 1)  # a random number just below 1 may have been rounded up
    places = torch.arange(longest, device=device)[None, :, None]
    return drawn + (drawn >= places)  # the element itself is skipped


class SpanMasking(Described, nn.Module):
    """Replace spans of frames by a trained vector, and spans of channels by zero; at rest in evaluation.

    Args:
        width: D.
        probability: share of frames in spans (before spans overlap), 0 for none.
        span: frames of a span.
        least: spans of a row.
        channel_probability: share of channels in spans, 0 for none.
        channel_span: channels of a span.
    """

    def __init__(
        self,
        *,
        width: int,
        probability: Share = 0.65,
        span: PositiveInt = 10,
        least: NonNegativeInt = 2,
        channel_probability: Share = 0.0,
        channel_span: PositiveInt = 10,
    ) -> None:
        super().__init__()
        self.width = width
        self.probability = probability
        self.span = span
        self.least = least
        self.channel_probability = channel_probability
        self.channel_span = channel_span
        self.vector = nn.Parameter(torch.empty(width).uniform_())

    def draw(self, x: Padded) -> tuple[Tensor, Tensor]:
        """Draw masks for x (B, S, D): of frames (B, S) and of channels (B, D), bool."""
        rows, length, width = x.values.shape
        frames = self.draw_frames(x.lengths, length)
        channels = torch.zeros((), dtype=torch.bool, device=x.device).expand(rows, width)
        if self.channel_probability > 0:
            sizes = torch.full((rows,), width, device=x.device)
            channels = spans(sizes, width, probability=self.channel_probability, span=self.channel_span)
        return frames, channels

    def draw_frames(self, sizes: Tensor, length: int) -> Tensor:
        """Draw a mask of frames (B, S) bool for rows of `sizes` frames, (B,) int64; S is `length`."""
        if self.probability == 0:
            return torch.zeros((), dtype=torch.bool, device=sizes.device).expand(len(sizes), length)
        return spans(sizes, length, probability=self.probability, span=self.span, least=self.least)

    def forward(self, x: Padded) -> Padded:
        """Mask x (B, S, D) in training; give it back as it is in evaluation."""
        return self.hide(x, *self.draw(x)) if self.training else x

    def hide(self, x: Padded, frames: Tensor, channels: Tensor | None = None) -> Padded:
        """Put the trained vector in the place of given frames (B, S), and zero into channels (B, D), both bool."""
        values = torch.where(frames[..., None], self.vector.to(x.values.dtype), x.values)
        return x.map(lambda _: values if channels is None else values.masked_fill(channels[:, None], 0))
