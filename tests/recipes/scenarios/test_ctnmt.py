"""CTNMT as recipes: the weights of its losses, and a translator above an imported encoder."""

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

ENCODER = Path(__file__).parents[2] / "parity" / "fairseq" / "masked_tokens"
VOCABULARY = "!new:tests.recipes.test_recipes.Vocabulary {pieces: 100, tags: [en, de]}"


def test_cross_entropy_and_distillation_share_the_weight():
    recipe = Recipe.load("almanac/ctnmt", {"kd_weight": 0.25, "tokenizer": VOCABULARY})
    with torch.device("meta"):
        parts = recipe.build("fit").objective.parts
    assert [type(part) for part in parts] == [CrossEntropy, AsymptoticDistillation]
    assert [part.weight for part in parts] == [0.75, 0.25]


@pytest.mark.recipes
def test_the_language_model_is_there_from_the_first_update(tmp_path, monkeypatch, miniature):
    """An encoder of fairseq's stands for BERT; its parameters do not learn here."""
    monkeypatch.chdir(tmp_path)
    import_model(ENCODER, tmp_path / "encoder", pieces="words", source_languages=["en", "de"])
    imported = ReadingModel.load(tmp_path / "encoder")
    keys = {
        "bert_folder": str(tmp_path / "encoder"),
        "data_folder": str(miniature["text"]),
        "source_language": "en",
        "target_language": "de",
        "masked_model_rates": 0.0,
    }
    keys |= small(Recipe.load("text/ctnmt", keys)) | {"width": imported.model.encoder.width}
    overrides = {"debug": True, "noprogressbar": True, "workers": 0, "device": "cpu"}
    output = run_recipe(Recipe.load("text/ctnmt", keys | overrides), command="a test").output
    found, given = System.load(output / "average" / "model"), imported.model.state_dict()
    known = found.model.embeddings["source"].reader.state_dict()
    assert known and all(torch.equal(value, given[name]) for name, value in known.items())
    assert found.inputs["source"].tokenizer.fingerprint == imported.inputs["source"].tokenizer.fingerprint
    assert found.output.tokenizer.fingerprint != found.inputs["source"].tokenizer.fingerprint
    assert isinstance(found.translate(["a b c"], source_language="en", target_language="de")[0], str)
