"""Voices: samples that depend on text and manner alone, their level and their noise."""

import random
import time

import numpy as np
import pytest

from dragoman.almanac import voices
from dragoman.almanac.frames import randomness
from dragoman.shared.errors import DataError
from tests.small import refuses

HELLO = "en-us+f3|170|50|Is it really half past three in Berlin?"


def speak(*lines):
    """Return the number of samples and the bytes of each text, spoken by one process, one after the other."""
    speaker, heard = voices.Speaker(), []
    for voice, speed, pitch, text in (line.split("|") for line in lines):
        samples = speaker.speak(text, voices.Manner(voice, int(speed), int(pitch)))
        heard.append((len(samples), samples.tobytes()))
    return heard


def test_the_same_text_gives_the_same_samples_whenever_it_is_spoken():
    other = "de+m3|150|40|Heute ist Montag, der dritte Mai."
    first, again, after = speak(HELLO, HELLO, other)
    time.sleep(1.1)  # breathy voices such as f3 draw random numbers, which the library seeds with the second
    later, alone = speak(other, HELLO)
    assert first == again == alone and after == later


def test_words_are_those_of_the_text_in_order():
    manner = voices.Manner("en-us", 150, 50)
    [(samples, words)] = voices.Speaker().speak_words([("It is a hat.", manner)])
    starts = [word.start for word in words]
    assert [word.text for word in words] == ["It", "is", "a", "hat"]
    assert starts == sorted(starts) and 0 <= starts[0] < starts[-1] < len(samples)


def test_voice_speed_and_pitch_are_heard():
    changed = (HELLO.replace(*pair) for pair in (("170", "120"), ("50", "70"), ("f3", "m3")))
    plain, slow, high, man = speak(HELLO, *changed)
    assert len({plain, slow, high, man}) == 4
    assert slow[0] > 1.2 * plain[0]


def test_every_voice_speaks_and_they_all_differ():
    variants = voices.SEEN_VOICES + voices.UNSEEN_VOICES
    heard = speak(*(HELLO.replace("f3", variant) for variant in variants))
    assert len(set(heard)) == len(variants) == 18
    assert all(1.5 < samples / voices.ESPEAK_RATE < 4 for samples, _ in heard)
    assert not set(voices.SEEN_VOICES) & set(voices.UNSEEN_VOICES)


def test_unknown_voice_is_refused():
    refuses(DataError, r"'xx-yy\+f3'", speak, "xx-yy+f3|170|50|Hello")


@pytest.mark.parametrize("missing", ["espeakng-loader", "scipy"])
def test_missing_library_names_the_extra(monkeypatch, missing):
    module = missing.replace("-", "_")
    monkeypatch.setattr(voices.importlib.util, "find_spec", lambda name: None if name == module else object())
    with pytest.raises(DataError, match=rf"{missing} is not installed.*pip install 'dragoman\[demo\]'"):
        voices.require()


def test_resampling_keeps_a_tone():
    seconds, hertz = 0.5, 1000.0
    tone = np.sin(2 * np.pi * hertz * np.arange(int(voices.ESPEAK_RATE * seconds)) / voices.ESPEAK_RATE)
    got = voices.at_rate((tone * 16384).astype(np.int16))
    assert len(got) == pytest.approx(voices.RATE * seconds, abs=1)
    expected = 0.5 * np.sin(2 * np.pi * hertz * np.arange(len(got)) / voices.RATE)
    assert np.abs(got - expected)[200:-200].max() < 5e-3


def test_noise_is_light_and_its_own():
    tone = 0.3 * np.sin(np.arange(16_000) * 0.1)
    for seed in range(20):
        noisy = voices.noisy(tone, random.Random(seed))
        level = float(noisy @ tone / (tone @ tone))
        ratio = 20 * np.log10(np.std(level * tone) / np.std(noisy - level * tone))
        assert 0.45 < level < 1.05 and 24 < ratio < 46
    assert np.array_equal(voices.noisy(tone, random.Random(1)), voices.noisy(tone, random.Random(1)))
    assert not np.array_equal(voices.noisy(tone, random.Random(1)), voices.noisy(tone, random.Random(2)))


def test_manner_stays_near_the_talk():
    def manners(talk):
        return [voices.manner("fr", "f3", randomness(talk), randomness(talk, index)) for index in range(30)]

    first, second = manners("talk 1"), manners("talk 2")
    assert {manner.voice for manner in first} == {"fr+f3"}
    for talk in (first, second):
        speeds = [manner.speed for manner in talk]
        assert 135 <= min(speeds) and max(speeds) <= 200 and 3 < max(speeds) - min(speeds) <= 15
    assert first != second


def test_pcm_clips_and_rounds():
    assert voices.pcm(np.array([0.0, 1.0, -1.0, 2.0, -2.0, 0.5])).tolist() == [0, 32767, -32767, 32767, -32768, 16384]
