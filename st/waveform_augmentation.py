"""Augmentation of waveforms in training: noise, reverberation and dropped chunks, by speechbrain, on the device.

Legend: B batch, N samples, K samples of a sound file.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import torch
from torch import Tensor, nn

from dragoman.shared.described import Described
from dragoman.shared.errors import DataError
from dragoman.shared.machine.extras import require
from dragoman.shared.machine.files import check_regular
from dragoman.shared.padded import Padded
from dragoman.shared.ranges import Share

RATE = 16000
#: Samples of sound files that are kept, 1 GiB: noise may be recordings of hours, of which a count would bound nothing.
KEPT = 2**28
#: The files that were drawn last, the latest at the end.
_SOUNDS: OrderedDict[Path, Tensor] = OrderedDict()


class WaveformAugmentation(Described, nn.Module):
    """Distort waveforms in training; in evaluation they stay as they are. Lengths and padding stay too.

    Reverberation comes first, then noise, then dropped chunks. All randomness is torch's, so that a resumed run draws
    what an uninterrupted one would. Sound files are read when they are first drawn: a model folder loads without them.

    Args:
        noise_share: share of the batches to which noise is added.
        snr: lowest and highest ratio of speech to noise in dB, drawn uniformly for each row.
        noise_folder: of sound files (.wav, .flac) at 16 kHz to add; None for white noise.
        reverberation_share: share of the batches that are convolved with an impulse response.
        reverberation_folder: of impulse responses (.wav, .flac) at 16 kHz.
        chunk_share: share of the batches in which chunks are set to zero.
        chunks: fewest and most chunks of a row.
        chunk_samples: shortest and longest chunk, in samples.

    Raises:
        ValueError: if a range is not increasing, or reverberation has no folder.
    """

    def __init__(
        self,
        *,
        noise_share: Share = 0.0,
        snr: list[float] | None = None,
        noise_folder: str | None = None,
        reverberation_share: Share = 0.0,
        reverberation_folder: str | None = None,
        chunk_share: Share = 0.0,
        chunks: list[int] | None = None,
        chunk_samples: list[int] | None = None,
    ) -> None:
        super().__init__()
        self.snr = _range("snr", snr or [0.0, 15.0])
        self.chunks = _range("chunks", chunks or [1, 5], lowest=0)
        self.chunk_samples = _range("chunk_samples", chunk_samples or [1000, 2000], lowest=1)
        if reverberation_share and reverberation_folder is None:
            raise ValueError("reverberation needs reverberation_folder, a folder of impulse responses")
        self.noise_share = noise_share
        self.noise_folder = noise_folder
        self.reverberation_share = reverberation_share
        self.reverberation_folder = reverberation_folder
        self.chunk_share = chunk_share

    def forward(self, speech: Padded) -> Padded:
        """Distort waveforms (B, N) in training.

        Raises:
            DataError: naming a folder without sound files, or a file of another sampling rate.
            UsageError: if speechbrain is not installed.
        """
        if not self.training:
            return speech
        self.check_libraries()
        with torch.autocast(speech.device.type, enabled=False), torch.no_grad():
            values = speech.values.masked_fill(~speech.mask, 0.0)
            if _drawn(self.reverberation_share):
                values = self._reverberate(values).masked_fill(~speech.mask, 0.0)
            if _drawn(self.noise_share):
                values = self._add_noise(values, speech)
            if _drawn(self.chunk_share):
                values = self._drop_chunks(values, speech)
        return speech.map(lambda plain: torch.where(speech.mask, values, plain))

    def check_libraries(self) -> None:
        """Refuse to distort anything without speechbrain; a model folder is read and translates without it.

        Raises:
            UsageError: naming the extra.
        """
        if self.noise_share or self.reverberation_share or self.chunk_share:
            require("speechbrain", "speechbrain", "waveform_augmentation")

    def _reverberate(self, values: Tensor) -> Tensor:
        from speechbrain.processing.signal_processing import reverberate

        response = _draw(str(self.reverberation_folder))
        return reverberate(values, response.to(values), rescale_amp="avg")

    def _add_noise(self, values: Tensor, speech: Padded) -> Tensor:
        from speechbrain.augment.time_domain import AddNoise

        def noise(waveforms: Tensor) -> Tensor:  # its level is measured without the padding
            drawn = torch.randn_like(waveforms) if self.noise_folder is None else self._noise_of_files(waveforms)
            return drawn.masked_fill(~speech.mask, 0.0)

        low, high = self.snr
        return AddNoise(snr_low=low, snr_high=high, noise_funct=noise)(values, _relative(speech))

    def _noise_of_files(self, waveforms: Tensor) -> Tensor:
        """Return (B, N): for each row a file from a place of its own, repeated to fill the row."""
        rows = []
        for _ in range(len(waveforms)):
            sound = _draw(str(self.noise_folder))
            start = int(torch.randint(len(sound), ()))
            places = (torch.arange(waveforms.shape[1]) + start) % len(sound)
            rows.append(sound[places])
        return torch.stack(rows).to(waveforms)

    def _drop_chunks(self, values: Tensor, speech: Padded) -> Tensor:
        from speechbrain.augment.time_domain import DropChunk

        few, many = self.chunks
        short, long = self.chunk_samples
        drop = DropChunk(drop_count_low=few, drop_count_high=many, drop_length_low=short, drop_length_high=long)
        return drop(values, _relative(speech))


def _range(name: str, given: Sequence[float], lowest: float | None = None) -> Sequence[float]:
    if len(given) != 2 or given[0] > given[1] or (lowest is not None and given[0] < lowest):
        limit = "" if lowest is None else f", the first at least {lowest}"
        raise ValueError(f"{name} must be two increasing numbers{limit}, not {given}")
    return given


def _drawn(share: float) -> bool:
    return share > 0 and float(torch.rand(())) < share


def _relative(speech: Padded) -> Tensor:
    """Return lengths (B,) as shares of N, as speechbrain has them; none is 0, by which levels would be divided."""
    return speech.lengths.clamp(min=1) / max(speech.values.shape[1], 1)


def _draw(folder: str) -> Tensor:
    """Return one of a folder's sounds, (K,) float32 on the CPU."""
    files = _files(folder)
    return _sound(files[int(torch.randint(len(files), ()))])


@lru_cache
def _files(folder: str) -> list[Path]:
    paths = sorted(path for path in Path(folder).rglob("*") if path.suffix.lower() in (".wav", ".flac"))
    if not paths:
        raise DataError(f"{folder}: there is no sound file (.wav, .flac) in this folder")
    return paths


def _sound(path: Path) -> Tensor:
    if path not in _SOUNDS:
        _SOUNDS[path] = _read(path)
    _SOUNDS.move_to_end(path)
    sound = _SOUNDS[path]
    while sum(map(len, _SOUNDS.values())) > KEPT:
        _SOUNDS.popitem(last=False)
    return sound


def _read(path: Path) -> Tensor:
    import soundfile

    check_regular(path, "sound file")
    try:
        samples, rate = soundfile.read(path, dtype="float32", always_2d=True)
    except soundfile.SoundFileError as error:
        raise DataError(f"{path}: {error}") from error
    if rate != RATE or not len(samples):
        raise DataError(f"{path}: has {len(samples)} samples at {rate} Hz; augmentation needs sound at {RATE} Hz")
    return torch.from_numpy(samples.mean(1))
