"""XSTNet: one encoder-decoder for speech and text, trained on three tasks (Ye et al. 2021, Interspeech, section 2).

Symbols alone say what is read and what is to be written::

    speech translation    <audio> sound  ->  <de> translation      L_ST  = -sum_t log p(y_t | y_<t, sound)
    recognition           <audio> sound  ->  <en> transcript       L_ASR = -sum_t log p(x_t | x_<t, sound)
    text translation      <en> text      ->  <de> translation      L_MT  = -sum_t log p(y_t | y_<t, x)

Training is progressive (section 2.3): first L_MT on external text, then L = L_ST + L_ASR + L_MT on triples and on the
external text, which is never dropped. ``recipes/base/xstnet.yaml`` composes this of a TaskObjective and two phases; the
symbol <audio> remains for this file.

Differs from the paper: on Almanac the acoustic encoder is a recogniser's, not wav2vec 2.0. Differs from the release:
source, target and output share vectors, there target and output do; encoders drop out 10 %, there 15 %.

Not established: the rate of the first stage and the number of updates.

Legend: B batch, T frames, S subsampled frames, F features, D model width.
"""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor, nn

from dragoman.shared.described import Described
from dragoman.shared.padded import Padded


class Tagged(Described, nn.Module):
    """A subsampler whose output begins with a trained vector, the symbol <audio>; positions are added to both later.

    Args:
        subsampler: features (B, T, F) to (B, S, D), such as a Conv1dSubsampler.
    """

    def __init__(self, *, subsampler: nn.Module) -> None:
        super().__init__()
        self.subsampler = subsampler
        self.inputs = cast(Any, subsampler).inputs
        self.width = cast(Any, subsampler).width
        self.tag = nn.Parameter(torch.empty(self.width))
        nn.init.normal_(self.tag, std=self.width**-0.5)  # as the vectors of text symbols

    def lengths(self, frames: Tensor) -> Tensor:
        """Return how many vectors rows of `frames` frames become, (B,) int64."""
        return cast(Tensor, cast(Any, self.subsampler).lengths(frames)) + 1

    def forward(self, features: Padded) -> Padded:
        """Subsample features (B, T, F) and put the vector before them: (B, 1 + S, D)."""
        x = self.subsampler(features)
        tags = self.tag.to(x.values.dtype).expand(len(x), 1, -1)
        return Padded(torch.cat([tags, x.values], dim=1), x.lengths + 1)
