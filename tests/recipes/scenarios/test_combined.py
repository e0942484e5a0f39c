"""Methods combined by a recipe: interrupted after the first update of each training, they end with the same bits."""

import pytest

from tests.recipes.test_resumed import check_resumed, given


@pytest.mark.recipes
@pytest.mark.parametrize("name", ["xstnet_consecutive", "chimera_shrunk", "costt_from_mbart"])
def test_an_interrupted_run_ends_with_the_same_bits(name, miniature, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    check_resumed(f"almanac/{name}", given(f"almanac/{name}", miniature, None), tmp_path, monkeypatch)
