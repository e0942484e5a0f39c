"""``dragoman stream``: files and standard input, text and times, and options that do not fit."""

import io
import json

import numpy as np
import pytest
import soundfile
import torch

from shared.commands.live_output import heard_from, heard_in, policy_of
from shared.commands.options import ListeningOptions
from shared.corpus.audio import SAMPLE_RATE
from shared.systems.policies import AlignAtt, Hold, LocalAgreement, WaitK
from shared.systems.simultaneous import Emission

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


def test_standard_input_is_heard_like_a_file(hum, tmp_path):
    soundfile.write(tmp_path / "talk.wav", hum, SAMPLE_RATE, subtype="PCM_16")
    file, piped = [*heard_in(tmp_path / "talk.wav", 7000)], [*heard_from(io.BytesIO(hum.tobytes() + b"x"), 7000)]
    assert [len(chunk) for chunk in file] == [7000] * 8 + [1600]
    assert all(torch.equal(one, other) for one, other in zip(file, piped, strict=True))


@pytest.mark.parametrize("options", [[], ["--policy", "wait-k", "--k", "2"], ["--policy", "alignatt", "--layer", "1"]])
def test_standard_input_gives_lines(dragoman, speech_model, hum, options):
    code, lines, messages = dragoman("stream", speech_model, *options, *OPTIONS, data=hum.tobytes())
    assert code == 0 and lines.count("\n") == 2, messages


def test_a_sentence_without_words_is_no_line(dragoman, speech_model, monkeypatch):
    emissions = [Emission("", 1.0, 1.1, last=True), Emission("eins", 2.0, 2.1), Emission(" zwei", 3.0, 3.1, last=True)]
    monkeypatch.setattr("shared.commands.live_output.listen", lambda *_, **options: iter(emissions))
    assert dragoman("stream", speech_model, *OPTIONS)[:2] == (0, "eins zwei\n")


def test_each_policy_gets_its_options():
    made = [
        policy_of(ListeningOptions(policy="agreement", agree=3)),
        policy_of(ListeningOptions(policy="alignatt", frames=7, layer=2)),
        policy_of(ListeningOptions(policy="alignatt")),
        policy_of(ListeningOptions(policy="hold", hold=4)),
        policy_of(ListeningOptions(policy="wait-k", k=5, tokens=True)),
    ]
    wanted = [
        LocalAgreement(agree=3),
        AlignAtt(frames=7, layer=2),
        AlignAtt(frames=4, layer=None),
        Hold(tokens=4),
        WaitK(k=5, tokens=True),
    ]
    assert [(type(one), vars(one)) for one in made] == [(type(one), vars(one)) for one in wanted]


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
