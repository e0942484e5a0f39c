"""Speech or none: eSpeak's words against noise of known kinds, and silero-vad's own program beside our network."""

from __future__ import annotations

import logging
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch
from safetensors.torch import load_file, save_file

from dragoman.almanac.voices import ESPEAK_RATE, Manner, Speaker
from dragoman.shared.errors import DataError, UsageError
from dragoman.shared.sound import silero, speech_activity
from dragoman.shared.sound.audio import SAMPLE_RATE, read_audio
from dragoman.shared.sound.speech_activity import rows_without_speech, speech_detector, warn_of_silence
from tests.small import refuses

INSTALLED = find_spec("silero_vad") is not None
needs_silero = pytest.mark.skipif(not INSTALLED, reason="silero-vad is not installed (the extra vad)")
DETECTORS = ["levels", pytest.param("silero", marks=needs_silero)]
WORDS = [("yes", "en-us+m1"), ("deux", "fr+f2"), ("The train leaves at ten.", "en-us+Andrea"), ("nein", "de+m7")]


def coloured(rng, count, power):
    """Gaussian noise whose power falls with this power of the frequency, at an effective value of 1."""
    frequencies = np.maximum(np.fft.rfftfreq(count, 1 / SAMPLE_RATE), 20)
    noise = np.fft.irfft(np.fft.rfft(rng.standard_normal(count)) * frequencies ** (-power / 2), count)
    return noise / np.sqrt(np.mean(noise**2))


def hum(rng, count):
    times = np.arange(count) / SAMPLE_RATE
    return sum(rng.random() / n * np.sin(2 * np.pi * 50 * n * times + 6 * rng.random()) for n in range(1, 20))


def clicks(rng, count):
    wave = np.zeros(count)
    wave[rng.integers(0, count, 4)] = 1
    return wave


NOISES = {
    "digital silence": lambda rng, count: np.zeros(count),
    "an offset": lambda rng, count: np.ones(count),
    "white": lambda rng, count: coloured(rng, count, 0),
    "pink": lambda rng, count: coloured(rng, count, 1),
    "brown": lambda rng, count: coloured(rng, count, 2),
    "violet": lambda rng, count: coloured(rng, count, -2),
    "hum": hum,
    "clicks": clicks,
}


@pytest.fixture(scope="module")
def spoken(tmp_path_factory):
    """eSpeak's words at 16 kHz."""
    folder, speaker, waves = tmp_path_factory.mktemp("words"), Speaker(), []
    for number, (text, voice) in enumerate(WORDS):
        soundfile.write(folder / f"{number}.wav", speaker.speak(text, Manner(voice, 150, 50)), ESPEAK_RATE)
        waves.append(read_audio(folder / f"{number}.wav"))
    return waves


@pytest.mark.parametrize("kind", NOISES)
@pytest.mark.parametrize("name", DETECTORS)
def test_noise_is_no_speech_at_any_level(name, kind):
    detector, rng = speech_detector(name), np.random.default_rng(1)
    for seconds, decibels in ((0.1, -20), (0.7, -70), (3.0, -10), (45.0, -40)):
        wave = NOISES[kind](rng, round(seconds * SAMPLE_RATE)) * 10 ** (decibels / 20)
        assert not detector.has_speech(np.clip(wave, -1, 1).astype(np.float32)), (seconds, decibels)


@pytest.mark.parametrize("name", DETECTORS)
def test_a_few_samples_are_no_speech(name, spoken):
    detector = speech_detector(name)
    for count in (0, 1, 2, 100, 511, 512):
        assert not detector.has_speech(spoken[2][4000 : 4000 + count])
        assert not detector.has_speech(np.ones(count, dtype=np.float32))


@pytest.mark.parametrize("name", DETECTORS)
def test_words_are_speech_quiet_or_in_noise(name, spoken):
    detector, rng = speech_detector(name), np.random.default_rng(2)
    for wave in spoken:
        loudness = np.sqrt(np.mean(wave**2))
        noise = coloured(rng, len(wave), 1) * loudness * 10 ** (-20 / 20)
        assert detector.has_speech(wave)
        for softer in (0.01, 0.001):
            assert detector.has_speech(wave * np.float32(softer / loudness))
        assert detector.has_speech((wave + noise).astype(np.float32))


@pytest.mark.parametrize("name", DETECTORS)
def test_the_shortest_words_are_speech(name, tmp_path):
    detector, speaker = speech_detector(name), Speaker()
    for text, voice in (("un", "fr+m7"), ("un", "fr+m8"), ("eau", "fr+m8"), ("eau", "fr+ed")):
        soundfile.write(tmp_path / "a.wav", speaker.speak(text, Manner(voice, 190, 50)), ESPEAK_RATE)
        assert detector.has_speech(read_audio(tmp_path / "a.wav")), (text, voice)


@pytest.mark.parametrize("background", ["digital silence", "white", "hum"])
@pytest.mark.parametrize("name", DETECTORS)
def test_one_word_in_a_minute_is_enough(name, background, spoken):
    wave = NOISES[background](np.random.default_rng(3), 70 * SAMPLE_RATE) * 0.002
    for start in (0, 1_000_000, len(wave) - len(spoken[0])):  # beyond a block of either detector
        among = wave.copy()
        among[start : start + len(spoken[0])] += spoken[0]
        assert speech_detector(name).has_speech(among.astype(np.float32))


@needs_silero
def test_bands_are_equally_wide_in_mel():
    """150 to 5,000 Hz are divided into 18 bands, as wide as each other by the formula of O'Shaughnessy."""
    bands = speech_activity._bands()
    hertz = np.arange(len(bands)) * 8000 / (len(bands) - 1)
    mels, width = 2595 * np.log10(1 + hertz / 700), 2595 * np.log10(5700 / 850) / 18
    number = np.floor((mels - 2595 * np.log10(850 / 700)) / width)
    inside = (number >= 0) & (number < 18)
    assert bands.shape[1] == 18 and (bands.argmax(1) == np.where(inside, number, 0)).all()
    assert (bands.sum(1) == inside).all()


def test_the_network_computes_what_the_published_program_does(spoken):
    """The published program takes a window at a time; its weights are exchanged for those of the file that we read."""
    detector = silero.SileroDetector.installed()
    folder = Path(find_spec("silero_vad").origin).parent / "data"
    program = torch.jit.load(folder / "silero_vad.jit")
    weights = load_file(folder / "silero_vad_16k.safetensors")
    theirs = {"stft_conv.weight": "stft.forward_basis_buffer"}
    theirs |= {f"final_conv.{part}": f"decoder.decoder.2.{part}" for part in ("weight", "bias")}
    for name in weights:
        if name.startswith("conv"):
            theirs[name] = f"encoder.{int(name[4]) - 1}.reparam_conv.{name[6:]}"
        if name.startswith("lstm_cell."):
            theirs[name] = f"decoder.rnn.{name[10:]}"
    tensors = dict(program.named_parameters()) | dict(program.named_buffers())
    with torch.no_grad():
        for name, value in weights.items():
            tensors[f"_model.{theirs[name]}"].copy_(value)
    wave = np.concatenate([*spoken, *[0.1 * spoken[2]] * 30])
    assert len(wave) > silero._BLOCK * silero.WINDOW and len(wave) % silero.WINDOW
    padded = np.pad(wave, (0, -len(wave) % silero.WINDOW))
    with torch.inference_mode():
        windows = torch.from_numpy(padded).view(-1, 1, silero.WINDOW)
        expected = [program(window, SAMPLE_RATE).item() for window in windows]
    found = detector.probabilities(wave)
    assert min(expected) < 0.1 and max(expected) > 0.99
    np.testing.assert_allclose(found, expected, atol=1e-4)
    with torch.autocast("cpu", dtype=torch.bfloat16):  # of the model that translates
        np.testing.assert_array_equal(detector.probabilities(wave), found)


@needs_silero
def test_nothing_of_the_package_is_imported(spoken):
    threads = torch.get_num_threads()
    assert speech_detector("silero").has_speech(spoken[2])
    assert speech_detector().name == "silero-vad"
    assert "silero_vad" not in sys.modules and torch.get_num_threads() == threads


def test_a_detector_that_is_unknown_or_missing_is_refused(monkeypatch):
    refuses(UsageError, "auto, levels, silero, not 'ears'", speech_detector, "ears")
    monkeypatch.setattr(speech_activity, "find_spec", lambda name: None)
    refuses(UsageError, r"pip install 'dragoman\[vad\]'", speech_detector, "silero")
    assert speech_detector().name == "levels and spectrum"


def test_weights_of_another_version_are_refused_by_name(monkeypatch, tmp_path):
    (tmp_path / "data").mkdir()
    monkeypatch.setattr(silero, "find_spec", lambda name: type("Spec", (), {"origin": str(tmp_path / "__init__.py")}))
    file = tmp_path / "data" / "silero_vad_16k.safetensors"
    for write in (lambda: None, lambda: file.write_bytes(b"\0"), lambda: save_file({"a": torch.ones(1)}, file)):
        write()
        with pytest.raises(DataError, match="silero_vad_16k.safetensors: not the weights") as error:
            silero.SileroDetector.installed()
        assert "\n" not in str(error.value)


class Loud:
    """A detector to which everything is speech that is loud."""

    name = "loud"

    def has_speech(self, waveform):
        return np.abs(waveform).max() > 0.1


def test_rows_are_listened_to_segment_by_segment(tmp_path):
    soundfile.write(tmp_path / "a.wav", np.repeat([0.5, 0.0], SAMPLE_RATE), SAMPLE_RATE)
    audio = str(tmp_path / "a.wav")
    rows = [
        {"audio": audio, "start": 0.0, "duration": 0.9},
        {"audio": audio, "start": 1.1, "duration": 0.5},
        {"audio": None, "source_text": "no sound"},
        {"audio": audio, "start": None, "duration": None},
    ]
    assert rows_without_speech(rows, Loud()) == {1}
    refuses(DataError, "missing.wav", rows_without_speech, [{"audio": str(tmp_path / "missing.wav")}], Loud())


def test_neighbouring_segments_are_one_warning(caplog):
    times = [("a.wav", 0.0, 2.0), ("a.wav", 2.5, 1.0), ("a.wav", 3.6, 0.4), ("a.wav", 4.0, 1.0), ("b.wav", 5.0, 1.0)]
    rows = [{"audio": audio, "start": start, "duration": duration} for audio, start, duration in times]
    with caplog.at_level(logging.WARNING, "dragoman"):
        warn_of_silence(rows, {0, 1, 3, 4}, Loud())
    expected = ["a.wav: no speech from 0.00 to 3.50 s", "a.wav: no speech from 4.00 to 5.00 s"]
    expected += ["b.wav: no speech from 5.00 to 6.00 s"]
    assert [message.partition(": skipped")[0] for message in caplog.messages] == expected
    assert all("detector: loud" in message for message in caplog.messages)


@pytest.mark.parametrize(("seconds", "spoken"), [(0.39, True), (0.4, False), (2.0, False)])
def test_short_blocks_need_no_sum(monkeypatch, seconds, spoken):
    """Change 5 and voicing 0.5 are enough each, and 1 + 1 is below 2.1, which is asked from 0.4 s on."""
    monkeypatch.setattr(speech_activity, "change_and_voicing", lambda block: (5.0, 0.5))
    assert speech_activity._sounds_spoken(np.zeros(round(seconds * SAMPLE_RATE), np.float32)) is spoken
