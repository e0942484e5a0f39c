"""Measurements of runs: gathered, compared by tests of significance, and written as tables."""
