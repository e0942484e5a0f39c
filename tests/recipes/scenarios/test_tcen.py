"""TCEN's stages: what each of them teaches, and the data that the recipe shares with others."""

import pytest
import torch
from safetensors.torch import load_file

from dragoman.runs.running import run_recipe
from tests.recipes.test_recipes import load, small


@pytest.mark.recipes
def test_the_first_stage_teaches_the_speech_encoder_and_the_second_what_is_above_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    overrides = {"debug": True, "noprogressbar": True, "workers": 0, "device": "cpu"}
    recipe = load("almanac/tcen", **small(load("almanac/tcen", **overrides)), **overrides)
    output = run_recipe(recipe, command="a test", until="average").output
    stages = [load_file(output / stage / "model" / "model.safetensors") for stage in ("ctc_average", "mt_average")]
    changed = {name for name, tensor in stages[1].items() if not torch.equal(tensor, stages[0][name])}
    above = ("model.embeddings.source.", "model.encoder.", "model.target_embedding.", "model.decoder.")
    assert changed == {name for name in stages[0] if name.startswith(above)}
    whole = load_file(output / "average" / "model" / "model.safetensors")
    assert all(not torch.equal(tensor, stages[1][name]) for name, tensor in whole.items())


def test_the_recordings_are_those_that_other_recipes_write():
    """Whoever comes second would be refused otherwise: the folder was written with other settings."""
    mine = load("almanac/tcen").plan["recordings"].build().corpus
    theirs = load("almanac/st_low", arm="world2").plan["asr"].inner.plan["corpus"].build().corpus
    assert (mine.root, mine.settings) == (theirs.root, theirs.settings)
