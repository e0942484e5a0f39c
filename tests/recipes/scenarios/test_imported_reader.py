"""Translators that read an imported encoder: what they keep of it, and how they go on after an interruption."""

from pathlib import Path

import pytest
import torch

from mt.ctnmt import AsymptoticDistillation
from shared.exchange.importing import import_model
from shared.objectives import CrossEntropy
from shared.recipe.recipe import Recipe
from shared.run.running import run_recipe
from shared.systems.reading_model import ReadingModel
from shared.systems.system import System
from tests.recipes.test_recipes import small
from tests.recipes.test_resumed import both_ways
from tests.recipes.test_waveform import QUICK
from tests.resume.conftest import differences

ENCODER = Path(__file__).parents[2] / "parity" / "fairseq" / "masked_tokens"
VOCABULARY = "!new:tests.recipes.test_recipes.Vocabulary {pieces: 100, tags: [en, de]}"
#: Recipes with an imported encoder, what keeps its parameters as they are, where they stand, and the field it reads.
RECIPES = {
    "text/ctnmt": ({"masked_model_rates": 0.0}, "embeddings.source.reader", "source"),
    "iwslt14/bert_fused": ({}, "reader", "bert"),
}
#: What each calls the width of the encoder's states.
WIDTHS = {"text/ctnmt": "width", "iwslt14/bert_fused": "masked_width", "mustc/lut": "teacher_width"}


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    """An encoder of fairseq's, which stands for BERT."""
    folder = tmp_path_factory.mktemp("encoder") / "encoder"
    import_model(ENCODER, folder, pieces="words", source_languages=["en", "de"])
    return folder


def given(name, encoder, miniature):
    """Return the keys that make a recipe small, with what has to be filled in."""
    keys = {"bert_folder": str(encoder), "data_folder": str(miniature[name.partition("/")[0]])} | QUICK
    keys |= {"source_language": "en", "target_language": "de"} if name.startswith("text") else {}
    sizes = small(Recipe.load(name, keys)) | {WIDTHS[name]: ReadingModel.load(encoder).model.encoder.width}
    return keys | sizes | ({"teacher_heads": 2} if name == "mustc/lut" else {})


def test_cross_entropy_and_distillation_share_the_weight():
    recipe = Recipe.load("almanac/ctnmt", {"kd_weight": 0.25, "tokenizer": VOCABULARY})
    with torch.device("meta"):
        parts = recipe.build("fit").objective.parts
    assert [type(part) for part in parts] == [CrossEntropy, AsymptoticDistillation]
    assert [part.weight for part in parts] == [0.75, 0.25]


@pytest.mark.recipes
@pytest.mark.parametrize("name", RECIPES)
def test_the_encoder_is_there_from_the_first_update(name, encoder, tmp_path, monkeypatch, miniature):
    monkeypatch.chdir(tmp_path)
    frozen, place, field = RECIPES[name]
    output = run_recipe(Recipe.load(name, given(name, encoder, miniature) | frozen), command="a test").output
    found, imported = System.load(output / "average" / "model"), ReadingModel.load(encoder)
    known, theirs = found.model.get_submodule(place).state_dict(), imported.model.state_dict()
    assert known and all(torch.equal(value, theirs[name]) for name, value in known.items())
    assert found.inputs[field].tokenizer.fingerprint == imported.inputs["source"].tokenizer.fingerprint
    assert found.output.tokenizer.fingerprint != found.inputs[field].tokenizer.fingerprint
    languages = {"source_language": found.source_languages[0], "target_language": found.target_languages[0]}
    assert isinstance(found.translate(["a b c"], **languages)[0], str)


@pytest.mark.recipes
@pytest.mark.parametrize("name", WIDTHS)
def test_an_interrupted_run_ends_with_the_same_bits(name, encoder, tmp_path, monkeypatch, miniature):
    monkeypatch.chdir(tmp_path)
    whole, resumed = both_ways(name, given(name, encoder, miniature), tmp_path, monkeypatch)
    assert differences(whole, resumed) == []
