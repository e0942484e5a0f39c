"""The model and the sound of the tests of shared/, and a voice."""

import numpy as np
import pytest

from tests.shared.conftest import speech_model, write_sound  # noqa: F401


@pytest.fixture
def hum(tmp_path):
    """Two vowels of 0.8 s, for which a voice's pitch moves, with a second of silence behind each: (N,) int16."""
    seconds = np.arange(int(0.8 * 16000)) / 16000
    phase = 2 * np.pi * np.cumsum(120 + 60 * np.sin(2 * np.pi * 2.5 * seconds)) / 16000
    loudness = np.abs(np.sin(2 * np.pi * 2.5 * seconds))
    vowel = loudness * sum(np.sin(number * phase) / number for number in range(1, 20))
    silence = np.zeros(16000)
    return np.concatenate([vowel * 8000, silence, vowel * 8000, silence]).astype("<i2")
