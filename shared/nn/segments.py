"""Segments of sequences: stretches of elements, given by the first one and the one after the last; a row has several.

Legend: B rows, L elements, W segments of a row, D width.
"""

from __future__ import annotations

import torch
from torch import Tensor


def touched(samples: Tensor, stride: int) -> Tensor:
    """Return the elements that stretches of samples touch, where every ``stride`` samples an element begins.

    Args:
        samples: (..., 2) int64: first sample, and the one behind the last.
        stride: of the elements.

    Returns:
        (..., 2) int64: first element (rounded down), and the one behind the last (rounded up).
    """
    first, end = samples.unbind(-1)
    return torch.stack([first // stride, -(-end // stride)], dim=-1)


def cut(segments: Tensor, lengths: Tensor) -> Tensor:
    """Return segments (B, W, 2) of rows of ``lengths`` (B,) elements: what is behind the last one becomes that one."""
    first, end = segments.unbind(-1)
    length = lengths[:, None]
    first = first.minimum(length - 1)
    return torch.stack([first, end.minimum(length).maximum(first + 1)], dim=-1)


def inside(segments: Tensor, length: int) -> Tensor:
    """Return which of L elements each segment (B, W, 2) has, (B, W, L) bool."""
    places = torch.arange(length, device=segments.device)
    return (places >= segments[..., :1]) & (places < segments[..., 1:])


def segment_means(states: Tensor, segments: Tensor) -> Tensor:
    """Return the mean of the states (B, L, D) in each segment (B, W, 2): (B, W, D), 0 where a segment has none."""
    weights = inside(segments, states.shape[1]).to(states.dtype)
    return (weights / weights.sum(-1, keepdim=True).clamp(min=1)) @ states
