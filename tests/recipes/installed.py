"""The installed recipes as they are without overrides, loaded once for all tests that choose among them."""

from dragoman.shared.recipe.recipe import Recipe

RECIPES = {name: Recipe.load(name) for name, _ in Recipe.list()}
