"""Running recipes: finished phases are skipped, changed ones refused, and what reads from a restarted one redone."""

import json
import logging
import os
import shutil
import signal
import time
from pathlib import Path

import pytest
import torch

import dragoman.runs.restarting
from benchmarks.fake_cuda import believed
from dragoman import DataError, Recipe, UsageError
from dragoman.runs.nested import RunRecipe
from dragoman.runs.running import is_finished, run_recipe
from dragoman.shared.machine.stopping import Interrupted
from dragoman.shared.machine.workspace import Phase, PhaseRecord, Workspace
from dragoman.shared.recipe.run_keys import keys_of_a_result
from tests.small import refuses


class Append(Phase):
    """Writes the sum of its number and of the files it reads."""

    def __init__(self, *, number: int, reads: list[str] | None = None, fail: bool = False) -> None:
        if number < 0:
            raise UsageError(f"number must not be negative: {number}")
        self.number, self.reads, self.fail = number, reads or [], fail

    def run(self, workspace):
        if self.fail:
            raise DataError("broken: line 3: 'x'")
        workspace.folder.mkdir(parents=True, exist_ok=True)
        total = self.number + sum(int(Path(file).read_text()) for file in self.reads)
        (workspace.folder / "sum.txt").write_text(str(total))
        with open(workspace.output / "log_of_phases.txt", "a") as file:
            file.write(workspace.phase + "\n")


RECIPE = """\
# A chain of sums
output_folder: {folder}
one: 1
two: 2
phases:
    first: !new:{module}.Append
        number: !ref <one>
    second: !new:{module}.Append
        number: !ref <two>
        reads: [!ref <output_folder>/first/sum.txt]
    apart: !new:{module}.Append
        number: 100
"""


@pytest.fixture
def recipe(tmp_path):
    file = tmp_path / "chain.yaml"
    file.write_text(RECIPE.format(folder=tmp_path / "out", module=__name__))

    def load(**overrides):
        return Recipe.load(file, overrides)

    return load


def done(tmp_path, folder="out"):
    return (tmp_path / folder / "log_of_phases.txt").read_text().split()


def test_results_name_the_run_whose_model_is_read_but_no_places_of_a_machine(tmp_path):
    file = tmp_path / "places.yaml"
    file.write_text("# Places\nresults_folder: results\ndata_folder: data\nmodel_folder: !ref <results_folder>/a\n"
                    "output_folder: !ref <results_folder>/b\nwidth: 8\n"
                    f"phases:\n    first: !new:{__name__}.Append\n        number: !ref <width>\n"
                    "        reads: [!ref <model_folder>, !ref <data_folder>]\n")  # fmt: skip
    here = {"results_folder": "/disk/results", "data_folder": "/disk/data", "output_folder": "!ref <results_folder>/c"}
    assert keys_of_a_result(Recipe.load(file, here | {"model_folder": "/disk/model"}).changed) == {}
    keys = keys_of_a_result(Recipe.load(file, here | {"model_folder": "!ref <results_folder>/d", "width": 9}).changed)
    assert keys == {"model_folder": {"!ref": "<results_folder>/d"}, "width": 9}
    assert keys_of_a_result(Recipe.load(file, here | {"width": 8}).changed) == {}  # as in the file


def test_phases_run_in_order_and_only_once(recipe, tmp_path):
    run_recipe(recipe())
    run_recipe(recipe())
    assert done(tmp_path) == ["first", "second", "apart"]
    assert (tmp_path / "out" / "second" / "sum.txt").read_text() == "3"


def test_a_run_started_from_python_has_a_log_and_leaves_the_level_alone(recipe, tmp_path, monkeypatch):
    """Loggers hear warnings alone by default; the command line sets a level, Python code does not."""
    log = logging.getLogger("dragoman")
    monkeypatch.setattr(log, "level", log.level)  # put back afterwards
    log.setLevel(logging.NOTSET)
    run_recipe(recipe())
    assert "first: starting" in (tmp_path / "out" / "log.txt").read_text()
    assert log.level == logging.NOTSET
    log.setLevel(logging.DEBUG)
    run_recipe(recipe(), restart=["first"])
    assert log.level == logging.DEBUG


def test_a_wrong_value_of_a_later_phase_is_found_before_the_first(recipe, tmp_path):
    refuses(UsageError, "number must not be negative: -1", run_recipe, recipe(two=-1))
    assert not (tmp_path / "out").exists()


def test_a_changed_phase_is_refused_and_so_is_what_reads_from_it(recipe, tmp_path):
    run_recipe(recipe())
    said = r"'first' of chain was started with .* one 1 \(now 5\).*--restart first"
    refuses(UsageError, said, run_recipe, recipe(one=5))
    run_recipe(recipe(one=5), restart=["first"])
    assert done(tmp_path) == ["first", "second", "apart", "first", "second"]
    assert (tmp_path / "out" / "second" / "sum.txt").read_text() == "7"


def test_a_failed_phase_is_done_again_and_its_error_is_the_runs(recipe, tmp_path):
    refuses(DataError, "line 3", run_recipe, Recipe.load(tmp_path / "chain.yaml", {"phases.second.fail": True}))
    assert json.loads((tmp_path / "out" / "state" / "second.json").read_text())["status"] == "running"
    assert done(tmp_path) == ["first"]


RECORD = '{"status": "running", "fingerprint": "x", "outputs": []'


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"status": "finished"}', "'fingerprint' is missing"),
        ("[]", r"\[\] is not an object"),
        ('[["status", "finished"]]', "is not an object"),
        ("{}", "'status' is missing"),
        ('{"status": "done"}', "'status' is 'done', not one of running, finished, discarded"),
        ('{"status": "running", "fingerprint": 5, "outputs": []}', "'fingerprint' is 5, not text"),
        ('{"status": "running", "fingerprint": "x", "outputs": "out"}', "'outputs' is \"out\", not a list"),
        (RECORD + ', "seconds": "9"}', "'seconds' is \"9\", not a number"),
        (RECORD + ', "runs": 7}', "'runs' is 7, not a list"),
        (RECORD + ', "inputs": {"first": 1}}', "'inputs' is"),
        (RECORD + ', "values": []}', "'values' is"),
        (RECORD + ', "manifests": {"a": null}}', "'manifests' is"),
        ("[" * 100_000, "is not JSON"),
        ("\xff", "can't decode"),
    ],
)
def test_an_odd_phase_record_is_named_and_what_helps_does(recipe, tmp_path, content, message):
    run_recipe(recipe())
    file = tmp_path / "out" / "state" / "second.json"
    file.write_text(content, encoding="latin-1")
    advice = f"; delete it and {tmp_path / 'out' / 'second'} to do the phase again"
    for attempt in (run_recipe, is_finished):
        with pytest.raises(DataError, match=rf"state/second\.json: not a phase record \(.*{message}") as refusal:
            attempt(recipe())
        assert str(refusal.value).endswith(advice)
    file.unlink()
    shutil.rmtree(tmp_path / "out" / "second")
    run_recipe(recipe())
    assert done(tmp_path) == ["first", "second", "apart", "second"]


def test_until_and_unknown_phases(recipe, tmp_path):
    run_recipe(recipe(), until="first")
    assert done(tmp_path) == ["first"]
    refuses(UsageError, "no phase 'third'", run_recipe, recipe(), restart=["third"])


def test_a_restart_that_is_killed_leaves_nothing_that_seems_finished(recipe, tmp_path, monkeypatch):
    run_recipe(recipe())
    for calls in range(6):
        with monkeypatch.context() as patch:
            left = iter(range(calls))
            ends = (dragoman.runs.restarting, "discard_folder")
            for place, name in ((PhaseRecord, "write"), (PhaseRecord, "remove"), ends):
                function = getattr(place, name)

                def killed(*arguments, real=function, left=left, **keywords):
                    if next(left, None) is None:
                        raise ZeroDivisionError
                    return real(*arguments, **keywords)

                patch.setattr(place, name, killed)
            with pytest.raises(ZeroDivisionError):
                run_recipe(recipe(), restart=["first"])
        (tmp_path / "out" / "log_of_phases.txt").unlink()
        run_recipe(recipe(output_folder=str(tmp_path / "out"), two=2))
        # Killed before the first record was touched, nothing has been restarted; "second" may be all that was.
        again = done(tmp_path) if (tmp_path / "out" / "log_of_phases.txt").exists() else []
        assert again == [[], ["second"], *[["first", "second"]] * 4][calls]
        (tmp_path / "out" / "log_of_phases.txt").touch()


def test_what_reads_from_a_restarted_phase_is_redone_even_later(recipe, tmp_path):
    run_recipe(recipe())
    run_recipe(recipe(), restart=["first"], until="first")
    assert not (tmp_path / "out" / "second").exists()
    run_recipe(recipe())
    assert done(tmp_path) == ["first", "second", "apart", "first", "second"]


def test_another_seed_is_another_run(recipe, tmp_path):
    file = tmp_path / "seeded.yaml"
    recipe()
    file.write_text("# As before\nseed: 1\n" + (tmp_path / "chain.yaml").read_text().partition("\n")[2])
    run_recipe(Recipe.load(file))
    refuses(UsageError, r"seed 1 \(now 2\)", run_recipe, Recipe.load(file, {"seed": 2}))


def test_a_debug_run_of_older_versions_is_refused_where_it_stands(recipe, tmp_path):
    run_recipe(recipe())
    record = PhaseRecord(tmp_path / "out", "first")
    record.write(**record.read() | {"debug": True})
    refuses(UsageError, r"debug True \(now False\).*--restart first", run_recipe, recipe())


def test_a_refused_run_leaves_the_recipe_of_the_one_that_was(recipe, tmp_path):
    run_recipe(recipe())
    text = (tmp_path / "out" / "recipe.yaml").read_text()
    refuses(UsageError, r"'second' of chain was started with other keys: two 2 \(now 7\)", run_recipe, recipe(two=7))
    assert (tmp_path / "out" / "recipe.yaml").read_text() == text


def test_ctrl_c_in_any_phase_is_one_line_and_keeps_the_time(recipe, tmp_path, monkeypatch):
    def interrupted(phase, workspace):
        time.sleep(0.1)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Append, "run", interrupted)
        refuses(Interrupted, "stopped in phase 'first'; the same command goes on", run_recipe, recipe())
    assert json.loads((tmp_path / "out" / "state" / "first.json").read_text())["seconds"] >= 0.1
    run_recipe(recipe())
    assert done(tmp_path) == ["first", "second", "apart"]


@pytest.mark.parametrize("asked", [False, True])
def test_deterministic_holds_while_the_run_does(recipe, monkeypatch, asked):
    seen = []
    monkeypatch.setattr(Append, "run", lambda *_: seen.append(torch.are_deterministic_algorithms_enabled()))
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    run_recipe(recipe(deterministic=asked))
    assert seen == [asked] * 3 and not torch.are_deterministic_algorithms_enabled()
    assert ("CUBLAS_WORKSPACE_CONFIG" in os.environ) == asked


@pytest.mark.parametrize(
    ("tf32", "device", "inside"),
    [(True, "cuda:0", "high"), (False, "cuda:0", "highest"), (True, "cpu", "highest")],
)
def test_tf32_is_for_products_on_a_gpu_while_the_run_is(recipe, monkeypatch, tf32, device, inside):
    """As torch names it, "high" is TF32."""
    seen, before = [], torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")  # an imported library may have changed it
    monkeypatch.setattr(Append, "run", lambda *_: seen.append(torch.get_float32_matmul_precision()))
    with believed():
        run_recipe(recipe(tf32=tf32, device=device, precision="fp32", compile=False))
    assert seen == [inside] * 3 and torch.get_float32_matmul_precision() == "highest"
    torch.set_float32_matmul_precision(before)


def test_what_killed_runs_left_half_written_is_swept(recipe, tmp_path):
    run_recipe(recipe())
    (tmp_path / "out" / "fit" / ".00000012.77.tmp").mkdir(parents=True)
    run_recipe(recipe())
    assert not list((tmp_path / "out" / "fit").iterdir())


def test_two_runs_cannot_share_a_folder(recipe, tmp_path):
    with Workspace(output=tmp_path / "out", device="cpu").locked():
        refuses(UsageError, "another run is at work", run_recipe, recipe())


def test_a_worker_that_outlives_its_run_keeps_nobody_out(tmp_path):
    place = Workspace(output=tmp_path / "out", device="cpu")
    read, write = os.pipe()
    with place.locked():
        worker = os.fork()
        if worker == 0:
            os.write(write, b"here")
            time.sleep(600)
        os.read(read, 4)
    try:
        with place.locked():
            assert os.waitpid(worker, os.WNOHANG) == (0, 0)  # it lives
    finally:
        os.kill(worker, signal.SIGKILL)
        os.waitpid(worker, 0)


def test_a_folder_that_cannot_be_made_is_named(recipe, tmp_path):
    (tmp_path / "file").write_text("")
    refuses(UsageError, "file/inside: cannot be written", run_recipe, recipe(output_folder=f"{tmp_path}/file/inside"))


def test_a_recipe_can_be_a_phase_of_another(recipe, tmp_path):
    recipe()
    for _ in range(2):
        run_recipe(outer_recipe(tmp_path, **{"phases.inner.two": 20}))
    assert (tmp_path / "outer" / "after" / "sum.txt").read_text() == "1021"
    assert done(tmp_path) == ["first", "second", "apart"]
    assert RunRecipe(recipe=str(tmp_path / "chain.yaml")).outputs() == [tmp_path / "out"]


def test_the_log_names_the_machine_once_for_a_recipe_inside_another(recipe, tmp_path, caplog):
    caplog.set_level(logging.INFO, "dragoman")
    recipe()
    run_recipe(outer_recipe(tmp_path))
    lines = (tmp_path / "outer" / "log.txt").read_text().splitlines()
    assert [number for number, line in enumerate(lines) if ", precision fp32; dragoman" in line] == [0]
    assert any("inner: first: starting" in line for line in lines)


def test_a_recipe_inside_another_waits_for_a_run_in_its_folder(recipe, tmp_path):
    recipe()
    other, said = Workspace(output=tmp_path / "out", device="cpu").locked(), []

    class Listener(logging.Handler):
        def emit(self, record):
            said.append(record.getMessage())
            if said[-1].startswith("waiting"):
                other.__exit__(None, None, None)

    other.__enter__()
    logging.getLogger("dragoman").addHandler(listener := Listener())
    try:
        run_recipe(outer_recipe(tmp_path))
    finally:
        logging.getLogger("dragoman").removeHandler(listener)
    assert f"waiting for another run that is at work in {tmp_path / 'out'}" in said
    assert done(tmp_path) == ["first", "second", "apart"]


def outer_recipe(tmp_path, **changes):
    """A recipe that runs the chain, reads its result, and has a phase that does not."""
    outer = tmp_path / "outer.yaml"
    outer.write_text(
        "# Two recipes\n"
        f"output_folder: {tmp_path / 'outer'}\n"
        "phases:\n"
        "    inner: !new:dragoman.runs.RunRecipe\n"
        f"        recipe: {tmp_path / 'chain.yaml'}\n"
        f"    after: !new:{__name__}.Append\n"
        "        number: 1000\n"
        f"        reads: [{tmp_path / 'out'}/second/sum.txt]\n"
        f"    apart: !new:{__name__}.Append\n"
        "        number: 1\n"
    )
    return Recipe.load(outer, changes)


def test_what_reads_from_a_recipe_notices_that_it_was_redone_on_its_own(recipe, tmp_path):
    recipe()
    assert not is_finished(outer_recipe(tmp_path))
    run_recipe(outer_recipe(tmp_path))
    assert is_finished(outer_recipe(tmp_path))
    run_recipe(outer_recipe(tmp_path))
    run_recipe(recipe(), restart=["second"])
    assert not is_finished(outer_recipe(tmp_path))
    said = r"'after' of outer reads from 'inner', which has another.*--restart after"
    refuses(UsageError, said, run_recipe, outer_recipe(tmp_path))
    run_recipe(outer_recipe(tmp_path), restart=["after"])
    run_recipe(outer_recipe(tmp_path))
    assert done(tmp_path, "outer") == ["after", "apart", "after"]


def test_a_recipe_redone_with_other_keys_is_not_taken_for_the_one_that_was(recipe, tmp_path):
    recipe()
    run_recipe(outer_recipe(tmp_path))
    run_recipe(recipe(two=7), restart=["second"])
    said = r"'second' of chain \(run by phase 'inner'\) was .* phases\.inner\.two 7"
    refuses(UsageError, said, run_recipe, outer_recipe(tmp_path))


def test_time_is_kept_where_work_is_safe(recipe, tmp_path, monkeypatch):
    """A kill loses what came after the last call of keep_time, in the run and in the one that it is part of."""
    recipe()
    noted = []

    def work(phase, workspace):
        time.sleep(0.05)
        workspace.keep_time()
        for place in ("out/state/first.json", "outer/state/inner.json"):
            noted.append(json.loads((tmp_path / place).read_text()))
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Append, "run", work)
        with pytest.raises(Interrupted):
            run_recipe(outer_recipe(tmp_path))
    assert [state["status"] for state in noted] == ["running", "running"]
    assert all(state["seconds"] >= 0.05 for state in noted)


def test_an_error_on_a_full_disk_is_the_one_that_is_said(recipe, tmp_path, monkeypatch):
    def full(*_arguments, **_keywords):
        raise OSError(28, "No space left on device")

    def work(phase, workspace):
        monkeypatch.setattr(PhaseRecord, "write", full)
        raise DataError("checkpoints/00000002: the checkpoint could not be written")

    monkeypatch.setattr(Append, "run", work)
    refuses(DataError, "the checkpoint could not be written", run_recipe, recipe())
