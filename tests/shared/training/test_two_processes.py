"""Two processes under torchrun train as one does (the cases themselves stand in two_processes.py)."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from shared.training.checkpoints import list_checkpoints
from shared.training.history import History

pytestmark = pytest.mark.slow


def torchrun(folder, *cases):
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command += [str(Path(__file__).with_name("two_processes.py")), str(folder), *cases]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=600, env=os.environ | {"OMP_NUM_THREADS": "1"}
    )


def test_two_ranks_are_one_large_batch_and_end_equal(tmp_path):
    result = torchrun(tmp_path, "control", "equality", "whole", "stopped")
    assert result.returncode == 0, result.stderr
    rows = History(tmp_path / "run" / "fit").rows()
    assert [row["update"] for row in rows if "validation" in row] == [2, 4, 6]
    assert [row["update"] for row in rows if "loss" in row] == [6]  # once, not once a process
    assert len(list((tmp_path / "run" / "fit" / "tensorboard").iterdir())) == 1
    assert [c.update for c in list_checkpoints(tmp_path / "run" / "fit" / "checkpoints")] == [2, 4, 6]


def test_two_ranks_translate_together_what_one_would(tmp_path):
    result = torchrun(tmp_path, "shares")
    assert result.returncode == 0, result.stderr


def test_a_process_that_dies_ends_the_run_with_its_error(tmp_path):
    result = torchrun(tmp_path, "dies")
    assert result.returncode != 0
    assert "process 1: train.arrow: row 'r7': broken" in result.stderr
    said = [line for line in result.stderr.splitlines() if line.startswith("process 0")]
    assert all("another process of this run has ended" in line for line in said)
    assert "gloo" not in result.stderr.split("ChildFailedError")[0]
