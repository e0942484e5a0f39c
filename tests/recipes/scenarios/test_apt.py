"""APT's variants by key: a language model fused into the decoder as well, and a masked language model as teacher."""

import pytest

from dragoman import Recipe, System
from dragoman.mt.apt_layers import FusingDecoder
from dragoman.runs.running import run_recipe
from tests.recipes.test_recipes import small

VARIANTS = {
    "decoder": {
        "model.decoder": "!ref <fused_decoder>",
        "model.target_reader": "!ref <target_reader>",
        "phases.fit.initialise": "[!ref <from_pretrained>, !ref <from_language_model>]",
    },
    "masked teacher": {
        "teacher.folder": "!ref <mlm_folder>/average/model",
        "teacher.field": "target",
        "word_weight": 0,
    },
}


@pytest.mark.recipes
@pytest.mark.parametrize("variant", VARIANTS)
def test_a_variant_is_trained_and_translates(variant, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    keys = {"debug": True, "noprogressbar": True, "workers": 0, "device": "cpu"} | VARIANTS[variant]
    recipe = Recipe.load("almanac/apt", keys)
    output = run_recipe(Recipe.load("almanac/apt", keys | small(recipe)), command="a test").output
    system = System.load(output / "average" / "model")
    assert isinstance(system.model.decoder, FusingDecoder) == (variant == "decoder")
    known = [name for name in system.state_dict() if name.startswith("model.target_reader.model.")]
    assert bool(known) == (variant == "decoder")
    trained = System.load(Recipe.load("almanac/apt", keys | small(recipe)).value("lm_folder") + "/average/model")
    for name in known:
        own = trained.state_dict()[name.replace("model.target_reader.model.", "model.")]
        assert system.state_dict()[name].equal(own)
    assert isinstance(system.translate(["ein Haus"])[0], str)
