"""LNA: the path of speech, what learns, and the joining of two systems."""

import pytest
import torch
from torch import nn

from dragoman import System, UsageError
from dragoman.shared.batch import Batch
from dragoman.shared.batches.speech_field import SpeechField
from dragoman.shared.nn.heads import TiedProjection
from dragoman.shared.nn.translator import EncoderModel, Translator
from dragoman.shared.nn.waveform import ConvolutionalPositions, WaveformConvolutions, WaveformEmbedding
from dragoman.shared.objectives import CrossEntropy
from dragoman.shared.systems.encoder_system import EncoderSystem
from dragoman.shared.systems.pretrained import speech_front_end
from dragoman.st.lna import LnaTuning, SpeechBesideText, beside
from tests import small


def speech_system() -> EncoderSystem:
    embedding = WaveformEmbedding(
        convolutions=WaveformConvolutions(convolutions=[[6, 10, 5], [8, 4, 4]], norm_each=True),
        positions=ConvolutionalPositions(width=12, kernel=4, groups=2),
    )
    model = EncoderModel(embeddings={"speech": embedding}, encoder=small.encoder(2, width=12, feedforward=16))
    return EncoderSystem(model=model, inputs={"speech": SpeechField()})


def model() -> SpeechBesideText:
    torch.manual_seed(1)
    speech = speech_front_end(speech=speech_system(), width=8, kernels=[3, 3, 3], channels=6, dropout=0.0)
    embeddings = {"speech": speech, "source": small.embedding(20, 8, None)}
    options = {"embeddings": embeddings, "decoder": small.decoder(2, width=8)}
    return small.translator(20, cls=SpeechBesideText, sizes={"width": 8}, embedded={"positions": None}, **options)


def batch() -> Batch:
    return small.batch(speech=[torch.randn(3000), torch.randn(1800)], source=[[4, 5], [6]])


def trained_model():
    """Return the model in a system in an objective, as the optimiser sees it."""
    return small.objective(model(), CrossEntropy())


def test_speech_goes_past_the_text_encoder_and_text_through_it():
    joined, given = model().eval(), batch()
    memory = joined.encode(given).memories["source"]
    front_end = joined.embeddings["speech"]
    below = front_end.frontend(given["speech"])
    torch.testing.assert_close(memory.values, front_end.subsampler(below).values)
    assert torch.equal(memory.lengths, (below.lengths + 7) // 8)
    memory.values.sum().backward()
    assert all(parameter.grad is None for parameter in joined.encoder.parameters())
    assert all(parameter.grad is not None for parameter in front_end.frontend.encoder.parameters())
    text = joined.encode(given, "source").memories["source"]
    expected, _ = joined.encoder(joined.embeddings["source"](given["source"]))
    assert torch.equal(text.values, expected.values)
    assert torch.equal(joined.encode(Batch({"source": given["source"]})).memories["source"].values, expected.values)


@pytest.mark.parametrize("encoder", [True, False])
@pytest.mark.parametrize(("decoder", "self_attention"), [(True, False), (True, True), (False, False)])
def test_what_learns_is_the_declared_set(encoder, decoder, self_attention):
    trained = trained_model()
    LnaTuning(encoder=encoder, decoder=decoder, self_attention=self_attention).apply(trained)
    speech = "embeddings.speech."
    for name, parameter in trained.system.model.named_parameters():
        parts = name.split(".")
        if name.startswith(speech + "subsampler"):
            expected = True
        elif name.startswith(speech + "frontend.embedding"):
            expected = not encoder and "convolutions" not in parts
        elif name.startswith(speech):
            expected = not encoder or "self_attention" in parts or any(part.endswith("norm") for part in parts)
        elif parts[0] == "decoder":
            chosen = {"memory_attention", *(["self_attention"] if self_attention else [])}
            expected = not decoder or bool(chosen & {*parts}) or any(part.endswith("norm") for part in parts)
        else:
            expected = not decoder and parts[0] in ("target_embedding", "projection")
        assert parameter.requires_grad == expected, name
    names = {name for name, parameter in trained.named_parameters() if parameter.requires_grad}
    assert any("memory_attention.source" in name for name in names)
    assert any(name.endswith("frontend.encoder.layers.1.feedforward_norm.weight") for name in names)


@pytest.mark.parametrize("decoder", [True, False])
def test_vectors_that_the_text_encoder_shares_learn_below_an_unrestricted_decoder(decoder):
    trained = trained_model()
    joined = trained.system.model
    vectors = joined.embeddings["source"].tokens
    joined.target_embedding = small.embedding(20, 8, None, shared_with=joined.embeddings["source"])
    joined.projection = TiedProjection(embedding=joined.target_embedding)
    LnaTuning(decoder=decoder).apply(trained)
    assert vectors.weight.requires_grad is not decoder
    assert not any(parameter.requires_grad for parameter in joined.encoder.parameters())


def test_the_adaptor_has_twice_the_width_and_three_kernels_by_default():
    golden = System.load("tests/golden/model")
    text = System(**golden.arguments | {"model": Translator(**golden.model.arguments | {"heads": {}})})
    made = beside(speech=speech_system(), text=text).model.embeddings["speech"].subsampler
    given = speech_front_end(speech=speech_system(), width=24, kernels=[3, 3, 3], channels=48, dropout=0.1).subsampler
    shapes = [{name: parameter.shape for name, parameter in one.named_parameters()} for one in (made, given)]
    assert shapes[0] == shapes[1] and len(shapes[0]) == 6


def test_refuses_what_is_no_translator_and_no_encoder_of_waveforms():
    message = "text: EncoderModel is no text translator"
    small.refuses(UsageError, message, beside, speech=speech_system(), text=speech_system())
    writer = EncoderSystem(model=nn.Linear(1, 1), inputs={"speech": SpeechField()})
    message = "Linear has no encoder that others could read"
    small.refuses(UsageError, message, speech_front_end, speech=writer, width=8, kernels=[3])
