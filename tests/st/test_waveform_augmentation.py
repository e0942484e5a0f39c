"""Augmented waveforms have the noise, the echoes and the gaps that were asked for, and nothing else changes."""

import os
import subprocess
import sys

import numpy as np
import pytest
import soundfile
import torch

from dragoman.shared.errors import DataError
from dragoman.shared.padded import Padded
from dragoman.st import waveform_augmentation
from dragoman.st.waveform_augmentation import WaveformAugmentation
from tests.small import refusal, refuses

LENGTHS = [16000, 9000, 4000]


def speech():
    time = torch.arange(16000) / 16000
    values = torch.stack([0.3 * torch.sin(2 * torch.pi * pitch * time) for pitch in (200, 300, 400)])
    for row, length in zip(values, LENGTHS, strict=True):
        row[length:] = 7.0  # padding, which nothing may read or change
    return Padded(values, torch.tensor(LENGTHS))


def seeded(augment, seed):
    torch.manual_seed(seed)
    return augment(speech()).values


def snr(clean, noisy):
    """Measure the ratio in dB by least squares: the part along the clean signal, and the rest."""
    clean, noisy = clean.double().numpy(), noisy.double().numpy()
    along = clean * (noisy @ clean) / (clean @ clean)
    return 10 * np.log10((along**2).sum() / ((noisy - along) ** 2).sum())


@pytest.mark.parametrize("folder", [False, True])
def test_noise_has_the_ratio_that_was_asked_for(folder, tmp_path):
    noise = np.random.default_rng(0).normal(size=5000) * 0.01
    soundfile.write(tmp_path / "hum.wav", noise, 16000)
    given = speech()
    augment = WaveformAugmentation(noise_share=1.0, snr=[10.0, 10.0], noise_folder=str(tmp_path) if folder else None)
    found = augment(given)
    assert torch.equal(found.lengths, given.lengths) and found.values.shape == given.values.shape
    assert torch.equal(found.values[~given.mask], given.values[~given.mask])
    for clean, noisy in zip(given.rows(), found.rows(), strict=True):
        assert snr(clean, noisy) == pytest.approx(10, abs=0.5)


def test_dropped_chunks_are_zero_and_the_rest_stays():
    given = speech()
    found = WaveformAugmentation(chunk_share=1.0, chunks=[2, 2], chunk_samples=[500, 500])(given)
    changed = found.values != given.values
    assert (found.values[changed] == 0).all()
    assert all(490 <= int(row.sum()) <= 1000 for row in changed) and not changed[~given.mask].any()


def test_an_echo_is_where_the_impulse_response_has_it(tmp_path):
    response = np.zeros(101)
    response[[0, 100]] = 1.0, 0.5
    soundfile.write(tmp_path / "room.wav", response, 16000, subtype="FLOAT")
    values = torch.zeros(1, 2000)
    values[0, 300] = 0.8
    given = Padded(values, torch.tensor([2000]))
    found = WaveformAugmentation(reverberation_share=1.0, reverberation_folder=str(tmp_path))(given).values[0]
    assert found.abs().topk(2).indices.tolist() == [300, 400]
    assert float(found[400] / found[300]) == pytest.approx(0.5, abs=1e-3)


def test_evaluation_changes_no_bit_and_a_seed_repeats():
    augment = WaveformAugmentation(noise_share=1.0, chunk_share=0.5)
    assert augment.eval()(given := speech()) is given
    augment.train()
    once, again, other = (seeded(augment, seed) for seed in (3, 3, 4))
    assert torch.equal(once, again) and not torch.equal(once, other)


def test_a_folder_without_sound_is_refused(tmp_path):
    refuses(DataError, "no sound file", WaveformAugmentation(noise_share=1.0, noise_folder=str(tmp_path)), speech())


def test_speechbrain_is_imported_when_it_is_used_only():
    code = "import sys, dragoman.st.waveform_augmentation; print('speechbrain' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False\n"


def test_what_is_kept_of_noise_does_not_grow_with_the_corpus(tmp_path, monkeypatch):
    for number in range(12):
        noise = np.random.default_rng(number).normal(size=10_000) * 0.01
        soundfile.write(tmp_path / f"{number}.wav", noise, 16000, subtype="FLOAT")
    augment = WaveformAugmentation(noise_share=1.0, noise_folder=str(tmp_path))
    for seed in range(8):  # 24 draws
        unbounded = seeded(augment, seed)
        monkeypatch.setattr(waveform_augmentation, "KEPT", 25_000)
        assert torch.equal(seeded(augment, seed), unbounded)
        held = [path for path in waveform_augmentation._SOUNDS if path.parent == tmp_path]
        assert 1 <= len(held) <= 2  # of 10,000 samples each: a third has no room in 25,000
        monkeypatch.undo()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"noise_share": 1.5}, "WaveformAugmentation: noise_share must be between 0 and 1, not 1.5"),
        ({"reverberation_share": -0.5}, "WaveformAugmentation: reverberation_share must be between 0 and 1, not -0.5"),
        ({"chunk_share": 2}, "WaveformAugmentation: chunk_share must be between 0 and 1, not 2"),
        ({"snr": [9.0, 3.0]}, "snr must be two increasing numbers, not [9.0, 3.0]"),
        ({"snr": [9.0]}, "snr must be two increasing numbers, not [9.0]"),
        ({"chunks": [-1, 3]}, "chunks must be two increasing numbers, the first at least 0, not [-1, 3]"),
        ({"chunk_samples": [0, 3]}, "chunk_samples must be two increasing numbers, the first at least 1, not [0, 3]"),
        ({"reverberation_share": 0.5},
         "reverberation needs reverberation_folder, a folder of impulse responses"),
    ],
)  # fmt: skip
def test_what_is_said_of_wrong_arguments(settings, said):
    assert refusal(ValueError, WaveformAugmentation, **settings) == said


def test_ranges_and_shares_at_their_ends():
    given = speech()
    assert torch.equal(WaveformAugmentation()(given).values, given.values)
    WaveformAugmentation(snr=[-3.0, -3.0], chunks=[0, 0], chunk_samples=[1, 1], noise_share=1, chunk_share=1)


def test_sounds_are_read_as_one_channel_and_refused_by_name(tmp_path):
    soundfile.write(tmp_path / "two.wav", np.array([[0.5, 0.25], [0.0, 0.5]]), 16000, subtype="FLOAT")
    (tmp_path / "in").mkdir()
    soundfile.write(tmp_path / "in" / "one.FLAC", np.array([0.5]), 16000, format="FLAC")
    (tmp_path / "notes.txt").touch()
    names = [path.name for path in waveform_augmentation._files(str(tmp_path))]
    assert names == ["one.FLAC", "two.wav"]
    assert waveform_augmentation._sound(tmp_path / "two.wav").tolist() == [0.375, 0.25]
    for name, samples, rate in (("slow.wav", 3, 8000), ("empty.wav", 0, 16000)):
        soundfile.write(tmp_path / name, np.zeros(samples), rate)
        said = f"{tmp_path / name}: has {samples} samples at {rate} Hz; augmentation needs sound at 16000 Hz"
        assert refusal(DataError, waveform_augmentation._sound, tmp_path / name) == said
    (tmp_path / "none.wav").write_text("none")
    refuses(DataError, f"^{tmp_path / 'none.wav'}: ", waveform_augmentation._sound, tmp_path / "none.wav")


def test_noise_of_a_file_begins_anywhere_and_is_repeated(tmp_path):
    soundfile.write(tmp_path / "ramp.wav", np.arange(7) / 8, 16000, subtype="FLOAT")
    augment = WaveformAugmentation(noise_share=1.0, noise_folder=str(tmp_path))
    torch.manual_seed(0)
    found = augment._noise_of_files(torch.zeros(40, 20)) * 8
    assert found.shape == (40, 20)
    assert (found[:, 1:] == (found[:, :-1] + 1) % 7).all()
    assert len({*found[:, 0].tolist()}) > 3


def test_lengths_as_shares():
    given = Padded(torch.zeros(3, 8), torch.tensor([8, 2, 0]))
    assert waveform_augmentation._relative(given).tolist() == [1.0, 0.25, 0.125]
    assert waveform_augmentation._relative(Padded(torch.zeros(1, 0), torch.tensor([0]))).tolist() == [1.0]
    torch.manual_seed(0)
    shares = [sum(waveform_augmentation._drawn(share) for _ in range(1000)) for share in (0.0, 0.3, 1.0)]
    assert shares[0] == 0 and 230 < shares[1] < 370 and shares[2] == 1000


def test_a_named_pipe_among_the_noise_is_refused_and_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "hum.wav")
    augment = WaveformAugmentation(noise_share=1.0, noise_folder=str(tmp_path))
    refuses(DataError, f"{tmp_path}/hum.wav: a named pipe, not a sound file", augment, speech())
