"""The folder of an encoder alone: commands that need a system that writes say so in one line."""

import pytest

from dragoman.shared.batches.speech_field import SpeechField
from dragoman.shared.nn.translator import EncoderModel
from dragoman.shared.systems.encoder_system import EncoderSystem
from dragoman.shared.systems.system import System


@pytest.fixture
def encoder(speech_model, tmp_path):
    model = System.load(speech_model).model
    alone = EncoderModel(embeddings={"speech": model.embeddings["speech"]}, encoder=model.encoder)
    EncoderSystem(model=alone, inputs={"speech": SpeechField()}).save(tmp_path / "encoder")
    return tmp_path / "encoder"


@pytest.mark.parametrize("options", [(), ("--ctc",), ("--format", "srt")])
def test_an_encoder_is_refused_by_translate(dragoman, encoder, write_sound, tmp_path, options):
    write_sound(tmp_path / "x.wav")
    code, output, messages = dragoman("translate", encoder, tmp_path / "x.wav", *options)
    assert (code, output) == (1, "") and len(messages.splitlines()) == 1
    assert "this model is an encoder, which writes nothing" in messages and str(encoder) in messages
