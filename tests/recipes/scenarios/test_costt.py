"""COSTT's stages: what the second one teaches, and the rate of the last one in the recipes of the published size."""

import pytest
import torch
from safetensors.torch import load_file

from dragoman.runs.running import run_recipe
from tests.recipes.test_recipes import load, small, vocabulary
from tests.recipes.test_waveform import QUICK

VOCABULARY = vocabulary(100)


def taught(name, data=None, **changes):
    """Return the parts that a recipe's second stage changes."""
    recipe = load(name, data, **small(load(name, data, **changes)), **QUICK, **changes)
    output = run_recipe(recipe, command="a test", until="ctc_average").output
    files = (output / stage / "model" / "model.safetensors" for stage in ("text_average", "ctc_average"))
    before, after = map(load_file, files)
    return {name.split(".")[1] for name, tensor in after.items() if not torch.equal(tensor, before[name])}


@pytest.mark.recipes
def test_recordings_without_translations_change_the_acoustic_encoder_alone(tmp_path, monkeypatch):
    """Without the recogniser, all changes are of training."""
    monkeypatch.chdir(tmp_path)
    changes = {"phases.ctc_fit.initialise": "[!ref <from_text>]"}
    assert taught("almanac/costt", **changes) == {"acoustic", "embeddings", "heads"}


@pytest.mark.recipes
def test_at_the_published_size_they_teach_the_decoder_to_write_transcripts_too(tmp_path, monkeypatch, miniature):
    monkeypatch.chdir(tmp_path)
    parts = {"acoustic", "embeddings", "heads", "encoder", "decoder", "target_embedding"}
    assert taught("covost2/costt", miniature["covost2"]) == parts


@pytest.mark.parametrize("name", ["mustc/costt", "covost2/costt"])
def test_what_the_second_stage_writes_is_what_the_decoder_begins_with(name):
    recipe = load(name, tokenizer=VOCABULARY)
    with torch.device("meta"):
        fit = recipe.plan["ctc_fit"].build()
    stream, system = fit.streams[0], fit.objective.system
    row = {"source_text": "ab", "target_text": "cd", "source_language": "en", "target_language": "de"}
    opening, whole = (field(row, None).tolist() for field in (stream.fields["opening"], system.output))
    assert opening == whole[: len(opening)] and opening[-1] == system.output.separator


@pytest.mark.parametrize("name", ["mustc/costt", "covost2/costt"])
def test_the_last_stage_has_the_rate_of_the_release(name):
    """As st/models/model_tools.py of dqqcasia/st calculates it, with the numbers of configs_template/costt.yaml."""
    recipe = load(name, tokenizer=VOCABULARY)
    with torch.device("meta"):
        fit = recipe.plan["fit"].build()
    for update in (1, 500, 1000, 1001, 26000, 51000, fit.updates):
        expected = 5e-5 * update / 1000 if update <= 1000 else 5e-5 * 0.5 ** ((update - 1000) / 50000)
        assert fit.schedule(update) == pytest.approx(expected, rel=1e-6), update
