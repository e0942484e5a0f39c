"""Translators that read an imported encoder: what they keep of it, and how they go on after an interruption."""

from pathlib import Path

import pytest
import torch

from dragoman import Recipe, System
from dragoman.exchange.importing import import_model
from dragoman.mt.ctnmt import AsymptoticDistillation
from dragoman.runs.running import run_recipe
from dragoman.shared.nn.heads import TiedProjection
from dragoman.shared.nn.translator import LanguageModel
from dragoman.shared.objectives import CrossEntropy
from dragoman.shared.systems.reading_model import ReadingModel
from tests import small as parts
from tests.recipes.test_recipes import TINY, check_size, small, vocabulary
from tests.recipes.test_resumed import check_interrupted
from tests.recipes.test_waveform import QUICK

ENCODER = Path(__file__).parents[2] / "parity" / "fairseq" / "masked_tokens"
VOCABULARY = "!new:tests.recipes.test_recipes.Vocabulary {pieces: 100, tags: [en, de]}"
#: Recipes with an imported encoder, what keeps its parameters as they are, where they stand, and the field it reads.
RECIPES = {
    "text/ctnmt": ({"masked_model_rates": 0.0}, "embeddings.source.reader", "source"),
    **dict.fromkeys(["text/bert_fused", "iwslt14/bert_fused", "wmt16/bert_fused"], ({}, "reader", "bert")),
    "text/apt": ({}, "source_reader.model", "source"),
}
#: What those call the width of the encoder's states that have a key for it.
WIDTHS = {"text/ctnmt": "width"}
#: Recipes whose encoder is taught by it.
TAUGHT = ["mustc/lut", "own/lut"]
WIDTHS |= dict.fromkeys(TAUGHT, "teacher_width")


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    """An encoder of fairseq's, which stands for BERT."""
    folder = tmp_path_factory.mktemp("encoder") / "encoder"
    import_model(ENCODER, folder, pieces="words", source_languages=["en", "de"])
    return folder


@pytest.fixture(scope="module")
def language_model(tmp_path_factory):
    """A language model of the target, as wide as the translator of the test."""
    folder = tmp_path_factory.mktemp("language") / "model"
    tokenizer = parts.tokenizer(["abcdefghijklmnopqrstuvwxyz"] * 3, ["en", "de"])
    embedding = parts.embedding(tokenizer, TINY["width"], None, dropout=0.1)
    decoder = parts.decoder(memories=None, **{key: TINY[key] for key in ("width", "heads", "feedforward")})
    projection = TiedProjection(embedding=embedding)
    model = LanguageModel(target_embedding=embedding, decoder=decoder, projection=projection)
    parts.system(tokenizer, model, inputs={}).save(folder)
    return folder


def given(name, encoder, language_model, miniature):
    """Return the keys that make a recipe small, with what has to be filled in."""
    keys = {"bert_folder": str(encoder), "data_folder": str(miniature[name.partition("/")[0]])} | QUICK
    keys |= {"source_language": "en", "target_language": "de"} if name.startswith(("own", "text")) else {}
    keys |= {"lm_folder": str(language_model)} if name == "text/apt" else {}
    sizes = small(Recipe.load(name, keys))
    sizes |= {WIDTHS[name]: ReadingModel.load(encoder).model.encoder.width} if name in WIDTHS else {}
    return keys | sizes | ({"teacher_heads": 2} if name in TAUGHT else {})


@pytest.mark.parametrize("name", TAUGHT)
def test_full_size(name):
    """The size does not depend on BERT's pieces; here they are the translator's."""
    filled = {"bert_folder": "bert", "data_folder": "data", "source_language": "en", "target_language": "de"}
    own = vocabulary(Recipe.load(name, filled).value("pieces"))
    recipe = Recipe.load(name, filled | {"tokenizer": own, "taught": "!ref <transcript>"})
    with torch.device("meta"):
        fit = recipe.plan["fit"].build()
    check_size(recipe, fit.objective)
    if name == "mustc/lut":  # the rate is halved every 50,000 updates after its warm-up
        rates = [fit.schedule(update) for update in (25000, 50000, 100000, 300000)]
        assert rates == pytest.approx([2e-4, 4e-4, 2e-4, 4e-4 * 0.5**5])


def test_cross_entropy_and_distillation_share_the_weight():
    recipe = Recipe.load("almanac/ctnmt", {"kd_weight": 0.25, "tokenizer": VOCABULARY})
    with torch.device("meta"):
        parts = recipe.plan["fit"].build().objective.parts
    assert [type(part) for part in parts] == [CrossEntropy, AsymptoticDistillation]
    assert [part.weight for part in parts] == [0.75, 0.25]


@pytest.mark.recipes
@pytest.mark.parametrize("name", RECIPES)
def test_the_encoder_is_there_from_the_first_update(name, encoder, language_model, tmp_path, monkeypatch, miniature):
    monkeypatch.chdir(tmp_path)
    frozen, place, field = RECIPES[name]
    keys = given(name, encoder, language_model, miniature) | frozen
    output = run_recipe(Recipe.load(name, keys), command="a test").output
    found, imported = System.load(output / "average" / "model"), ReadingModel.load(encoder)
    known, theirs = found.model.get_submodule(place).state_dict(), imported.model.state_dict()
    assert known and all(torch.equal(value, theirs[name]) for name, value in known.items())
    assert found.inputs[field].tokenizer.fingerprint == imported.inputs["source"].tokenizer.fingerprint
    assert found.output.tokenizer.fingerprint != found.inputs[field].tokenizer.fingerprint
    languages = {"source_language": found.source_languages[0], "target_language": found.target_languages[0]}
    assert isinstance(found.translate(["a b c"], **languages)[0], str)


@pytest.mark.recipes
@pytest.mark.parametrize("name", sorted({*RECIPES, *WIDTHS}))
def test_an_interrupted_run_ends_with_the_same_bits(name, encoder, language_model, tmp_path, monkeypatch, miniature):
    check_interrupted(name, given(name, encoder, language_model, miniature), tmp_path, monkeypatch)
