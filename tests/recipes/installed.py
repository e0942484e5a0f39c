"""The installed recipes as they are without overrides, loaded once for all tests that choose among them."""

import re
from collections.abc import Iterable
from typing import Any

from dragoman.shared.recipe.locations import installed
from dragoman.shared.recipe.recipe import Recipe
from tests.small import slow_but

RECIPES = {name: Recipe.load(name) for name, _ in Recipe.list()}
#: What the file of each recipe names itself, beside what its bases name.
CLASSES = {name: {*re.findall(r"!\w+:([\w.]+)", path.read_text(encoding="utf-8"))} for name, path in installed()}


def swept(names: Iterable[str]) -> list[Any]:
    """Return names of recipes, whose tests are slow ones but for some that name all classes that any of them names.

    tests/test_house.py checks all recipes quickly.
    """
    names, quick = list(names), []
    left = set[str]().union(*(CLASSES[name] for name in names))
    while left:
        quick.append(max(names, key=lambda name: len(CLASSES[name] & left)))
        left -= CLASSES[quick[-1]]
    return slow_but(quick, names)
