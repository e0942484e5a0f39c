"""Changes between two starts are named, with a remedy; those that need not be refused are let through."""

import json
from pathlib import Path

import pytest

from shared.corpus.manifest import Manifest
from shared.errors import DataError, UsageError
from shared.recipe.recipe import Recipe
from shared.run.running import is_finished, run_recipe
from tests.shared.running_parts import worked

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


# -- keys ------------------------------------------------------------------------------------------------------------


def test_a_refusal_names_keys_values_recipe_folder_and_command(load, tmp_path):
    run_recipe(load())
    with pytest.raises(UsageError) as caught:
        run_recipe(load(rate=0.25, phases__fit__fails_after=7), command="dragoman run two.yaml --rate 0.25")
    assert str(caught.value) == (
        f"{tmp_path}/out: phase 'fit' of two was started with other keys: rate 0.5 (now 0.25), "
        "phases.fit.fails_after nothing (now 7); to keep its work, give the old values or another --output_folder; "
        "or do it again with dragoman run two.yaml --rate 0.25 --restart fit"
    )


def test_many_keys_are_counted_not_listed(load):
    run_recipe(load())
    many = {"updates": 1, "rate": 1.0, "phases__fit__fails_after": 1, "phases__fit__total": 1, "phases__fit__reads": []}
    with pytest.raises(UsageError, match=r"updates 2 \(now 1\), rate .*, .*, .* and 1 more; "):
        run_recipe(load(**many))


def test_records_of_older_versions_are_compared_with_the_recipe_that_was_written_down(load, tmp_path):
    run_recipe(load())
    state = json.loads(record(tmp_path).read_text())
    for key in ("values", "inputs", "manifests"):
        del state[key]
    record(tmp_path).write_text(json.dumps(state))
    run_recipe(load())
    with pytest.raises(UsageError, match=r"started with other keys: rate 0\.5 \(now 0\.25\)"):
        run_recipe(load(rate=0.25))
    (tmp_path / "out" / "recipe.yaml").unlink()
    with pytest.raises(UsageError, match="started with other keys or inputs than it now has"):
        run_recipe(load(rate=0.25))


def test_a_moved_run_is_refused_for_what_has_changed_and_not_for_its_place(load, tmp_path):
    run_recipe(load())
    (tmp_path / "out").rename(tmp_path / "moved")
    moved = {"output_folder": str(tmp_path / "moved")}
    with pytest.raises(UsageError, match=r"'after' of two was started with other keys: phases\.after\.rate nothing"):
        run_recipe(load(phases__after__rate=2.0, **moved))
    run_recipe(load(**moved))
    assert worked(tmp_path / "moved") == ["fit1", "fit2", "after1"]


# -- failures --------------------------------------------------------------------------------------------------------


def test_a_phase_that_failed_before_it_left_anything_starts_again_with_other_keys(load, tmp_path):
    with pytest.raises(DataError, match="broken"):
        run_recipe(load(phases__fit__fails_after=0))
    run_recipe(load(rate=0.25))
    assert worked(tmp_path / "out") == ["fit1", "fit2", "after1"]
    assert is_finished(load(rate=0.25))


def test_a_phase_that_failed_with_work_done_does_not(load, tmp_path):
    with pytest.raises(DataError, match="broken"):
        run_recipe(load(phases__fit__fails_after=1))
    with pytest.raises(UsageError, match=r"phases\.fit\.fails_after 1 \(now nothing\)"):
        run_recipe(load())
    assert worked(tmp_path / "out") == ["fit1"]


# -- more updates ----------------------------------------------------------------------------------------------------


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
    with pytest.raises(DataError, match=r"state/fit\.json: values\.updates is '.*', not a number; do it again with"):
        run_recipe(load(updates=4))


def test_an_interrupted_phase_goes_on_to_more_updates(load, tmp_path):
    fails = {"phases__fit__fails_after": 3}
    with pytest.raises(DataError, match="broken"):
        run_recipe(load(updates=4, **fails))
    with pytest.raises(DataError, match="broken"):
        run_recipe(load(updates=6, **fails))
    with pytest.raises(UsageError, match=r"started with other keys: updates 6 \(now 5\)"):
        run_recipe(load(updates=5, **fails))


def test_more_updates_are_refused_where_something_depends_on_their_number(load, tmp_path):
    total = {"phases__fit__total": "!ref <updates>"}
    run_recipe(load(**total))
    with pytest.raises(UsageError) as caught:
        run_recipe(load(updates=4, **total))
    assert "updates 2 (now 4); it cannot go on to another number of updates, from which total follows" in str(
        caught.value
    )
    with pytest.raises(UsageError, match=r"updates 2 \(now 4\), rate 0\.5 \(now 0\.25\); it cannot"):
        run_recipe(load(updates=4, rate=0.25, **total))
    assert worked(tmp_path / "out") == ["fit1", "fit2", "after1"]


# -- manifests -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("interrupted", [True, False])
def test_another_manifest_under_the_same_name_is_refused(load, tmp_path, interrupted):
    manifest = tmp_path / "m" / "train.arrow"
    first = Manifest.write(manifest, rows("a", "b")).fingerprint
    reads = {"phases__fit__manifests": [str(tmp_path / "m" / "*.arrow")]}
    if interrupted:
        with pytest.raises(DataError, match="broken"):
            run_recipe(load(phases__fit__fails_after=1, **reads))
        reads |= {"phases__fit__fails_after": 1}
    else:
        run_recipe(load(**reads))
        assert is_finished(load(**reads))
    other = Manifest.write(manifest, rows("a", "c")).fingerprint
    assert not is_finished(load(**reads))
    with pytest.raises(DataError) as caught:
        run_recipe(load(**reads), command="dragoman run two.yaml")
    assert str(caught.value) == (
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
    with pytest.raises(DataError, match="broken"):
        run_recipe(load(**reads))
    (kept if change == "added" else other).rename(other if change == "added" else kept)
    with pytest.raises(DataError, match=f"{other}: {said} .*phase 'fit' of two was started; undo that"):
        run_recipe(load(**reads))
    assert worked(tmp_path / "out") == ["fit1"]
