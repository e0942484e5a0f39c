"""All arms of all installed recipes: each is checked as a run checks it, and nothing is trained."""

import pytest

from dragoman.shared.recipe.recipe import Recipe
from tests.recipes.installed import RECIPES
from tests.recipes.test_recipes import FILLED_IN

WITH_ARMS = [name for name, recipe in RECIPES.items() if recipe.arms]


def load(name, arm):
    """Load an arm, with what its recipe leaves to the user filled in."""
    missing = Recipe.load(name, {"arm": arm}).placeholders
    return Recipe.load(name, {key: FILLED_IN.get(key, key) for key in missing} | {"arm": arm})


@pytest.mark.recipes
@pytest.mark.parametrize("name", WITH_ARMS)
def test_the_arms_of_a_recipe_can_be_run(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    arms = {arm: load(name, arm) for arm in RECIPES[name].arms}
    for arm in arms.values():
        arm.check()
    folders = {arm: recipe.value("output_folder") for arm, recipe in arms.items()}
    assert all(f"-{arm}" in folder for arm, folder in folders.items())
    assert len({*folders.values()}) == len(arms)
