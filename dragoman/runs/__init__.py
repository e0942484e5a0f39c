"""Running a recipe: its phases in order, what is skipped, resumed, refused or started again."""

from dragoman.runs.nested import RunRecipe

__all__ = ["RunRecipe"]
