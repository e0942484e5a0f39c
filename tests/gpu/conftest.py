"""The device of these tests, and a small world with text and speech on it."""

import os

import numpy as np
import pytest
import torch

from dragoman.shared.batch import Batch
from dragoman.shared.machine.workspace import Workspace
from dragoman.shared.nn.heads import CtcHead
from dragoman.shared.objectives import CrossEntropy, Ctc, EncoderDecoderObjective
from tests import small
from tests.conftest import GPU_TEST_DEVICE
from tests.shared.training.conftest import World

# Read by cuBLAS when it is first used: without it, it is refused where algorithms have to be deterministic.
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

VOCABULARY, WIDTH = 200, 128
PADDING, START, END, BLANK = 0, 1, 2, 3


class Holder(torch.nn.Module):
    """The part of a system that an objective needs."""

    def __init__(self, model):
        super().__init__()
        self.model = model


def speech_objective():
    """Return a speech translator with a CTC head, without dropout, and its loss; the same parameters each time."""
    torch.manual_seed(1)
    sizes = {"width": WIDTH, "heads": 4}
    speech = small.speech_embedding(WIDTH, bins=80, channels=64)
    head = CtcHead(tap=2, width=WIDTH, vocabulary=VOCABULARY, blank=BLANK)
    parts = {"encoder": small.encoder(3, [2], **sizes), "decoder": small.decoder(2, **sizes)}
    parts |= {"embeddings": {"speech": speech}, "heads": {"ctc": head}}
    model = small.translator(VOCABULARY, sizes=sizes, **parts)
    parts = [CrossEntropy(label_smoothing=0.1), Ctc(weight=0.3, field="target")]
    return EncoderDecoderObjective(system=Holder(model), parts=parts)


def speech_batch():
    """Return five noises of 0.3 to 4 seconds with labels."""
    rng = np.random.default_rng(1)
    seconds = [4.0, 2.5, 1.7, 3.1, 0.3]
    waveforms = [torch.from_numpy(0.1 * rng.standard_normal(int(16000 * s))).float() for s in seconds]
    labels = [[START, *rng.integers(4, VOCABULARY, int(1 + 4 * s)).tolist(), END] for s in seconds]
    target = small.padded(labels, PADDING)
    return Batch({"speech": small.padded(waveforms), "target": target}, ids=list("abcde"))


def gradients(objective, batch, place):
    """Return the loss of a batch and the gradient of all parameters as one vector, in float64 on the CPU."""
    objective.zero_grad(set_to_none=True)
    objective.to(place.device)
    with place.autocast():
        loss = objective(batch.to(place.device)).total()
    loss.backward()
    given = [parameter.grad.flatten().double().cpu() for parameter in objective.parameters()]
    return loss.item(), torch.cat(given)


def apart(one, other):
    """Return the distance of two vectors as a share of the second's length."""
    return float((one - other).norm() / other.norm())


@pytest.fixture(scope="session")
def device():
    return GPU_TEST_DEVICE


@pytest.fixture
def place(tmp_path, device):
    """Make workspaces."""

    def make(name="run", **options):
        torch.manual_seed(0)
        settings = {"device": device, "phase": "fit", "noprogressbar": True, "workers": 0, "precision": "fp32"}
        return Workspace(output=tmp_path / name, **(settings | options))

    return make


@pytest.fixture(scope="session")
def world(tmp_path_factory):
    return World(tmp_path_factory.mktemp("world"))
