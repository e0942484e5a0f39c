"""Losses, gradients, features and translations are those of the CPU; autocast is near them."""

import pytest
import torch

from dragoman.shared.batches.loader import Loader
from dragoman.shared.nn.fbank import Fbank
from dragoman.shared.objectives import CrossEntropy, EncoderDecoderObjective
from dragoman.shared.padded import Padded
from tests.golden.test_golden import check_translations
from tests.gpu.conftest import apart, gradients, speech_batch, speech_objective

pytestmark = pytest.mark.gpu

#: How far losses and gradients may be apart, as shares: TF32 in convolutions, eight bits of mantissa, eleven.
CLOSE = {"fp32": (1e-4, 2e-3), "bf16": (1e-2, 5e-2), "fp16": (2e-3, 1e-2)}


def compare(objective, batch, place, precision):
    """Compare loss and gradient with those of the CPU; return how far the gradients are apart."""
    loss, gradient = gradients(objective(), batch, place("cpu", device="cpu"))
    found, vector = gradients(objective(), batch, place(precision=precision))
    of_loss, of_gradient = CLOSE[precision]
    assert found == pytest.approx(loss, rel=of_loss)
    assert apart(vector, gradient) < of_gradient
    return apart(vector, gradient)


@pytest.mark.parametrize("precision", list(CLOSE))
def test_speech_with_ctc_has_the_loss_and_the_gradient_of_the_cpu(place, precision):
    distance = compare(speech_objective, speech_batch(), place, precision)
    assert precision == "fp32" or distance > 1e-4, "autocast has changed nothing"


@pytest.mark.parametrize("precision", list(CLOSE))
@pytest.mark.parametrize("chunk", [2**26, 300 * 7])
def test_text_has_the_loss_and_the_gradient_of_the_cpu(place, world, precision, chunk):
    """In one piece and in chunks of a few rows of logits."""

    def objective():
        return EncoderDecoderObjective(system=world.system(), parts=[CrossEntropy(label_smoothing=0.1, chunk=chunk)])

    compare(objective, next(iter(Loader(streams=[world.stream(rows=40)], seed=1).epoch(0))), place, precision)


def test_features_are_those_of_the_cpu_whatever_the_precision(place):
    """A recording of twelve minutes beside a short one is among them."""
    torch.manual_seed(2)
    waveforms = Padded.from_sequences([0.1 * torch.randn(16000 * seconds) for seconds in (12 * 60, 3)])
    wanted = Fbank()(waveforms)
    there = place(precision="bf16")
    with there.autocast():
        found = Fbank()(waveforms.to(there.device))
    assert found.values.dtype == torch.float32 and found.lengths.tolist() == wanted.lengths.tolist()
    torch.testing.assert_close(found.values.cpu(), wanted.values, atol=5e-3, rtol=1e-4)  # cuFFT's rounding is another


@pytest.mark.parametrize("batch_size", [1, 16])
def test_an_old_model_folder_gives_the_same_translations(place, batch_size):
    check_translations(batch_size, place().device, tolerance=1e-3)
