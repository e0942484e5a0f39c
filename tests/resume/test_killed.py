"""Runs that are killed (SIGKILL) and started again end with the same bits as one that nothing has happened to."""

import os
import random
import signal
import subprocess

import pytest

from tests.resume.conftest import differences

pytestmark = pytest.mark.resume

POINTS = {
    "while sound files are looked into": ("journal", 2),
    "in the middle of an epoch": ("update", 8),
    "in the middle of writing a checkpoint": ("checkpoint", 2),
    "in updates during which a checkpoint is written": ("late", 2),
    "in the middle of a shard": ("row", 30),
}


def test_an_uninterrupted_run_is_the_same_each_time(runs, whole):
    """The reference of the other tests is sound, and nothing was left half done."""
    content, _ = whole
    assert runs.start("again").returncode == 0
    assert differences(runs.content("again"), content) == []
    losses = [row["loss"] for row in content["run/fit/history.jsonl"] if "loss" in row]
    assert losses and content["run/student/history.jsonl"] and content["run/results.jsonl"]
    assert "run/generate/manifests/train.arrow" in content and "run/average/model/model.safetensors" in content
    assert not [name for name in content if ".tmp" in name or "journal" in name or "shards" in name]


@pytest.mark.parametrize("point", POINTS)
def test_killed(runs, whole, point):
    where, number = POINTS[point]
    name = where
    killed = runs.start(name, where, number)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert not (runs.root / name / "run" / "student" / "history.jsonl").exists()  # the last phase
    result = runs.start(name)
    assert result.returncode == 0, result.stderr
    assert differences(runs.content(name), whole[0]) == []


def test_killed_twenty_times_on_its_way(runs, whole):
    """It dies after numbers of events that are drawn once and for all: files, updates, rows translated, chunks read."""
    content, events = whole
    points = sorted(random.Random(20).sample(range(5, events), 20))
    lives = []
    for before, point in zip([0, *points], points, strict=False):
        result = runs.start("twenty", "anything", point - before + 12)  # a start alone has about a dozen
        assert result.returncode in (0, -signal.SIGKILL), result.stderr
        lives.append(result.returncode)
    assert lives.count(-signal.SIGKILL) >= 15
    result = runs.start("twenty")
    assert result.returncode == 0, result.stderr
    assert differences(runs.content("twenty"), content) == []


@pytest.fixture(params=["a limit", "a small disk"])
def disk(request, runs):
    """The name of a run's folder: on the disk that all tests use, or on one of 16 MiB."""
    name = request.param.replace(" ", "-")
    if request.param == "a limit":
        yield name
        return
    folder = runs.root / name
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", folder]
    if os.getuid() or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("only root may mount a disk")
    yield name
    subprocess.run(["umount", folder], check=True)


def test_a_full_disk_leaves_the_last_checkpoint_and_says_so_in_one_line(runs, whole, disk):
    result = runs.start(disk, "full", 3)
    assert result.returncode == 1
    said = [line for line in result.stderr.splitlines() if "error" in line.lower()]
    assert len(said) == 1 and said[0].startswith("dragoman: error: "), result.stderr
    place = runs.root / disk / "run" / "fit" / "checkpoints"
    assert "00000015: the checkpoint could not be written" in said[0] and f"{place / '00000010'} is intact" in said[0]
    assert sorted(path.name for path in place.iterdir()) == ["00000005", "00000010"]
    (runs.root / disk / "filler").unlink(missing_ok=True)
    result = runs.start(disk)
    assert result.returncode == 0, result.stderr
    assert differences(runs.content(disk), whole[0]) == []


def test_two_processes_killed_in_training_and_while_generating(runs):
    result = runs.start_two("two-whole")
    assert result.returncode == 0, result.stderr
    for where, number in (("update", 7), ("row", 20)):
        assert runs.start_two("two", where, number).returncode == -signal.SIGKILL
    assert (runs.root / "two" / "run" / "generate" / "shards").is_dir()
    result = runs.start_two("two")
    assert result.returncode == 0, result.stderr
    assert differences(runs.content("two"), runs.content("two-whole")) == []


def test_one_of_two_processes_killed_ends_the_run_in_one_line(runs):
    result = runs.start_two("one-of-two", "rank 1", 3, options=["--until", "fit"])
    assert result.returncode == 1
    said = [line for line in result.stderr.splitlines() if line.startswith("dragoman: error")]
    assert len(said) == 1 and said[0].startswith("dragoman: error (process 0): "), said
    assert "process 1 of 2 ended without a message in phase " in said[0] and "give the same command again" in said[0]
    assert "Traceback" not in result.stderr.partition("torch/distributed/elastic")[0]
    assert "Signal 9 (SIGKILL) received" in result.stderr
