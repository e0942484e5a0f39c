"""Recipes that give prompts to an imported masked language model: what stays as it is, what is written, sizes."""

import pytest
import torch

from dragoman import Recipe, System
from dragoman.mt.sga import SemanticGenerator
from dragoman.runs.running import run_recipe
from dragoman.shared.systems.reading_model import ReadingModel
from tests.recipes.test_recipes import small
from tests.recipes.test_resumed import check_interrupted
from tests.recipes.test_waveform import QUICK
from tests.recipes.xlmr import masked_model, save_masked_model

#: What a user of each recipe may say about languages.
RECIPES = {"ted/sga": {"languages": ["de"], "zero_shot": ["fr"]}}
RECIPES |= {"text/sga": {"source_language": "de", "target_language": "en"}}
RECIPES |= {"text/sga_mask_predict": RECIPES["text/sga"] | {"maximum_tokens": 60}}  # half as many as positions


@pytest.fixture(scope="module")
def encoder(tmp_path_factory, miniature):
    return save_masked_model(tmp_path_factory.mktemp("encoder"), miniature, layers=2, feedforward=64)


def given(name, encoder, miniature):
    """Return the keys that make a recipe small, with what has to be filled in."""
    keys = (
        QUICK | {"masked_folder": str(encoder), "data_folder": str(miniature[name.partition("/")[0]])} | RECIPES[name]
    )
    sizes = small(Recipe.load(name, keys)) | RECIPES[name]
    return keys | sizes | {"prompts": 3, "grad_accumulation_factor": 2, "batch_tokens": 400}


@pytest.mark.recipes
@pytest.mark.parametrize("name", RECIPES)
def test_the_language_model_stays_as_it_was(name, encoder, tmp_path, monkeypatch, miniature):
    monkeypatch.chdir(tmp_path)
    output = run_recipe(Recipe.load(name, given(name, encoder, miniature)), command="a test").output
    found, imported = System.load(output / "average" / "model"), ReadingModel.load(encoder)
    known, theirs = found.model.reader.state_dict(), imported.model.state_dict()
    assert {*known} == {*theirs} and all(torch.equal(value, theirs[name]) for name, value in known.items())
    tokenizer = imported.inputs["source"].tokenizer
    assert found.output.tokenizer.fingerprint == found.inputs["source"].tokenizer.fingerprint == tokenizer.fingerprint
    assert found.inputs["source"].prefix == imported.inputs["source"].prefix
    assert found.model.blank == tokenizer.pad
    assert isinstance(found.translate(["a b c"], source_language="de")[0], str)
    if name == "ted/sga":
        assert found.source_languages == ["de", "fr"]
        results = (output / "results.jsonl").read_text(encoding="utf-8")
        assert '"fr"' in results or "fr-en" in results


@pytest.mark.recipes
def test_an_interrupted_run_ends_with_the_same_bits(encoder, tmp_path, monkeypatch, miniature):
    """Noise is drawn in the forward pass: its state is in the checkpoint."""
    check_interrupted("text/sga", given("text/sga", encoder, miniature), tmp_path, monkeypatch)


@pytest.mark.parametrize(
    ("layers", "width", "denoises", "millions"),
    [(12, 768, True, 8), (12, 768, False, 6), (24, 1024, True, 21), (24, 1024, False, 15)],
)
def test_as_many_parameters_learn_as_published(layers, width, denoises, millions):
    """Wu et al. 2023, table 1: XLM-R base and large, with denoising and without."""
    with torch.device("meta"):
        reader = masked_model(100, layers, width, heads=16, feedforward=4 * width)
        model = SemanticGenerator(reader=reader, blank=1, mask=2, denoises=denoises)
    count = sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
    assert round(count / 1e6) == millions
