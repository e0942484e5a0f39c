"""Log-mel filterbank features of a batch of waveforms, on the device they are on; and their normalisation.

Legend: B batch, N samples, T frames, W samples of a frame, F mel bins.

The numbers are Kaldi's (feature-window.cc, mel-computations.cc) with its defaults but no dither: frames that lie wholly
inside the waveform, mean removed, pre-emphasis 0.97, Povey window, power spectrum, triangular filters between 20 Hz and
half the sample rate on the scale 1127 ln(1 + f / 700), natural logarithm.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Annotated, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dragoman.shared.described import Described
from dragoman.shared.machine.memory import refuse_over
from dragoman.shared.padded import Padded
from dragoman.shared.ranges import NonNegativeFloat, PositiveInt, Range

#: Kaldi's features are of 16-bit integers; ours are given waveforms in [-1, 1].
SCALE = 2.0**15
PREEMPHASIS = 0.97
LOWEST_FREQUENCY = 20.0
#: The smallest energy that a logarithm is taken of; Kaldi's, the resolution of float32 at 1.
FLOOR = torch.finfo(torch.float32).eps


def mel(frequency: Tensor) -> Tensor:
    """Return the place of frequencies in Hz on the mel scale."""
    return 1127.0 * torch.log(1.0 + frequency / 700.0)


# Both are kept here and not in the module, so that neither .to(bfloat16) nor a move to the meta device can spoil them.
# They are computed in float32, in torchaudio's order: where a sound is 120 dB above another (speech and what MP3 leaves
# of its pauses), float32's roundings decide the first digits of a logarithm, and only equal ones give equal features.
@lru_cache(maxsize=8)
def povey_window(size: int, device: torch.device) -> Tensor:
    """Return a window (W,) float32: Hann's to the power of 0.85."""
    return torch.hann_window(size, periodic=False, dtype=torch.float32, device="cpu").pow(0.85).to(device)


@lru_cache(maxsize=8)
def mel_filters(bins: int, fourier: int, rate: int, device: torch.device) -> Tensor:
    """Return triangular filters (fourier / 2 + 1, F) float64; the highest frequency belongs to none, as in Kaldi."""
    lowest, highest = (1127.0 * math.log(1.0 + edge / 700.0) for edge in (LOWEST_FREQUENCY, rate / 2))
    step = (highest - lowest) / (bins + 1)
    numbers = torch.arange(bins, dtype=torch.float32, device="cpu")[:, None]
    left, centre, right = (lowest + (numbers + i) * step for i in (0.0, 1.0, 2.0))
    places = mel(torch.arange(fourier // 2, dtype=torch.float32, device="cpu") * (rate / fourier))[None]
    rising, falling = (places - left) / (centre - left), (right - places) / (right - centre)
    return F.pad(torch.minimum(rising, falling).clamp(min=0), (0, 1)).T.double().to(device)


class Fbank(Described, nn.Module):
    """Waveforms to log-mel features, equal to ``torchaudio.compliance.kaldi.fbank`` of each row within 1e-3.

    Neither autocast nor TF32 nor the precision of the model changes them. No gradient; there is nothing to train.

    Args:
        bins: F.
        window: length of a frame in seconds.
        hop: from one frame's start to the next, in seconds.
        rate: samples per second.
    """

    def __init__(
        self,
        *,
        bins: PositiveInt = 80,
        window: float = 0.025,
        hop: float = 0.010,
        rate: Annotated[int, Range(least=100)] = 16000,
    ) -> None:
        super().__init__()
        self.bins = bins
        self.rate = rate
        self.frame = round(window * rate)
        self.hop = round(hop * rate)
        if self.hop < 1 or self.frame < self.hop:
            raise ValueError(f"frames of {window} s every {hop} s: the hop must be positive and at most the window")
        self.fourier = 1 << (self.frame - 1).bit_length()
        frequencies = self.fourier // 2
        if bins <= frequencies:
            refuse_over(
                4 * 8 * bins * frequencies, f"a filterbank of {bins} bins for frames of {window} s at {rate} Hz"
            )
        if bins > frequencies or not (mel_filters(bins, self.fourier, rate, torch.device("cpu")).sum(0) > 0).all():
            raise ValueError(
                f"{bins} bins are too many for frames of {window} s at {rate} Hz: some bins would be empty"
            )

    def lengths(self, samples: Tensor) -> Tensor:
        """Return how many frames rows of `samples` samples have, (B,) int64; at least 1 (see :meth:`forward`)."""
        return (samples.clamp(min=self.frame) - self.frame) // self.hop + 1

    @torch.no_grad()
    def forward(self, waveforms: Padded) -> Padded:
        """Return features (B, T, F) float32 of waveforms (B, N) in [-1, 1]; zero where padded.

        A row shorter than one frame (Kaldi has no features for it) is filled up with silence to one frame.
        """
        values = waveforms.values.float()
        values = values * waveforms.mask
        if values.shape[1] < self.frame:
            values = F.pad(values, (0, self.frame - values.shape[1]))
        # A row's frames stay in a CPU's cache, a batch's do not.
        at_once = 1 if values.device.type == "cpu" else max(1, len(values))
        features = torch.cat([self._features(rows) for rows in values.split(at_once)])
        result = Padded(features, self.lengths(waveforms.lengths), full=waveforms.full)
        return result.map(lambda x: x * result.mask[..., None])

    def _features(self, waveforms: Tensor) -> Tensor:
        frames = waveforms.unfold(1, self.frame, self.hop)
        frames = (frames - frames.mean(-1, keepdim=True)).mul_(SCALE)
        # Of the first sample, the sample itself. (Replicating by F.pad, a GPU starts a block for each frame of a row,
        # and may have no more than 65,535.)
        earlier = torch.cat([frames[..., :1], frames[..., :-1]], dim=-1)
        frames -= earlier.mul_(PREEMPHASIS)
        frames *= povey_window(self.frame, frames.device)
        spectrum = torch.fft.rfft(frames, n=self.fourier)
        power = spectrum.real.square().addcmul_(spectrum.imag, spectrum.imag)
        filters = mel_filters(self.bins, self.fourier, self.rate, frames.device)
        # In float64, which neither autocast nor TF32 may make coarser: a logarithm of small sums follows.
        return (power.double() @ filters).float().clamp_(min=FLOOR).log_()


class UtteranceNorm(Described, nn.Module):
    """Give each feature of each utterance mean 0 and deviation 1, over its own frames (fairseq's utterance_cmvn).

    Args:
        means: subtract the means.
        variances: divide by the deviations.
        correction: subtracted from the number of frames by which squares are divided; 1 for an unbiased variance.
        epsilon: added to variances.
    """

    SMALLEST_VARIANCE = 1e-10

    def __init__(
        self,
        *,
        means: bool = True,
        variances: bool = True,
        correction: Literal[0, 1] = 0,
        epsilon: NonNegativeFloat = 0.0,
    ) -> None:
        super().__init__()
        self.means = means
        self.variances = variances
        self.correction = correction
        self.epsilon = epsilon

    @torch.no_grad()
    def forward(self, features: Padded) -> Padded:
        """Normalise features (B, T, F) float32; the padding becomes 0, the mean. One frame alone becomes 0 as well."""
        mask = features.mask[..., None]
        count = features.lengths.clamp(min=1)[:, None, None]
        mean = (features.values * mask).sum(1, keepdim=True) / count
        centred = (features.values - mean) * mask
        x = centred if self.means else features.values * mask
        if self.variances:
            variance = centred.square().sum(1, keepdim=True) / (count - self.correction).clamp(min=1) + self.epsilon
            x = x * variance.clamp(min=self.SMALLEST_VARIANCE).rsqrt()
        return Padded(x, features.lengths, full=features.full)


class GlobalNorm(Described, nn.Module):
    """Subtract means and divide by deviations that were taken over a corpus once (fairseq's global_cmvn).

    They belong to the model, and stand in its folder beside the parameters; fresh ones change nothing.
    """

    mean: Tensor
    deviation: Tensor

    def __init__(self, *, bins: PositiveInt = 80) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(bins))
        self.register_buffer("deviation", torch.ones(bins))

    @torch.no_grad()
    def forward(self, features: Padded) -> Padded:
        """Normalise features (B, T, F) float32; the padding becomes 0, the mean."""
        x = (features.values - self.mean) / self.deviation
        return Padded(x * features.mask[..., None], features.lengths, full=features.full)
