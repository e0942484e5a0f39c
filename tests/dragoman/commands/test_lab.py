"""The laboratory: every run once, beside others that want nothing of it; the same table after a kill; clear errors."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import yaml

from dragoman import DataError, Recipe, UsageError
from dragoman.commands import side_by_side
from dragoman.commands.lab import as_words, read_lab, run_lab
from dragoman.commands.side_by_side import Run, Shift, is_locked, places_on
from dragoman.runs.running import run_recipe
from dragoman.shared.errors import one_line
from dragoman.shared.evaluation.results import read
from dragoman.shared.machine.workspace import Workspace
from dragoman.shared.recipe.tree import parse_value
from tests.dragoman.commands import pretending
from tests.dragoman.commands.pretending import RECIPE
from tests.recipes.installed import RECIPES
from tests.small import refuses

#: Files of experiments.
LABS = Path(__file__).parents[3] / "docs" / "labs"
BEFORE = """\
# Pre-trains
output_folder: !ref {folder}/before/<seed>
seconds: 1
phases:
    fit: !new:{module}.Slow
        seconds: !ref <seconds>
"""


@pytest.fixture
def folder(tmp_path):
    """A folder with recipes: two that need the same pre-training, one that does not."""
    module = f"of_{tmp_path.name}"  # one for each test, since what is imported stays
    shutil.copy(pretending.__file__, tmp_path / f"{module}.py")
    (tmp_path / "before.yaml").write_text(BEFORE.format(folder=tmp_path, module=module))
    for name, share in (("good", 0.1), ("fine", 0.2), ("poor", 0.4)):
        text = RECIPE.format(folder=tmp_path, name=name, share=share, module=module)
        text = text.replace("output_folder: ", "output_folder: !ref ")
        if name != "poor":
            inner = f"    before: !new:dragoman.runs.RunRecipe\n        recipe: {tmp_path}/before.yaml\n"
            inner += "        overrides: {seed: !ref <seed>}\n"
            text = text.replace("phases:\n", f"phases:\n{inner}")
        (tmp_path / f"{name}.yaml").write_text(text)
    return tmp_path


def lab(folder, text):
    (folder / "lab.yaml").write_text(text.replace("FOLDER", str(folder)))
    return folder / "lab.yaml"


TWO = """\
experiments:
    - recipe: FOLDER/good.yaml
      against: [FOLDER/poor.yaml, careless]
    - recipe: FOLDER/fine.yaml
      against: FOLDER/poor.yaml
      seeds: [2]
seeds: [1, 2]
at_once: 3
"""


@pytest.fixture
def pretended(monkeypatch):
    """Runs take as many looks as their process is told, and are done in this process at the last."""
    history = []
    looks = dict.fromkeys(("good", "poor", "fine"), 2)

    class Process:
        def __init__(self, words, **_):
            self.words = words[words.index("run") + 1 :]
            self.name = f"{Path(self.words[0]).stem} {self.words[self.words.index('--seed') + 1]}"
            self.looks = looks[self.name.split()[0]]
            self.asked = False
            history.append(f"+{self.name}")

        def poll(self):
            if self.asked:
                return 1
            self.looks -= 1
            if self.looks:
                return None
            history.append(f"-{self.name}")
            run_recipe(Recipe.load(self.words[0], self.words[1:]))
            return 0

        def send_signal(self, number):
            self.asked = number == signal.SIGTERM
            history.append(f"!{self.name}")

        def wait(self, _timeout=None):
            return 1

    kinds = SimpleNamespace(Popen=Process, TimeoutExpired=subprocess.TimeoutExpired)
    monkeypatch.setattr(side_by_side, "subprocess", kinds)
    monkeypatch.setattr(side_by_side, "LOOK", 0)
    return SimpleNamespace(history=history, looks=looks)


def hurry(monkeypatch):
    """Let forty seconds pass whenever the time is asked for."""
    begun = time.monotonic()
    clock = (begun + seconds for seconds in range(0, 1_000_000, 40))
    kinds = SimpleNamespace(monotonic=lambda: next(clock), sleep=lambda _: None, strftime=time.strftime)
    monkeypatch.setattr(side_by_side, "time", kinds)


def test_each_run_is_done_once_and_none_beside_one_that_does_the_same_work(folder, pretended, capsys):
    file = lab(folder, TWO)
    assert run_lab(file, minutes=None, into=folder / "table", command="dragoman lab x")
    begun = [event[1:] for event in pretended.history if event[0] == "+"]
    assert sorted(begun) == sorted(["good 1", "good 2", "good 1", "good 2", "poor 1", "poor 2", "fine 2"])
    under_way = set()
    for event in pretended.history:
        under_way = under_way | {event[1:]} if event[0] == "+" else under_way - {event[1:]}
        assert len(under_way) <= 3 and not {"good 2", "fine 2"} <= under_way  # both pre-train with seed 2
    rows = read(folder / "table" / "results.jsonl")
    compared = {(r["recipe"], r["against"], r.get("against_arm", "")) for r in rows if r.get("kind") == "comparison"}
    assert compared == {("good", "poor", ""), ("good", "good", "careless"), ("fine", "poor", "")}
    said = capsys.readouterr().out
    assert "3 experiments" not in said and "2 experiments, 7 runs, 3 at once on cpu" in said
    assert "7 of 7 runs are done" in said and "missing" not in said and "| good |" in said
    assert "A against B on x/test" in (folder / "table" / "report.txt").read_text()


def test_keys_on_the_command_line_are_of_all_runs(folder, pretended):
    """They are stronger than those of the file, and debug runs and their table stay apart from the real ones."""
    file = lab(folder, TWO.replace("seeds: [1, 2]", "keys: {share: 0.2}\nseeds: [1, 2]"))
    _, experiments = read_lab(file, ["--debug", "--share", "0.3"])
    recipes = [run.recipe for one in experiments for run in one.runs()]
    assert len(recipes) == 8 and {recipe.value("share") for recipe in recipes} == {0.3}
    assert all(recipe.options["debug"] for recipe in recipes)
    assert run_lab(file, ["--debug", "--share", "0.3"], minutes=None, command="")
    assert (folder / "lab-debug" / "RESULTS.md").is_file() and not (folder / "lab").exists()
    assert {path.name for path in (folder / "poor").iterdir()} == {"1-debug", "2-debug"}


def test_what_time_does_not_allow_is_missing_until_a_later_call(folder, pretended, capsys, monkeypatch):
    file = lab(folder, TWO)
    hurry(monkeypatch)
    pretended.looks["fine"] = 10_000
    assert not run_lab(file, minutes=20, into=folder / "table", command="")
    said = capsys.readouterr().out
    assert f"{folder}/fine.yaml --seed 2: begun" in said and "6 of 7 runs are done" in said
    assert f"not compared:\n{folder}/fine.yaml: no run was completed" in said
    assert pretended.history[-1] == "!fine 2"
    events = len(pretended.history)
    assert not run_lab(file, minutes=0, into=folder / "table", command="") and len(pretended.history) == events
    assert "6 of 7 runs are done" in capsys.readouterr().out
    pretended.looks["fine"] = 1
    assert run_lab(file, minutes=None, into=folder / "table", command="")
    assert pretended.history[-2:] == ["+fine 2", "-fine 2"]
    (folder / "good" / "1" / "results.jsonl").unlink()
    run_lab(file, minutes=None, into=folder / "table", command="")
    said = capsys.readouterr().out
    assert "not compared:\n" in said and "| fine |" in said  # what cannot be compared does not keep the table away


def test_a_run_may_take_no_more_than_its_minutes(folder, pretended, capsys, monkeypatch):
    file = lab(folder, TWO.replace("seeds: [2]", "seeds: [2]\n      minutes: 3"))
    hurry(monkeypatch)
    pretended.looks["fine"] = 10_000
    assert not run_lab(file, minutes=None, into=folder / "table", command="")
    assert f"{folder}/fine.yaml --seed 2: stopped after 3 minutes" in capsys.readouterr().out


@pytest.mark.slow
def test_a_run_that_fails_leaves_the_others_alone_and_names_its_log(folder, capsys):
    text = "experiments: [{recipe: FOLDER/poor.yaml, keys: {fails: 2}}]\nseeds: [2, 1]\nat_once: 2\n"
    assert not run_lab(lab(folder, text), minutes=None, into=folder, command="")
    said = capsys.readouterr().out
    [line] = [line for line in said.splitlines() if line.startswith(f"{folder}/poor.yaml --fails 2 --seed 2: failed")]
    assert "the disk is full" in Path(line.rpartition("its log: ")[2]).read_text()
    assert "1 of 2 runs are done" in said and "| poor" in said


@pytest.mark.slow
def test_a_laboratory_that_is_killed_leaves_no_process_and_goes_on_to_the_same_table(folder):
    words = [sys.executable, "-m", "dragoman", "lab"]
    file = lab(folder, "experiments: [{recipe: FOLDER/good.yaml, against: FOLDER/poor.yaml}]\nat_once: 2\n")
    subprocess.run([*words, str(file), "--into", str(folder / "whole")], check=True, capture_output=True)
    expected = read(folder / "whole" / "results.jsonl")
    for name in ("good", "poor", "before"):
        (folder / name).rename(folder / f"{name}-whole")
    process = subprocess.Popen([*words, str(file), "--into", str(folder / "killed")], stdout=subprocess.PIPE)
    while b"began" not in process.stdout.readline():
        pass
    while not list(folder.glob("before/*/lock")):
        time.sleep(0.05)
    process.kill()
    process.wait()
    until = time.monotonic() + 60
    while any(is_locked(lock.parent) for lock in folder.glob("*/*/lock")):
        assert time.monotonic() < until
        time.sleep(0.1)
    subprocess.run([*words, str(file), "--into", str(folder / "killed")], check=True, capture_output=True)
    found = read(folder / "killed" / "results.jsonl")
    kept = ("recipe", "arm", "split", "metric", "value", "seed", "seeds", "against", "p", "kind")
    assert [[row.get(key) for key in kept] for row in found] == [[row.get(key) for key in kept] for row in expected]


def test_places_of_a_gpu_are_as_many_as_its_memory_and_the_cores_allow(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: SimpleNamespace(total_memory=80e9))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(16)))
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    places = places_on("cuda", None, 20)  # 72 GB of each are given away
    assert [place.words[1] for place in places] == ["cuda:0"] * 3 + ["cuda:1"] * 3
    assert {place.words[2:] for place in places} == {("--memory_share", "0.3000")}
    assert {place.environment["OMP_NUM_THREADS"] for place in places} == {"2"}
    assert len(places_on("cuda:1", None, 1)) == 16 and len(places_on("cuda:1", 5, 20)) == 5
    assert [place.words for place in places_on("cpu", None, 20)] == [()]
    refuses(UsageError, "at_once", places_on, "cpu", 0, 20)
    refuses(UsageError, "gigabytes", places_on, "cuda", None, 0)


def test_a_folder_in_which_a_run_is_at_work_is_left_alone(folder, monkeypatch):
    run = Run([str(folder / "poor.yaml"), "--seed", "1"], Recipe.load(str(folder / "poor.yaml"), ["--seed", "1"]), None)
    monkeypatch.setattr(side_by_side, "LOOK", 0)
    output = Path(run.recipe.value("output_folder"))
    assert not is_locked(output)
    with Workspace(output=output, device="cpu").locked():
        assert is_locked(output)
        Shift([run], places_on("cpu", 1, 8), folder / "logs", time.monotonic() + 0.2).work()
    assert run.process is None and not is_locked(output)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("experiments: []\n", "lab.yaml: experiments: there is none"),
        ("experiments: good\n", "'experiments' is \"good\", not a list, each item of it an object"),
        ("- recipe: good\n", "does not hold settings"),
        ("experiments: [{recipe: FOLDER/good.yaml, seed: 1}]\n", "lab.yaml: experiment 1: 'seed' is not known"),
        ("experiments: [{arm: x}]\n", "experiment 1: not what dragoman lab reads ('recipe' is missing)"),
        ("experiments: [{recipe: FOLDER/good.yaml, arm: x}]\n", "experiment 1: "),
        ("experiments: [{recipe: FOLDER/good.yaml, seeds: [1, 1]}]\n", "seeds must be different numbers, not 1,1"),
        ("experiments: [{recipe: FOLDER/good.yaml}]\nminutes: 3\n", "lab.yaml: 'minutes' is not known"),
        ("experiments: [{recipe: FOLDER/good.yaml, phase: evalute}]\n", "no phase 'evalute'; there are"),
        ("experiments: [{recipe: FOLDER/good.yaml, against: FOLDER/good.yaml}]\n", "both recipes would run in"),
        ("experiments: [{recipe: FOLDER/good.yaml, minutes: -1}]\n", "lab.yaml: experiment 1: minutes"),
        ("experiments:\n  - {recipe: a\n", "lab.yaml: cannot be read as YAML"),
    ],
)
def test_what_is_wrong_in_a_file_is_named(folder, text, problem):
    with pytest.raises((DataError, UsageError)) as error:
        read_lab(lab(folder, text))
    assert problem in one_line(error.value)


@pytest.mark.slow
@pytest.mark.parametrize("file", sorted(LABS.glob("*.yaml")), ids=lambda file: file.name)
def test_the_files_that_we_have_can_be_read(file):
    _, experiments = read_lab(file)
    runs = [(one, recipe) for one in experiments for arm, *_ in one.arms for recipe in arm.recipes.values()]
    assert len({(recipe.value("output_folder"), one.phase) for one, recipe in runs}) == len(experiments)


def test_the_laboratories_of_the_help_have_its_methods():
    phases = {name: {*recipe.phases} for name, recipe in RECIPES.items() if name.startswith("help/")}
    tested = {name for name, own in phases.items() if {"evaluate", "retrieve"} & own}
    spoken = {name for name in tested if "speak" in phases[name]}
    baselines = {"mt", "multilingual_mt", "mt_many", "lass_tuned", "lm", "lstm_lm", "veco"}  # and models of languages
    baselines |= {"mt_from_mbart_even"}  # a row of help/transfer
    baselines_spoken = {"st", "asr", "st_lstm", "asr_ctc", "mt_spoken"}
    kinds = ((["text", "many"], tested - spoken, baselines), (["speech"], spoken, baselines_spoken))
    for files, methods, without in kinds:
        labs = [yaml.safe_load((LABS / f"help_{name}.yaml").read_text()) for name in files]
        named = {one["recipe"] for lab in labs for one in lab["experiments"]}
        assert methods - {f"help/{name}" for name in without} == named


def test_one_file_is_for_one_device(folder):
    text = "experiments: [{recipe: FOLDER/good.yaml, keys: {device: cpu}}, {recipe: FOLDER/poor.yaml}]\n"
    refuses(UsageError, "runs on auto, cpu", run_lab, lab(folder, text), minutes=None, into=folder / "t", command="")


def test_text_that_looks_like_a_number_stays_text():
    keys = {"name": "007", "fails": 7, "folder": "!ref <x>/1", "title": "a: b", "none": None}
    words = as_words(keys)
    loaded = {name[2:]: parse_value(text, name[2:]) for name, text in zip(words[::2], words[1::2], strict=True)}
    assert {key: node.value for key, node in loaded.items()} == keys | {"folder": "<x>/1"}
    assert loaded["folder"].tag == "!ref"


def test_minutes_are_those_of_training(folder, pretended, monkeypatch):
    """A run whose training is done is evaluated, however long that has taken."""
    run = Run([str(folder / "poor.yaml"), "--seed", "1"], Recipe.load(str(folder / "poor.yaml"), ["--seed", "1"]), 3)
    assert run.trains()
    monkeypatch.setattr(side_by_side, "training_minutes", lambda _: 4)
    Shift([run], places_on("cpu", 1, 8), folder / "logs", float("inf")).work()
    assert run.state == "stopped after 3 minutes" and not pretended.history
    monkeypatch.setattr(Run, "trains", lambda _: False)
    Shift([run], places_on("cpu", 1, 8), folder / "logs", float("inf")).work()
    assert pretended.history == ["+poor 1", "-poor 1"]


def test_two_different_runs_in_one_folder_are_refused(folder):
    text = "experiments: [{recipe: FOLDER/good.yaml}, {recipe: FOLDER/good.yaml, keys: {share: 0.3}}]\n"
    options = {"minutes": None, "into": folder / "table", "command": ""}
    refuses(UsageError, "give one a name, --run NAME", run_lab, lab(folder, text), **options)
    refuses(UsageError, "--minutes", run_lab, lab(folder, TWO), **options | {"minutes": 0.3})
