"""COSTT's stages: the second one teaches the acoustic encoder, and leaves the decoder what the first one taught it."""

import pytest
import torch
from safetensors.torch import load_file

from shared.run.running import run_recipe
from tests.recipes.test_recipes import load, small


@pytest.mark.recipes
def test_recordings_without_translations_change_the_acoustic_encoder_alone(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    overrides = {"debug": True, "noprogressbar": True, "workers": 0, "device": "cpu"}
    recipe = load("almanac/costt", **small(load("almanac/costt")), **overrides)
    output = run_recipe(recipe, command="a test", until="ctc_average").output
    before, after = (
        load_file(output / stage / "model" / "model.safetensors") for stage in ("text_average", "ctc_average")
    )
    changed = {name for name, tensor in after.items() if not torch.equal(tensor, before[name])}
    assert {name.split(".")[1] for name in changed} == {"acoustic", "embeddings", "heads"}
