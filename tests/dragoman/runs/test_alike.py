"""Processes that differ are refused by name."""

import os
import subprocess
import sys

import pytest

from dragoman.runs.alike import differing
from tests.conftest import IMPORT_PATH

PHASE = """
from dragoman.shared.machine.workspace import Phase

class Reads(Phase):
    def __init__(self, *, manifests: list[str], words: str) -> None:
        self.manifests, self.words = manifests, words

    def run(self, workspace):
        print("ran", flush=True)
"""
SCRIPT = """
import os, sys
from pathlib import Path
from dragoman import Manifest
from dragoman.__main__ import main

rank, folder, case = os.environ["RANK"], Path(sys.argv[1]), sys.argv[2]
rows = [{"id": rank, "source_text": "a", "source_language": "en"}]
os.chdir(Manifest.write(folder / rank / "train.arrow", rows if case == "rows" else rows[:0]).path.parent)
options = ["--precision", "bf16"] if case == "precision" and rank == "1" else []
options += ["--words", f"is {rank}"] if case == "words" else []
sys.argv = ["dragoman", "run", str(folder / "recipe.yaml"), "--device", "cpu", "--noprogressbar", "True", *options]
main()
"""
RECIPE = """
output_folder: {folder}/run
words: x
phases:
    read: !new:reading.Reads
        manifests: [train.arrow]
        words: !ref <words>
"""


def test_the_first_difference_is_named():
    same = {"a": "1", "b": "2"}
    assert differing([same]) == differing([same, dict(same)]) == ""
    assert differing([same, same, {"a": "1", "b": "3"}]) == "processes 0 and 2 of 3 differ: b is '2' and '3'"
    assert differing([same, {"a": "1"}]) == "processes 0 and 1 of 2 differ: b is '2' and missing"
    assert differing([same, same | {"c": "x"}]) == "processes 0 and 1 of 2 differ: c is missing and 'x'"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("case", "said"),
    [
        ("same", None),
        ("precision", "processes 0 and 1 of 2 differ: the precision is 'fp32' and 'bf16'"),
        ("words", "of the recipe is 'words: is 0"),
        ("rows", "differ: the manifest train.arrow is "),
    ],
)
def test_a_run_of_two_processes(tmp_path, case, said):
    (tmp_path / "reading.py").write_text(PHASE)
    (tmp_path / "script.py").write_text(SCRIPT)
    (tmp_path / "recipe.yaml").write_text(RECIPE.format(folder=tmp_path))
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": f"{IMPORT_PATH}{os.pathsep}{tmp_path}"}
    told = {"capture_output": True, "text": True, "timeout": 300, "env": environment}
    found = subprocess.run([*command, tmp_path / "script.py", tmp_path, case], **told)
    assert (found.returncode == 0) == (said is None) == (found.stdout.count("ran\n") == 2), found.stderr
    if said:
        assert said in found.stderr, found.stderr
