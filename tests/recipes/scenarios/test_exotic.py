"""Fine-tuning of mRASP on languages that its pre-training did not have: directions beside the recipe's own."""

import pytest

from dragoman.shared.run.running import run_recipe
from dragoman.shared.systems.saved_model import SavedModel
from tests.recipes.test_recipes import load, small

NAME = "almanac/mt_exotic"


@pytest.mark.recipes
@pytest.mark.parametrize(("source", "target"), [("fr", "ru"), ("en", "es"), ("es", "it")])
def test_each_exotic_direction_begins_with_the_same_pre_training(source, target, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    overrides = {"source_language": source, "target_language": target, "device": "cpu", "debug": True, "workers": 0}
    workspace = run_recipe(load(NAME, **small(load(NAME)), **overrides, noprogressbar=True), command="a test")
    system = SavedModel.load(workspace.output / "average" / "model")
    assert (system.source_languages, system.target_languages) == ([source], [target])
    known = {f"<{code}>" for code in ("en", "de", "fr", "ru", "tr", "es", "it")}
    assert known <= {*system.output.tokenizer.symbols}


def test_pre_training_sees_no_text_of_exotic_languages():
    recipe = load(NAME)
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
