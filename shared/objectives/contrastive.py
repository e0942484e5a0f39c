"""Contrastive loss: an anchor is to be more similar to its positive than to other candidates (InfoNCE).

van den Oord et al. 2018, arXiv 1807.03748, equation 4; with cosines and a temperature, as in Chen et al. 2020, arXiv
2002.05709, equation 1.

Legend: N anchors, M candidates, D width; ``...`` stands for leading dimensions, such as the sentences of a batch.
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
    """Sums over the anchors that have a positive; scalars.

    Attributes:
        loss: in nats, with gradient.
        correct: anchors to which no candidate is more similar than the positive, detached.
        count: anchors.

    """

    loss: Tensor
    correct: Tensor
    count: Tensor


def contrastive(
    anchors: Tensor,
    candidates: Tensor,
    *,
    temperature: float,
    positives: Tensor | None = None,
    allowed: Tensor | None = None,
) -> ContrastiveSums:
    r"""Sum - log exp(cos(a, c+) / temperature) / sum_c exp(cos(a, c) / temperature) over anchors ``a``.

    The softmax runs over the candidates of each anchor, not over the anchors of each candidate: exchange the two
    arguments, or add both losses, for the other direction. It is computed in single precision, also under autocast.

    Three uses: sentence vectors over a batch (N, D) and (N, D); slots of the same sentence (B, N, D) and (B, N, D);
    candidates drawn for each anchor (N, 1, D) and (N, M, D), with positives of zeros if the first candidate is right.

    Args:
        anchors: (..., N, D).
        candidates: (..., M, D).
        temperature: by which cosines are divided.
        positives: (..., N) int64, the number of each anchor's positive; default: anchor n has candidate n.
        allowed: bool that broadcasts to (..., N, M): which candidates an anchor is compared with. For groups, compare
            their numbers: ``groups[:, None] == groups``. Padding is never allowed. An anchor whose positive is not
            allowed, such as padding itself, counts for nothing.

    Raises:
        ValueError: if shapes do not fit or the temperature is not positive.

    """
    if not temperature > 0:
        raise ValueError(f"temperature must be positive, not {temperature}")
    if anchors.dim() != candidates.dim() or anchors.shape[:-2] != candidates.shape[:-2]:
        raise ValueError(f"anchors {tuple(anchors.shape)} and candidates {tuple(candidates.shape)} do not fit")
    if positives is None:
        if anchors.shape[-2] != candidates.shape[-2]:
            raise ValueError(
                f"without positives, there must be one candidate for each anchor, not {candidates.shape[-2]} for "
                f"{anchors.shape[-2]}"
            )
        positives = torch.arange(anchors.shape[-2], device=anchors.device).expand(anchors.shape[:-1])
    with torch.autocast(anchors.device.type, enabled=False):
        similarities = _unit(anchors) @ _unit(candidates).transpose(-1, -2) / temperature  # (..., N, M)
    counted = torch.ones_like(positives, dtype=torch.bool)
    if allowed is not None:
        allowed = allowed.expand_as(similarities)
        counted = allowed.gather(-1, positives[..., None])[..., 0]
        # Finite, since the gradient of an anchor without any candidate would be NaN, which no later mask removes.
        similarities = similarities.masked_fill(~allowed, torch.finfo(similarities.dtype).min)
    of_positive = similarities.gather(-1, positives[..., None])[..., 0]  # (..., N)
    losses = similarities.logsumexp(-1) - of_positive
    correct = (of_positive >= similarities.amax(-1)) & counted
    return ContrastiveSums(losses.masked_fill(~counted, 0.0).sum(), correct.sum(), counted.sum())


def _unit(vectors: Tensor) -> Tensor:
    return F.normalize(vectors.float(), dim=-1, eps=SHORTEST)
