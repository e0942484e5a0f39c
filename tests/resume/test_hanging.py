"""Of two processes of a run one hangs: it is named, and the run ends and goes on where it was."""

import re
import subprocess
import sys

import pytest

from tests.resume.conftest import ENVIRONMENT

pytestmark = pytest.mark.resume

SCRIPT = """
import os, signal, sys, time
import dragoman.shared.training.fit as fit
from dragoman.__main__ import main

case, advance = sys.argv.pop(1), fit.Fit._advance

def wait(self, running, source, bar, task):
    if os.environ["RANK"] == "1" and running.position.update == 2:
        fit.activity.at("reads", 3)
        if case == "stopped":
            os.kill(os.getpid(), signal.SIGSTOP)
        time.sleep({"slow": 2, "stuck": 300}.get(case, 0))
    advance(self, running, source, bar, task)

fit.Fit._advance = wait
main()
"""


@pytest.mark.parametrize(
    ("case", "said"), [("stopped", "does not answer"), ("stuck", "still reads"), ("slow", None), ("well", None)]
)
def test_a_process_that_hangs(runs, case, said):
    folder = runs.root / f"hangs-{case}"
    arguments = runs.arguments(folder, "everything.yaml", ["--until", "fit"])
    (folder / "script.py").write_text(SCRIPT)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    told = {"capture_output": True, "text": True, "timeout": 300, "cwd": folder}
    told["env"] = ENVIRONMENT | {"DRAGOMAN_HANG_SECONDS": "6"}
    result = subprocess.run([*command, folder / "script.py", case, *arguments], **told)
    assert (result.returncode == 0) == (said is None), result.stderr
    named = re.findall(r"process 1 of 2 \(\S+, pid \d+\) (.*) at update [0-3], for 6 seconds", result.stderr)
    assert named == ([said] if said else [])
    if said:
        again = subprocess.run([*command, folder / "script.py", "well", *arguments], **told)
        assert again.returncode == 0, again.stderr
