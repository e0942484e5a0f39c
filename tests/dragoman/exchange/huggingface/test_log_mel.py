"""Log-mel features of a window: against a loop over frames with torchaudio's filters, which are librosa's."""

import numpy as np
import pytest
import torch
from torchaudio.functional import melscale_fbanks

from dragoman.exchange.huggingface.log_mel import LogMel, slaney_filters, slaney_frequencies
from dragoman.shared.errors import TooLongError
from dragoman.shared.padded import Padded
from tests.small import refusal, refuses


def sounds(*lengths: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    rows = []
    for number, length in enumerate(lengths):
        time = torch.arange(length) / 16000
        tone = 0.3 * torch.sin(2 * torch.pi * 200 * (number + 1) * time * (1 + time))
        rows.append(tone + 0.02 * torch.randn(length, generator=generator))
    return rows


def filters(bins: int) -> np.ndarray:
    return melscale_fbanks(201, 0.0, 8000.0, bins, 16000, norm="slaney", mel_scale="slaney").double().numpy()


def by_hand(waveform: np.ndarray, bins: int, seconds: int) -> np.ndarray:
    """Frame by frame in double precision: silence behind the sound, mirrored ends, the decibels of Slaney's bins."""
    whole = np.zeros(16000 * seconds)
    whole[: len(waveform)] = waveform
    mirrored = np.concatenate([whole[200:0:-1], whole, whole[-2:-202:-1]])
    hann = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(400) / 400)
    rows = []
    for number in range(100 * seconds):  # without the last of 100 s + 1
        spectrum = np.fft.rfft(mirrored[160 * number : 160 * number + 400] * hann)
        rows.append(np.log10(np.maximum(np.abs(spectrum) ** 2 @ filters(bins), 1e-10)))
    found = np.stack(rows)
    return (np.maximum(found, found.max() - 8) + 4) / 4


@pytest.mark.parametrize("bins", [80, 128])
def test_filters_are_torchaudios(bins) -> None:
    np.testing.assert_allclose(slaney_filters(bins, torch.device("cpu")).numpy(), filters(bins), atol=1e-6)


@pytest.mark.parametrize("bins", [80, 128])
def test_every_row_of_a_padded_batch_equals_the_loop(bins) -> None:
    rows = [*sounds(16000, 20000, 32000, 1), torch.zeros(300)]
    batch = Padded.from_sequences(rows, padding=0.7)  # what is padding must not matter
    features = LogMel(bins=bins, seconds=2.0)(batch)
    assert features.values.dtype == torch.float32 and features.values.shape == (5, 200, bins)
    assert features.lengths.tolist() == [200] * 5 == LogMel(bins=bins, seconds=2.0).lengths(batch.lengths).tolist()
    for row, ours in zip(rows, features.values, strict=True):
        # Rounding of float32 shows where a bin is 80 dB below the loudest.
        np.testing.assert_allclose(ours.numpy(), by_hand(row.numpy(), bins, 2), atol=2e-3)


def test_autocast_and_half_precision_models_change_nothing() -> None:
    batch = Padded.from_sequences(sounds(9000, 5000))
    features = LogMel(seconds=1.0)
    expected = features(batch).values
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(features(batch).values, expected)
    assert torch.equal(features.to(torch.bfloat16)(batch).values, expected)


def test_longer_rows_are_refused() -> None:
    batch = Padded(torch.zeros(2, 16200), torch.tensor([16160, 3]))
    refuses(TooLongError, r"1.01 s are more than the model's window of 1 s", LogMel(seconds=1.0), batch)
    shorter = Padded(torch.zeros(2, 16200), torch.tensor([16000, 3]))  # longer in its padding alone
    assert LogMel(seconds=1.0)(shorter).values.shape == (2, 100, 80)


def test_windows_have_two_frames_at_least_and_thirty_seconds_unless_asked() -> None:
    plain = LogMel()
    assert (plain.bins, plain.seconds, plain.frames, plain.hop) == (80, 30.0, 3000, 160)
    assert LogMel(seconds=0.02).frames == 2
    for seconds in (0.019, 0.01, 0.0, -1, float("inf")):
        complaint = refusal(ValueError, LogMel, seconds=seconds)
        assert complaint == f"a window must have at least two frames of 0.01 s, not {seconds} s"
    refuses(ValueError, "bins must be at least 1, not 0", LogMel, bins=0)
    refuses(ValueError, "^a filterbank cannot have 400 bins: some would be empty$", LogMel, bins=400)
    assert LogMel(bins=1).bins == 1


def test_the_scale_is_linear_up_to_its_knee() -> None:
    """Slaney's Auditory Toolbox: 200/3 Hz for each mel up to 1000 Hz, then a factor of 6.4 in 27 mels."""
    found = slaney_frequencies(torch.tensor([0.0, 3.0, 15.0, 42.0], dtype=torch.float64))
    np.testing.assert_allclose(found, [0.0, 200.0, 1000.0, 6400.0])


def test_silence_has_the_floor_and_no_gradient() -> None:
    waveform = torch.zeros(1, 400, requires_grad=True)
    found = LogMel(seconds=0.1)(Padded(waveform, torch.tensor([400]))).values
    assert not found.requires_grad
    assert found.shape == (1, 10, 80) and torch.allclose(found, torch.tensor((-10 + 4) / 4))
    complaint = refusal(TooLongError, lambda: LogMel(seconds=0.5)(Padded(torch.zeros(1, 8001), torch.tensor([8001]))))
    assert complaint == "0.50 s are more than the model's window of 0.5 s: divide it"
