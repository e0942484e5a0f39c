"""Imported encoders of speech as front ends: the states of transformers' own encoders, of each row's sound alone."""

import math
from pathlib import Path

import pytest
import torch
from torch.nn import functional as F

from dragoman import System, UsageError
from dragoman.exchange.importing import import_model
from dragoman.shared.batch import Batch
from dragoman.shared.errors import TooLongError
from dragoman.shared.nn.translator import EncoderModel
from dragoman.shared.padded import Padded
from dragoman.shared.systems.pretrained import encoder, load, speech_encoder, speech_translator
from tests.small import GOLDEN, refuses

transformers = pytest.importorskip("transformers")
LENGTHS = (11200, 20801, 4480, 321, 1)
DENOISER = Path(__file__).parents[2] / "parity" / "fairseq" / "denoising_pre_norm"


def sounds(lengths=LENGTHS):
    generator = torch.Generator().manual_seed(4)
    return [torch.randn(length, generator=generator) * 0.1 for length in lengths]


@pytest.fixture(scope="module")
def whisper(tmp_path_factory):
    """A random Whisper of two seconds: transformers' own, the class of its features, and the folder imported."""
    from tests.parity.test_huggingface_whisper import saved

    home = tmp_path_factory.mktemp("whisper")
    theirs = saved("small", home / "theirs")
    import_model(home / "theirs", home / "ours").check()
    return theirs, transformers.WhisperFeatureExtractor.from_pretrained(home / "theirs"), str(home / "ours")


@pytest.fixture(scope="module")
def speech2text(tmp_path_factory):
    """A random Speech2Text, likewise."""
    from tests.parity.test_huggingface_speech import saved_speech_model

    home = tmp_path_factory.mktemp("speech2text")
    theirs = saved_speech_model("small", home / "theirs")
    import_model(home / "theirs", home / "ours", source_languages=["en"]).check()
    return theirs, transformers.Speech2TextFeatureExtractor.from_pretrained(home / "theirs"), str(home / "ours")


def their_states(theirs, extractor, sound):
    """Return what transformers' encoder makes of one sound, (S, D); of Whisper's window, what it is of the sound."""
    read = extractor(sound.numpy(), sampling_rate=16000, return_tensors="pt")
    with torch.no_grad():
        states = theirs.model.encoder(read.input_features).last_hidden_state[0]
    return states[: math.ceil(len(sound) / 320)] if theirs.config.model_type == "whisper" else states


@pytest.mark.parametrize("name", ["whisper", "speech2text"])
def test_states_are_those_of_transformers_encoder_and_of_the_sound_alone(name, request):
    theirs, extractor, folder = request.getfixturevalue(name)
    front = speech_encoder(system=load(folder=folder)).eval()
    rows = sounds() if name == "whisper" else sounds((11200, 20801, 4480))
    speech = Padded.from_sequences(rows, padding=0.7)
    speech = Padded(F.pad(speech.values, (0, 20000), value=0.7), speech.lengths)  # wider than a window, in padding
    with torch.no_grad():
        found = front(speech)
    assert torch.equal(found.lengths, front.lengths(speech.lengths))
    if name == "whisper":
        assert found.lengths.tolist() == [35, 66, 14, 2, 1]
    for states, sound in zip(found.rows(), rows, strict=True):
        torch.testing.assert_close(states, their_states(theirs, extractor, sound), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["whisper", "speech2text"])
def test_an_imported_encoder_stands_below_an_imported_translator(name, request, tmp_path):
    theirs, extractor, folder = request.getfixturevalue(name)
    import_model(DENOISER, tmp_path / "text", pieces="words")
    torch.manual_seed(0)
    speech, text = load(folder=folder), load(folder=str(tmp_path / "text"))
    system = speech_translator(speech=speech, text=text, channels=20, source_languages=["en"]).eval()
    system.save(tmp_path / "both")
    again, above = System.load(tmp_path / "both"), System.load(tmp_path / "text").model
    rows = sounds((11200, 20801, 4480))
    batch = Batch({"speech": Padded.from_sequences(rows, padding=0.7)})
    with torch.no_grad():
        found = [one.model.encode(batch).memories["source"].rows() for one in (system, again)]
        for number, sound in enumerate(rows):
            states = their_states(theirs, extractor, sound).T[None]
            for one in system.model.embeddings["speech"].subsampler.convolutions:
                states = F.glu(F.conv1d(states, one.weight, one.bias, stride=2, padding=1), dim=1)
            states = Padded(states.transpose(1, 2), torch.tensor([states.shape[2]]))
            wanted = above.encode_embedded(states).memories["source"].values[0]
            for ours in found:
                torch.testing.assert_close(ours[number], wanted, rtol=1e-3, atol=1e-3)
    given = {"sample_rate": 16000, "target_language": "de"}
    texts = [one.translate([row.numpy() for row in rows], **given) for one in (system, again)]
    assert texts[0] == texts[1] and len(texts[0]) == 3


def test_longer_sound_than_a_window_is_refused_by_name(whisper):
    front = speech_encoder(system=load(folder=whisper[2]))
    speech = Padded.from_sequences(sounds((32001,)))
    refuses(TooLongError, "2.00 s are more than the model's window of 2 s", front, speech)


def test_a_window_can_be_shorter_than_in_training(whisper):
    front = speech_encoder(system=load(folder=whisper[2], changes={"model.embeddings.speech.frontend.seconds": 1.0}))
    with torch.no_grad():
        assert front.embedding(Padded.from_sequences(sounds((4480,)))).values.shape[1] == 50
        assert front(Padded.from_sequences(sounds((4480,)))).values.shape[1] == 14


def test_the_encoder_of_a_translator_of_text_is_one_that_others_read(tmp_path):
    system = System.load(GOLDEN)
    found = encoder(system=system)
    assert type(found) is EncoderModel and not len(found.heads) and found.encoder is system.model.encoder
    refuses(UsageError, "speech: Translator is no encoder of speech", speech_encoder, system=system)
