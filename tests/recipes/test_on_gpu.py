"""Every recipe on a GPU: two updates and a validation, of a miniature of its corpus; `make gpu` shares them out."""

import os

import pytest

from dragoman.runs.running import run_recipe
from tests.conftest import GPU_TEST_DEVICE
from tests.recipes.test_devices import last_training
from tests.recipes.test_recipes import NAMES, folder_of_its_own, load, small  # noqa: F401

pytestmark = pytest.mark.gpu

#: Of how many shares which is done, "3/16"; and how many recipes of a share at most, to see that it runs.
SHARE, SHARES = map(int, os.environ.get("DRAGOMAN_RECIPES_SHARE", "0/1").split("/"))
MOST = int(os.environ.get("DRAGOMAN_RECIPES_MOST", len(NAMES)))


@pytest.mark.parametrize("name", NAMES[SHARE::SHARES][:MOST])
def test_training_and_validation(name, miniature):
    overrides = {"debug": True, "noprogressbar": True, "workers": 0, "device": GPU_TEST_DEVICE, "compile": False}
    data = miniature.get(name.split("/")[0])
    recipe = load(name, data, **small(load(name, data)), **overrides)
    run_recipe(recipe, command="a test", until=last_training(recipe))
