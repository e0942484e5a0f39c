"""The phase that compares two inputs: a score and a picture for each test set."""

import pytest

from dragoman import DataError, Manifest, UsageError
from dragoman.shared.batches.stream import Budget
from dragoman.shared.evaluation.results import read
from dragoman.st.comparing import CompareInputs
from tests.shared.training.conftest import World
from tests.small import refuses, run


@pytest.fixture
def world(tmp_path):
    return World(tmp_path)


def phase(tmp_path, manifest, **options):
    given = {"model": str(tmp_path / "model"), "manifests": [str(manifest)], "budget": Budget(rows=8)}
    return CompareInputs(**(given | {"one": "source", "other": "source"} | options))


def test_each_row_finds_itself_in_the_same_input(world, tmp_path):
    world.system().save(tmp_path / "model")
    place = run(phase(tmp_path, world.manifest, mean=True), tmp_path / "run", "compare")
    [row] = read(place.output / "results.jsonl")
    assert (row["metric"], row["value"], row["lines"], row["reads"]) == ("retrieval", 100.0, 48, ["source", "source"])
    assert row["signature"] == "vectors:mean of states|cosine"
    assert [path.suffix for path in place.folder.iterdir()] == [".png"]


def test_what_cannot_be_compared_is_refused(world, tmp_path):
    world.system().save(tmp_path / "model")
    rows = [dict(row) for row in Manifest.open(world.manifest)][:2]
    rows[1]["source_text"] = "1"
    uneven = Manifest.write(tmp_path / "en-de" / "uneven.arrow", rows).path
    said = "different numbers of states: compare their means"
    refuses(DataError, said, run, phase(tmp_path, uneven), tmp_path / "run", "compare")
    other = phase(tmp_path, uneven, one="speech")
    refuses(UsageError, "can read source, not 'speech'", run, other, tmp_path / "run", "compare")
    refuses(UsageError, "pairs must be at least 2, not 1", phase, tmp_path, uneven, pairs=1)
    phase(tmp_path, uneven, pairs=2)


def test_without_tests_nothing_is_measured_and_that_is_said(world, tmp_path, caplog):
    with caplog.at_level("INFO", logger="dragoman"):
        run(CompareInputs(model=str(tmp_path / "none"), manifests=[], budget=Budget(rows=2)), tmp_path, "compare")
    assert "compare: no tests are given" in caplog.text and not (tmp_path / "results.jsonl").exists()
