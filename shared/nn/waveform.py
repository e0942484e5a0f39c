"""From waveforms to vectors without filterbanks: trained convolutions, whose outputs an encoder takes up.

Legend: B batch, N samples, C channels, S frames, D model width.

The front end of Baevski et al. 2020 (section 2), which pre-trained speech encoders of several methods share. With an
Encoder above it, it is such a speech encoder. A row's result does not depend on the others of its batch: norms over
time are taken over the row's own frames, and convolutions find zeros behind its end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from dragoman.shared.annotations import Checked
from dragoman.shared.described import Described
from dragoman.shared.nn.dropout import dropout
from dragoman.shared.nn.frame_norms import ChannelNorm, FrameNorm, TimeNorm, WholeNorm
from dragoman.shared.nn.layer import layer_norm
from dragoman.shared.nn.linear import Linear
from dragoman.shared.nn.spans import SpanMasking
from dragoman.shared.nn.speech import SpeechEmbedding
from dragoman.shared.nn.transformer import Encoder
from dragoman.shared.padded import Padded
from dragoman.shared.ranges import PositiveFloat, PositiveInt, Share, ShareBelowOne

#: (channels, kernel, stride) of each convolution: a frame of 25 ms every 20 ms at 16 kHz.
CONVOLUTIONS = [[512, 10, 5], *[[512, 3, 2]] * 4, *[[512, 2, 2]] * 2]
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"gelu": F.gelu, "relu": F.relu}


class WaveformNorm(Described, nn.Module):
    """Give each waveform mean 0 and variance 1, over its own samples.

    Args:
        epsilon: added to the variance: 1e-5 in fairseq, 1e-7 in Hugging Face's feature extractor. The variance of quiet
            speech is 1e-4, so they differ.
    """

    def __init__(self, *, epsilon: PositiveFloat = 1e-5) -> None:
        super().__init__()
        self.epsilon = epsilon

    @torch.no_grad()
    def forward(self, waveforms: Padded) -> Padded:
        """Normalise waveforms (B, N) float32; the padding becomes 0."""
        padding, count = waveforms.mask.logical_not(), waveforms.lengths.clamp(min=1)[:, None]
        mean = waveforms.values.masked_fill(padding, 0).sum(1, keepdim=True) / count
        centred = (waveforms.values - mean).masked_fill(padding, 0)
        variance = centred.square().sum(1, keepdim=True) / count
        return Padded(centred * (variance + self.epsilon).rsqrt(), waveforms.lengths, full=waveforms.full)


class Convolution(Checked, nn.Module):
    """One convolution without padding, its norm if it has one, and an activation.

    Args:
        before: channels that enter.
        after: channels that leave.
        kernel: in steps of what enters.
        stride: likewise.
        bias: of the convolution.
        norm: of what leaves it, such as a TimeNorm, or None.
        activation: of ACTIVATIONS.
    """

    def __init__(
        self,
        *,
        before: PositiveInt,
        after: PositiveInt,
        kernel: PositiveInt,
        stride: PositiveInt,
        bias: bool,
        norm: FrameNorm | None,
        activation: str = "gelu",
    ) -> None:
        super().__init__()
        self.convolution = nn.Conv1d(before, after, kernel, stride=stride, bias=bias)
        nn.init.kaiming_normal_(self.convolution.weight)
        self.norm = norm
        self.kernel = kernel
        self.stride = stride
        self.activation: Callable[[Tensor], Tensor] = ACTIVATIONS[activation]

    def lengths(self, before: Tensor) -> Tensor:
        """Return how many steps leave where `before` steps enter, (B,) int64."""
        return torch.div(before - self.kernel, self.stride, rounding_mode="floor") + 1

    def forward(self, values: Tensor, lengths: Tensor) -> Tensor:
        """Convolve values (B, before, L), of which ``lengths`` (B,) are real: (B, after, L')."""
        x = self.convolution(values)
        return self.activation(x if self.norm is None else self.norm(x, self.lengths(lengths)))


class WaveformConvolutions(Described, nn.Module):
    """Convolutions that turn samples into frames.

    Args:
        convolutions: channels, kernel and stride of each; by default those of the paper.
        bias: of the convolutions.
        norm_each: normalise the channels of each frame after every convolution (the large models); otherwise each
            channel over time, after the first one only (the base model).
        norm_whole: normalise all frames and channels together after every convolution (wav2vec of 2019) instead.
        gradient_scale: what gradients that reach the convolutions are multiplied by (feature_grad_mult); 0 freezes
            them, and nothing is kept of them for the backward pass.
        recompute: keep only what enters each convolution, and compute the rest again in the backward pass.
        activation: "gelu" or "relu".
    """

    def __init__(
        self,
        *,
        convolutions: list[list[int]] | None = None,
        bias: bool = False,
        norm_each: bool = False,
        norm_whole: bool = False,
        gradient_scale: Share = 1.0,
        recompute: bool = False,
        activation: str = "gelu",
    ) -> None:
        super().__init__()
        sizes = CONVOLUTIONS if convolutions is None else convolutions
        if not sizes or any(len(size) != 3 for size in sizes):
            raise ValueError(f"convolutions must be [channels, kernel, stride] of each, not {sizes}")
        if norm_each and norm_whole:
            raise ValueError("norm_each and norm_whole exclude each other")
        if activation not in ACTIVATIONS:
            raise ValueError(f"activation must be one of {', '.join(ACTIVATIONS)}, not {activation!r}")
        norms: list[type[FrameNorm] | None] = [TimeNorm, *[None] * (len(sizes) - 1)]
        if norm_each or norm_whole:
            norms = [ChannelNorm if norm_each else WholeNorm] * len(sizes)
        entering = [1, *[channels for channels, _, _ in sizes[:-1]]]
        self.layers = nn.ModuleList()
        for before, (after, kernel, stride), norm in zip(entering, sizes, norms, strict=True):
            self.layers.append(
                Convolution(
                    before=before,
                    after=after,
                    kernel=kernel,
                    stride=stride,
                    bias=bias,
                    norm=None if norm is None else norm(channels=after),
                    activation=activation,
                )
            )
        self.channels = sizes[-1][0]
        self.gradient_scale = gradient_scale
        self.recompute = recompute
        #: The samples of one frame, and those from one frame to the next.
        self.window, self.hop = 1, 1
        for _, kernel, stride in reversed(sizes):
            self.window = (self.window - 1) * stride + kernel
            self.hop *= stride
        self.requires_grad_(gradient_scale > 0)

    def lengths(self, samples: Tensor) -> Tensor:
        """Return how many frames rows of `samples` samples have, (B,) int64; at least 1 (see :meth:`forward`)."""
        lengths = samples.clamp(min=self.window)
        for layer in self.layers:
            lengths = cast(Convolution, layer).lengths(lengths)
        return lengths

    def forward(self, waveforms: Padded) -> Padded:
        """Return frames (B, S, C) of waveforms (B, N).

        A row shorter than one frame is filled up with silence to one frame.
        """
        values = waveforms.values.masked_fill(waveforms.mask.logical_not(), 0)
        values = F.pad(values, (0, max(0, self.window - values.shape[1])))[:, None]
        values = values.to(next(self.parameters()).dtype)  # waveforms are in single precision in any model
        lengths = waveforms.lengths.clamp(min=self.window)
        with torch.set_grad_enabled(torch.is_grad_enabled() and self.gradient_scale > 0):
            for layer in self.layers:
                if self.recompute and torch.is_grad_enabled():
                    values = checkpoint(layer, values, lengths, use_reentrant=False)
                else:
                    values = layer(values, lengths)
                lengths = cast(Convolution, layer).lengths(lengths)
        if values.requires_grad and self.gradient_scale != 1:
            values.register_hook(lambda gradient: gradient * self.gradient_scale)
        return Padded(values.transpose(1, 2), lengths, full=waveforms.full)


class ConvolutionalPositions(Described, nn.Module):
    """Positions relative to the neighbours, by one wide grouped convolution with weight normalisation and GELU.

    Args:
        width: D.
        kernel: in frames.
        groups: into which channels are divided.
    """

    def __init__(self, *, width: PositiveInt, kernel: PositiveInt = 128, groups: PositiveInt = 16) -> None:
        super().__init__()
        if width % groups:
            raise ValueError(f"the width {width} cannot be divided into {groups} groups")
        self.width = width
        self.kernel = kernel
        convolution = nn.Conv1d(width, width, kernel, padding=kernel // 2, groups=groups)
        nn.init.normal_(convolution.weight, std=(4 / (kernel * width)) ** 0.5)
        nn.init.zeros_(convolution.bias)  # type: ignore[arg-type]
        self.convolution = nn.utils.parametrizations.weight_norm(convolution, dim=2)

    def forward(self, x: Padded) -> Tensor:
        """Return what is to be added to x (B, S, D)."""
        values = x.values.masked_fill(x.mask.logical_not()[..., None], 0).transpose(1, 2)
        # An even kernel gives one frame too many.
        return F.gelu(self.convolution(values)[..., : values.shape[2]]).transpose(1, 2)


class WaveformEmbedding(Described, nn.Module):
    """Waveforms to vectors: convolutions, their norm and projection, masking in training, positions.

    Args:
        convolutions: from samples to frames.
        positions: what is added, which also says the width D.
        normalisation: of the waveforms, a WaveformNorm, or None for none.
        masking: of vectors in training, or None for none.
        projected: project frames to D; without a projection, the convolutions' channels are D.
        norm: normalise the sum with the positions (before layers that normalise what leaves them).
        dropout: of the sum.
        frame_dropout: of the projected frames.
        norm_epsilon: added to the variance by which norms of vectors divide.

    Raises:
        ValueError: if the widths do not fit.
    """

    def __init__(
        self,
        *,
        convolutions: WaveformConvolutions,
        positions: ConvolutionalPositions,
        normalisation: WaveformNorm | None = None,
        masking: SpanMasking | None = None,
        projected: bool = True,
        norm: bool = True,
        dropout: ShareBelowOne = 0.1,
        frame_dropout: ShareBelowOne = 0.0,
        norm_epsilon: float = 1e-5,
    ) -> None:
        super().__init__()
        self.width = positions.width
        if not projected and convolutions.channels != self.width:
            raise ValueError(f"{convolutions.channels} channels have to be projected to the width {self.width}")
        if masking is not None and masking.width != self.width:
            raise ValueError(f"the masks' width {masking.width} is not the positions' {self.width}")
        self.convolutions = convolutions
        self.positions = positions
        self.normalisation = normalisation
        self.masking = masking
        self.frame_norm = layer_norm(convolutions.channels, norm_epsilon)
        self.projection = Linear(convolutions.channels, self.width) if projected else nn.Identity()
        self.norm = layer_norm(self.width, norm_epsilon) if norm else nn.Identity()
        self.dropout = dropout
        self.frame_dropout = frame_dropout

    @property
    def stride(self) -> int:
        """The number of samples from one vector to the next."""
        return self.convolutions.hop

    def lengths(self, samples: Tensor) -> Tensor:
        """Return how many frames rows of `samples` samples have, (B,) int64."""
        return self.convolutions.lengths(samples)

    def forward(self, speech: Padded) -> Padded:
        """Embed waveforms (B, N) in [-1, 1]: (B, S, D)."""
        return self.embed(self.frames(speech))

    def frames(self, speech: Padded) -> Padded:
        """Return the normalised frames (B, S, C) of waveforms (B, N), not masked: what may be a target as well."""
        return self.convolved(speech).map(self.frame_norm)

    def convolved(self, speech: Padded) -> Padded:
        """Return what leaves the convolutions (B, S, C), before its norm, of waveforms (B, N)."""
        return self.convolutions(speech if self.normalisation is None else self.normalisation(speech))

    def embed(self, frames: Padded, masked: Tensor | None = None) -> Padded:
        """Project, mask and place frames (B, S, C): (B, S, D).

        Args:
            frames: from :meth:`frames`.
            masked: (B, S) bool, the frames to mask, in evaluation too; by default they are drawn, in training alone.

        Raises:
            ValueError: if frames are to be masked, and there is no masking.
        """
        x = frames.map(self.projection).map(lambda values: dropout(values, self.frame_dropout, self.training))
        if masked is not None and self.masking is None:
            raise ValueError("frames cannot be masked by an embedding without masking")
        if self.masking is not None:
            x = self.masking(x) if masked is None else self.masking.hide(x, masked)
        values = self.norm(x.values + self.positions(x))
        return Padded(dropout(values, self.dropout, self.training), x.lengths, full=x.full)


class SoundEmbedding(Protocol):
    """An embedding of waveforms, such as a WaveformEmbedding or a SpeechEmbedding."""

    @property
    def width(self) -> int:
        """The width of its vectors, D."""
        ...

    @property
    def stride(self) -> int:
        """The number of samples from one vector to the next."""
        ...

    def lengths(self, samples: Tensor) -> Tensor:
        """Return how many vectors rows of `samples` samples have, (B,) int64."""
        ...

    def __call__(self, speech: Padded) -> Padded:
        """Embed waveforms (B, N): (B, S, D)."""
        ...


class WaveformEncoder(Described, nn.Module):
    """An embedding of waveforms and an encoder of what it gives, as a front end below other parts.

    An encoder of windows of one length, such as Whisper's, reads the silence that fills them up, as it has learned to;
    the parts above are given the states of the row's own sound alone, those whose frames have their middle in it.

    Args:
        embedding: of waveforms.
        encoder: that was pre-trained with it, or the lower one of two.
    """

    def __init__(self, *, embedding: SoundEmbedding, encoder: Encoder) -> None:
        super().__init__()
        if embedding.width != encoder.width:
            raise ValueError(f"the embedding's width {embedding.width} is not the encoder's {encoder.width}")
        self.embedding = embedding
        self.encoder = encoder
        self.width = encoder.width
        self._windows = isinstance(embedding, SpeechEmbedding) and embedding.window is not None

    @property
    def hop(self) -> int:
        """The number of samples from one state to the next."""
        return self.embedding.stride

    def lengths(self, samples: Tensor) -> Tensor:
        """Return how many states rows of `samples` samples have, (B,) int64."""
        return (-(-samples // self.hop)).clamp(min=1) if self._windows else self.embedding.lengths(samples)

    def forward(self, speech: Padded) -> Padded:
        """Encode waveforms (B, N) in [-1, 1]: (B, S, D)."""
        states = self.encoder(self.embedding(speech))[0]
        if not self._windows:
            return states
        longest = -(-speech.values.shape[1] // self.hop)
        return Padded(states.values[:, : max(1, longest)], self.lengths(speech.lengths))
