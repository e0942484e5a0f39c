"""Recipes that teach a language model of transformers to translate: what stays, what is written, interruptions."""

import pytest

from dragoman import Recipe, System, UsageError
from dragoman.exchange.importing import import_model
from dragoman.runs.running import run_recipe
from tests.recipes.scenarios.test_finetune import changed
from tests.recipes.test_resumed import check_interrupted
from tests.recipes.test_waveform import QUICK
from tests.small import refuses

transformers = pytest.importorskip("transformers")
pytest.importorskip("peft")
#: What makes a run short, and its steps long.
SHORT = QUICK | {"learning_rate": 0.01, "warmup": 1, "validation.limit": 2, "beam": 2}
SHORT |= {"rules.maximum_length_extra": 10, "source_language": "en", "target_language": "de"}


@pytest.fixture(scope="module")
def language_model(tmp_path_factory):
    """Import a small random language model that is asked to translate."""
    from tests.parity.test_language_models import written

    home = tmp_path_factory.mktemp("language_model")
    written(home / "theirs", "qwen3")
    codes = {"source_languages": ["en"], "target_languages": ["de"]}
    import_model(home / "theirs", home / "ours", engine="transformers", **codes)
    return home / "ours"


def run(name, folder, data, **keys):
    """Run a recipe in debug mode; return its model folder."""
    keys = SHORT | {"data_folder": str(data), "manifest_folder": str(folder / "manifests")} | keys
    keys |= {"results_folder": str(folder / "results")}
    return run_recipe(Recipe.load(name, keys), command="a test").output / "average" / "model"


@pytest.mark.recipes
@pytest.mark.parametrize(
    ("keys", "learning"),
    [({"targets": r".*\.(q_proj|up_proj)"}, ("q_proj.weight", "up_proj.weight")), ({"tuning": "null"}, ("",))],
)
def test_a_language_model_learns_to_translate(keys, learning, language_model, miniature, tmp_path):
    model = run("own/llm_mt", tmp_path, miniature["own"], model_folder=str(language_model), **keys)
    before, after = System.load(language_model), System.load(model)
    names = {name for name, _ in before.named_parameters()}
    assert changed(before, after) == {name for name in names if name.endswith(learning)}
    assert isinstance(after.translate("a dog"), str)
    assert after.inputs["source"].prompt == before.inputs["source"].prompt
    assert any(line == f"all parameters from {language_model}" for line in after.origin)


@pytest.mark.recipes
def test_an_interrupted_run_ends_with_the_same_bits(language_model, miniature, tmp_path, monkeypatch):
    keys = SHORT | {"data_folder": str(miniature["own"]), "manifest_folder": "manifests"}
    check_interrupted("own/llm_mt", keys | {"model_folder": str(language_model)}, tmp_path, monkeypatch)


@pytest.mark.recipes
def test_four_bits_need_a_gpu(language_model, miniature, tmp_path):
    pytest.importorskip("bitsandbytes")
    given = {"model_folder": str(language_model), "four_bit": True}
    refuses(UsageError, "4-bit weights need a GPU", run, "own/llm_mt", tmp_path, miniature["own"], **given)
