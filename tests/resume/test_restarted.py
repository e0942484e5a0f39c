"""torchrun starts a run again whose process was killed, and hands on what asks it to stop; nothing of it is lost."""

import json
import signal

import pytest

from dragoman.shared.training.checkpoints import list_checkpoints
from tests.resume.conftest import differences

pytestmark = pytest.mark.resume

UNTIL = ["--until", "fit"]


@pytest.fixture(scope="module")
def two(runs):
    """The files that a training by two processes leaves if nothing disturbs it."""
    result = runs.start_two("two-trained", options=UNTIL)
    assert result.returncode == 0, result.stderr
    return runs.content("two-trained")


def updates(runs, name):
    return [one.update for one in list_checkpoints(runs.root / name / "run" / "fit" / "checkpoints")]


def test_torchrun_goes_on_after_a_process_was_killed(runs, two):
    result = runs.start_two("restarted", "rank 0", 8, options=UNTIL, torchrun=["--max-restarts=1"])
    assert result.returncode == 0, result.stderr
    assert "process 0 of 2 ended without a message in phase" in result.stderr
    log = (runs.root / "restarted" / "run" / "log.txt").read_text()
    assert log.count("going on after update 5") == 1, "of 7 updates, those since the last checkpoint are done again"
    assert differences(runs.content("restarted"), two) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_torchrun_is_asked_to_stop(runs, two, number):
    name = number.name
    handled = f"--signals-to-handle=SIGINT,{number.name}"
    result = runs.start_two(name, f"{number.name} rank 1", 7, options=UNTIL, torchrun=[handled, "--max-restarts=3"])
    assert result.returncode != 0
    [stopped] = [line for line in result.stderr.splitlines() if "stopped at update" in line and "process 0" in line]
    last = updates(runs, name)[-1]
    assert f"stopped at update {last} of 18" in stopped and 7 <= last < 18
    meta = json.loads((runs.root / name / f"run/fit/checkpoints/{last:08d}/meta.json").read_text())
    assert meta["interim"] == (last not in (5, 10, 15))
    assert runs.start_two(name, options=UNTIL).returncode == 0
    found = {
        key: value for key, value in runs.content(name).items() if f"/{last:08d}/" not in key or not meta["interim"]
    }
    assert differences(found, two) == []
