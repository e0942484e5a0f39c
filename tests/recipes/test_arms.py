"""All installed recipes and their arms: each is checked as a run checks it, and nothing is trained."""

from pathlib import Path

import pytest

from dragoman.commands.check import check_recipe
from dragoman.shared.evaluation.results import read
from dragoman.shared.recipe.recipe import Recipe
from tests.recipes.installed import RECIPES
from tests.recipes.test_recipes import FILLED_IN

WITH_ARMS = [name for name, recipe in RECIPES.items() if recipe.arms]
RESULTS = Path(__file__).parents[2] / "recipes" / "almanac" / "results.jsonl"


def load(name, arm):
    """Load an arm, with what its recipe leaves to the user filled in."""
    missing = Recipe.load(name, {"arm": arm}).placeholders
    return Recipe.load(name, {key: FILLED_IN.get(key, key) for key in missing} | {"arm": arm})


@pytest.mark.recipes
@pytest.mark.parametrize("name", RECIPES)
def test_no_value_of_a_recipe_or_an_arm_is_refused(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    check_recipe(name, [])


@pytest.mark.recipes
@pytest.mark.parametrize("name", WITH_ARMS)
def test_arms_have_folders_of_their_own(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    arms = {arm: load(name, arm) for arm in RECIPES[name].arms}
    folders = {arm: recipe.value("output_folder") for arm, recipe in arms.items()}
    assert RECIPES[name].value("output_folder", lenient=True) not in folders.values()
    assert len({*folders.values()}) == len(arms)


@pytest.mark.recipes
def test_the_results_are_of_recipes_and_arms_that_there_are(tmp_path, monkeypatch):
    rows = read(RESULTS)
    names = {(row["recipe"], row.get("arm")) for row in rows} | {
        (row["against"], row.get("against_arm")) for row in rows if "against" in row
    }
    monkeypatch.chdir(tmp_path)
    for name, arm in sorted((name, arm) for name, arm in names if arm and "+" in arm):
        load(name, arm).check()
    assert {name for name, _ in names} <= {*RECIPES}
    assert {(name, arm) for name, arm in names if arm and "+" not in arm} <= {
        (name, arm) for name, recipe in RECIPES.items() for arm in recipe.arms
    }
