"""Cuts where nobody speaks: eSpeak's sentences between noise that is louder than they are."""

import math
from importlib.util import find_spec

import numpy as np
import pytest
import soundfile

from dragoman.almanac.voices import ESPEAK_RATE, Manner, Speaker
from dragoman.shared.errors import UsageError
from dragoman.shared.sound import speech_gaps
from dragoman.shared.sound.audio import SAMPLE_RATE, read_audio
from dragoman.shared.sound.pauses import file_segments
from dragoman.shared.sound.speech_gaps import gap_costs, gap_segments
from tests.small import refuses

pytestmark = pytest.mark.skipif(find_spec("silero_vad") is None, reason="silero-vad is not installed (the extra vad)")


@pytest.fixture(scope="module")
def detector():
    from dragoman.shared.sound.silero import SileroDetector

    return SileroDetector.installed()


@pytest.fixture(scope="module")
def loud_gaps(tmp_path_factory):
    """Sentences between noise that is as loud as their loudest sounds."""
    return sentences_in_noise(tmp_path_factory.mktemp("gaps"), 0.2)


def sentences_in_noise(folder, deviation):
    """A file of four sentences with 1.5 s of noise between them, and the beginning and end of each noise in seconds."""
    rng, speaker, parts, gaps = np.random.default_rng(1), Speaker(), [], []
    for number in range(4):
        soundfile.write(
            folder / "a.wav", speaker.speak("The train leaves at ten.", Manner("en-us+m1", 150, 50)), ESPEAK_RATE
        )
        sentence = read_audio(folder / "a.wav")
        parts.append(0.2 * sentence / np.abs(sentence).max())
        if number < 3:
            at = sum(map(len, parts)) / SAMPLE_RATE
            gaps.append((at, at + 1.5))
            parts.append(deviation * rng.standard_normal(round(1.5 * SAMPLE_RATE)))
    soundfile.write(folder / "talk.wav", np.concatenate(parts), SAMPLE_RATE)
    return folder / "talk.wav", gaps


#: Nothing is left out: what divides is the longest segment.
WHOLE = {"margin": math.inf, "longest_pause": math.inf}


def within(found, gaps):
    """For each cut whether it lies in a gap."""
    return [any(a < start < b for a, b in gaps) for start, _ in found[1:]]


def test_cuts_lie_in_noise_that_is_louder_than_speech(loud_gaps, detector):
    path, gaps = loud_gaps
    found = gap_segments(path, detector=detector, maximum=5, **WHOLE)
    assert within(found, gaps) and all(within(found, gaps))
    assert not all(within(file_segments(path, maximum=5, **WHOLE), gaps))  # levels alone cut through sentences
    assert found[0][0] == 0 and sum(duration for _, duration in found) == pytest.approx(soundfile.info(path).duration)
    assert all(a + b == pytest.approx(c) for (a, b), (c, _) in zip(found, found[1:], strict=False))
    assert max(duration for _, duration in found) <= 5


def test_segments_are_the_sentences_without_the_noise(tmp_path, detector):
    path, gaps = sentences_in_noise(tmp_path, 0.02)
    found = gap_segments(path, detector=detector, maximum=5, margin=0.0)
    begins, ends = [0.0, *(b for _, b in gaps)], [*(a for a, _ in gaps), soundfile.info(path).duration]
    assert [start for start, _ in found] == pytest.approx(begins, abs=0.15)
    assert [start + duration for start, duration in found] == pytest.approx(ends, abs=0.25)


def test_where_a_block_ends_changes_little(loud_gaps, detector, monkeypatch):
    path, gaps = loud_gaps
    whole = gap_segments(path, detector=detector, maximum=5, **WHOLE)
    monkeypatch.setattr(speech_gaps, "_BLOCK", 3.2)
    parts = gap_segments(path, detector=detector, maximum=5, **WHOLE)
    assert len(parts) == len(whole) and all(within(parts, gaps))
    assert [start for start, _ in parts] == pytest.approx([start for start, _ in whole], abs=0.25)


def test_costs_by_a_loop():
    probabilities = np.random.default_rng(2).random(300)
    found = gap_costs(probabilities)
    hann = np.sin(np.pi * (np.arange(100) + 0.5) / 100) ** 2
    for place in (0, 3, 150, 299):
        near = [probabilities[i] for i in range(place - 5, place + 5) if 0 <= i < 300]
        wide = [(hann[k], probabilities[i]) for k, i in enumerate(range(place - 50, place + 50)) if 0 <= i < 300]
        around = sum(weight * p for weight, p in wide) / sum(weight for weight, _ in wide)
        assert found[place] == pytest.approx(40 * (np.mean(near) + 0.1 * around) + 3, abs=0.006)


def test_short_files_and_wrong_limits(loud_gaps, detector):
    path, _ = loud_gaps
    length = soundfile.info(path).duration
    assert gap_segments(path, detector=detector, maximum=60) == [(0.0, pytest.approx(length))]
    refuses(UsageError, "at least 1 second, not 0", gap_segments, path, detector=detector, maximum=0)
