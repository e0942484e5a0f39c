"""Recipes of papers' corpora, and of methods combined: interrupted in each training, they end with the same bits."""

import os
import signal

import pytest
from safetensors.torch import load_file

from shared.machine.stopping import Interrupted
from shared.recipe.recipe import Recipe
from shared.run.running import run_recipe
from shared.training.fit import Fit
from tests.recipes.installed import RECIPES
from tests.recipes.test_recipes import FILLED_IN, small
from tests.recipes.test_waveform import PRETRAINING, QUICK, pretrained  # noqa: F401 - a fixture
from tests.resume.conftest import differences

#: Folders of recipes whose corpus is nobody's own; Almanac's are resumed by users every day, its combinations are not.
PAPERS = {name.partition("/")[0] for name in RECIPES} - {"almanac", "own", "text"}
COMBINED = {"almanac/xstnet_consecutive", "almanac/chimera_shrunk", "almanac/costt_from_mbart"}
NAMES = [
    name
    for name, recipe in RECIPES.items()
    if (name.partition("/")[0] in PAPERS or name in COMBINED)
    and {*recipe.placeholders} <= {*FILLED_IN, "waveform_folder"}
    and "fit" in recipe.phases
]


def test_the_combinations_are_recipes():
    assert {*NAMES} > COMBINED


def trained(folder):
    """Return all tensors that the phases of a run have written, by the file they are in."""
    return {str(file.relative_to(folder)): load_file(file) for file in folder.rglob("*.safetensors")}


@pytest.mark.recipes
@pytest.mark.parametrize("name", NAMES)
def test_a_run_that_is_interrupted_after_each_first_update_ends_with_the_same_bits(
    name,
    miniature,
    pretrained,  # noqa: F811 - a fixture
    tmp_path,
    monkeypatch,
):
    monkeypatch.chdir(tmp_path)
    given = {key: value for key, value in FILLED_IN.items() if key in RECIPES[name].placeholders}
    given |= QUICK | {"manifest_folder": "manifests"}
    if name.partition("/")[0] in miniature:
        given["data_folder"] = str(miniature[name.partition("/")[0]])
    if "waveform_folder" in RECIPES[name].placeholders:
        given |= {"waveform_folder": str(pretrained), "waveform_positions": 32}
        given |= {key: RECIPES[PRETRAINING].value(key) for key in ("waveform_norm_each", "waveform_norm_sum")}
    given |= small(Recipe.load(name, given))
    run_recipe(Recipe.load(name, given | {"results_folder": "whole"}), command="a test")

    interrupted, advance = [], Fit._advance

    def advance_once(self, running, *arguments):
        advance(self, running, *arguments)
        if running.position.update == 1:
            interrupted.append(running.workspace.phase)
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(Fit, "_advance", advance_once)
    for _ in range(20):
        try:
            run_recipe(Recipe.load(name, given | {"results_folder": "resumed"}), command="a test")
            break
        except Interrupted:
            pass
    else:
        pytest.fail("it never came to its end")
    whole, resumed = trained(tmp_path / "whole"), trained(tmp_path / "resumed")
    assert interrupted and len(whole) >= 2 * len(interrupted)
    assert differences(whole, resumed) == []
