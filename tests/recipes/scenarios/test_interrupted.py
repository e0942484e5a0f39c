"""Almanac's and a user's recipes, interrupted after the first update of each training: they end with the same bits.

Methods combined by a recipe; masks that are drawn in training; texts that are written, or words that are aligned,
between two trainings.
"""

import pytest

from tests.recipes.test_resumed import check_interrupted, given

COMBINED = ["almanac/xstnet --arm consecutive", "almanac/chimera --arm shrunk", "almanac/costt --arm from_mbart"]
MASKED = ["almanac/fat_st", "own/fat_st"]
LABELLED = ["almanac/self_training", "almanac/back_translation", "almanac/unsupervised"]
ALIGNED = ["almanac/curriculum", "own/curriculum"]


@pytest.mark.recipes
@pytest.mark.parametrize("name", COMBINED + MASKED + LABELLED + ALIGNED)
def test_an_interrupted_run_ends_with_the_same_bits(name, miniature, tmp_path, monkeypatch):
    name, _, arm = name.partition(" --arm ")
    keys = given(name, miniature, None, **({"arm": arm} if arm else {}))
    check_interrupted(name, keys, tmp_path, monkeypatch)
