"""Recipes that begin with an encoder of waveforms: at full size, and above a small one that was pre-trained."""

import re

import pytest
import torch

from shared.recipe.recipe import Recipe
from shared.run.running import run_recipe
from shared.systems.saved_model import SavedModel
from tests.recipes.test_recipes import FILLED_IN, Vocabulary, small

NAMES = [name for name, _ in Recipe.list() if "waveform_folder" in Recipe.load(name).placeholders]
FRONTEND = "model.embeddings.speech.frontend."


def load(name, **overrides):
    missing = Recipe.load(name).placeholders
    filled = {key: value for key, value in FILLED_IN.items() if key in missing}
    return Recipe.load(name, filled | {"manifest_folder": "manifests", "waveform_folder": "encoder"} | overrides)


@pytest.mark.parametrize("name", NAMES)
def test_full_size(name, tmp_path):
    recipe = load(name)
    vocabulary = f"!new:{Vocabulary.__module__}.Vocabulary {{pieces: {recipe.value('pieces')}, tags: [en, de, fr]}}"
    with torch.device("meta"):
        objective = load(name, tokenizer=vocabulary).build("fit").objective
    count = sum(parameter.numel() for parameter in objective.parameters()) / 1e6
    said = re.search(r"^Parameters: ([0-9.]+) M\b", recipe.header, re.MULTILINE)
    assert said and count == pytest.approx(float(said[1]), abs=0.06)


@pytest.mark.recipes
@pytest.mark.parametrize("name", NAMES)
def test_two_updates_above_an_encoder_that_was_pretrained_here(name, miniature, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    overrides = {"debug": True, "noprogressbar": True, "workers": 0, "device": "cpu"}
    overrides |= {"manifest_folder": "manifests", "results_folder": "results"}
    source = Recipe.load("almanac/wav2vec2", {})
    pretrained = run_recipe(Recipe.load("almanac/wav2vec2", small(source) | overrides), command="a test")
    folder = pretrained.output / "average" / "model"
    recipe = load(name, data_folder=str(miniature[name.split("/")[0]]))
    sizes = small(recipe) | {"waveform_positions": source.value("waveform_positions"), "waveform_folder": str(folder)}
    sizes |= {"data_folder": str(miniature[name.split("/")[0]]), "optimizer.multipliers": FROZEN}
    given = {key: value for key, value in FILLED_IN.items() if key in Recipe.load(name).placeholders}
    workspace = run_recipe(Recipe.load(name, given | sizes | overrides), command="a test")
    below, above = (
        SavedModel.load(folder).state_dict(),
        SavedModel.load(workspace.output / "average/model").state_dict(),
    )
    places = {"embedding.": "model.embeddings.speech.", "encoder.": "model.encoder."}
    compared = [
        (above[FRONTEND + here + name[len(there) :]], tensor)
        for here, there in places.items()
        for name, tensor in below.items()
        if name.startswith(there)
    ]
    assert len(compared) > 25 and all(torch.equal(one, other) for one, other in compared)


#: For the first ten updates, the encoder stays as it was, bit for bit.
FROZEN = r'{".*\\.frontend\\..*": !new:shared.training.schedules.Steps {values: [0, 1], after: [10]}}'
