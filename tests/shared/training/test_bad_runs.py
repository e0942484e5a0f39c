"""Faults in a run: one line that names the file and the value, the right exit code, nothing lost."""

import json
import pickle
import shutil
from pathlib import Path

import pytest
import torch

from dragoman.shared.batches.manifest import Manifest
from dragoman.shared.text.piece_model import train_sentencepiece
from dragoman.shared.text.tokenizer import SentencePieceTokenizer
from tests import small
from tests.shared.training.conftest import small_model

RECIPE = """\
# One phase of training, of the size of a test
output_folder: {folder}/out
data: {folder}/train.arrow
updates: 4
tokenizer: !new:shared.text.tokenizer.SentencePieceTokenizer
    model: {folder}/t.model
    tags: [de, en]
source: !new:shared.batches.fields.TextField {{column: source_text, tokenizer: !ref <tokenizer>}}
target: !new:shared.batches.fields.TextField {{column: target_text, tokenizer: !ref <tokenizer>}}
fit: !new:shared.phases.Fit
    objective: !new:shared.objectives.EncoderDecoderObjective
        system: !apply:{module}.small_system {{source: !ref <source>, target: !ref <target>}}
        parts: [!new:shared.objectives.CrossEntropy {{}}]
    streams:
        - !new:shared.batches.stream.Stream
            name: text
            manifests: [!ref <data>]
            fields: {{source: !ref <source>, target: !ref <target>}}
            budget: !new:shared.batches.stream.Budget {{rows: 8}}
    optimizer: !new:shared.training.optimizer.Adam {{}}
    schedule: !new:shared.training.schedules.Constant {{peak: 0.01}}
    updates: !ref <updates>
    initialise: !ref <initialise>
    checkpoints: !new:shared.training.checkpoints.Checkpoints {{every: 2, keep: last 5}}
initialise: []
phases:
    fit: !ref <fit>
"""


def small_system(source, target):
    return small.system(source.tokenizer, small_model(source.tokenizer), inputs={"source": source}, output=target)


@pytest.fixture
def recipe(tmp_path, world):
    shutil.copy(world.manifest, tmp_path / "train.arrow")
    shutil.copy(world.manifest.parent / "t.model", tmp_path / "t.model")
    file = tmp_path / "recipe.yaml"
    file.write_text(RECIPE.format(folder=tmp_path, module=__name__))
    return file


@pytest.fixture
def dragoman(dragoman):
    """The command on a CPU; returns exit code and the last line on standard error."""

    def run(*arguments):
        code, _, messages = dragoman(*arguments, "--device", "cpu")
        return code, ([line for line in messages.splitlines() if line] or [""])[-1]

    return run


def files(folder):
    """All that a run keeps, by name and content; not the log, nor how long it took."""
    left = [f for f in sorted(Path(folder).rglob("*")) if f.is_file() and f.name not in ("log.txt", "lock")]
    return {str(f): f.read_bytes() for f in left if "state" not in f.parts and "tensorboard" not in f.parts}


def checkpoint(tmp_path):
    return tmp_path / "out" / "fit" / "checkpoints" / "00000004"


def half(file):
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def unfinish(tmp_path):
    """Let a run seem killed after its last checkpoint."""
    record = tmp_path / "out" / "state" / "fit.json"
    record.write_text(json.dumps(json.loads(record.read_text()) | {"status": "running"}))


def test_a_pickle_in_place_of_a_checkpoint_is_named_and_neither_opened_nor_deleted(recipe, tmp_path, dragoman):
    assert dragoman("run", recipe)[0] == 0
    unfinish(tmp_path)
    whole = files(tmp_path / "out")
    for name in ("objective.safetensors", "training.pt", "meta.json"):
        file = checkpoint(tmp_path) / name
        file.write_bytes(pickle.dumps({"optimizer": small.Bomb(tmp_path / "exploded")}))
        before = files(tmp_path / "out")
        code, line = dragoman("run", recipe)
        assert code == 1 and line.startswith(f"dragoman: error: {file}: not a readable"), line
        assert files(tmp_path / "out") == before and not (tmp_path / "exploded").exists()
        file.write_bytes(whole[str(file)])
    shutil.rmtree(checkpoint(tmp_path))  # as docs/training.md says
    assert dragoman("run", recipe)[0] == 0
    assert files(tmp_path / "out").keys() == whole.keys()


def test_another_tokenizer_under_the_same_name(recipe, tmp_path, dragoman, world):
    assert dragoman("run", recipe)[0] == 0
    unfinish(tmp_path)
    other = another_tokenizer(world, tmp_path / "t.model")
    code, line = dragoman("run", recipe)
    assert code == 1 and "fit/system/t.model: the model was trained with another file" in line, line
    model = tmp_path / "model"
    world.system().save(model)
    shutil.copy(other, model / "t.model")
    code, line = dragoman("evaluate", model, tmp_path / "train.arrow", "--metrics", "chrf")
    assert code == 1 and f"{model / 't.model'}: the model was trained with another file" in line, line


def another_tokenizer(world, path):
    train_sentencepiece(["0123456789", "9876"], path, kind="char", size=300)
    assert SentencePieceTokenizer(model=str(path), tags=["de", "en"]).size == world.tokenizer.size
    return path


def weights(folder):
    return (folder / "fit" / "checkpoints" / "00000008" / "objective.safetensors").read_bytes()


def test_more_updates_are_those_of_a_longer_training(recipe, tmp_path, dragoman):
    assert dragoman("run", recipe)[0] == 0
    assert dragoman("run", recipe, "--updates", "8")[0] == 0
    assert dragoman("run", recipe, "--updates", "8", "--output_folder", tmp_path / "whole")[0] == 0
    assert weights(tmp_path / "out") == weights(tmp_path / "whole")


def test_more_updates_under_a_schedule_that_ends_are_refused(recipe, tmp_path, dragoman):
    linear = "!new:shared.training.schedules.Linear {peak: 0.01, total: !ref <updates>}"
    recipe.write_text(recipe.read_text().replace("!new:shared.training.schedules.Constant {peak: 0.01}", linear))
    assert dragoman("run", recipe)[0] == 0
    before = files(tmp_path / "out")
    code, line = dragoman("run", recipe, "--updates", "8")
    assert code == 2 and "other keys: updates 4 (now 8)" in line
    assert "it cannot go on to another number of updates, from which schedule.total follows" in line
    assert files(tmp_path / "out") == before


def test_a_pattern_that_matches_no_parameter_is_found_before_the_first_phase(recipe, tmp_path, dragoman):
    code, line = dragoman("run", recipe, "--fit.optimizer.multipliers", "{nothing.*: 0.5}")
    assert code == 2 and "multipliers: 'nothing.*' matches the name of no parameter" in line, line
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("harm", ["empty", "half", "gone"])
def test_training_data(recipe, tmp_path, dragoman, harm):
    file = tmp_path / "train.arrow"
    if harm == "empty":
        Manifest.write(file, [])
    elif harm == "half":
        half(file)
    else:
        file.unlink()
    code, line = dragoman("run", recipe)
    wanted = {"empty": "there are none", "half": "not an Arrow file, or cut off", "gone": "is not there, and no phase"}
    assert code == 1 and str(file) in line and wanted[harm] in line, line
    assert not (tmp_path / "out" / "fit").exists()


def test_a_model_to_start_from(recipe, tmp_path, dragoman, world):
    part = "!new:shared.training.initialise.Initialise {folder: %s, parts: {model: model}}"
    recipe.write_text(recipe.read_text().replace("initialise: []", f"initialise: [{part % (tmp_path / 'model')}]"))

    def refused(harm, message):
        shutil.rmtree(tmp_path / "model", ignore_errors=True)
        world.system().save(tmp_path / "model")
        harm(tmp_path / "model")
        code, line = dragoman("run", recipe)
        assert code == 1 and message in line and str(tmp_path / "model") in line, line
        assert not (tmp_path / "out" / "fit" / "checkpoints").exists() and not (tmp_path / "exploded").exists()

    refused(lambda m: (m / "config.json").unlink(), "not a model folder")
    refused(lambda m: (m / "model.safetensors").unlink(), "model.safetensors: not a readable weights file")
    refused(lambda m: half(m / "model.safetensors"), "model.safetensors: not a readable weights file")
    bomb = pickle.dumps(small.Bomb(tmp_path / "exploded"))
    refused(lambda m: (m / "model.safetensors").write_bytes(bomb), "model.safetensors: not a readable weights file")
    refused(lambda m: torch.save({"x": small.Bomb(tmp_path / "exploded")}, m / "model.safetensors"), "not a readable")
    refused(lambda m: another_tokenizer(world, m / "t.model"), "was trained with another")


def test_a_full_disk_is_one_line_and_the_last_checkpoint_is_intact(recipe, tmp_path, dragoman, monkeypatch):
    real, calls = torch.save, []

    def full(*arguments):
        calls.append(None)
        if len(calls) == 2:
            raise OSError(28, "No space left on device")
        real(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(torch, "save", full)
        code, line = dragoman("run", recipe)
    assert code == 1 and "checkpoints/00000004: the checkpoint could not be written" in line
    assert "No space left on device" in line and "00000002 is intact" in line, line
    left = sorted(path.name for path in (tmp_path / "out" / "fit" / "checkpoints").iterdir())
    assert left == ["00000002"]
    assert dragoman("run", recipe)[0] == 0
    assert checkpoint(tmp_path).is_dir()
