"""Almanac: the embedded synthetic corpus, spoken and written in the layouts of real corpora."""

from dragoman.almanac.corpus import SIZES, Almanac

__all__ = ["SIZES", "Almanac"]
