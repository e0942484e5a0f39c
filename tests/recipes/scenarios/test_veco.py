"""VECO that begins with an imported masked language model: its sizes, its two steps, and the translator after them."""

import re

import pytest
import torch

from dragoman.runs.running import run_recipe
from dragoman.shared.evaluation.results import read
from dragoman.shared.recipe.recipe import Recipe
from dragoman.shared.systems.saved_model import SavedModel
from tests.recipes.installed import RECIPES
from tests.recipes.scenarios.test_many_languages import ROWS
from tests.recipes.test_recipes import FILLED_IN, Vocabulary, check_size, small, vocabulary
from tests.recipes.test_resumed import check_interrupted
from tests.recipes.test_waveform import QUICK
from tests.recipes.xlmr import save_masked_model

NAMES = [name for name, recipe in RECIPES.items() if "xlmr_folder" in recipe.placeholders]
SIZES = {"encoder_layers": 3, "positions": 120, "maximum_tokens": 100, "batch_tokens": 400, "average": "last 1"}
SIZES |= {"updates": 2, "warmup": 1}


@pytest.fixture(scope="module")
def masked_model(tmp_path_factory, miniature):
    return save_masked_model(tmp_path_factory.mktemp("xlmr"), miniature, layers=3, feedforward=32)


def given(masked_model, miniature):
    keys = QUICK | {"xlmr_folder": str(masked_model), "data_folder": str(miniature["text"])}
    keys |= {"source_language": "en", "target_language": "de", "manifest_folder": "manifests"}
    keys |= small(Recipe.load("text/mt_from_veco", keys)) | SIZES | {f"phases.veco.{key}": SIZES[key] for key in SIZES}
    return keys | {"decoder_layers": 2, "kept_layers": [-2, -1], "phases.veco.texts_reader.characters": 100}


@pytest.mark.parametrize("name", NAMES)
def test_full_size(name):
    """The count is that of the published encoder and of attention to another text, by hand."""
    own = vocabulary(ROWS - Vocabulary(pieces=0, tags=[]).size, "")
    filled = {key: FILLED_IN.get(key, key) for key in RECIPES[name].placeholders}
    recipe = Recipe.load(name, filled | {"tokenizer": own})
    with torch.device("meta"):
        objective = recipe.plan["fit"].build().objective
    width, inner = 1024, 4096
    attention, norm = 4 * (width + 1) * width, 2 * width
    layer = attention + (width + 1) * inner + (inner + 1) * width + 2 * norm
    beside = (512 + 2) * width + width + norm  # positions, type and norm of a side
    translator = ROWS * width + 2 * beside + 24 * layer + 6 * (layer + attention + norm)
    head = (width + 1) * width + norm + ROWS
    if name == "text/veco":
        expected = ROWS * width + beside + 24 * (layer + attention + norm) + head
    else:
        expected = translator + (head + 257 * width if "mask_predict" in name else 0)  # lengths of 0 to 256
    assert sum(parameter.numel() for parameter in objective.parameters()) == expected
    check_size(recipe, objective)


@pytest.mark.recipes
def test_what_is_plugged_in_learns_first(masked_model, miniature, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    workspace = run_recipe(Recipe.load("text/mt_from_veco", given(masked_model, miniature)), command="a test")
    run = workspace.output.parents[1] / "veco" / workspace.output.name
    imported = SavedModel.load(masked_model).state_dict()
    plugged, learned = (SavedModel.load(run / phase / "model").state_dict() for phase in ("plugged", "average"))
    for name, tensor in plugged.items():
        known = imported.get(name.replace("heads.masked.", "heads.masked_tokens."))
        assert (known is None) == (".memory_attention" in name)
        assert known is None or torch.equal(tensor, known)
    assert not [name for name, tensor in learned.items() if torch.equal(tensor, plugged[name]) and "type" not in name]
    rows = read(run / "results.jsonl")
    found = {(row["phase"], row["metric"]) for row in rows}
    restored = {("restored", f"{way}_accuracy") for way in ("inner", "cross", "joint")}
    assert found == restored | {("retrieve", "retrieval")}
    signatures = {row["signature"].partition("|")[0] for row in rows if row["metric"] == "retrieval"}
    assert signatures == {"vectors:mean of states of tap 1"}


@pytest.mark.recipes
def test_a_decoder_that_fills_masks_begins_as_the_stack(masked_model, miniature, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    name, keys = "text/mask_predict_from_veco", given(masked_model, miniature)
    keys = {key: value for key, value in keys.items() if not key.startswith("phases.")}
    keys |= small(Recipe.load(name, keys)) | SIZES | {"decoder_layers": 2, "kept_layers": [-2, -1]}
    for way, layers in (("phases.teacher.", [-2, -1]), ("phases.teacher.phases.veco.", None)):
        keys |= {f"{way}{key}": size for key, size in SIZES.items()}
        keys |= {f"{way}kept_layers": layers, f"{way}decoder_layers": 2} if layers else {}
    keys |= {"phases.teacher.phases.veco.texts_reader.characters": 100, "learning_rate": 1e-12}
    output = run_recipe(Recipe.load(name, keys), command="a test").output
    [veco] = tmp_path.glob("results/**/veco/1-debug/average/model")
    below, found = (SavedModel.load(folder).state_dict() for folder in (veco, output / "average" / "model"))
    for name, tensor in found.items():
        there = re.sub(r"decoder\.layers\.(\d)", lambda match: f"encoder.layers.{int(match[1]) + 1}", name)
        there = there.replace("target_embedding", "embeddings.source").replace("decoder.", "encoder.")
        there = there.replace("model.projection", "model.heads.masked")
        if name != "model.lengths.weight":
            torch.testing.assert_close(tensor, below[there], atol=1e-6, rtol=0)


@pytest.mark.recipes
def test_an_interrupted_run_ends_with_the_same_bits(masked_model, miniature, tmp_path, monkeypatch):
    check_interrupted("text/mt_from_veco", given(masked_model, miniature), tmp_path, monkeypatch)
