"""``dragoman stream``: files and standard input, text and times, and options that do not fit."""

import json

import numpy as np
import pytest
import soundfile

from shared.corpus.audio import SAMPLE_RATE

OPTIONS = ["--maximum-length-extra", "6", "--device", "cpu", "--speech-detector", "levels", "--chunk", "0.25"]


@pytest.fixture
def hum(tmp_path):
    """Two vowels of 0.8 s, for which a voice's pitch moves, with a second of silence behind each: (N,) int16."""
    seconds = np.arange(int(0.8 * SAMPLE_RATE)) / SAMPLE_RATE
    phase = 2 * np.pi * np.cumsum(120 + 60 * np.sin(2 * np.pi * 2.5 * seconds)) / SAMPLE_RATE
    loudness = np.abs(np.sin(2 * np.pi * 2.5 * seconds))
    vowel = loudness * sum(np.sin(number * phase) / number for number in range(1, 20))
    silence = np.zeros(SAMPLE_RATE)
    return np.concatenate([vowel * 8000, silence, vowel * 8000, silence]).astype("<i2")


def test_each_sentence_is_a_line_and_the_times_are_those_of_the_sound(dragoman, speech_model, hum, tmp_path):
    soundfile.write(tmp_path / "talk.wav", hum, SAMPLE_RATE)
    code, lines, messages = dragoman("stream", speech_model, tmp_path / "talk.wav", *OPTIONS)
    assert code == 0, messages
    code, times, _ = dragoman("stream", speech_model, tmp_path / "talk.wav", "--format", "json", *OPTIONS)
    found = [json.loads(line) for line in times.splitlines()]
    assert "".join(one["text"] + "\n" * one["last"] for one in found) == lines
    assert lines.count("\n") == 2
    first, second = (one["heard"] for one in found if one["last"])
    assert 1.4 <= first <= 1.8 + 0.25 and 3.2 <= second <= 3.6
    assert all(one["elapsed"] > one["heard"] for one in found)


def test_standard_input_is_heard_like_a_file(dragoman, speech_model, hum, tmp_path):
    soundfile.write(tmp_path / "talk.wav", hum, SAMPLE_RATE, subtype="PCM_16")
    for options in ([], ["--policy", "wait-k", "--k", "2"], ["--policy", "alignatt", "--layer", "1"]):
        _, wanted, _ = dragoman("stream", speech_model, tmp_path / "talk.wav", *options, *OPTIONS)
        code, found, messages = dragoman("stream", speech_model, *options, *OPTIONS, data=hum.tobytes())
        assert code == 0 and found == wanted != "", messages


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--policy", "agree"], "--policy must be one of agreement, alignatt, hold, wait-k, not 'agree'"),
        (["--policy", "hold", "--k", "4"], "--k does not apply to the policy hold"),
        (["--format", "srt"], "--format must be text or json, not 'srt'"),
        (["--ctc"], "CTC"),
    ],
)
def test_options_that_do_not_fit_are_refused(dragoman, speech_model, tmp_path, write_sound, options, message):
    write_sound(tmp_path / "a.wav")
    code, output, messages = dragoman("stream", speech_model, tmp_path / "a.wav", *options, "--device", "cpu")
    assert (code, output) == (2, "") and message in messages


def test_a_file_on_standard_input_is_refused(dragoman, speech_model):
    code, _, messages = dragoman("stream", speech_model, *OPTIONS, text="RIFF....WAVE")
    assert code == 1 and "standard input: is a sound file" in messages
