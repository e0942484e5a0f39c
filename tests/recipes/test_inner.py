"""The installed recipes that run others: where a debug run happens, and what they are without the others."""

from pathlib import Path

import pytest

from shared.errors import UsageError
from shared.recipe.recipe import Recipe
from shared.run.running import intention

#: Two that are looked at more closely.
STARTED_FROM_ASR = ("mustc/st", "covost2/st")


def load(name, folder, *words):
    given = ["--data_folder", str(folder / "data"), "--results_folder", str(folder / "results")]
    return Recipe.load(name, [*given, "--source_language", "fr", "--target_language", "en", *words])


def runs(name):
    """Return the phases of a recipe that run others."""
    needs = {*Recipe.load(name).placeholders} - {"data_folder", "source_language", "target_language", "manifest_folder"}
    recipe = None if needs else load(name, Path("nowhere"))
    return [phase for phase in recipe.phases if recipe.inner(phase)] if recipe else []


WITH_OTHERS = [name for name, _ in Recipe.list() if runs(name)]


def fit(recipe):
    [arguments] = recipe.plain("fit").values()
    return arguments


@pytest.mark.parametrize("name", WITH_OTHERS)
def test_a_debug_run_reads_and_writes_nothing_of_real_runs(name, tmp_path):
    recipe = load(name, tmp_path, "--debug")
    recipe.check()
    phases = [phase for phase in recipe.phases if recipe.inner(phase)]
    folders = [recipe.value("output_folder"), *(recipe.inner(phase).value("output_folder") for phase in phases)]
    real = [folder.removesuffix("-debug") for folder in folders]
    assert all(folder.endswith("/1-debug") for folder in folders) and len(set(real)) == len(real)
    said = [value for phase in recipe.phases if phase not in phases for value in recipe.values(phase)]
    used = [text.strip('"') for _, text, _ in said if str(tmp_path / "results") in text]
    assert used and all(any(text.startswith(folder) for folder in folders) for text in used)


@pytest.mark.parametrize("name", STARTED_FROM_ASR)
def test_without_the_recogniser_the_translator_begins_from_scratch(name, tmp_path):
    alone = load(name, tmp_path, "--phases.asr", "null")
    alone.check()
    assert "asr" not in alone.phases and fit(alone)["initialise"] == []
    assert fit(load(name, tmp_path))["initialise"]
    [off] = alone.switched_off
    assert str(off) == "asr: switched off: trained from scratch: model.embeddings.speech, model.encoder"


def test_without_one_of_two_only_its_parameters_are_new(tmp_path):
    recipe = load("almanac/st_from_asr_mt", tmp_path, "--phases.mt", "null")
    recipe.check()
    [start] = fit(recipe)["initialise"]
    assert "model.encoder" in start["!new:shared.training.initialise.Initialise"]["parts"]


def test_without_the_one_that_makes_the_tokenizer_nothing_runs(tmp_path):
    model = tmp_path / "results" / "asr" / "1" / "tokenizer" / "tokenizer.model"
    with pytest.raises(UsageError, match=rf"tokenizer\.model: {model} is not there, and phase 'asr', which makes it"):
        load("almanac/st_from_asr_mt", tmp_path, "--phases.asr", "null").check()


def test_what_the_recogniser_will_do_is_said_with_its_own_updates(tmp_path):
    said = intention(load("mustc/st", tmp_path, "--updates", "10").inner("asr"))
    assert said == (
        f"mustc/asr in {tmp_path}/results/asr/1: runs prepare, tokenizer, fit (100,000 updates), average, evaluate"
    )
    given = intention(load("mustc/st", tmp_path, "--phases.asr.updates", "600").inner("asr"))
    assert "fit (600 updates)" in given
