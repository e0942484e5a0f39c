"""Contrastive loss: an anchor is to be more similar to its positive than to other candidates (InfoNCE).

van den Oord et al. 2018, arXiv 1807.03748, equation 4; with cosines and a temperature, as in Chen et al. 2020, arXiv
2002.05709, equation 1.

Legend: N anchors and candidates, D width; ``...`` stands for leading dimensions, such as the sentences of a batch.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

#: Vectors shorter than this are divided by it, not by their length.
SHORTEST = 1e-8


@dataclass(frozen=True)
class ContrastiveSums:
    """Sums over anchors; scalars.

    Attributes:
        loss: in nats, with gradient.
        correct: anchors to which no candidate is more similar than the positive, detached.
        count: anchors.
    """

    loss: Tensor
    correct: Tensor
    count: Tensor


def contrastive(anchors: Tensor, candidates: Tensor, *, temperature: float) -> ContrastiveSums:
    r"""Sum - log exp(cos(a_n, c_n) / temperature) / sum_m exp(cos(a_n, c_m) / temperature) over anchors ``a_n``.

    The softmax runs over the candidates of each anchor, not over the anchors of each candidate: exchange the two
    arguments, or add both losses, for the other direction. It is computed in single precision, also under autocast.

    Two uses: sentence vectors over a batch (N, D) and (N, D); slots of the same sentence (B, N, D) and (B, N, D).

    Args:
        anchors: (..., N, D).
        candidates: (..., N, D); the positive of anchor n is candidate n.
        temperature: by which cosines are divided.

    Raises:
        ValueError: if shapes differ or the temperature is not positive.
    """
    if not temperature > 0:
        raise ValueError(f"temperature must be positive, not {temperature}")
    if anchors.shape != candidates.shape:
        raise ValueError(f"anchors {tuple(anchors.shape)} and candidates {tuple(candidates.shape)} do not fit")
    with torch.autocast(anchors.device.type, enabled=False):
        similarities = _unit(anchors) @ _unit(candidates).transpose(-1, -2) / temperature  # (..., N, N)
    of_positive = similarities.diagonal(dim1=-2, dim2=-1)  # (..., N)
    loss = (similarities.logsumexp(-1) - of_positive).sum()
    correct = (of_positive >= similarities.amax(-1)).sum()
    return ContrastiveSums(loss, correct, correct.new_tensor(of_positive.numel()))


def _unit(vectors: Tensor) -> Tensor:
    return F.normalize(vectors.float(), dim=-1, eps=SHORTEST)
