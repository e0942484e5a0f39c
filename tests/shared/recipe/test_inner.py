"""Recipes inside recipes: their keys, folders, log lines and restarts; and runs without them."""

import pytest

from dragoman import Recipe, UsageError
from dragoman.runs.running import is_finished, log_to_terminal, run_recipe
from dragoman.shared.recipe.tree import INNER as INNER_TAG
from tests.shared.running_parts import worked
from tests.small import refusal, refuses

DEEP = """\
# The innermost
output_folder: {folder}/deep/<seed>
updates: 1
rate: 1.0
phases:
    fit: !new:tests.shared.running_parts.Count
        updates: !ref <updates>
        rate: !ref <rate>
"""
INNER = """\
# A recogniser
results: {folder}
output_folder: !ref <results>/asr/<seed>
updates: 2
rate: 0.5
deep_updates: 1
phases:
    deep: !new:dragoman.runs.RunRecipe
        recipe: {folder}/deep.yaml
        overrides:
            seed: !ref <seed>
    fit: !new:tests.shared.running_parts.Count
        updates: !ref <updates>
        rate: !ref <rate>
    average: !new:tests.shared.running_parts.Count
        updates: 1
        reads: [!ref <output_folder>/fit/1.txt]
"""
OUTER = """\
# A translator that starts from a recogniser
results: {folder}
output_folder: !ref <results>/st/<seed>
asr_folder: !ref <results>/asr/<seed>
updates: 2
phases:
    asr: !new:dragoman.runs.RunRecipe
        recipe: {folder}/asr.yaml
        overrides:
            results: !ref <results>
            seed: !ref <seed>
    apart: !new:tests.shared.running_parts.Count
        updates: 1
    fit: !new:tests.shared.running_parts.Starts
        updates: !ref <updates>
        initialise:
            - !new:shared.training.initialise.Initialise
                folder: !ref <asr_folder>/average/model
                parts: {{model.encoder: model.encoder}}
"""


@pytest.fixture
def outer(tmp_path):
    for name, text in {"deep": DEEP, "asr": INNER.replace("deep_updates: 1\n", ""), "st": OUTER}.items():
        text = text.replace("{folder}/deep/<seed>", "!ref {folder}/deep/<seed>")
        (tmp_path / f"{name}.yaml").write_text(text.format(folder=tmp_path))
    return lambda *words: Recipe.load(tmp_path / "st.yaml", words)


@pytest.mark.parametrize("referred", [False, True], ids=["there", "behind a reference"])
def test_debug_runs_have_folders_of_their_own(outer, tmp_path, referred):
    outer()
    if referred:
        file = tmp_path / "st.yaml"
        text = file.read_text().replace("    asr: !new", "    asr: !ref <recogniser>\n    older: !new")
        head, _, rest = text.partition("    older: ")
        phase, fit = rest.split("    apart:")
        file.write_text(f"{head}    apart:{fit}recogniser: {phase}")
        refuses(UsageError, "updates.*many", outer("--recogniser.updates", "many").check)
    run_recipe(outer("--debug"))
    for place in ("st/1", "asr/1", "deep/1"):
        assert not (tmp_path / place).exists() and worked(tmp_path / f"{place}-debug")
    assert (tmp_path / "st" / "1-debug" / "fit" / "starts.txt").read_text() == f"{tmp_path}/asr/1-debug/average/model"
    run_recipe(outer())
    assert (tmp_path / "st" / "1" / "fit" / "starts.txt").read_text() == f"{tmp_path}/asr/1/average/model"
    written = Recipe.load(tmp_path / "st" / "1-debug" / "recipe.yaml")
    assert written.value("output_folder") == f"{tmp_path}/st/1-debug"
    assert is_finished(outer()) and is_finished(outer("--debug")) and is_finished(written)


@pytest.mark.parametrize("file", ["average/1.txt", "*/1.txt"])
def test_a_debug_run_reads_from_another_run_that_is_not_inside_it_where_that_was_debugged(outer, tmp_path, file):
    run, debugged = tmp_path / "asr" / "2", tmp_path / "asr" / "2-debug"

    def read():
        return outer("--debug", "--phases.apart.reads", f"[{run}/{file}]").plan["apart"].build().reads

    (debugged / "average").mkdir(parents=True)
    assert read() == [f"{run}/{file}"], "no run was there"
    (debugged / "recipe.yaml").touch()
    assert read() == [f"{debugged}/{file}"]
    (run / "average").mkdir(parents=True)
    assert read() == [f"{debugged}/{file}"], "the run has not come so far"
    (run / "average" / "1.txt").touch()
    assert read() == [f"{run}/{file}"], "what is there is meant"


def test_a_folder_that_is_handed_on_is_a_debug_folder_once(outer, tmp_path):
    recipe = outer("--debug", "--phases.asr.output_folder", "!ref <output_folder>/inner")
    assert recipe.plan["asr"].inner.value("output_folder") == f"{tmp_path}/st/1-debug/inner-debug"
    recipe.check()


def test_an_inner_recipe_may_be_named_as_it_is_seen_from_the_recipe(outer, tmp_path, monkeypatch):
    for name, inner in {"st": "asr", "asr": "deep"}.items():
        file = tmp_path / f"{name}.yaml"
        file.write_text(file.read_text().replace(f"recipe: {tmp_path}/{inner}.yaml", f"recipe: {inner}.yaml"))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    run_recipe(Recipe.load("../st.yaml"))
    assert worked(tmp_path / "deep" / "1") == ["fit1"]
    assert is_finished(Recipe.load(tmp_path / "st" / "1" / "recipe.yaml"))
    (tmp_path / "elsewhere" / "asr.yaml").write_text("# not the one beside the recipe\n")
    assert is_finished(Recipe.load("../st.yaml"))


def test_a_recipe_that_is_laid_over_names_another_one_beside_it(outer, tmp_path, monkeypatch):
    (tmp_path / "other.yaml").write_text((tmp_path / "asr.yaml").read_text())
    (tmp_path / "mine.yaml").write_text("# Mine\nbase: st.yaml\nphases:\n    asr:\n        recipe: other.yaml\n")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert Recipe.load("../mine.yaml").plan["asr"].inner.source == "../other.yaml"


def test_keys_of_inner_recipes_can_be_given_at_any_depth(outer, tmp_path):
    run_recipe(outer("--phases.asr.updates", "3", "--phases.asr.phases.deep.updates=2", "--updates", "1"))
    assert worked(tmp_path / "deep" / "1") == ["fit1", "fit2"]
    assert worked(tmp_path / "asr" / "1") == ["fit1", "fit2", "fit3", "average1"]
    assert worked(tmp_path / "st" / "1") == ["apart1", "fit1"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--phases.asr.updtes", "3"], r"command line: --phases\.asr\.updtes: no such key in .*asr\.yaml \(did you"),
        (["--phases.asr.updates", "x"], r"phases\.fit\.updates: 'x' is not an int .*written at command line: --phases"),
        (
            ["--phases.asr.phases.deep.updtes", "3"],
            r"--phases\.asr\.phases\.deep\.updtes: no such key in .*deep\.yaml \(did you mean 'updates'",
        ),
        (["--phases.asr.overrides.updates", "3"], r"give a key of the recipe that phases\.asr runs as --phases\.asr"),
        (["--phases.asr.fit.speed", "3"], r"--phases\.asr\.fit\.speed: no such key in .*asr\.yaml"),
        (["--phases.asr.recipe", "almanac/asrr"], r"no recipe 'almanac/asrr'"),
        (["--phases.asr.updates", "-1"], r"updates must not be negative: -1"),
    ],
)
def test_wrong_keys_of_inner_recipes_are_refused_before_anything_runs(outer, tmp_path, words, message):
    refuses(UsageError, message, lambda: run_recipe(outer(*words)))
    assert not (tmp_path / "asr").exists() and not (tmp_path / "st").exists()


def test_a_key_that_is_handed_on_is_refused_where_it_is_written(outer, tmp_path):
    file = tmp_path / "st.yaml"
    file.write_text(file.read_text().replace("            seed: ", "            sead: "))
    line = file.read_text().splitlines().index("            sead: !ref <seed>") + 1
    refuses(UsageError, rf"st\.yaml:{line}: phases\.asr\.overrides\.sead: no such key .*'seed'", outer().check)


def test_recipes_that_run_each_other_are_refused(tmp_path, outer):
    outer()
    text = INNER.replace("deep.yaml", "asr.yaml").replace("deep_updates: 1\n", "")
    (tmp_path / "asr.yaml").write_text(text.format(folder=tmp_path))
    refuses(UsageError, "recipes run each other without end: st -> asr -> asr", outer().check)


def lines(file):
    return [line[20:] for line in file.read_text().splitlines()]


def test_what_an_inner_recipe_will_do_is_said_before_and_its_lines_bear_its_name(outer, tmp_path, capsys):
    log_to_terminal()
    run_recipe(outer("--noprogressbar"))
    log = lines(tmp_path / "st" / "1" / "log.txt")
    said = f"asr: asr in {tmp_path}/asr/1: runs deep, fit (2 updates), average (1 update)"
    assert log.index("asr: starting") < log.index(said) < log.index("asr: deep: starting")
    assert "asr: fit: starting" in log and "asr.deep: fit: starting" in log and "fit: starting" in log
    assert "fit: starting" in lines(tmp_path / "asr" / "1" / "log.txt")
    assert "deep: fit: starting" in lines(tmp_path / "asr" / "1" / "log.txt")
    assert "fit: starting" in lines(tmp_path / "deep" / "1" / "log.txt")
    said = [line[9:] for line in capsys.readouterr().err.replace("\n ", " ").splitlines()]
    assert "asr.deep: fit: starting" in said
    run_recipe(outer("--phases.asr.updates", "3", "--phases.asr.phases.average", "null"), restart=["asr.fit"])
    assert f"asr: asr in {tmp_path}/asr/1: runs fit (3 updates)" in lines(tmp_path / "st" / "1" / "log.txt")


def test_a_refusal_inside_names_the_key_and_the_restart_as_they_have_to_be_given(outer):
    run_recipe(outer())
    message = refusal(UsageError, run_recipe, outer("--phases.asr.phases.deep.rate", "2.0"))
    assert "phase 'deep' of asr (run by phase 'asr')" in message or "phase 'asr' of st" in message
    run_recipe(outer("--phases.asr.phases.deep.rate", "2.0"), restart=["asr.deep.fit"])


def test_restart_reaches_phases_of_inner_recipes(outer, tmp_path):
    run_recipe(outer())
    run_recipe(outer(), restart=["asr.fit"])
    assert worked(tmp_path / "deep" / "1") == ["fit1"]
    assert worked(tmp_path / "asr" / "1") == ["fit1", "fit2", "average1"] * 2
    assert worked(tmp_path / "st" / "1") == ["apart1", "fit1", "fit2", "fit1", "fit2"]
    run_recipe(outer(), restart=["asr.deep.fit"])
    assert worked(tmp_path / "deep" / "1") == ["fit1"] * 2
    assert len(worked(tmp_path / "asr" / "1")) == 6
    run_recipe(outer(), restart=["asr"])
    assert worked(tmp_path / "deep" / "1") == ["fit1"] * 3
    assert len(worked(tmp_path / "asr" / "1")) == 9


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("asr.fot", r"asr\.yaml: no phase 'fot' \(did you mean 'fit'\?\); its phases are deep, fit, average"),
        ("fit.fit", r"st\.yaml: phase 'fit' runs no recipe, so that there is no phase 'fit\.fit'"),
        ("ast.fit", r"st\.yaml: no phase 'ast\.fit'.*; its phases are asr, apart, fit"),
    ],
)
def test_restarts_of_unknown_phases_are_refused(outer, name, message):
    refuses(UsageError, message, run_recipe, outer(), restart=[name])


def test_switched_off_the_run_starts_from_scratch_and_says_so(outer, tmp_path):
    run_recipe(outer("--phases.asr", "null"))
    assert not (tmp_path / "asr").exists()
    assert (tmp_path / "st" / "1" / "fit" / "starts.txt").read_text() == ""
    assert "asr: switched off: trained from scratch: model.encoder" in lines(tmp_path / "st" / "1" / "log.txt")
    assert is_finished(Recipe.load(tmp_path / "st" / "1" / "recipe.yaml"))


def test_a_folder_that_the_user_names_is_still_started_from(outer, tmp_path):
    (tmp_path / "asr" / "1" / "average" / "model").mkdir(parents=True)
    (tmp_path / "elsewhere" / "1" / "average" / "model").mkdir(parents=True)
    for value, folder in (
        (str(tmp_path / "asr" / "1"), tmp_path / "asr" / "1"),
        (str(tmp_path / "elsewhere" / "1"), tmp_path / "elsewhere" / "1"),
        (f"!ref {tmp_path}/elsewhere/<seed>", tmp_path / "elsewhere" / "1"),
        ("!ref <results>/asr/<seed>", tmp_path / "asr" / "1"),  # as it stands in the file
    ):
        run_recipe(outer("--phases.asr", "null", "--asr_folder", value), restart=["fit"])
        assert (tmp_path / "st" / "1" / "fit" / "starts.txt").read_text() == f"{folder}/average/model", value


def test_switched_off_by_a_recipe_that_is_laid_over_what_the_command_line_initialises_stays(outer, tmp_path):
    (tmp_path / "mine.yaml").write_text("# Mine\nbase: st.yaml\nphases:\n    asr: null\n")
    initialise = "{folder: !ref <asr_folder>/average/model, parts: {model.encoder: model.encoder}}"
    words = ["--phases.fit.initialise", f"[!new:shared.training.initialise.Initialise {initialise}]"]
    outer()
    for given, folder in (([], ""), (words, f"{tmp_path}/asr/1/average/model")):
        run_recipe(Recipe.load(tmp_path / "mine.yaml", given), restart=["fit"] if given else [])
        assert (tmp_path / "st" / "1-mine" / "fit" / "starts.txt").read_text() == folder
        (tmp_path / "asr" / "1" / "average" / "model").mkdir(parents=True, exist_ok=True)


def test_what_cannot_be_done_without_it_is_refused_at_once(outer, tmp_path):
    words = ["--phases.asr", "null", "--phases.apart.reads", "[!ref <asr_folder>/tokenizer.model]"]
    assert refusal(UsageError, run_recipe, outer(*words)) == (
        f"command line: --phases.apart.reads.0: {tmp_path}/asr/1/tokenizer.model is not there, and phase 'asr', "
        "which makes it, is switched off"
    )
    (tmp_path / "asr" / "1").mkdir(parents=True)
    (tmp_path / "asr" / "1" / "tokenizer.model").touch()
    run_recipe(outer(*words))


def test_a_recipe_laid_over_another_has_a_folder_of_its_own(outer, tmp_path):
    outer()
    (tmp_path / "mine.yaml").write_text("# Mine\nbase: st.yaml\nupdates: 3\n")
    (tmp_path / "more.yaml").write_text("# More\nbase: mine.yaml\n")
    (tmp_path / "named.yaml").write_text("# Named\nbase: st.yaml\noutput_folder: here\n")
    for name, folder in {"mine": f"{tmp_path}/st/1-mine", "more": f"{tmp_path}/st/1-more", "named": "here"}.items():
        assert Recipe.load(tmp_path / f"{name}.yaml").value("output_folder") == folder
    assert Recipe.load(tmp_path / "mine.yaml", {"output_folder": "x"}).value("output_folder") == "x"
    assert Recipe.load(tmp_path / "mine.yaml", {"debug": True}).value("output_folder") == f"{tmp_path}/st/1-mine-debug"
    run_recipe(outer())
    run_recipe(Recipe.load(tmp_path / "mine.yaml"))
    assert worked(tmp_path / "st" / "1") == ["apart1", "fit1", "fit2"]


GROUPED = """\
# A translator that hands groups of keys on
results: {folder}
output_folder: !ref <results>/st/<seed>
updates: 2
width: 8
same_data:
    results: !ref <results>
    seed: !ref <seed>
    width: !ref <width>
same_training:
    updates: !ref <updates>
    rate: 0.5
phases:
    asr: !new:{inner}
        recipe: {folder}/asr.yaml
        overrides:
            - !ref <same_data>
            - !ref <same_training>
            - rate: 0.25
    fit: !new:tests.shared.running_parts.Count
        updates: !ref <updates>
"""


@pytest.fixture
def grouped(outer, tmp_path):
    text = GROUPED.format(folder=tmp_path, inner=INNER_TAG.partition(":")[2])
    (tmp_path / "grouped.yaml").write_text(text)
    return lambda *words: Recipe.load(tmp_path / "grouped.yaml", words)


def test_of_a_group_only_what_differs_is_handed_on(grouped):
    [arguments] = grouped().plan["asr"].plain.values()
    assert arguments["overrides"] == {"rate": 0.25}  # the rest is what it has anyway, and it knows no width
    recipe = grouped("--updates", "7", "--seed", "3", "--width", "9")
    recipe.check()
    [arguments] = recipe.plan["asr"].plain.values()
    assert arguments["overrides"] == {"rate": 0.25, "updates": 7, "seed": 3}
    assert recipe.plan["asr"].inner.value("output_folder").endswith("/asr/3")


def test_keys_of_the_command_line_win_over_groups(grouped):
    recipe = grouped("--updates", "7", "--phases.asr.updates", "5")
    recipe.check()
    assert (recipe.value("updates"), recipe.plan["asr"].inner.value("updates")) == (7, 5)


def test_one_key_of_a_group_may_make_another_useless(grouped, tmp_path):
    file, inner = tmp_path / "grouped.yaml", tmp_path / "asr.yaml"
    text = file.read_text().replace("updates: 2\n", "updates: 2\nspeed: 0.75\n", 1).replace("- rate: 0.25", "- {}")
    file.write_text(text.replace("    rate: 0.5\n", "    speed: !ref <speed>\n    rate: !ref <speed>\n"))
    inner.write_text(inner.read_text().replace("rate: 0.5\n", "speed: 0.5\nrate: !ref <speed>\n", 1))
    recipe = grouped("--speed", "0.875")
    run_recipe(recipe)  # nothing in the recogniser uses the speed beside the rate
    assert recipe.plan["asr"].inner.value("rate") == 0.875
    assert worked(tmp_path / "asr" / "1") == ["fit1", "fit2", "average1"]


def test_a_mapping_beside_groups_is_checked(grouped, tmp_path):
    file = tmp_path / "grouped.yaml"
    file.write_text(file.read_text().replace("- rate: 0.25", "- rates: 0.25"))
    refuses(UsageError, r"grouped\.yaml:19.*no such key.*did you mean 'rate'", grouped().check)
    file.write_text(file.read_text().replace("- rates: 0.25", "- 5"))
    refuses(UsageError, "neither a mapping of keys to values nor a reference to one", grouped().check)
