"""The installed recipes that run others: where a debug run happens, and what they are without the others."""

from collections import defaultdict
from pathlib import Path

import pytest

from dragoman import Recipe, UsageError
from dragoman.runs.running import intention
from dragoman.shared.recipe.tree import INNER
from tests.recipes.installed import RECIPES, swept


def load(name, folder, *words):
    given = ["--data_folder", str(folder / "data"), "--results_folder", str(folder / "results")]
    if {"source_language", "target_language"} <= RECIPES[name].used_keys:  # not one of many languages
        given += ["--source_language", "fr", "--target_language", "en"]
    return Recipe.load(name, [*given, *words])


def runs(name):
    """Return the phases of a recipe that run others; none if it needs more than a folder and languages."""
    recipe = RECIPES[name]
    phases = [phase for phase in recipe.phases if recipe.plan[phase].written.tag == INNER]
    needs = {*recipe.placeholders} - {"data_folder", "source_language", "target_language", "manifest_folder"}
    return [] if needs else phases


def fit(recipe):
    [arguments] = recipe.plan["fit"].plain.values()
    return arguments


def starts(name):
    """Return the names of the parts that each model gives, with which a recipe's training begins."""
    recipe = load(name, Path("nowhere"))
    steps = fit(recipe).get("initialise", []) if "fit" in recipe.phases else []
    return [{*arguments["parts"]} for step in steps for arguments in step.values() if "parts" in arguments]


RUNS = {name: runs(name) for name in RECIPES}
WITH_OTHERS = [name for name, phases in RUNS.items() if phases]
ENCODER = {"model.embeddings.speech", "model.encoder"}
#: Two recipes with one training, which begins with a recogniser's encoder; one that begins with two models.
STARTED_FROM_ASR = [name for name in WITH_OTHERS if RUNS[name] == ["asr"] and starts(name) == [ENCODER]]
FITTED = {name for name, recipe in RECIPES.items() if any(phase.endswith("_fit") for phase in recipe.phases)}
STARTED_FROM_ASR = [name for name in STARTED_FROM_ASR if name not in FITTED][-2:]
[STARTED_FROM_TWO, *_] = [name for name in WITH_OTHERS if RUNS[name] == ["asr", "mt"] and len(starts(name)) == 2]


def inside(recipe):
    for phase in recipe.phases:
        if (inner := recipe.plan[phase].inner) is not None:
            yield from [inner, *inside(inner)]


@pytest.mark.parametrize("name", swept(WITH_OTHERS))
def test_a_debug_run_reads_and_writes_nothing_of_real_runs(name, tmp_path):
    recipe = load(name, tmp_path, "--debug")
    recipe.check()
    phases = [phase for phase in recipe.phases if recipe.plan[phase].inner]
    inner = [recipe.plan[phase].inner for phase in phases]
    folders = [one.value("output_folder") for one in (recipe, *inner)]
    real = [folder.removesuffix("-debug") for folder in folders]
    assert all(folder.endswith("/1-debug") for folder in folders) and len(set(real)) == len(real)
    said = [value for phase in recipe.phases if phase not in phases for value in recipe.plan[phase].values()]
    assert {recipe.plan[phase].output for phase in recipe.phases} == {folders[0]}
    assert all(one.plan[phase].output == one.value("output_folder") for one in inner for phase in one.phases)
    used = [text.strip('"') for _, text, _ in said if str(tmp_path / "results") in text]
    everywhere = [folders[0], *(one.value("output_folder") for one in inside(recipe))]
    assert used and all(any(text.startswith(folder) for folder in everywhere) for text in used)


@pytest.mark.parametrize("name", STARTED_FROM_ASR)
def test_without_the_recogniser_the_translator_begins_from_scratch(name, tmp_path):
    alone = load(name, tmp_path, "--phases.asr", "null")
    alone.check()
    copied = "!new:shared.training.initialise.Initialise"
    assert "asr" not in alone.phases and not any(copied in step for step in fit(alone)["initialise"])
    assert fit(load(name, tmp_path))["initialise"]
    [off] = alone.switched_off
    assert str(off) == "asr: switched off: trained from scratch: model.embeddings.speech, model.encoder"


def test_without_one_of_two_only_its_parameters_are_new(tmp_path):
    recipe = load(STARTED_FROM_TWO, tmp_path, "--phases.mt", "null")
    recipe.check()
    [start] = fit(recipe)["initialise"]
    assert "model.encoder" in start["!new:shared.training.initialise.Initialise"]["parts"]


def test_without_the_one_that_makes_the_tokenizer_nothing_runs(tmp_path):
    model = tmp_path / "results" / "asr" / "1" / "tokenizer" / "tokenizer.model"
    with pytest.raises(UsageError, match=rf"tokenizer\.model: {model} is not there, and phase 'asr', which makes it"):
        load(STARTED_FROM_TWO, tmp_path, "--phases.asr", "null").check()


def test_what_the_recogniser_will_do_is_said_with_its_own_updates(tmp_path):
    name = STARTED_FROM_ASR[-1]
    inner = load(name, tmp_path).plan["asr"].inner
    other, folder = inner.name, inner.value("output_folder")
    updates = RECIPES[other].value("updates")
    said = intention(load(name, tmp_path, "--updates", str(updates + 1)).plan["asr"].inner)
    assert said == (f"{other} in {folder}: runs prepare, tokenizer, fit ({updates:,} updates), average, evaluate")
    given = intention(load(name, tmp_path, "--phases.asr.updates", "600").plan["asr"].inner)
    assert "fit (600 updates)" in given


def shared_runs():
    """Return, for each output folder of Almanac's, spoken and inner recipes, who runs what there."""
    found = defaultdict(list)

    def enter(recipe, name):
        found[recipe.value("output_folder")].append((name, recipe))
        for phase in recipe.phases:
            inner = recipe.plan[phase].inner
            if inner is not None:
                enter(inner, f"{name}, phase {phase}")

    for name, recipe in RECIPES.items():
        if (name.startswith("almanac/") or "speak" in recipe.phases) and not recipe.placeholders:
            enter(recipe, name)
    return {folder: users for folder, users in found.items() if len(users) > 1}


@pytest.mark.parametrize("phase", ["prepare", "tokenizer", "fit"])
def test_recipes_that_share_a_run_agree_about_it(phase):
    """Whoever comes second would be refused otherwise: the run was started with other keys."""
    differences = []
    for folder, users in shared_runs().items():
        having = [(name, sorted(recipe.plan[phase].values())) for name, recipe in users if phase in recipe.phases]
        values = [(name, [(path, text) for path, text, _ in found]) for name, found in having]
        differences += [f"{folder}: {values[0][0]} and {name}" for name, one in values[1:] if one != values[0][1]]
    assert differences == []
    assert len(shared_runs()) > 10


@pytest.mark.parametrize("name", swept(name for name in WITH_OTHERS if name.startswith(("almanac/", "help/"))))
def test_what_a_recipe_runs_first_can_have_been_run_alone(name):
    """In the folder that it has alone it does the same, so that neither run is refused after the other."""
    recipe = RECIPES[name]
    for inner in (recipe.plan[phase].inner for phase in RUNS[name]):
        alone = RECIPES[inner.name]
        if inner.value("output_folder") == alone.value("output_folder"):
            assert {phase: told(inner, phase) for phase in inner.phases} == {
                phase: told(alone, phase) for phase in alone.phases
            }


def told(recipe, phase):
    """Return the values that a phase was given."""
    return {key: value for key, value, _ in recipe.plan[phase].values()}
