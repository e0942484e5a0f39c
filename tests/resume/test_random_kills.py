"""Runs of several processes that are killed again and again, and go on with other numbers of them.

``KILLS=50 pytest tests/resume/test_random_kills.py`` kills more often than `make test-all` has time for.
"""

import json
import os
import random

import pytest

from dragoman.shared.batches.manifest import Manifest

pytestmark = pytest.mark.resume

KILLS = int(os.environ.get("KILLS", "2"))
#: Two, with which the run is begun, and more or fewer.
PROCESSES = (2, 4, 3, 1)
#: Without dropout, losses of validation tell the rows of the updates before, whoever computed them. A start that is
#: killed gets some three updates further.
OPTIONS = ["--dropout", "0", "--until", "average", "--updates", str(max(18, 6 * KILLS))]


def losses(folder):
    """Return the losses of validation of a run, by update."""
    rows = map(json.loads, (folder / "run" / "fit" / "history.jsonl").read_text().splitlines())
    return [(row["update"], row["validation"]["loss"]) for row in rows if "validation" in row]


@pytest.mark.parametrize("sharding", [None, "fsdp"])
def test_a_run_goes_on_whatever_is_killed_and_however_many_are_left(runs, sharding):
    options = [*OPTIONS, *(["--sharding", sharding] if sharding else [])]
    whole, name = f"two-{sharding}", f"kills-{sharding}"
    result = runs.start_two(whole, options=options, processes=2)
    assert result.returncode == 0, result.stderr
    drawn = random.Random(f"{sharding} {KILLS}")
    for _ in range(KILLS):
        # Until its first checkpoint, a run is planned for whoever begins it.
        is_begun = any((runs.root / name).glob("run/fit/checkpoints/0*"))
        number = drawn.choice(PROCESSES[: 3 if sharding else 4]) if is_begun else 2
        somewhere, in_training = ("anything", drawn.randrange(20, 60)), (f"rank {number - 1}", drawn.randrange(3, 9))
        where, times = drawn.choice([somewhere, in_training])
        result = runs.start_two(name, where, times, options=options, processes=number)
        if result.returncode == 0:  # it came to its end before that
            break
        ours, *_ = result.stderr.partition("torch/distributed/elastic")
        # A worker whose process was killed while it handed over a tensor: Python's own thread says so.
        assert all("resource_sharer" in one for one in ours.split("Traceback")[1:]), result.stderr
    is_begun = any((runs.root / name).glob("run/fit/checkpoints/0*"))
    result = runs.start_two(name, options=options, processes=drawn.choice(PROCESSES[1:3]) if is_begun else 2)
    assert result.returncode == 0, result.stderr
    found, expected = losses(runs.root / name), losses(runs.root / whole)
    assert [update for update, _ in found] == [update for update, _ in expected]
    assert [loss for _, loss in found] == pytest.approx([loss for _, loss in expected], rel=1e-4)
    one, other = (Manifest.open(runs.root / place / "manifests" / "train.arrow") for place in (name, whole))
    assert list(one) == list(other)
    assert not [*(runs.root / name).rglob("*.tmp*")]
