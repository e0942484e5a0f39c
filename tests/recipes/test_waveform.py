"""Recipes that begin with an encoder of waveforms: at full size, and above a small one that was pre-trained."""

import re

import pytest
import torch

from shared.recipe.recipe import Recipe
from shared.run.running import run_recipe
from shared.systems.saved_model import SavedModel
from tests.recipes.installed import RECIPES
from tests.recipes.test_recipes import FILLED_IN, Vocabulary, small

NAMES = [name for name, recipe in RECIPES.items() if {*recipe.placeholders} - {*FILLED_IN} == {"waveform_folder"}]
#: The one that pre-trains on sound that it makes itself: all others need a corpus.
[PRETRAINING, *_] = [
    name for name, recipe in RECIPES.items() if "distractors" in recipe.keys and "corpus" in recipe.phases
]
#: The one that pre-trains on, from a checkpoint that is given.
[CONTINUING] = [name for name, recipe in RECIPES.items() if "waveform_checkpoint" in recipe.placeholders]
FRONTEND = "model.embeddings.speech.frontend."


def load(name, **overrides):
    missing = RECIPES[name].placeholders
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
    speech = objective.system.model.embeddings["speech"]
    assert speech.normalisation is None and speech.augmentation is None  # those of filterbanks let no gradient through


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory):
    """Pre-train a small encoder; return its model folder."""
    home = tmp_path_factory.mktemp("pretrained")
    sizes = small(Recipe.load(PRETRAINING)) | QUICK | {"results_folder": str(home / "results")}
    sizes |= {"data_folder": str(home / "data"), "manifest_folder": str(home / "manifests")}
    return run_recipe(Recipe.load(PRETRAINING, sizes), command="a test").output / "average" / "model"


def states(folder):
    return SavedModel.load(folder).state_dict()


@pytest.mark.recipes
@pytest.mark.parametrize("name", NAMES)
def test_an_encoder_that_was_pretrained_here_is_frozen_bit_for_bit(name, pretrained, miniature, tmp_path):
    recipe = load(name, data_folder=str(miniature[name.split("/")[0]]))
    sizes = small(recipe) | QUICK | {"waveform_positions": 32, "waveform_folder": str(pretrained)}
    sizes |= {"manifest_folder": str(tmp_path / "manifests"), "results_folder": str(tmp_path / "results")}
    sizes |= {"data_folder": str(miniature[name.split("/")[0]]), "optimizer.multipliers": FROZEN}
    norms = ("waveform_norm_each", "waveform_norm_sum")  # the pre-trained encoder is not built as the recipe's own is
    sizes |= {key: RECIPES[PRETRAINING].value(key) for key in norms}
    given = {key: value for key, value in FILLED_IN.items() if key in RECIPES[name].placeholders}
    workspace = run_recipe(Recipe.load(name, given | sizes), command="a test")
    below, above = states(pretrained), states(workspace.output / "average" / "model")
    places = {"embedding.": "model.embeddings.speech.", "encoder.": "model.encoder."}
    compared = [
        (above[FRONTEND + here + name[len(there) :]], tensor)
        for here, there in places.items()
        for name, tensor in below.items()
        if name.startswith(there)
    ]
    assert len(compared) > 25 and all(torch.equal(one, other) for one, other in compared)


@pytest.mark.recipes
def test_pretraining_goes_on_with_the_quantiser_of_the_checkpoint(pretrained, miniature, tmp_path):
    """All parameters begin with the checkpoint's values, and two updates move them a little."""
    sizes = QUICK | {"manifest_folder": str(tmp_path / "m"), "results_folder": str(tmp_path / "results")}
    sizes |= {"waveform_checkpoint": str(pretrained), "data_folder": str(miniature["own"]), "learning_rate": 1e-3}
    sizes |= {"source_language": "en", "target_language": "de", "warmup": 1, "optimizer.weight_decay": 0.0}
    workspace = run_recipe(Recipe.load(CONTINUING, sizes), command="a test")
    before, after = states(pretrained), states(workspace.output / "average" / "model")
    assert before.keys() == after.keys()
    codes = "model.heads.contrastive.quantiser.codes"
    moved = {name: float((after[name] - before[name]).abs().max()) for name in before}
    assert 0 < moved[codes] < 0.01 and max(moved.values()) < 0.01
    assert any(
        f"all parameters from {pretrained}" in line
        for line in SavedModel.load(workspace.output / "average/model").origin
    )


QUICK = {"debug": True, "noprogressbar": True, "workers": 0, "device": "cpu"}
#: For the first ten updates, the lower encoder does not learn.
FROZEN = r'{".*\\.frontend\\..*": !new:shared.training.schedules.Steps {values: [0, 1], after: [10]}}'
