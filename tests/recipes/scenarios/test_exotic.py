"""Fine-tuning of mRASP on languages that its pre-training did not have: directions beside the recipe's own."""

import pytest

from dragoman.runs.running import run_recipe
from dragoman.shared.systems.saved_model import SavedModel
from tests.recipes.test_recipes import load, small

NAME = "almanac/mt_from_mrasp"


@pytest.mark.recipes
@pytest.mark.parametrize(
    ("arm", "source", "target"),
    [("pair", "fr", "ru"), ("source", "es", "en"), ("target", "en", "es"), ("full", "es", "it")],
)
def test_each_exotic_direction_begins_with_the_same_pre_training(arm, source, target, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    overrides = {"arm": f"exotic_{arm}", "device": "cpu", "debug": True, "workers": 0}
    recipe = load(NAME, **small(load(NAME, arm=overrides["arm"])), **overrides, noprogressbar=True)
    workspace = run_recipe(recipe, command="a test")
    system = SavedModel.load(workspace.output / "average" / "model")
    assert (system.source_languages, system.target_languages) == ([source], [target])
    known = {f"<{code}>" for code in ("en", "de", "fr", "ru", "tr", "es", "it")}
    assert known <= {*system.output.tokenizer.symbols}


def test_pre_training_sees_no_text_of_exotic_languages():
    recipe = load(NAME, arm="exotic_source")
    inner = recipe.plan["mrasp"].inner
    seen = {"en", "de", "fr", "ru", "tr"}
    [corpus] = inner.plan["corpus"].plain.values()
    [settings] = corpus["corpus"].values()
    assert built(settings["languages"]) == seen and settings["root"] != recipe.value("data_folder")
    assert built(inner.value("source_languages")) == built(inner.value("lexicon_targets")) == seen
    assert built(inner.value("tags")) == built(recipe.value("tags")) == seen | {"es", "it"}


def built(node):
    """Return the set that a tree of unions stands for."""
    if isinstance(node, str):
        return {node}
    parts = next(iter(node.values())) if isinstance(node, dict) else node
    return set().union(*map(built, parts))
