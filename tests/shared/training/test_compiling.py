"""Compiled layers: the same numbers, few versions, and nothing of a search compiled."""

import os
import shutil

import numpy as np
import pytest
import torch
from torch._dynamo.utils import counters

from dragoman import GreedySearch, Rules, UsageError
from dragoman.shared.batches.loader import Loader
from dragoman.shared.batches.stream import Budget
from dragoman.shared.machine.workspace import Workspace
from dragoman.shared.objectives import CrossEntropy, EncoderDecoderObjective
from dragoman.shared.training import compiling
from dragoman.shared.training.compiling import compile_layers
from dragoman.shared.training.validation import Validation
from tests.small import refuses


@pytest.fixture(autouse=True)
def fresh_compiler():
    torch._dynamo.reset()
    counters.clear()
    before = torch._dynamo.config.recompile_limit
    yield
    torch._dynamo.config.recompile_limit = before
    torch._dynamo.reset()


def test_losses_gradients_and_names_stay_and_lengths_need_no_new_version(world):
    objectives = [
        EncoderDecoderObjective(system=world.system(), parts=[CrossEntropy(label_smoothing=0.1)]) for _ in range(2)
    ]
    compile_layers(objectives[1], backend="eager")
    assert objectives[0].state_dict().keys() == objectives[1].state_dict().keys()
    versions = []
    for number, rows in enumerate([8, 7, 6, 5, 4, 3]):
        for batch in Loader(streams=[world.stream(rows=rows)], seed=number).epoch(0):
            losses = [objective(batch).total() for objective in objectives]
            torch.testing.assert_close(losses[0], losses[1], atol=1e-6, rtol=1e-6)
            for loss in losses:
                loss.backward()
        versions.append(counters["stats"]["unique_graphs"])
    for (name, one), (_, other) in zip(objectives[0].named_parameters(), objectives[1].named_parameters(), strict=True):
        torch.testing.assert_close(one.grad, other.grad, atol=1e-5, rtol=1e-5, msg=name)
    assert 2 <= versions[0] == versions[-1] <= 4  # an encoder layer and a decoder layer


@pytest.mark.slow
def test_a_run_compiles_and_its_validation_does_not(world, tmp_path, monkeypatch):
    monkeypatch.setattr(compiling.compile_layers, "__kwdefaults__", {"backend": "eager"})
    validation = Validation(
        manifests=[str(world.manifest)],
        budget=Budget(rows=16),
        search=GreedySearch(rules=Rules(maximum_length_extra=8)),
        metrics=["chrf"],
        every=4,
    )
    results = []
    for compiled in (False, True):
        torch.manual_seed(0)
        fit = world.fit(updates=8, validation=validation)
        place = Workspace(
            output=tmp_path / str(compiled), device="cpu", phase="fit", noprogressbar=True, workers=0, compile=compiled
        )
        fit.run(place)
        results.append(fit.objective.state_dict())
    for name, tensor in results[0].items():
        torch.testing.assert_close(tensor, results[1][name], atol=1e-4, rtol=1e-4)
    assert 2 <= counters["stats"]["unique_graphs"] <= 4


@pytest.mark.slow
def test_real_compilation_of_many_lengths(world, tmp_path):
    """Every number of rows and both lengths vary; after the first batches, nothing is compiled again."""
    if not shutil.which(os.environ.get("CXX", "g++")):
        pytest.skip("there is no C++ compiler")
    objectives = [
        EncoderDecoderObjective(system=world.system(), parts=[CrossEntropy(label_smoothing=0.1)]) for _ in range(2)
    ]
    compile_layers(objectives[1])
    rng = np.random.default_rng(0)
    versions = []
    for _ in range(40):
        batch = world.random_batch(rng)
        losses = [objective(batch).total() for objective in objectives]
        torch.testing.assert_close(losses[0], losses[1], atol=1e-5, rtol=1e-5)
        for loss in losses:
            loss.backward()
        versions.append(counters["stats"]["unique_graphs"])
    assert 2 <= versions[-1] <= 6 and versions[5] == versions[-1]


def test_versions_are_bounded(world, monkeypatch):
    monkeypatch.setattr(compiling, "VERSIONS", 2)
    objective = EncoderDecoderObjective(system=world.system(), parts=[CrossEntropy()])
    compile_layers(objective, backend="eager")
    layer = objective.system.model.encoder.layers[0]
    for dtype in (torch.float32, torch.float64):
        for training in (True, False):
            for grad in (True, False):
                with torch.set_grad_enabled(grad):
                    layer.to(dtype).train(training)(torch.zeros(2, 3, 16, dtype=dtype))
    assert counters["stats"]["unique_graphs"] == 2


def test_without_a_compiler_a_cpu_says_what_is_missing(world, monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    refuses(UsageError, "no-such-compiler", compile_layers, world.system())
