"""A model that reads sound, and sound, for the tests of several rooms."""

import os
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch

from shared.corpus.audio import SAMPLE_RATE
from shared.corpus.fields import TextField
from shared.corpus.speech_field import SpeechField
from shared.nn.embeddings import TextEmbedding
from shared.nn.fbank import Fbank, UtteranceNorm
from shared.nn.heads import TiedProjection
from shared.nn.layer import Layer
from shared.nn.positions import SinusoidalPositions
from shared.nn.speech import SpeechEmbedding
from shared.nn.subsampler import Conv1dSubsampler
from shared.nn.transformer import Decoder, Encoder
from shared.nn.translator import Translator
from shared.systems.system import System
from shared.text.tokenizer import SentencePieceTokenizer

GOLDEN = Path(__file__).parents[1] / "golden" / "model"


@pytest.fixture(scope="session")
def speech_model(tmp_path_factory):
    """An untrained translator of sound."""
    tokenizer = SentencePieceTokenizer(model=str(GOLDEN / "tokenizer.model"), tags=["en", "de"])
    torch.manual_seed(5)
    positions = SinusoidalPositions(width=16)

    def layer(**options):
        return Layer(width=16, heads=2, feedforward=32, dropout=0.0, **options)

    target = TextEmbedding(vocabulary=tokenizer.size, width=16, padding=tokenizer.pad, positions=positions, dropout=0.0)
    embedding = SpeechEmbedding(
        frontend=Fbank(bins=16),
        normalisation=UtteranceNorm(),
        subsampler=Conv1dSubsampler(inputs=16, channels=8, width=16),
        positions=positions,
        dropout=0.0,
    )
    model = Translator(
        embeddings={"speech": embedding},
        encoder=Encoder(layer=layer(), layers=1),
        target_embedding=target,
        decoder=Decoder(layer=layer(memories=["source"]), layers=1),
        projection=TiedProjection(embedding=target),
    )
    system = System(
        model=model,
        inputs={"speech": SpeechField()},
        output=TextField(column="target_text", tokenizer=tokenizer),
        source_languages=["en"],
        target_languages=["de"],
    )
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
