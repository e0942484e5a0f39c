"""A model that reads sound, and sound, for the tests of several rooms."""

import os

import numpy as np
import pytest
import soundfile
import torch

from dragoman.shared.batches.speech_field import SpeechField
from dragoman.shared.sound.audio import SAMPLE_RATE
from dragoman.shared.text.tokenizer import SentencePieceTokenizer
from tests import small


@pytest.fixture(scope="session")
def speech_model(tmp_path_factory):
    """An untrained translator of sound."""
    tokenizer = SentencePieceTokenizer(model=str(small.GOLDEN / "tokenizer.model"), tags=["en", "de"])
    torch.manual_seed(5)
    model = small.translator(tokenizer, embeddings={"speech": small.speech_embedding()})
    system = small.system(tokenizer, model, inputs={"speech": SpeechField()})
    folder = tmp_path_factory.mktemp("speech") / "model"
    system.save(folder)
    return folder


@pytest.fixture(scope="session")
def write_sound():
    """Return a function that writes noise to a wav file."""
    return _write_sound


def _write_sound(path, seconds=0.5):
    noise = np.random.default_rng(1).normal(0, 0.1, int(seconds * SAMPLE_RATE))
    soundfile.write(os.fsencode(path), noise, SAMPLE_RATE, format="WAV")
