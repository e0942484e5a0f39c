"""What tests of methods are given: a tokenizer, and rows of speech in both languages."""

import numpy as np
import pytest
import soundfile

from tests import small
from tests.shared.conftest import write_sound  # noqa: F401
from tests.test_nouns import WORDS


@pytest.fixture(scope="module")
def tokenizer():
    return small.tokenizer(WORDS * 9, size=262)


@pytest.fixture
def rows(tmp_path):
    made, rng = [], np.random.default_rng(4)
    for number, word in enumerate(WORDS):
        path = tmp_path / f"{number}.wav"
        length = 6000 + 2500 * number
        tones = sum(np.sin(np.arange(length) * f) for f in rng.uniform(0.05, 1.5, 3)) * np.linspace(0.1, 0.3, length)
        soundfile.write(path, tones + 0.05 * rng.standard_normal(length), 16000, subtype="FLOAT")
        made.append({"id": str(number), "audio": str(path), "start": 0.0, "duration": length / 16000})
        made[-1] |= {"source_text": word, "target_text": word[::-1], "source_language": "en", "target_language": "de"}
    return made
