"""Modules that moved are found under their earlier names, and finished work stays finished."""

import hashlib
from pydoc import locate

import pytest

from dragoman.shared.described import named
from dragoman.shared.machine.workspace import fingerprint
from dragoman.shared.moved import MOVED, as_earliest, importable
from dragoman.shared.recipe.recipe import Recipe

NAMES = [
    ("shared.nn.layer.Layer", "dragoman.shared.nn.layer.Layer"),
    ("mt.bart", "dragoman.mt.bart"),
    ("shared.corpus.stream.Stream", "dragoman.shared.batches.stream.Stream"),
    ("shared.corpus.normalise", "dragoman.shared.text.normalise"),
    ("shared.almanac.Almanac", "dragoman.almanac.Almanac"),
    ("shared.text.letters.Letters", "dragoman.exchange.vocabularies.letters.Letters"),
    ("shared.nn.log_mel.LogMel", "dragoman.exchange.huggingface.log_mel.LogMel"),
    ("shared.corpus.noise.NoisyText", "dragoman.mt.noise.NoisyText"),
    ("shared.batches.noise.NoisyText", "dragoman.mt.noise.NoisyText"),
    ("shared.nn.slots.SlotEncoder", "dragoman.st.slots.SlotEncoder"),
    ("shared.phases.RunRecipe", "dragoman.runs.RunRecipe"),
    ("shared.corpus.streams.Stream", "dragoman.shared.corpus.streams.Stream"),
    ("torch.nn.Linear", "torch.nn.Linear"),
    ("sharedness.x", "sharedness.x"),
    ("dict", "dict"),
]


@pytest.mark.parametrize(("path", "name"), NAMES)
def test_names_of_recipes_become_names_of_python(path, name):
    assert importable(path) == name


@pytest.mark.parametrize("name", ["Letters", "shared.text.letters.Letters", "shared.nn.log_mel.LogMel"])
def test_a_model_folder_names_a_class_of_the_exchange(name):
    assert named(name).__name__ == name.rpartition(".")[2]


def test_each_module_or_class_is_where_it_is_said_to_have_moved():
    assert [place for place in MOVED.values() if locate(importable(place)) is None] == []
    assert len({*MOVED.values()}) == len(MOVED)


def test_a_fingerprint_is_made_of_earliest_places():
    before = '[{"!new:shared.corpus.stream.Stream": {"n": 1, "text": "shared.batches.stream"}}, {}]'
    now = {"!new:shared.batches.stream.Stream": {"text": "shared.batches.stream", "n": 1}}
    assert fingerprint(now, {}) == hashlib.blake2b(before.encode(), digest_size=16).hexdigest()


@pytest.mark.parametrize(
    ("now", "before"),
    [
        ("mt.noise.NoisyText", "shared.corpus.noise.NoisyText"),
        ("st.slots.SlotEncoder", "shared.nn.slots.SlotEncoder"),
        ("mt.phrases.ExtractPhrases", "shared.phases.ExtractPhrases"),
        ("mt.phrases.PhrasePair", "mt.phrases.PhrasePair"),
        ("dragoman.runs.RunRecipe", "shared.phases.RunRecipe"),
    ],
)
def test_a_fingerprint_is_made_of_the_earliest_of_several_places_and_of_that_of_one_class(now, before):
    assert as_earliest({f"!new:{now}": {}}) == f'{{"!new:{before}": {{}}}}'


def test_a_fingerprint_has_the_earlier_name_of_an_argument():
    before = '[{"!new:shared.objectives.CrossEntropy": {"smoothing": 0.1, "weight": [{"smoothing": 1}]}}, {}]'
    now = {"!new:shared.objectives.CrossEntropy": {"weight": [{"label_smoothing": 1}], "label_smoothing": 0.1}}
    assert fingerprint(now, {}) == hashlib.blake2b(before.encode(), digest_size=16).hexdigest()


def test_a_recipe_names_a_class_by_its_earlier_place(tmp_path):
    text = "output_folder: out\nphases:\n  fit: !new:tests.shared.recipe_parts.Free {x: !new:%s {rows: 3}}\n"
    built = []
    for place in (
        "shared.corpus.stream.Budget",
        "shared.batches.stream.Budget",
        "dragoman.shared.batches.stream.Budget",
    ):
        (tmp_path / "a.yaml").write_text(text % place)
        recipe = Recipe.load(tmp_path / "a.yaml")
        recipe.check()
        built.append(recipe.plan["fit"].build().x)
    assert {type(one).__module__ for one in built} == {"dragoman.shared.batches.stream"}
    assert [one.rows for one in built] == [3, 3, 3]


def test_a_phase_that_runs_a_recipe_is_one_by_its_earlier_name(tmp_path):
    (tmp_path / "inner.yaml").write_text(
        "output_folder: in\nphases:\n  fit: !new:tests.shared.recipe_parts.Free {x: 3}\n"
    )
    text = "output_folder: out\nphases:\n  asr: !new:%s {recipe: inner.yaml}\n"
    for place in ("shared.phases.RunRecipe", "dragoman.runs.RunRecipe"):
        (tmp_path / "outer.yaml").write_text(text % place)
        recipe = Recipe.load(tmp_path / "outer.yaml", {"phases.asr.output_folder": "elsewhere"})
        recipe.check()
        assert recipe.plan["asr"].inner.value("output_folder") == "elsewhere"
        assert "!new:dragoman.runs.RunRecipe" in recipe.text()
