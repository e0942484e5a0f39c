"""Recipes: reading, laying over each other, resolving, checking and building."""
