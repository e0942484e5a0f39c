"""Recipes over the help in settings that are not their defaults: the other direction, other languages, all pairs."""

import pytest

from dragoman.runs.running import run_recipe
from dragoman.shared.evaluation.results import read
from tests.recipes.test_recipes import QUICK, load, small

INTO_FINNISH = {"source_language": "en", "target_language": "fi"}
SETTINGS = [
    ("help/mt", INTO_FINNISH, "en-fi"),
    ("help/csr", INTO_FINNISH, "en-fi"),  # runs help/mbart first
    ("help/csr", {"low": "hi", "low_pairs": None}, "hi-en"),
    ("help/mt_from_mrasp", {"arm": "exotic_source"}, "hi-en"),
    ("help/mt_from_mrasp", {"arm": "exotic_target"}, "en-hi"),
    ("help/mt_from_mbart", {"arm": "documents"}, "fi-en"),
]


@pytest.mark.recipes
@pytest.mark.parametrize(("name", "keys", "direction"), SETTINGS)
def test_two_updates_in_other_settings(name, keys, direction, miniature, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data = miniature["help"]
    recipe = load(name, data, **small(load(name, data)) | QUICK | keys)
    workspace = run_recipe(recipe, command="a test")
    tested = {
        (row["split"], row["lines"]) for row in read(workspace.output / "results.jsonl") if row["metric"] == "bleu"
    }
    assert tested == {(f"{direction}/test", 2)}
