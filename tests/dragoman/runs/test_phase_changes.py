"""Changes between two starts are named, with a remedy; those that need not be refused are let through."""

import json
from pathlib import Path

import pytest

from dragoman import DataError, Manifest, Recipe, UsageError
from dragoman.runs import phase_changes
from dragoman.runs.running import is_finished, run_recipe
from tests.shared.running_parts import worked
from tests.small import refusal, refuses

RECIPE = """\
# Two phases
output_folder: {folder}/out
updates: 2
rate: 0.5
speed: 1
phases:
    fit: !new:tests.shared.running_parts.Count
        updates: !ref <updates>
        rate: !ref <rate>
    after: !new:tests.shared.running_parts.Count
        updates: !ref <speed>
        reads: [!ref <output_folder>/fit/1.txt]
"""


@pytest.fixture
def load(tmp_path):
    file = tmp_path / "two.yaml"
    file.write_text(RECIPE.format(folder=tmp_path))
    return lambda **overrides: Recipe.load(file, {key.replace("__", "."): value for key, value in overrides.items()})


def rows(*texts):
    return [{"id": str(i), "source_text": text} for i, text in enumerate(texts)]


def record(tmp_path, name="fit"):
    return tmp_path / "out" / "state" / f"{name}.json"


def test_a_refusal_names_keys_values_recipe_folder_and_command(load, tmp_path):
    run_recipe(load())
    changed = load(rate=0.25, phases__fit__fails_after=7)
    assert refusal(UsageError, run_recipe, changed, command="dragoman run two.yaml --rate 0.25") == (
        f"{tmp_path}/out: phase 'fit' of two was started with other keys: rate 0.5 (now 0.25), "
        "phases.fit.fails_after nothing (now 7); to keep its work, give the old values, or run it in a folder of its "
        "own with dragoman run two.yaml --rate 0.25 --run 2; or do it again with dragoman run two.yaml --rate 0.25 "
        "--restart fit"
    )


def test_the_run_that_is_proposed_is_one_beside_it(load, tmp_path):
    run_recipe(load())
    run_recipe(load(rate=0.25, run="2"), command="dragoman run two.yaml --rate 0.25 --run 2")
    assert (tmp_path / "out-2" / "fit").is_dir()
    command = "dragoman run two.yaml --rate 1 --run 2"
    refuses(UsageError, f"own with {command} --run 2-2; or", run_recipe, load(rate=1.0, run="2"), command=command)
    refuses(UsageError, r"own with --run 3; or do it again with --restart fit", run_recipe, load(rate=0.25))
    run_recipe(load())


def test_many_keys_are_counted_not_listed(load):
    run_recipe(load())
    many = {"updates": 1, "rate": 1.0, "phases__fit__fails_after": 1, "phases__fit__total": 1, "phases__fit__reads": []}
    refuses(UsageError, r"updates 2 \(now 1\), rate .*, .*, .* and 1 more; ", run_recipe, load(**many))


def test_records_of_older_versions_are_compared_with_the_recipe_that_was_written_down(load, tmp_path):
    run_recipe(load())
    state = json.loads(record(tmp_path).read_text())
    for key in ("values", "inputs", "manifests"):
        del state[key]
    record(tmp_path).write_text(json.dumps(state))
    run_recipe(load())
    refuses(UsageError, r"started with other keys: rate 0\.5 \(now 0\.25\)", run_recipe, load(rate=0.25))
    (tmp_path / "out" / "recipe.yaml").unlink()
    refuses(UsageError, "started with other keys or inputs than it now has", run_recipe, load(rate=0.25))


def test_a_moved_run_is_refused_for_what_has_changed_and_not_for_its_place(load, tmp_path):
    run_recipe(load())
    (tmp_path / "out").rename(tmp_path / "moved")
    moved = {"output_folder": str(tmp_path / "moved")}
    said = r"'after' of two was started with other keys: phases\.after\.rate nothing"
    refuses(UsageError, said, run_recipe, load(phases__after__rate=2.0, **moved))
    run_recipe(load(**moved))
    assert worked(tmp_path / "moved") == ["fit1", "fit2", "after1"]


def test_a_phase_that_failed_before_it_left_anything_starts_again_with_other_keys(load, tmp_path):
    refuses(DataError, "broken", run_recipe, load(phases__fit__fails_after=0))
    run_recipe(load(rate=0.25))
    assert worked(tmp_path / "out") == ["fit1", "fit2", "after1"]
    assert is_finished(load(rate=0.25))


def test_a_phase_that_failed_with_work_done_does_not(load, tmp_path):
    refuses(DataError, "broken", lambda: run_recipe(load(phases__fit__fails_after=1)))
    refuses(UsageError, r"phases\.fit\.fails_after 1 \(now nothing\)", lambda: run_recipe(load()))
    assert worked(tmp_path / "out") == ["fit1"]


def test_more_updates_go_on_and_what_reads_from_them_is_done_again(load, tmp_path):
    run_recipe(load())
    assert not is_finished(load(updates=4))
    run_recipe(load(updates=4))
    assert worked(tmp_path / "out") == ["fit1", "fit2", "after1", "fit3", "fit4", "after1"]
    run_recipe(load(updates=4))
    assert is_finished(load(updates=4))


@pytest.mark.parametrize("text", ["[", "two", "-1", "", "9" * 30])
def test_a_damaged_number_of_updates_in_a_record_is_named(load, tmp_path, text):
    run_recipe(load(updates=2))
    state = json.loads(record(tmp_path).read_text())
    state["values"]["updates"] = text
    record(tmp_path).write_text(json.dumps(state))
    said = r"state/fit\.json: values\.updates is '.*', not a number; do it again with"
    refuses(DataError, said, run_recipe, load(updates=4))


def test_an_interrupted_phase_goes_on_to_more_updates(load, tmp_path):
    fails = {"phases__fit__fails_after": 3}
    refuses(DataError, "broken", lambda: run_recipe(load(updates=4, **fails)))
    refuses(DataError, "broken", lambda: run_recipe(load(updates=6, **fails)))
    refuses(UsageError, r"started with other keys: updates 6 \(now 5\)", lambda: run_recipe(load(updates=5, **fails)))


def test_more_updates_are_refused_where_something_depends_on_their_number(load, tmp_path):
    total = {"phases__fit__total": "!ref <updates>"}
    run_recipe(load(**total))
    said = r"updates 2 \(now 4\); it cannot go on to another number of updates, from which total follows"
    refuses(UsageError, said, run_recipe, load(updates=4, **total))
    said = r"updates 2 \(now 4\), rate 0\.5 \(now 0\.25\); it cannot"
    refuses(UsageError, said, run_recipe, load(updates=4, rate=0.25, **total))
    assert worked(tmp_path / "out") == ["fit1", "fit2", "after1"]


@pytest.mark.parametrize("interrupted", [True, False])
def test_another_manifest_under_the_same_name_is_refused(load, tmp_path, interrupted):
    manifest = tmp_path / "m" / "train.arrow"
    first = Manifest.write(manifest, rows("a", "b")).fingerprint
    reads = {"phases__fit__manifests": [str(tmp_path / "m" / "*.arrow")]}
    if interrupted:
        refuses(DataError, "broken", run_recipe, load(phases__fit__fails_after=1, **reads))
        reads |= {"phases__fit__fails_after": 1}
    else:
        run_recipe(load(**reads))
        assert is_finished(load(**reads))
    other = Manifest.write(manifest, rows("a", "c")).fingerprint
    assert not is_finished(load(**reads))
    assert refusal(DataError, run_recipe, load(**reads), command="dragoman run two.yaml") == (
        f"{manifest}: is another manifest ({other}) than the one ({first}) that {tmp_path}/out: phase 'fit' of two "
        "was started with; put that one back, or do it again with dragoman run two.yaml --restart fit"
    )
    Manifest.write(manifest, rows("a", "b"))
    if not interrupted:
        run_recipe(load(**reads))
    assert len(worked(tmp_path / "out")) == (1 if interrupted else 3)


def test_a_manifest_that_was_deleted_after_the_phase_is_not_missed(load, tmp_path):
    manifest = Manifest.write(tmp_path / "m.arrow", rows("a")).path
    run_recipe(load(phases__fit__manifests=[str(manifest)]))
    Path(manifest).unlink()
    run_recipe(load(phases__fit__manifests=[str(manifest)]))
    assert worked(tmp_path / "out") == ["fit1", "fit2", "after1"]


@pytest.mark.parametrize(("change", "said"), [("added", "was added since"), ("missing", "is missing, with which")])
def test_a_pattern_that_matches_other_manifests_is_refused(load, tmp_path, change, said):
    Manifest.write(tmp_path / "m" / "a.arrow", rows("a"))
    other = Manifest.write(tmp_path / "m" / "b.arrow", rows("b")).path
    kept = tmp_path / "b.arrow"
    if change == "added":
        other.rename(kept)
    reads = {"phases__fit__manifests": [str(tmp_path / "m" / "*.arrow")], "phases__fit__fails_after": 1}
    refuses(DataError, "broken", run_recipe, load(**reads))
    (kept if change == "added" else other).rename(other if change == "added" else kept)
    refuses(DataError, f"{other}: {said} .*phase 'fit' of two was started; undo that", run_recipe, load(**reads))
    assert worked(tmp_path / "out") == ["fit1"]


CHOICE = """\
# A training whose checkpoints one phase chooses from, and another measures what comes of it
output_folder: {folder}/out
average: best 5
phases:
    fit: !new:tests.shared.running_parts.Keeps
        updates: 2
        checkpoints: !new:tests.shared.recipe_parts.Slab
            size: 1
            name: !ref <average>
    average: !new:tests.shared.running_parts.Chooses
        updates: 1
        kind: !ref <average>
        reads: [!ref <output_folder>/fit/1.txt]
    evaluate: !new:tests.shared.running_parts.{last}
        updates: 1
        reads: [!ref <output_folder>/average/1.txt]
"""


@pytest.fixture
def chosen(tmp_path):
    def load(last="Measures", **overrides):
        file = tmp_path / "choice.yaml"
        file.write_text(CHOICE.format(folder=tmp_path, last=last))
        return Recipe.load(file, {key.replace("__", "."): value for key, value in overrides.items()})

    return load


def test_another_choice_of_checkpoints_changes_what_chooses_and_what_measures(chosen, tmp_path):
    run_recipe(chosen())
    assert not is_finished(chosen(average="last 1"))
    run_recipe(chosen(average="last 1"))
    assert worked(tmp_path / "out") == ["fit1", "fit2", "average1", "evaluate1", "average1", "evaluate1"]
    assert is_finished(chosen(average="last 1"))
    run_recipe(chosen(average="last 1"))
    assert len(worked(tmp_path / "out")) == 6


def test_a_training_goes_on_with_another_choice(chosen, tmp_path):
    fails = {"phases__fit__fails_after": 1}
    refuses(DataError, "broken", lambda: run_recipe(chosen(**fails)))
    refuses(DataError, "broken", lambda: run_recipe(chosen(average="last 1", **fails)))
    assert json.loads(record(tmp_path).read_text())["values"]["checkpoints.name"] == '"last 1"'
    refuses(UsageError, r"started with other keys: phases\.fit\.fails_after 1 \(now nothing\); ", run_recipe, chosen())
    assert worked(tmp_path / "out") == ["fit1"]


TWO = {"passes": 2}


@pytest.mark.parametrize(("before", "after"), [(TWO, {}), ({}, TWO), ({"passes": None}, TWO)])
def test_nothing_may_not_become_what_else_has_no_effect(chosen, tmp_path, before, after):
    """Passes, for one: with none of them other batches are planned, but the same ones with auto and with any number."""

    def load(given):
        return chosen(**{f"phases__fit__{key}": one for key, one in (given | {"fails_after": 1}).items()})

    refuses(DataError, "broken", run_recipe, load(before))
    shown = [str(given.get("passes", "nothing")).replace("None", "null") for given in (before, after)]
    said = rf"other keys: phases\.fit\.passes {shown[0]} \(now {shown[1]}\); "
    refuses(UsageError, said, run_recipe, load(after))
    assert worked(tmp_path / "out") == ["fit1"]
    if "passes" in after:
        again = chosen(phases__fit__passes="auto")
        run_recipe(chosen(phases__fit__passes=3), restart=["fit"])
        run_recipe(again)
        assert worked(tmp_path / "out").count("fit2") == 1


def test_more_updates_and_another_choice(chosen, tmp_path):
    run_recipe(chosen())
    run_recipe(chosen(average="last 1", phases__fit__updates=3))
    assert worked(tmp_path / "out")[4:] == ["fit3", "average1", "evaluate1"]


def test_another_choice_throws_no_training_away(chosen, tmp_path):
    run_recipe(chosen("Count"))
    before = worked(tmp_path / "out")
    said = r"'average' of choice was started with other keys: average \"best 5\" \(now"
    refuses(UsageError, said, run_recipe, chosen("Count", average="last 1"))
    assert worked(tmp_path / "out") == before
    faster = chosen("Count", phases__average__rate=2.0)
    refuses(UsageError, r"phases\.average\.rate nothing \(now 2\.0\)", run_recipe, faster)


def test_a_folder_of_any_letters_is_no_difference(tmp_path):
    file = tmp_path / "two.yaml"
    file.write_text(RECIPE.format(folder=tmp_path))
    for folder in ("/a/é", "/b"):
        values = phase_changes._values(Recipe.load(file, {"output_folder": folder}).plan["after"])
        assert values["reads.0"][0] == '"<output>/fit/1.txt"'
