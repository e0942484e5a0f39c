"""Log-mel features of a window of fixed length, which silence fills.

Legend: B batch, N samples, T frames, F mel bins.

Radford et al. 2022, section 2.2: a Fourier transform of 25 ms every 10 ms, 80 mel bins (or 128) of Slaney's Auditory
Toolbox, decimal logarithm. The numbers are those of the published code: frames are centred and mirrored at the
window's ends, the last one is left out, what is 80 dB below the loudest bin of a row is raised to there, and the whole
is brought to about [-1, 1].
"""

from __future__ import annotations

import math
from functools import lru_cache

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dragoman.shared.described import Described
from dragoman.shared.errors import TooLongError
from dragoman.shared.padded import Padded
from dragoman.shared.ranges import PositiveInt

RATE, FOURIER, HOP = 16000, 400, 160
#: Hz up to which the mel scale is linear, the mels there, and the mels in which frequencies grow by a factor of 6.4.
KNEE, KNEE_MELS, STEP_MELS = 1000.0, 15.0, 27.0
#: The smallest energy that a logarithm is taken of, and how far below the loudest bin others may lie (80 dB).
FLOOR, RANGE = 1e-10, 8.0


def slaney_frequencies(mels: Tensor) -> Tensor:
    """Return the frequencies in Hz of places on Slaney's mel scale."""
    above = KNEE * torch.exp((mels - KNEE_MELS) * (math.log(6.4) / STEP_MELS))
    return torch.where(mels < KNEE_MELS, mels * (KNEE / KNEE_MELS), above)


# Kept here and not in the module, so that neither .to(bfloat16) nor a move to the meta device can spoil it.
@lru_cache(maxsize=8)
def slaney_filters(bins: int, device: torch.device) -> Tensor:
    """Return triangular filters of equal area (FOURIER / 2 + 1, F) float64, from 0 Hz to half the sample rate."""
    highest = KNEE_MELS + math.log(RATE / 2 / KNEE) * (STEP_MELS / math.log(6.4))
    edges = slaney_frequencies(torch.linspace(0.0, highest, bins + 2, dtype=torch.float64, device="cpu"))
    places = torch.linspace(0.0, RATE / 2, FOURIER // 2 + 1, dtype=torch.float64, device="cpu")[:, None]
    left, centre, right = edges[:-2], edges[1:-1], edges[2:]
    rising, falling = (places - left) / (centre - left), (right - places) / (right - centre)
    return (torch.minimum(rising, falling).clamp(min=0) * (2 / (right - left))).to(device)


class LogMel(Described, nn.Module):
    """Waveforms to log-mel features of a window: every row has as many frames as the window.

    Neither autocast nor TF32 nor the precision of the model changes them. No gradient; there is nothing to train.

    Args:
        bins: F.
        seconds: of the window.
    """

    def __init__(self, *, bins: PositiveInt = 80, seconds: float = 30.0) -> None:
        super().__init__()
        self.hop = HOP
        self.bins = bins
        self.seconds = seconds
        self.frames = round(seconds * RATE) // HOP if 0 < seconds < math.inf else 0
        if self.frames < 2:
            raise ValueError(f"a window must have at least two frames of {HOP / RATE} s, not {seconds} s")
        if not (slaney_filters(bins, torch.device("cpu")).sum(0) > 0).all():
            raise ValueError(f"a filterbank cannot have {bins} bins: some would be empty")

    @property
    def window(self) -> int:
        """The samples of the window."""
        return self.frames * self.hop

    def lengths(self, samples: Tensor) -> Tensor:
        """Return how many frames rows of `samples` samples have, (B,) int64: those of the window."""
        return torch.full_like(samples, self.frames)

    @torch.no_grad()
    def forward(self, waveforms: Padded) -> Padded:
        """Return features (B, T, F) float32 of waveforms (B, N) in [-1, 1].

        Raises:
            TooLongError: if a row is longer than the window.
        """
        size = self.window
        values = waveforms.values.float() * waveforms.mask
        if values.shape[1] > size:
            longest = int(waveforms.lengths.max())
            if longest > size:
                raise TooLongError(
                    f"{longest / RATE:.2f} s are more than the model's window of {self.seconds:g} s: divide it"
                )
        values = F.pad(values, (0, size - values.shape[1]))  # or cut: what is longer is padding
        window = torch.hann_window(FOURIER, dtype=torch.float32, device=values.device)
        spectrum = torch.stft(values, FOURIER, HOP, window=window, return_complex=True)[..., :-1]
        power = spectrum.abs().square().transpose(1, 2)
        # In float64, which neither autocast nor TF32 may make coarser: a logarithm of small sums follows.
        decades = (power.double() @ slaney_filters(self.bins, power.device)).float().clamp_(min=FLOOR).log10_()
        decades = torch.maximum(decades, decades.amax((1, 2), keepdim=True) - RANGE)
        return Padded((decades + 4) / 4, self.lengths(waveforms.lengths))
