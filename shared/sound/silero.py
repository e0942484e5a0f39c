"""The network of silero-vad, a voice activity detector: its weights, run by our own code.

The package brings the weights as plain tensors (safetensors) beside a TorchScript program. Only the tensors are read:
nothing of the package is run, nor imported (its import sets torch to one thread). The layers are those of the package's
own description for another library (silero_vad/tinygrad_model.py); tests compare them with the TorchScript program.

Each window of 512 samples (32 ms), with 64 before it, becomes one probability: a short-time Fourier transform, four
convolutions, and an LSTM from window to window.

Legend: N samples, W windows, Q frequencies, C channels.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn import functional

from dragoman.shared.errors import DataError, one_line

WEIGHTS = Path("data", "silero_vad_16k.safetensors")

#: Samples of a window.
WINDOW = 512

_CONTEXT, _AFTER = 64, 64
_TRANSFORM, _HOP = 256, 128
_FREQUENCIES = _TRANSFORM // 2 + 1

#: Windows that go through the convolutions in one go: 33 s.
_BLOCK = 1024

#: The probability from which on a window is speech.
THRESHOLD = 0.5

#: A recording has speech if two of its windows (64 ms in all) are more likely speech than not. The most certain
#: windows decide, not the mean: a word may stand in a minute of silence.
_CERTAIN = 2

#: Softer recordings are amplified to this peak, by this factor at most: the network does not hear 1 in 60 words at
#: -50 dB (benchmarks/silence.py).
_PEAK, _LARGEST_GAIN = 0.1, 100.0


class SileroNetwork(nn.Module):
    """The probability of speech in each window; parameters have the names of the published file."""

    def __init__(self) -> None:
        super().__init__()
        self.stft_conv = nn.Conv1d(1, 2 * _FREQUENCIES, _TRANSFORM, stride=_HOP, bias=False)
        self.conv1 = nn.Conv1d(_FREQUENCIES, 128, 3, padding=1)
        self.conv2 = nn.Conv1d(128, 64, 3, stride=2, padding=1)
        self.conv3 = nn.Conv1d(64, 64, 3, stride=2, padding=1)
        self.conv4 = nn.Conv1d(64, 128, 3, padding=1)
        self.lstm_cell = nn.LSTM(128, 128)
        self.final_conv = nn.Conv1d(128, 1, 1)

    def forward(self, waveform: Tensor) -> Tensor:
        """Return the probability of speech in each 512 samples, (W,), of a waveform (N,) in [-1, 1] at 16 kHz."""
        count = -(-len(waveform) // WINDOW)
        padded = functional.pad(waveform, (_CONTEXT, count * WINDOW - len(waveform)))
        windows = padded.unfold(0, _CONTEXT + WINDOW, WINDOW)  # (W, 576)
        vectors = torch.cat([self._vectors(block) for block in windows.split(_BLOCK)])  # (W, C)
        states, _ = self.lstm_cell(vectors)
        return torch.sigmoid(self.final_conv(states.relu().T).squeeze(0))

    def _vectors(self, windows: Tensor) -> Tensor:
        reflected = functional.pad(windows.unsqueeze(1), (0, _AFTER), mode="reflect")
        real, imaginary = self.stft_conv(reflected).split(_FREQUENCIES, dim=1)
        x = torch.sqrt(real**2 + imaginary**2)  # (W, Q, 4)
        for convolution in (self.conv1, self.conv2, self.conv3, self.conv4):
            x = convolution(x).relu()
        return x.squeeze(-1)


class SileroDetector:
    """Finds speech with silero-vad's network, on the CPU."""

    name = "silero-vad"

    def __init__(self, *, network: SileroNetwork) -> None:
        self.network = network.eval()

    @classmethod
    def installed(cls) -> SileroDetector:
        """Return a detector with the weights of the installed package.

        Raises:
            DataError: if the package is not installed, or naming the file, if its weights are not what is expected.
        """
        package = find_spec("silero_vad")
        if package is None or package.origin is None:
            raise DataError("the library silero-vad is not installed: pip install 'dragoman[vad]'")
        path = Path(package.origin).parent / WEIGHTS
        network = SileroNetwork()
        try:
            tensors = load_file(path)
            # torch adds the layer to the names of an LSTM's parameters.
            named = {f"{name}_l0" if name.startswith("lstm_cell.") else name: x for name, x in tensors.items()}
            network.load_state_dict(named)
        except (SafetensorError, OSError, RuntimeError) as error:
            raise DataError(f"{path}: not the weights of silero-vad 6 ({one_line(error)})") from error
        return cls(network=network)

    @torch.inference_mode()
    def probabilities(self, waveform: np.ndarray) -> np.ndarray:
        """Return the probability of speech in each window, (W,), of a waveform, (N,) float32 at 16 kHz."""
        if not len(waveform):
            return np.zeros(0, dtype=np.float32)
        with torch.autocast("cpu", enabled=False):  # which may be on for the model that translates what is spoken
            return self.network(torch.from_numpy(np.ascontiguousarray(waveform, dtype=np.float32))).numpy()

    def has_speech(self, waveform: np.ndarray) -> bool:
        """Tell whether there is speech in a waveform, (N,) float32 in [-1, 1] at 16 kHz."""
        return int((self.probabilities(amplified(waveform)) >= THRESHOLD).sum()) >= _CERTAIN


def amplified(waveform: np.ndarray) -> np.ndarray:
    """Return a waveform, (N,) in [-1, 1], as loud as the network needs it: one that is loud enough is not changed."""
    peak = float(np.abs(waveform).max(initial=0.0))
    return waveform * (min(max(_PEAK / peak, 1.0), _LARGEST_GAIN) if peak else 1.0)
