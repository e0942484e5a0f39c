"""A run's folder stands for the last model that it has made; what is ambiguous or not there is said."""

import json
import shutil
from pathlib import Path

import pytest

from dragoman import DataError, System
from dragoman.shared.machine.workspace import PhaseRecord
from dragoman.shared.systems import model_folder as module
from dragoman.shared.systems.combining import load_combined
from dragoman.shared.systems.model_folder import model_folder
from tests.small import refusal, refuses

MODEL = Path("tests/golden/model")
STARTED = {"fingerprint": "f", "outputs": []}


@pytest.fixture
def made(tmp_path):
    """Return a function that lets a phase make a model at a time."""

    def make(name, time=None, place=tmp_path):
        shutil.copytree(MODEL, place / name / "model")
        if time is not None:
            PhaseRecord(place, name).write(status="finished", finished=f"2026-01-01T{time}", **STARTED)
        return place / name / "model"

    return make


def test_a_model_folder_is_itself(tmp_path, made):
    model = made("average", "10:00")
    assert model_folder(str(model)) == model_folder(model.parent) == model_folder(tmp_path) == model
    assert model_folder(tmp_path / "nothing") == tmp_path / "nothing"


def test_a_run_stands_for_the_model_that_was_made_last(tmp_path, made):
    made("average", "10:00")
    last = made("fine_average", "11:30")
    made("teacher", "09:59")
    assert model_folder(tmp_path) == last
    PhaseRecord(tmp_path, "average").write(status="finished", finished="2026-01-02", **STARTED)  # was done again
    assert model_folder(tmp_path) == tmp_path / "average" / "model"


def test_a_copy_without_records_stands_for_its_only_model(tmp_path, made):
    model = made("average")
    assert model_folder(tmp_path) == model
    made("other")
    refuses(DataError, f"which model do you mean: {model}, {tmp_path}/other/model", model_folder, tmp_path)


def test_a_folder_of_several_runs_names_their_models(tmp_path, made):
    models = [made("average", "10:00", tmp_path / str(seed)) for seed in range(1, 6)]
    refuses(DataError, f"do you mean: {', '.join(map(str, models[:3]))} or 2 others[?]", model_folder, tmp_path)


def test_a_run_without_a_model_says_how_far_it_is(tmp_path):
    refuses(DataError, f"^{tmp_path}: not a model folder .it has no config.json.$", model_folder, tmp_path)
    (tmp_path / "recipe.yaml").touch()
    refuses(DataError, "the run has made no model yet", model_folder, tmp_path)
    for update in ("00000100", "00000020"):
        (tmp_path / "fit" / "checkpoints" / update).mkdir(parents=True)
        (tmp_path / "fit" / "checkpoints" / update / "meta.json").write_text(json.dumps({"update": int(update)}))
    newest = r"checkpoints/00000100 is the newest\) become a model at the end of the run"
    refuses(DataError, newest, model_folder, tmp_path)


def test_whatever_loads_a_model_takes_a_run(tmp_path, made):
    made("average", "10:00")
    plain = System.load(MODEL).translate(["one two"])
    assert System.load(tmp_path).translate(["one two"]) == plain
    assert load_combined(tmp_path, ensemble=[tmp_path, MODEL]).translate(["one two"]) == plain
    planned, header = System.planned(tmp_path)
    assert planned.source_languages == System.from_description(tmp_path).source_languages and header


@pytest.mark.parametrize(
    ("name", "value", "said"), [("origin", "x", "a list of lines"), ("files", [], "marks of files")]
)
def test_settings_that_describe_no_model(name, value, said, tmp_path):
    config = {"format": module.FORMAT, "system": {}, name: value}
    (tmp_path / "config.json").write_text(json.dumps(config))
    complaint = refusal(DataError, module.read_config, tmp_path)
    assert complaint.startswith(f"{tmp_path}/config.json: {name} is {value!r}, not {said}") and "\n" not in complaint


def test_settings_that_describe_one(tmp_path):
    config = {"format": module.FORMAT, "system": {}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert module.read_config(tmp_path) == config
    complaint = refusal(DataError, module.read_config, tmp_path / "none")
    assert complaint == f"{tmp_path}/none: not a model folder (nothing is there)"


def test_what_cannot_be_built_names_the_file(tmp_path):
    said = f"^{tmp_path}/config.json: ValueError: .*'Nothing' is not a class"
    refuses(DataError, said, module.build_described, {"class": "Nothing", "arguments": {}}, tmp_path)
    assert module.build_described({"a": 1}, tmp_path) == {"a": 1}


def test_of_a_whole_disk_only_a_part_is_looked_at(tmp_path, made, monkeypatch):
    far = made("average", place=tmp_path / "a" / "b" / "c")
    for name in "bcdefgh":
        (tmp_path / name).mkdir()
    (tmp_path / "a" / "around").symlink_to(tmp_path)
    refuses(DataError, f"which model do you mean: {far}[?]", model_folder, tmp_path)
    monkeypatch.setattr("dragoman.shared.systems.model_folder.MOST_FOLDERS", 8)
    refuses(DataError, r"not a model folder \(it has no config.json\)$", model_folder, tmp_path)
