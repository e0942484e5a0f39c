"""Filterbank features against torchaudio's Kaldi-compliant ones, row by row of a padded batch."""

import torch
from torch import Tensor
from torchaudio.compliance import kaldi

from dragoman.shared.nn.fbank import Fbank, UtteranceNorm
from dragoman.shared.padded import Padded


def theirs(waveform: Tensor, **options) -> Tensor:
    return kaldi.fbank(waveform[None] * 2**15, dither=0.0, sample_frequency=16000, **{"num_mel_bins": 80} | options)


def waveforms(*lengths: int) -> list[Tensor]:
    """Tones in noise; without noise, float32 itself is off by more than 1e-3 beside a tone (theirs as ours)."""
    generator = torch.Generator().manual_seed(1)
    rows = []
    for i, length in enumerate(lengths):
        time = torch.arange(length) / 16000
        tone = 0.3 * torch.sin(2 * torch.pi * 200 * (i + 1) * time * (1 + time))
        noise = torch.randn(length, generator=generator)
        rows.append((tone + 0.05 * noise * (1.1 + torch.sin(20 * time)) + 0.01 * i).clamp(-1, 1))
    return rows


def test_every_row_of_a_padded_batch_equals_kaldi() -> None:
    rows = waveforms(16000, 400, 401, 559, 560, 7777, 31999)
    rows.append(torch.zeros(1000))  # silence: the floor of the logarithm
    rows.append(rows[0] * 1e-4)
    batch = Padded.from_sequences(rows, padding=0.7)  # what is padding must not matter
    features = Fbank()(batch)
    assert features.values.dtype == torch.float32
    for row, ours in zip(rows, features.rows(), strict=True):
        expected = theirs(row)
        assert ours.shape == expected.shape
        torch.testing.assert_close(ours, expected, atol=1e-3, rtol=0)
    assert features.values[1, 1:].abs().sum() == 0


def test_other_sizes_equal_kaldi() -> None:
    rows = waveforms(9000, 5000)
    features = Fbank(bins=40, window=0.030, hop=0.0125)(Padded.from_sequences(rows))
    for row, ours in zip(rows, features.rows(), strict=True):
        expected = theirs(row, num_mel_bins=40, frame_length=30.0, frame_shift=12.5)
        torch.testing.assert_close(ours, expected, atol=1e-3, rtol=0)


def test_autocast_and_half_precision_models_change_nothing() -> None:
    batch = Padded.from_sequences(waveforms(9000, 5000))
    expected = Fbank()(batch).values
    with torch.autocast("cpu", dtype=torch.bfloat16):
        torch.testing.assert_close(Fbank().to(torch.bfloat16)(batch).values, expected, atol=0, rtol=0)


def test_a_row_shorter_than_a_frame_is_filled_up_with_silence() -> None:
    rows = [*waveforms(5000, 399), torch.zeros(0)]
    features = Fbank()(Padded.from_sequences(rows, padding=0.5))
    assert features.lengths.tolist() == [29, 1, 1]
    torch.testing.assert_close(features.rows()[1], theirs(torch.cat([rows[1], torch.zeros(1)])), atol=1e-3, rtol=0)
    alone = Fbank()(Padded.from_sequences([rows[1][:10]]))
    torch.testing.assert_close(alone.values[0], theirs(torch.cat([rows[1][:10], torch.zeros(390)])), atol=1e-3, rtol=0)


def test_normalisation_is_over_the_rows_own_frames() -> None:
    generator = torch.Generator().manual_seed(0)
    rows = [torch.randn(length, 5, generator=generator) * 3 + 7 for length in (20, 7, 2, 1)]
    batch = Padded.from_sequences(rows, padding=99)
    for means in (True, False):
        for variances in (True, False):
            normalised = UtteranceNorm(means=means, variances=variances)(batch)
            for row, ours in zip(rows[:3], normalised.rows(), strict=False):
                values = row.double().numpy()
                expected = values - values.mean(0) if means else values
                expected = expected / values.std(0) if variances else expected
                torch.testing.assert_close(ours, torch.from_numpy(expected).float(), atol=1e-4, rtol=1e-4)
            assert normalised.values[1, 7:].abs().sum() == 0
    assert UtteranceNorm()(batch).values[3].abs().sum() == 0  # a single frame is its own mean
