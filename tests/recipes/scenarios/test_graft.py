"""Grafting end to end: what the trained translator has of the two language models, and what has changed."""

import pytest
import torch

from dragoman import Recipe, System
from dragoman.runs.running import run_recipe
from dragoman.shared.batch import Batch
from dragoman.shared.padded import Padded
from dragoman.shared.systems.reading_model import ReadingModel
from tests.recipes.test_recipes import small
from tests.recipes.test_waveform import QUICK

#: Where each tensor of the translator comes from: the beginnings of the names there, by those here.
FROM_MASKED = {"embeddings.source.": "embeddings.source.", "encoder.below.": "encoder."}
FROM_LANGUAGE = {"target_embedding.": "target_embedding.", "decoder.below.": "decoder."}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Where the models are, by recipe, after a run of almanac/graft with two updates of each training."""
    folder = tmp_path_factory.mktemp("graft")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        keys = QUICK | {"results_folder": "results", "low_pairs": 24}
        run_recipe(Recipe.load("almanac/graft", keys | small(Recipe.load("almanac/graft", keys))), command="a test")
    names = ("graft", "mlm_many", "lm_many")
    return {name: folder / "results" / name / "1-debug" / "average" / "model" for name in names}


@pytest.mark.parametrize("name", ["almanac/graft", "text/graft", "ted/graft"])
def test_both_language_models_are_made_of_one_masked_model(name, tmp_path, monkeypatch):
    """Whoever comes second would be refused otherwise."""
    monkeypatch.chdir(tmp_path)
    recipe = Recipe.load(name, {"encoder_layers": 4, "data_folder": "data"})
    masked = [recipe.plan["masked"].inner, recipe.plan["language"].inner.plan["masked"].inner]
    assert [one.value("encoder_layers") for one in masked] == [4, 4]
    one, other = (sorted((path, text) for path, text, _ in recipe.plan["fit"].values()) for recipe in masked)
    assert one == other


def tensors(folder):
    return ReadingModel.load(folder).model.state_dict()


def taken(own, other, beginnings):
    """Compare what begins so with what it was; return the names."""
    found = []
    for here, there in beginnings.items():
        for name in own:
            if name.startswith(here):
                assert torch.equal(own[name], other[there + name.removeprefix(here)]), name
                found.append(name)
    return found


@pytest.mark.recipes
def test_what_is_taken_stays_as_it_was(trained):
    own, masked, language = (tensors(folder) for folder in trained.values())
    names = taken(own, masked, FROM_MASKED) + taken(own, language, FROM_LANGUAGE)
    for side, other in (("encoder", masked), ("decoder", language)):
        for kind in ("weight", "bias"):
            name = f"{side}.layers.0.self_attention_norm.{kind}"
            assert torch.equal(own[name], other[f"{side}.norm.{kind}"])
            names.append(name)
    assert len(names) == len({*names}) == 2 * (2 + 12 + 2)  # tokens, positions; a layer; a norm
    assert not torch.equal(own["decoder.language_norm.weight"], language["decoder.norm.weight"])


@pytest.mark.recipes
def test_its_language_model_speaks_when_what_is_new_is_silent(trained):
    grafted, language = (System.load(trained[name]) for name in ("graft", "lm_many"))
    norm = language.model.decoder.norm
    with torch.no_grad():
        grafted.model.projection.own.weight.zero_()
        grafted.model.decoder.language_norm.load_state_dict(norm.state_dict())
    field = grafted.output
    ids = field.framed(field.tokenizer.encode("Mia is here."), "en")
    batch = Batch({name: Padded.from_sequences([torch.tensor(ids)]) for name in ("source", "target")})
    models = (one.model.eval() for one in (grafted, language))
    found, expected = (model.log_probabilities(batch["target"], model.encode(batch)) for model in models)
    assert torch.equal(found, expected)


@pytest.mark.recipes
def test_what_the_language_models_have_read_is_what_the_translator_reads(trained):
    grafted, masked, language = (ReadingModel.load(folder) for folder in trained.values())
    assert grafted.inputs["source"].reads_like(masked.inputs["source"])
    assert grafted.output.reads_like(language.output)
    row = {"id": "1", "source_text": "Mia is here.", "source_language": "en"}
    row |= {"target_text": "Mia is here.", "target_language": "en"}
    written = [system.output(row, None).tolist() for system in (grafted, language)]
    assert written[0] == written[1] and written[0][0] == grafted.output.tokenizer.id("<en>")
    symbols = [grafted.output.tokenizer.symbol(id) for id in grafted.inputs["source"](row, None).tolist()]
    assert not any(symbol.startswith("<") for symbol in symbols[:-1]) and symbols[-1] == "</s>"
