"""Objects that a recipe hands on to one that it runs: built by that one, shown, recorded and compared as arguments."""

import pytest

from dragoman import Recipe, UsageError
from dragoman.runs.running import is_finished, run_recipe
from tests.shared.running_parts import worked
from tests.small import refuses

DRAWS = """\
# Two phases that draw
output_folder: !ref {folder}/draws/<seed>
first: !new:tests.shared.recipe_parts.Slab {{size: 1, dropout: 0.25}}
second: {{left: !ref <first>, right: !ref <first>}}
count: 1
phases:
    once: !new:tests.shared.running_parts.Draws {{slabs: [!ref <first>]}}
    again: !new:tests.shared.running_parts.Draws
        slabs:
            - !ref <second[left]>
            - !ref <second[right]>
            - !ref <first>
        updates: !ref <count>
"""
HANDS = """\
# A recipe that hands objects on
output_folder: !ref {folder}/hands/<seed>
size: 8
slab: !new:tests.shared.recipe_parts.Slab {{size: !ref <size>, bias: False}}
phases:
    draws: !new:dragoman.runs.RunRecipe
        recipe: {folder}/draws.yaml
        overrides:
            first: !ref <slab>
            second: {{left: !ref <slab>, right: !ref <slab>}}
            count: !apply:tests.shared.recipe_parts.double [1]
    own: !new:tests.shared.running_parts.Draws {{slabs: [!ref <slab>]}}
"""
GROUPED = """\
# A recipe that hands a group with objects on
output_folder: !ref {folder}/hands/<seed>
slab: !new:tests.shared.recipe_parts.Slab {{size: 8}}
same:
    first: !new:tests.shared.recipe_parts.Slab {{size: 1, dropout: 0.25}}
    second: {{left: !ref <slab>, right: !ref <slab>}}
phases:
    draws: !new:dragoman.runs.RunRecipe
        recipe: {folder}/draws.yaml
        overrides: [!ref <same>, {{count: 3}}]
"""
SLAB = "!new:tests.shared.recipe_parts.Slab"
DRAW = "!new:tests.shared.running_parts.Draws"


@pytest.fixture
def hands(tmp_path):
    for name, text in {"draws": DRAWS, "hands": HANDS, "grouped": GROUPED}.items():
        (tmp_path / f"{name}.yaml").write_text(text.format(folder=tmp_path))
    return lambda *words: Recipe.load(tmp_path / "hands.yaml", words)


def drawn(folder):
    return {phase: (folder / phase / "drawn.txt").read_text() for phase in ("once", "again")}


def test_each_phase_and_each_key_has_an_object_of_its_own(hands, tmp_path):
    run_recipe(hands())
    draws = tmp_path / "draws" / "1"
    assert drawn(draws) == {"once": "[8]", "again": "[8] [8] [8]"}  # what "once" changed was its own
    assert (draws / "again" / "changed.txt").read_text() == "[108] [108] [108]"
    assert (tmp_path / "hands" / "1" / "own" / "drawn.txt").read_text() == "[8]"
    left, right, first = hands().plan["draws"].build().recipe.plan["again"].build().slabs
    assert left is right and first is not left  # one key names one object, wherever it is referred to


def test_it_is_laid_over_what_the_other_recipe_has(hands, tmp_path):
    handed = {SLAB: {"size": 8, "bias": False}}
    merged = {SLAB: {"size": 8, "dropout": 0.25, "bias": False}}
    for inner in (hands().plan["draws"].inner, hands().plan["draws"].build().recipe):
        assert inner.plan["once"].plain == {DRAW: {"slabs": [merged]}}
        [arguments] = inner.plan["again"].plain.values()
        assert arguments["slabs"] == [handed, handed, merged]
    assert arguments["updates"] == 2  # of a function, what it returns is handed on
    inner = hands("--phases.draws.first.dropout", "0.5").plan["draws"].inner
    assert inner.plan["once"].plain == {DRAW: {"slabs": [{SLAB: {"size": 8, "dropout": 0.5, "bias": False}}]}}


def test_it_is_shown_where_it_is_written_and_what_is_shown_is_a_recipe(hands, tmp_path):
    shown = hands().shown("draws")
    assert "first: !ref <slab>" in shown and f"slab: {SLAB}" in shown
    inner = hands().plan["draws"].inner
    for text in (inner.shown(), inner.text()):
        (tmp_path / "shown.yaml").write_text(text)
        again = Recipe.load(tmp_path / "shown.yaml")
        assert all(again.plan[phase].plain == inner.plan[phase].plain for phase in ("once", "again"))
    lines = [line for line in inner.shown().splitlines() if line.strip().startswith("size: 8")]
    assert lines and all("hands.yaml:3" in line for line in lines)


def test_it_is_recorded_and_compared_as_its_arguments(hands, tmp_path):
    run_recipe(hands())
    records = sorted(tmp_path.glob("*/1/state/*.json"))
    before = [record.read_bytes() for record in records]
    run_recipe(hands())
    assert len(records) == 4 and [record.read_bytes() for record in records] == before
    assert is_finished(hands()) and is_finished(Recipe.load(tmp_path / "draws" / "1" / "recipe.yaml"))
    assert worked(tmp_path / "draws" / "1") == ["once1", "again1", "again2"]
    thicker = hands("--size", "9")
    refuses(UsageError, r"phase 'draws' of hands was started with other keys: size 8 \(now 9\)", run_recipe, thicker)
    message = r"\(run by phase 'draws'\) was started with other keys: phases\.draws\.first\.size 8 \(now 9\)"
    message += r".* do it again with dragoman run hands --restart draws\.once"
    refuses(UsageError, message, run_recipe, thicker, restart=["draws.again"], command="dragoman run hands")
    run_recipe(thicker, restart=["draws", "own"])
    assert drawn(tmp_path / "draws" / "1") == {"once": "[9]", "again": "[9] [9] [9]"}


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("bias: False", "biased: False", r"hands\.yaml:4: slab\.biased: .*has no argument 'biased'"),
        ("bias: False", "dropout: 2.0", r"hands\.yaml:4: .*dropout must be in \[0, 1\), not 2\.0"),
        ("first: !ref", "frist: !ref", r"hands\.yaml:\d+: phases\.draws\.overrides\.frist: no such key .*'first'"),
    ],
)
def test_a_wrong_one_is_refused_where_it_is_written_before_anything_runs(hands, tmp_path, old, new, message):
    file = tmp_path / "hands.yaml"
    file.write_text(file.read_text().replace(old, new))
    refuses(UsageError, message, run_recipe, hands())
    assert not (tmp_path / "draws").exists()


def test_of_a_group_only_the_objects_that_differ_are_handed_on(hands, tmp_path):
    recipe = Recipe.load(tmp_path / "grouped.yaml")
    [arguments] = recipe.plan["draws"].plain.values()
    slab = {SLAB: {"size": 8}}
    assert arguments["overrides"] == {"count": 3, "second": {"left": slab, "right": slab}}
    run_recipe(recipe)
    assert drawn(tmp_path / "draws" / "1") == {"once": "[1]", "again": "[8] [8] [1]"}
