"""The first line of a run's log; its last one is compared where runs are (test_running.py)."""

import platform
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from dragoman import Manifest, System
from dragoman.runs import announcing
from tests.small import GOLDEN


def place(**changes):
    return SimpleNamespace(**{"device": "cpu", "precision": "fp32", "world": 1} | changes)


@pytest.mark.parametrize("device", ["cuda:0", "cpu"])
@pytest.mark.parametrize("precision", ["fp32", "fp16"])
@pytest.mark.parametrize("bfloat16", [False, True])
def test_a_gpu_without_bfloat16_is_told_what_is_faster(device, precision, bfloat16, monkeypatch):
    monkeypatch.setattr(announcing, "hardware", lambda device: "1 x GPU")
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: bfloat16)
    line = announcing.beginning(place(device=device, precision=precision))
    assert line.startswith(f"device {device} (1 x GPU), precision {precision}")
    hinted = (device, precision, bfloat16) == ("cuda:0", "fp32", False)
    assert ("--precision fp16 may be faster" in line) == hinted


def test_several_processes_are_counted(monkeypatch):
    monkeypatch.setattr(announcing, "hardware", lambda device: "CPU")
    monkeypatch.setattr(announcing, "versions", lambda: "versions")
    assert announcing.beginning(place()) == "device cpu (CPU), precision fp32; versions"
    assert announcing.beginning(place(world=2)) == "device cpu (CPU), 2 processes, precision fp32; versions"


def test_versions_are_told_with_the_commit(monkeypatch):
    monkeypatch.setattr(announcing, "version", lambda name: {"dragoman": "1.2"}[name])
    monkeypatch.setattr(torch.version, "cuda", "12.4")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    end = f", Python {platform.python_version()}, torch {torch.__version__}"
    for commit, at in (("none", ""), ("0123456789abcdef", " at commit 0123456789ab"),
                       ("0123456789abcdef+", " at commit 0123456789ab+")):  # fmt: skip
        monkeypatch.setattr(announcing, "commit", lambda commit=commit: commit)
        assert announcing.versions() == f"dragoman 1.2{at}{end}"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert announcing.versions() == f"dragoman 1.2 at commit 0123456789ab+{end}, CUDA 12.4"
    monkeypatch.setattr(torch.version, "cuda", None)

    def missing(name):
        raise announcing.PackageNotFoundError

    monkeypatch.setattr(announcing, "version", missing)
    assert announcing.versions() == f"dragoman (not installed) at commit 0123456789ab+{end}"


def test_packages_of_ones_own_are_options_of_a_command(monkeypatch):
    places = {"mine": Path("/a b/mine"), "theirs": Path("/c")}
    monkeypatch.setattr(announcing, "describe", lambda system: system)
    monkeypatch.setattr(announcing, "modules_of", lambda modules: modules)
    monkeypatch.setattr(announcing, "place_of", places.get)
    command = "dragoman run dragoman"
    assert announcing.with_packages(command, {"dragoman.shared.a"}) == command
    found = announcing.with_packages(command, {"theirs.b", "theirs.a", "mine", "dragoman.shared.a"})
    assert found == "dragoman --package '/a b/mine' --package /c run dragoman"


def recipe(**phases):
    return {name: SimpleNamespace(arguments=arguments) for name, arguments in phases.items()}


def test_the_last_line_names_the_last_model_and_its_command(tmp_path, monkeypatch):
    monkeypatch.setattr(announcing, "arguments_in", lambda plain: (plain or {}).get("!new:tests.Phase", plain) or {})
    monkeypatch.setattr(announcing, "_direction", lambda output, phases: ("en", "de"))
    monkeypatch.setattr(announcing, "task_of", lambda system, folder, direction: SimpleNamespace(
        command=f"dragoman translate {folder.parent.name} {direction}"))  # fmt: skip
    trains = {"streams": 1, "validation": {"fields": 2, "metrics": []}}
    plain = recipe(fit=trains, more=trains | {"validation": {"metrics": ["bleu"]}}, test={})
    assert announcing.ending(plain, tmp_path, ["fit", "test"]) is None
    for name in ("fit", "more"):
        shutil.copytree(GOLDEN, tmp_path / name / "model")
    found = announcing.ending(plain, tmp_path, ["fit", "more", "test"])
    assert found == f"the model is in {tmp_path}/more/model; to use it: dragoman translate more ('en', 'de')"
    found = announcing.ending(plain, tmp_path, ["fit", "test"])
    assert found == (  # it writes one language
        f"the model is in {tmp_path}/fit/model; it is there to begin training with: dragoman show {tmp_path}/fit/model"
    )
    for validation in ({"fields": 2, "metrics": ["bleu"]}, {}, None):
        plain = recipe(fit=trains | {"validation": validation}, test={"validation": {"fields": 1}})
        assert "; to use it: " in announcing.ending(plain, tmp_path, ["fit", "test"])


def test_what_does_not_translate_is_there_to_begin_with(tmp_path):
    said = "it is there to begin training with: dragoman show 'a b'"
    system = System.load(GOLDEN)
    codes = system.target_languages
    assert announcing._after_pretraining(SimpleNamespace(), Path("a b")) == said
    system.target_languages = ["de"]
    assert announcing._after_pretraining(system, Path("a b")) == said
    system.target_languages = ["de", "fr", "en"]
    found = announcing._after_pretraining(system, Path("a b"))
    assert found.endswith("--model_folder 'a b' --data_folder PAIRS --source_language de --target_language fr")
    system.target_languages = codes


def test_the_direction_is_that_of_the_first_row(tmp_path, monkeypatch):
    row = {"id": "a", "source_text": "x", "source_language": "en", "target_text": "y", "target_language": "de"}
    for name, changes in (("pair", {}), ("one", {"target_text": None, "target_language": None})):
        Manifest.write(tmp_path / f"{name}.arrow", [row | changes, row | {"id": "b", "source_language": "fr"}])
    records = {}
    monkeypatch.setattr(announcing, "PhaseRecord", lambda output, name: SimpleNamespace(read=lambda: records[name]))
    assert announcing._direction(tmp_path, ["fit"]) is None
    for name in ("first", "fit"):
        (tmp_path / name / "checkpoints").mkdir(parents=True)
    records |= {"first": {"manifests": {str(tmp_path / "none.arrow"): 1}}, "fit": {"manifests": {}}}
    assert announcing._direction(tmp_path, ["first", "fit", "test"]) is None
    assert announcing._direction(tmp_path, ["first"]) is None
    records["fit"] = {}
    assert announcing._direction(tmp_path, ["fit"]) is None
    for name, found in (("pair", ("en", "de")), ("one", ("en", "en"))):
        records["fit"] = {"manifests": {str(tmp_path / f"{name}.arrow"): 1, "other": 2}}
        assert announcing._direction(tmp_path, ["first", "fit", "test"]) == found
