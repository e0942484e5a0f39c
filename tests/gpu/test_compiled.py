"""Layers that torch.compile makes kernels of: the same numbers, and no new version for each new length."""

import numpy as np
import pytest
import torch
from torch._dynamo.utils import counters

from dragoman.shared.objectives import CrossEntropy, EncoderDecoderObjective
from dragoman.shared.training.checkpoints import list_checkpoints
from dragoman.shared.training.compiling import compile_layers
from tests.gpu.conftest import apart, gradients

pytestmark = pytest.mark.gpu


@pytest.fixture(autouse=True)
def fresh_compiler():
    before = torch._dynamo.config.recompile_limit
    torch._dynamo.reset()
    counters.clear()
    yield
    torch._dynamo.config.recompile_limit = before
    torch._dynamo.reset()


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_many_lengths_need_few_versions_and_have_the_gradients_of_plain_layers(world, place, precision):
    """Every number of rows and both lengths vary; after the first batches, nothing is compiled again."""
    there = place(precision=precision)
    parts = [CrossEntropy(label_smoothing=0.1)]
    objectives = [EncoderDecoderObjective(system=world.system(), parts=parts) for _ in range(2)]
    compile_layers(objectives[1].to(there.device))
    rng = np.random.default_rng(0)
    versions = []
    close = (1e-4, 1e-3) if precision == "fp32" else (1e-2, 5e-2)
    for _ in range(25):
        batch = world.random_batch(rng)
        (loss, gradient), (found, vector) = (gradients(objective, batch, there) for objective in objectives)
        assert found == pytest.approx(loss, rel=close[0])
        assert apart(vector, gradient) < close[1]
        versions.append(counters["stats"]["unique_graphs"])
    assert 2 <= versions[-1] <= 6 and versions[5] == versions[-1], versions


def test_a_compiled_run_in_bf16_trains_and_goes_on(world, place):
    world.fit(dropout=0.2, updates=4).run(place("run", compile=True, precision="bf16"))
    fit = world.fit(dropout=0.2, updates=8)
    where = place("run", compile=True, precision="bf16")
    fit.run(where)
    assert [checkpoint.update for checkpoint in list_checkpoints(where.folder / "checkpoints")] == [4, 8]
    assert all(torch.isfinite(tensor).all() for tensor in fit.objective.state_dict().values())
