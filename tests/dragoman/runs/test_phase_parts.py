"""Phases that are divided among processes which know nothing of each other: dragoman run RECIPE --shard 2/3."""

import json
import multiprocessing

import pytest
import torch

from dragoman import Manifest, Recipe, UsageError
from dragoman.runs import phase_parts
from dragoman.runs.phase_parts import run_part
from dragoman.runs.running import run_recipe, unfinished
from dragoman.shared.machine.stopping import Interrupted
from dragoman.shared.phases.generating import Generate
from tests import small
from tests.small import refuses

RECIPE = """\
# A model translates a manifest, and is scored
output_folder: {folder}/out
device: cpu
workers: 0
noprogressbar: True
beam: 2
search: !new:shared.search.beam.BeamSearch {{beam: !ref <beam>}}
budget: !new:shared.batches.stream.Budget {{rows: 2}}
phases:
    generate: !new:shared.phases.Generate
        model: {model}
        manifests: ["{folder}/en-de/*.arrow"]
        search: !ref <search>
        budget: !ref <budget>
        shard_rows: 2
    evaluate: !new:shared.phases.Evaluate
        model: {model}
        manifests: [!ref <output_folder>/generate/en-de/train.arrow]
        search: !ref <search>
        budget: !ref <budget>
        metrics: [chrf]
"""


@pytest.fixture
def recipe(tmp_path):
    words = "one two three four five six seven eight".split()
    rows = [small.row(f"r{number}", " ".join(words[number % 5 : number % 7 + 1]), "x") for number in range(9)]
    Manifest.write(tmp_path / "en-de" / "train.arrow", rows)
    (tmp_path / "mine.yaml").write_text(RECIPE.format(folder=tmp_path, model=small.GOLDEN))
    return lambda **keys: Recipe.load(tmp_path / "mine.yaml", keys)


def made(folder):
    return {name: (folder / "generate" / name).read_bytes() for name in ("en-de/train.arrow", "generated.json")}


def test_parts_in_any_order_make_what_one_process_makes(recipe, tmp_path, monkeypatch):
    run_recipe(recipe(), until="generate")
    whole = made(tmp_path / "out")
    (tmp_path / "out").rename(tmp_path / "alone")
    shards, written = Generate.made, []
    monkeypatch.setattr(Generate, "made", lambda *given: written.append(given[1].path.name) or shards(*given))
    for number, waiting in ((2, [0, 1]), (0, [1])):
        assert run_part(recipe(), number=number, of=3) == waiting
        assert unfinished(recipe()) == ["generate", "evaluate"]
    assert run_part(recipe(), number=1, of=3) == []
    assert written == ["000002.arrow", "000000.arrow", "000003.arrow", "000001.arrow", "000004.arrow"]
    assert made(tmp_path / "out") == whole and unfinished(recipe()) == ["evaluate"]
    run_recipe(recipe())
    assert len(written) == 5 and not unfinished(recipe())


def test_jobs_that_were_started_twice_make_each_shard_once(recipe, tmp_path, monkeypatch):
    """Two of the same number at the same time, each of which has planned all shards of its share."""
    run_recipe(recipe(), until="generate")
    whole = made(tmp_path / "out")
    (tmp_path / "out").rename(tmp_path / "alone")
    context, shards = multiprocessing.get_context("fork"), Generate.made
    planned, written = context.Barrier(2), tmp_path / "written"

    def noted(phase, shard, workspace):
        with open(written, "a") as file:
            file.write(f"{shard.path.name}\n")
        yield from shards(phase, shard, workspace)

    start = Generate.start
    monkeypatch.setattr(Generate, "start", lambda *given: (planned.wait(60), start(*given)))
    monkeypatch.setattr(Generate, "made", noted)
    jobs = [context.Process(target=run_part, args=(recipe(),), kwargs={"number": 0, "of": 2}) for _ in range(2)]
    for job in jobs:
        job.start()
    for job in jobs:
        job.join(120)
    assert [job.exitcode for job in jobs] == [0, 0]
    assert sorted(written.read_text().split()) == ["000000.arrow", "000002.arrow", "000004.arrow"]
    monkeypatch.setattr(Generate, "start", start)
    assert run_part(recipe(), number=1, of=2) == [] and made(tmp_path / "out") == whole


def test_a_part_that_was_stopped_makes_what_it_lacks_and_a_run_what_all_lack(recipe, tmp_path, monkeypatch):
    shards, written = Generate.made, []

    def stopped(phase, shard, workspace):
        if len(written) == 1:
            raise KeyboardInterrupt
        written.append(shard.path.name)
        return shards(phase, shard, workspace)

    monkeypatch.setattr(Generate, "made", stopped)
    with pytest.raises(Interrupted, match="out: stopped in generate; the same command goes on from there"):
        run_part(recipe(), number=0, of=2)
    monkeypatch.setattr(Generate, "made", lambda *given: written.append(given[1].path.name) or shards(*given))
    assert run_part(recipe(), number=0, of=2) == [1]
    assert written == ["000000.arrow", "000002.arrow", "000004.arrow"]
    run_recipe(recipe(), until="generate")
    assert sorted(written) == [f"00000{number}.arrow" for number in range(5)]


def test_parts_of_different_searches_are_not_mixed(recipe, tmp_path):
    assert run_part(recipe(), number=0, of=2) == [1]
    refuses(UsageError, "started with other keys: beam 2 .now 3.", run_part, recipe(beam=3), number=1, of=2)
    assert run_part(recipe(), number=1, of=2) == []
    assert json.loads((tmp_path / "out/generate/generated.json").read_text())["search"]["arguments"]["beam"] == 2


def test_a_run_and_parts_are_not_at_work_at_once_but_parts_are(recipe, tmp_path, monkeypatch):
    shards = Generate.made

    def meanwhile(*given):
        monkeypatch.setattr(Generate, "made", shards)
        refuses(UsageError, "another run is at work in this folder", run_recipe, recipe())
        assert run_part(recipe(), number=1, of=2) == [0]
        return shards(*given)

    monkeypatch.setattr(Generate, "made", meanwhile)
    assert run_part(recipe(), number=0, of=2) == [] and unfinished(recipe()) == ["evaluate"]

    def refused(*given):
        refuses(UsageError, "another run is at work in this folder", run_part, recipe(), number=0, of=2)
        return shards(*given)

    monkeypatch.setattr(Generate, "made", refused)
    run_recipe(recipe(output_folder=str(tmp_path / "out")), restart=["generate"], until="generate")


def test_parts_that_are_made_twice_at_once_are_put_together_by_one(recipe, tmp_path, monkeypatch):
    start = Generate.start

    def meanwhile(*given):
        monkeypatch.setattr(Generate, "start", start)
        with monkeypatch.context() as inner:  # the folder is not left before this returns
            inner.setattr(phase_parts, "LOOKS", 1)
            assert run_part(recipe(), number=0, of=1) == []
        return start(*given)

    monkeypatch.setattr(Generate, "start", meanwhile)
    assert run_part(recipe(), number=0, of=1) == [] and unfinished(recipe()) == ["evaluate"]


def test_parts_compute_as_a_run_does(recipe, monkeypatch):
    shards, seen = Generate.made, []
    deterministic = torch.are_deterministic_algorithms_enabled
    monkeypatch.setattr(Generate, "made", lambda *given: seen.append(deterministic()) or shards(*given))
    refuses(UsageError, "precision int8 is for searches", run_part, recipe(precision="int8"), number=0, of=2)
    assert run_part(recipe(deterministic=True), number=0, of=2) == [1]
    assert seen == [True] * 3 and not deterministic()


def test_what_cannot_be_divided_is_refused_and_what_is_done_is_not_done_again(recipe, tmp_path):
    alone = recipe(**{"phases.generate": None, "phases.evaluate.manifests": [str(tmp_path / "en-de" / "train.arrow")]})
    refuses(UsageError, "goes on with evaluate, which cannot be divided", run_part, alone, number=0, of=2)
    run_recipe(recipe(), until="generate")
    assert run_part(recipe(), number=0, of=2) == [] and unfinished(recipe()) == ["evaluate"]
    run_recipe(recipe())
    assert run_part(recipe(), number=0, of=2) == []


def test_the_command_says_who_has_yet_to_finish(recipe, tmp_path, dragoman):
    asked = ["run", tmp_path / "mine.yaml", "--shard"]
    assert dragoman(*asked, "1/2")[:2] == (0, "shard 1/2 is done; 2 of 2 still to be run\n")
    code, _, messages = dragoman(*asked, "2/2", "--until", "generate")
    assert code == 2 and "--shard does a part of the next phase: without --restart and --until" in messages
    code, output, _ = dragoman(*asked, "2/2")
    assert (code, output) == (0, "") and unfinished(recipe()) == ["evaluate"]
