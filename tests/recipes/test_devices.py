"""Every recipe on a CUDA device that is not there: no operator is handed tensors of two devices."""

import pytest
from safetensors.torch import load_file

from benchmarks.fake_cuda import FakeCuda
from dragoman.runs.running import run_recipe
from dragoman.shared.nn import weights
from tests.recipes.installed import RECIPES
from tests.recipes.test_recipes import NAMES, denoises, folder_of_its_own, load, small  # noqa: F401

#: Those that ``make test`` runs: of speech, in as many passes as fit, of noise, and of LSTM layers.
ALONE = {"corpus", "prepare", "tokenizer", "fit", "average", "evaluate"}  # no other recipe is run before
SPEECH = [n for n in NAMES if "speech_embedding" in RECIPES[n].keys and {*RECIPES[n].phases} <= ALONE]
QUICK = {
    next(name for name in SPEECH if "passes" in RECIPES[name].keys),
    next(filter(denoises, NAMES)),
    next(name for name in NAMES if "cells" in RECIPES[name].keys),
}


@pytest.fixture
def gpu(monkeypatch):
    """The device; the library that reads weights would write them to its memory by itself."""

    def read(path, device="cpu"):
        return {name: tensor.to(device) for name, tensor in load_file(path).items()}

    monkeypatch.setattr(weights, "load_file", read)
    with FakeCuda(values=True) as gpu:
        yield gpu


def last_training(recipe):
    """Return the last phase that trains, or runs a recipe that may; None if there is none."""
    kinds = {phase: "".join(recipe.plan[phase].plain) for phase in recipe.phases}
    trains = [phase for phase, kind in kinds.items() if ".Fit" in kind or "RunRecipe" in kind]
    return trains[-1] if trains else None


@pytest.mark.parametrize("name", [pytest.param(n, marks=[] if n in QUICK else [pytest.mark.recipes]) for n in NAMES])
def test_training_and_validation_on_a_gpu(name, miniature, gpu):
    overrides = {"debug": True, "noprogressbar": True, "workers": 0, "device": "cuda", "compile": False}
    data = miniature.get(name.split("/")[0])
    recipe = load(name, data, **small(load(name, data)), **overrides)
    run_recipe(recipe, command="a test", until=last_training(recipe))
