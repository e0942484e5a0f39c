"""The best of all continuations of a sentence's beams.

Legend: A sentences, K beams, V vocabulary, C candidates.
"""

from __future__ import annotations

import torch
from torch import Tensor

BLOCK = 128


def best_continuations(scores: Tensor, beams: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return what ``(scores + beams[..., None]).flatten(1).topk(count)`` returns, sooner and without writing the sum.

    The C best stand in the C blocks with the greatest maxima, and only those are sorted out: finding maxima is one
    pass, of which a processor does many steps at once.

    Args:
        scores: (A, K, V) of each token after each beam; what is not a number counts as the greatest, as in ``topk``.
        beams: (A, K) scores of the beams, which are added.
        count: C, at most K V.

    Returns:
        The sums (A, C), best first, and their places (A, C) int64 in the K V of a sentence. Equal ones stand in any
        order.
    """
    width, vocabulary = scores.shape[1:]
    blocks = vocabulary // BLOCK  # of a beam; what is left behind the last is looked through as well
    if blocks * width <= count:
        best, places = (scores + beams[..., None]).flatten(1).topk(count, dim=1)
        return best, places
    whole = blocks * BLOCK
    maxima = scores[..., :whole].unflatten(-1, (blocks, BLOCK)).amax(-1) + beams[..., None]
    chosen = maxima.flatten(1).topk(count, dim=1, sorted=False).indices
    first = torch.div(chosen, blocks, rounding_mode="floor") * vocabulary + chosen % blocks * BLOCK
    places = (first[..., None] + torch.arange(BLOCK, device=scores.device)).flatten(1)
    if whole < vocabulary:
        starts = torch.arange(width, device=scores.device)[:, None] * vocabulary
        rest = (starts + torch.arange(whole, vocabulary, device=scores.device)).flatten()
        places = torch.cat([places, rest.expand(len(places), -1)], dim=1)
    owners = torch.div(places, vocabulary, rounding_mode="floor")
    sums = scores.flatten(1).gather(1, places) + beams.gather(1, owners)
    best, order = sums.topk(count, dim=1)
    return best, places.gather(1, order)
