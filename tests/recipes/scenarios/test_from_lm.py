"""A translator that begins with language models: each part as its model, and all that no model has at random."""

import pytest
import torch

from dragoman import Recipe, System
from dragoman.runs.running import run_recipe
from dragoman.shared.systems.reading_model import ReadingModel
from tests.recipes.test_recipes import load, small
from tests.recipes.test_waveform import QUICK
from tests.recipes.xlmr import save_masked_model

SIZES = {"width": 16, "heads": 2, "feedforward": 32, "encoder_layers": 3, "decoder_layers": 2, "positions": 120}
STILL = {"learning_rate": 1e-12, "average": "last 1"}


@pytest.fixture(scope="module")
def imported(tmp_path_factory, miniature):
    """Two masked language models: the second one has other parameters."""
    folders = [tmp_path_factory.mktemp(name) for name in ("source", "target")]
    places = [save_masked_model(folder, miniature, layers=3, feedforward=32, headed=False) for folder in folders]
    system = ReadingModel.load(places[1])
    torch.manual_seed(2)
    with torch.no_grad():
        for parameter in system.parameters():
            parameter.copy_(torch.randn(parameter.shape))
    system.save(places[1])
    return places


def state_of(folder):
    return ReadingModel.load(folder).model.state_dict()


def same(own, here, theirs, there, rows=None):
    """Tell whether all tensors of a part are those of another one; at least one is compared."""
    names = [name for name in theirs if name.startswith(there)]
    assert names
    pairs = [(own[here + name[len(there) :]], theirs[name]) for name in names]
    return all(torch.allclose(one[: len(other)], other, atol=1e-6, rtol=0) for one, other in pairs)


def began(miniature, imported, arm=None):
    keys = {"source_lm_folder": str(imported[0]), "target_lm_folder": str(imported[1])}
    keys |= {"data_folder": str(miniature["text"]), "source_language": "en", "target_language": "de"}
    keys |= {"manifest_folder": "manifests", "batch_tokens": 400} | QUICK | SIZES | STILL
    recipe = Recipe.load("text/mt_from_lm", [*(f"--{key}={value}" for key, value in keys.items()), *(arm or [])])
    workspace = run_recipe(recipe, command="a test")
    system = System.load(workspace.output / "average" / "model")
    return system, (workspace.output / "log.txt").read_text(encoding="utf-8")


@pytest.mark.recipes
def test_both_sides_begin_as_imported_models(miniature, imported, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    system, log = began(miniature, imported, ["--decoder_from=[0, 2]"])
    own, source, target = system.model.state_dict(), *map(state_of, imported)
    assert same(own, "embeddings.source.", source, "embeddings.source.")
    assert same(own, "encoder.", source, "encoder.")
    assert same(own, "target_embedding.", target, "embeddings.source.")
    for here, there in enumerate([0, 2]):
        assert same(own, f"decoder.layers.{here}.", target, f"encoder.layers.{there}.")
    assert not same(own, "encoder.", target, "encoder.")
    rows = len(target["embeddings.source.tokens.weight"])
    assert len(own["target_embedding.tokens.weight"]) == rows + 1  # the symbol of the language
    inner = sum(".memory_attention" in name for name in own)
    whole = sum(name.startswith("decoder.") for name in own)
    assert inner == 2 * (6 + 2) and f"model.decoder: {whole - inner} of {whole} tensors from model.encoder" in log
    assert [system.output.tokenizer.symbol(id) for id in system.output.prefix_ids("de")] == ["<de>"]


@pytest.mark.recipes
@pytest.mark.parametrize(("arm", "wanted"), [("encoder", (True, False)), ("decoder", (False, True))])
def test_an_arm_begins_on_one_side_alone(arm, wanted, miniature, imported, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    own = began(miniature, imported, ["--arm", arm])[0].model.state_dict()
    source, target = map(state_of, imported)
    sides = same(own, "encoder.", source, "encoder."), same(own, "decoder.layers.0.", target, "encoder.layers.0.")
    assert sides == wanted
    assert same(own, "embeddings.source.tokens", source, "embeddings.source.tokens") == wanted[0]
    assert same(own, "target_embedding.tokens", target, "embeddings.source.tokens") == wanted[1]


@pytest.mark.recipes
@pytest.mark.parametrize(("arm", "layers"), [(None, "decoder.layers.0."), ("masked", "encoder.layers.0.")])
def test_the_decoder_begins_as_a_language_model_or_a_masked_one(arm, layers, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    chosen = {} if arm is None else {"arm": arm}
    recipe = load("almanac/mt_from_lm", **chosen)
    recipe = load("almanac/mt_from_lm", **small(recipe), **QUICK, **STILL, **chosen)
    workspace = run_recipe(recipe, command="a test")
    own = System.load(workspace.output / "average" / "model").model.state_dict()
    theirs = state_of(recipe.value("target_lm_folder"))
    assert same(own, "decoder.layers.0.", theirs, layers)
    assert same(own, "encoder.", state_of(recipe.value("source_lm_folder")), "encoder.")
