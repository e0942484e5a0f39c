"""Two processes under torchrun train as one does (the cases themselves stand in two_processes.py)."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dragoman.shared.batches.manifest import Manifest
from dragoman.shared.training.checkpoints import list_checkpoints
from dragoman.shared.training.history import History
from tests.conftest import IMPORT_PATH

pytestmark = pytest.mark.slow


ROOT = Path(__file__).parents[3]


def run(*command):
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": IMPORT_PATH}
    return subprocess.run(
        [sys.executable, *map(str, command)], capture_output=True, text=True, timeout=600, env=environment
    )


def torchrun(*command, processes=2):
    return run("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", processes, *command)


def cases(folder, *names, processes=2):
    return torchrun(Path(__file__).with_name("two_processes.py"), folder, *names, processes=processes)


def test_two_ranks_are_one_large_batch_and_end_equal(tmp_path):
    result = cases(tmp_path, "control", "equality", "tasks", "whole", "stopped")
    assert result.returncode == 0, result.stderr
    rows = History(tmp_path / "run" / "fit").rows()
    assert [row["update"] for row in rows if "validation" in row] == [2, 4, 6]
    assert [row["update"] for row in rows if "loss" in row] == [6]  # once, not once a process
    assert len(list((tmp_path / "run" / "fit" / "tensorboard").iterdir())) == 1
    assert [c.update for c in list_checkpoints(tmp_path / "run" / "fit" / "checkpoints")] == [2, 4, 6]


def test_two_ranks_in_half_precision_skip_the_same_updates(tmp_path):
    result = cases(tmp_path, "half")
    assert result.returncode == 0, result.stderr


def test_two_ranks_share_all_parameters(tmp_path):
    result = cases(tmp_path, "sharded", "unlike", "unequal", "damaged")
    assert result.returncode == 0, result.stderr


def test_each_of_two_ranks_writes_its_part_while_both_train(tmp_path):
    result = cases(tmp_path, "late", "full")
    assert result.returncode == 0, result.stderr


def test_two_machines_of_two_ranks_have_copies_of_what_these_share(tmp_path):
    result = cases(tmp_path, "hybrid", processes=4)
    assert result.returncode == 0, result.stderr


def test_a_run_goes_on_with_parameters_shared_or_not(tmp_path):
    result = cases(tmp_path, "resharded")
    assert result.returncode == 0, result.stderr


def test_two_ranks_share_a_batch(tmp_path):
    result = cases(tmp_path, "passes")
    assert result.returncode == 0, result.stderr


def test_one_process_goes_on_where_two_began_and_the_other_way_round(tmp_path):
    result = cases(tmp_path, "fewer")
    assert result.returncode == 0, result.stderr


def test_two_processes_go_on_where_one_began(tmp_path):
    result = cases(tmp_path, "more")
    assert result.returncode == 0, result.stderr


def test_two_ranks_translate_together_what_one_would(tmp_path):
    result = cases(tmp_path, "shares")
    assert result.returncode == 0, result.stderr


def test_the_command_evaluates_with_both_and_prints_once(tmp_path):
    common = {"source_language": "en", "target_language": "de", "target_text": "zwei eins"}
    rows = [common | {"id": str(number), "source_text": text} for number, text in enumerate(["one two", "six", "two"])]
    data = Manifest.write(tmp_path / "test.arrow", rows).path
    command = ["evaluate", ROOT / "tests" / "golden" / "model", data, "--metrics", "chrf", "--device", "cpu"]
    one, two = run("-m", "dragoman", *command), torchrun("-m", "dragoman", *command)
    assert one.returncode == two.returncode == 0, one.stderr + two.stderr
    assert one.stdout and two.stdout == one.stdout


def test_a_process_that_was_killed_is_named_with_its_phase_and_what_helps(tmp_path):
    result = cases(tmp_path, "killed")
    assert result.returncode != 0
    [line] = [line for line in result.stderr.splitlines() if line.startswith("process 0")]
    assert "process 1 of 2 ended without a message in phase 'fit'" in line and "give the same command again" in line


def test_a_process_that_dies_ends_the_run_with_its_error(tmp_path):
    result = cases(tmp_path, "dies")
    assert result.returncode != 0
    assert "process 1: train.arrow: row 'r7': broken" in result.stderr
    said = [line for line in result.stderr.splitlines() if line.startswith("process 0")]
    assert all("another process of this run has ended" in line for line in said)
    assert "gloo" not in result.stderr.split("ChildFailedError")[0]
