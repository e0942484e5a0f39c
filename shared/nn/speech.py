"""From sound to vectors: features, their normalisation and augmentation, subsampling, positions.

Legend: B batch, N samples, T frames, F mel bins, S subsampled frames, D model width.
"""

from __future__ import annotations

import math
from typing import Any, cast

import torch
from torch import Tensor, nn

from dragoman.shared.described import Described
from dragoman.shared.nn.dropout import dropout
from dragoman.shared.padded import Padded
from dragoman.shared.ranges import ShareBelowOne


class SpeechEmbedding(Described, nn.Module):
    """Waveforms to vectors: the front end of fairseq's s2t_transformer, computed in batch where the waveforms are.

    Args:
        frontend: waveforms (B, N) to features (B, T, F), such as an Fbank.
        normalisation: of the features, such as an UtteranceNorm; None for none.
        waveform_augmentation: of the waveforms in training, such as a WaveformAugmentation; None for none.
        augmentation: of the normalised features in training, such as a SpecAugment; None for none.
        subsampler: features to (B, S, D).
        positions: a module of shared/nn/positions.py, or None for no positions.
        type_vector: what is added to tell speech from other inputs, or None.
        dropout: of the sum.
        scaled: multiply the subsampled features by sqrt(D), as text embeddings are.
    """

    def __init__(
        self,
        *,
        frontend: nn.Module,
        subsampler: nn.Module,
        normalisation: nn.Module | None = None,
        augmentation: nn.Module | None = None,
        waveform_augmentation: nn.Module | None = None,
        positions: nn.Module | None = None,
        type_vector: nn.Module | None = None,
        dropout: ShareBelowOne = 0.1,
        scaled: bool = True,
    ) -> None:
        super().__init__()
        inputs = getattr(subsampler, "inputs", None)
        bins = getattr(frontend, "bins", inputs)
        if inputs is not None and bins != inputs:
            raise ValueError(f"a subsampler of {inputs} inputs cannot read features of {bins} bins")
        width = getattr(subsampler, "width", None)
        added = getattr(positions, "width", width)
        if added != width:
            raise ValueError(f"positions of width {added} cannot be added to a subsampler's vectors of width {width}")
        self.frontend = frontend
        self.normalisation = normalisation
        self.augmentation = augmentation
        self.subsampler = subsampler
        self.positions = positions
        self.type_vector = type_vector
        self.waveform_augmentation = waveform_augmentation
        self.dropout = dropout
        self.scaled = scaled

    @property
    def width(self) -> int:
        """The subsampler's width, D."""
        return int(cast(Any, self.subsampler).width)

    @property
    def window(self) -> int | None:
        """The samples that every row is brought to before it is read; None if the front end reads rows as they are."""
        return getattr(self.frontend, "window", None)

    @property
    def hop(self) -> int:
        """The number of samples from one frame to the next."""
        return int(cast(Any, self.frontend).hop)

    @property
    def stride(self) -> int:
        """The number of samples from one vector to the next."""
        return self.hop * int(cast(Any, self.subsampler).stride)

    def lengths(self, samples: Tensor) -> Tensor:
        """Return how many vectors rows of `samples` samples have, (B,) int64."""
        return cast(Tensor, cast(Any, self.subsampler).lengths(cast(Any, self.frontend).lengths(samples)))

    def forward(self, speech: Padded, hidden: Tensor | None = None) -> Padded:
        """Embed waveforms (B, N) in [-1, 1]: (B, S, D).

        Frames that ``hidden`` (B, T) bool marks are replaced by the mean of their row.
        """
        augmented = speech if self.waveform_augmentation is None else self.waveform_augmentation(speech)
        features = self.features(augmented)
        if hidden is not None:
            mean = features.mean()[:, None].to(features.values.dtype)
            features = features.map(lambda values: torch.where(hidden[..., None], mean, values))
        return self.embed(features if self.augmentation is None else self.augmentation(features))

    def features(self, speech: Padded) -> Padded:
        """Return normalised features (B, T, F) of waveforms (B, N), not augmented: what may be a target as well."""
        features = self.frontend(speech)
        return features if self.normalisation is None else self.normalisation(features)

    def embed(self, features: Padded) -> Padded:
        """Embed features (B, T, F), augmented or not: (B, S, D)."""
        x = self.subsampler(features)
        values = x.values
        if self.scaled:
            values = values * math.sqrt(values.shape[-1])
        if self.positions is not None:
            values = values + self.positions(values.shape[1], like=values)
        if self.type_vector is not None:
            values = self.type_vector(values)
        return Padded(dropout(values, self.dropout, self.training), x.lengths, full=x.full)
