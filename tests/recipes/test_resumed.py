"""Recipes of papers' corpora: interrupted after the first update of each training, they end with the same bits."""

import os
import signal

import pytest
from safetensors.torch import load_file

from dragoman.runs.running import run_recipe
from dragoman.shared.machine.stopping import Interrupted
from dragoman.shared.recipe.recipe import Recipe
from dragoman.shared.training.fit import Fit
from tests.recipes.installed import RECIPES
from tests.recipes.test_recipes import CORPUS, FILLED_IN, small
from tests.recipes.test_waveform import PRETRAINING, QUICK, pretrained  # noqa: F401 - a fixture
from tests.resume.conftest import differences

#: Recipes of these folders are tried by their users every day; some are in scenarios/test_interrupted.py.
TRIED = {"almanac", "own", "text"}
NAMES = [name for name, recipe in RECIPES.items() if {*recipe.placeholders} <= {*FILLED_IN, "waveform_folder"}]
NAMES = [name for name in NAMES if name.partition("/")[0] not in TRIED and "fit" in RECIPES[name].phases]


@pytest.mark.recipes
@pytest.mark.parametrize("name", NAMES)
def test_an_interrupted_run_ends_with_the_same_bits(
    name,
    miniature,
    pretrained,  # noqa: F811 - a fixture
    tmp_path,
    monkeypatch,
):
    check_interrupted(name, given(name, miniature, pretrained), tmp_path, monkeypatch)


def given(name, miniature, pretrained, **more):  # noqa: F811 - a folder
    """Return the keys that make a recipe small, with what has to be filled in, and further ones."""
    keys = {key: value for key, value in FILLED_IN.items() if key in RECIPES[name].placeholders}
    keys |= QUICK | {"manifest_folder": "manifests"}
    room = name.partition("/")[0]
    if room in miniature:
        keys[CORPUS.get(room, "data_folder")] = str(miniature[room])
    if "waveform_folder" in RECIPES[name].placeholders:
        keys |= {"waveform_folder": str(pretrained), "waveform_positions": 32}
        keys |= {key: RECIPES[PRETRAINING].value(key) for key in ("waveform_norm_each", "waveform_norm_sum")}
    return keys | more | small(Recipe.load(name, keys | more))


def check_interrupted(name, keys, folder, monkeypatch):
    """Run a recipe once through, and once with Ctrl-C after the first update of each Fit: both write the same."""
    monkeypatch.chdir(folder)
    run_recipe(Recipe.load(name, keys | {"results_folder": "whole"}), command="a test")
    interrupted, advance = [], Fit._advance

    def advance_once(self, running, *arguments):
        advance(self, running, *arguments)
        if running.position.update == 1:
            interrupted.append(running.workspace.phase)
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(Fit, "_advance", advance_once)
    for _ in range(20):
        try:
            run_recipe(Recipe.load(name, keys | {"results_folder": "resumed"}), command="a test")
            break
        except Interrupted:
            pass
    else:
        pytest.fail("it never came to its end")
    whole, resumed = trained(folder / "whole"), trained(folder / "resumed")
    assert interrupted and len(whole) > len(interrupted)  # a FitEach keeps models, and no checkpoints
    assert differences(whole, resumed) == []


def trained(folder):
    """Return all tensors that the phases of a run have written, by the file they are in."""
    return {str(file.relative_to(folder)): load_file(file) for file in folder.rglob("*.safetensors")}
