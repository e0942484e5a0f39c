"""Sound in memory is translated as the same sound in a file; what is no sound is refused by name."""

import numpy as np
import pytest
import soundfile
import torch

from dragoman.shared.errors import DataError, UsageError
from dragoman.shared.systems.sound_arrays import as_files, mono
from tests.small import refuses

RATE = 22050


@pytest.fixture
def wave():
    return (0.5 * np.sin(np.arange(4000) / 7)).astype(np.float32)


def test_an_array_becomes_a_file_of_its_samples_which_goes_again(wave, tmp_path):
    soundfile.write(tmp_path / "a.wav", wave, RATE)
    with as_files([tmp_path / "a.wav", wave, torch.from_numpy(wave)], RATE, speech=True) as items:
        assert items[0] == tmp_path / "a.wav" and items[1] != items[2]
        for item in items[1:]:
            values, rate = soundfile.read(item, dtype="float32")
            assert rate == RATE and np.array_equal(values, wave)
    assert (tmp_path / "a.wav").exists() and not items[1].exists()


@pytest.mark.parametrize(
    "given",
    [
        lambda wave: wave.astype(np.float64),
        lambda wave: wave[None],
        lambda wave: np.stack([wave + 0.25, wave - 0.25]),
        lambda wave: torch.from_numpy(wave).requires_grad_(),
        lambda wave: torch.from_numpy(np.stack([wave, wave])),
        lambda wave: wave[::-1][::-1],
        lambda wave: (wave * 2**31).astype(np.int32),
    ],
)
def test_channels_are_averaged_and_types_have_their_full_scale(given, wave):
    values = mono(given(wave), "x")
    assert values.dtype == np.float32 and values.shape == (4000,)
    np.testing.assert_allclose(values, wave, atol=1e-7)


def test_sixteen_bits_are_read_as_soundfile_reads_them(wave, tmp_path):
    whole = np.array([-32768, -1, 0, 1, 32767], dtype=np.int16)
    soundfile.write(tmp_path / "a.wav", whole, RATE, subtype="PCM_16")
    assert np.array_equal(mono(whole, "x"), soundfile.read(tmp_path / "a.wav", dtype="float32")[0])
    assert mono(torch.from_numpy(whole), "x")[0] == -1
    assert mono(torch.tensor([0.5, -0.25], dtype=torch.bfloat16), "x").tolist() == [0.5, -0.25]
    assert mono(np.array([2.0, -2.0]), "x").tolist() == [2, -2]


@pytest.mark.parametrize(
    ("array", "error", "match"),
    [
        (np.zeros(0, np.float32), DataError, "^x: holds no samples"),
        (np.zeros((2, 0), np.float32), DataError, "holds no samples .2 x 0"),
        (np.array([0, np.nan, 0]), DataError, "not a number among the samples, at 1"),
        (np.array([0, 0, -np.inf]), DataError, "at 2"),
        (np.zeros((2, 3, 4)), UsageError, "an array of 2 x 3 x 4"),
        (np.float32(1).reshape(()), UsageError, "an array of a single number"),
        (np.zeros((100, 2)), UsageError, r"an array of 100 x 2: .* give its transpose"),
        (np.zeros(9, np.uint8), UsageError, "an array of uint8"),
        (np.zeros(9, bool), UsageError, "an array of bool"),
        (torch.zeros(9, dtype=torch.int64), UsageError, "an array of int64"),
        (np.array(["a"]), UsageError, "an array of <U1"),
        (np.array([0, 2.001]), UsageError, "samples up to 2.001: full scale is 1"),
        (np.array([0, -12345.0]), UsageError, "samples up to 12345"),
    ],
)
def test_what_is_no_sound_is_refused(array, error, match):
    refuses(error, match, mono, array, "x")


def test_a_rate_belongs_to_arrays(wave):
    for inputs, rate, speech, said in (
        (["a.wav", wave], None, True, r"inputs\[1\] is an array: give its sample_rate"),
        (["a.wav"], 16000, True, "sound files have their own"),
        (["a"], 16000, False, "this system reads text"),
        *(([wave], bad, True, "sample_rate must be") for bad in (999, 1_000_001, float("nan"), "16000", True, 16000.5)),
    ):
        refuses(UsageError, said, as_files(inputs, rate, speech=speech).__enter__)
    for rate in (1000, 1_000_000, 8000.0, np.int64(16000)):
        with as_files([wave], rate, speech=True) as [item]:
            assert soundfile.info(item).samplerate == rate
    with as_files([wave], None, speech=False) as [item]:
        assert item is wave  # for the system to refuse
