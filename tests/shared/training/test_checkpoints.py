"""Checkpoints: complete or absent, the right ones kept, damaged and hostile ones refused."""

import shutil
from pathlib import Path

import pytest
import torch
from torch import nn

from dragoman.shared.errors import DataError, UsageError
from dragoman.shared.training.checkpoints import Checkpoints, Choice, best, list_checkpoints, load_objective
from tests.small import refuses


def save(checkpoints, folder, update, score=None, value=0.0, interim=False):
    model = nn.ModuleDict({"system": nn.Linear(2, 1)})
    nn.init.constant_(model["system"].weight, value)
    meta = {"update": update, "epoch": 0, "score": score, "interim": interim}
    checkpoints.save(folder, model.state_dict(keep_vars=True), {"progress": {"update": update}}, meta)
    return model


@pytest.mark.parametrize(
    ("keep", "kept"), [("last 2", [4, 6, 7]), ("best 2", [2, 4, 7]), ("best 9", [1, 2, 3, 4, 6, 7])]
)
def test_the_newest_and_the_best_are_kept(keep, kept, tmp_path):
    checkpoints = Checkpoints(keep=keep, every=1)
    for update, score in enumerate([0.5, 0.9, 0.1, 0.9, None, 0.2, None], start=1):
        save(checkpoints, tmp_path, update, score)
    assert [c.update for c in list_checkpoints(tmp_path)] == kept
    scored = {4: 0.9, 2: 0.9, 1: 0.5, 6: 0.2, 3: 0.1}  # the newer of two equal ones comes first
    assert [c.update for c in best(list_checkpoints(tmp_path))] == [update for update in scored if update in kept]


def test_what_a_stopped_run_has_saved_between_is_no_choice_and_goes_when_the_next_comes(tmp_path):
    checkpoints = Checkpoints(keep="last 2", every=2)
    for update in (2, 4):
        save(checkpoints, tmp_path, update)
    save(checkpoints, tmp_path, 5, interim=True)
    found = list_checkpoints(tmp_path)
    assert [c.update for c in found] == [2, 4, 5] and [c.interim for c in found] == [False, False, True]
    assert [c.update for c in Choice.read("last 2").of(found)] == [2, 4]
    save(checkpoints, tmp_path, 6)
    assert [c.update for c in list_checkpoints(tmp_path)] == [4, 6]


@pytest.mark.parametrize("text", ["last 0", "best", "10", "best -1", "first 3", "last 1.5", "best 1 2", ""])
def test_only_the_last_or_the_best_can_be_chosen(text):
    refuses(UsageError, "'last N' or 'best N'", Checkpoints, keep=text)


def test_as_many_as_there_are_are_chosen(tmp_path):
    checkpoints = Checkpoints(keep="last 3")
    for update, score in enumerate([0.5, None, 0.7], start=1):
        save(checkpoints, tmp_path, update, score)
    found = list_checkpoints(tmp_path)
    assert [c.update for c in Choice.read("last 2").of(found)] == [2, 3]
    assert [c.update for c in Choice.read("best 5").of(found)] == [3, 1]
    assert str(Choice.read("best 5")) == "best 5"


def test_what_does_not_learn_is_on_the_disk_once(tmp_path, monkeypatch):
    model = nn.ModuleDict({"system": nn.Linear(2, 1), "reader": nn.Linear(100, 100)})
    model["reader"].requires_grad_(False)
    model["reader"].register_buffer("seen", torch.zeros(3))
    checkpoints = Checkpoints(keep="last 9")
    first, second, third, fourth = (tmp_path / f"{update:08d}" for update in (1, 2, 3, 4))

    def write(update):
        with torch.no_grad():
            model["system"].weight.fill_(update)
            model["reader"].seen.fill_(update)
        checkpoints.save(tmp_path, model.state_dict(keep_vars=True), {}, {"update": update, "score": None})
        return {name: tensor.clone() for name, tensor in model.state_dict().items()}

    expected = [write(1), write(2)]
    model["reader"].bias.data[7] += 1  # such as by another version of what is frozen
    expected.append(write(3))
    monkeypatch.setattr(Path, "hardlink_to", lambda *_: (_ for _ in ()).throw(OSError("no links here")))
    expected.append(write(4))

    file = "frozen.safetensors"
    assert (first / file).samefile(second / file)
    assert not (second / file).samefile(third / file) and not (third / file).samefile(fourth / file)
    assert (first / "objective.safetensors").stat().st_size < 1000 < (first / file).stat().st_size
    for checkpoint, tensors in zip(list_checkpoints(tmp_path), expected, strict=True):
        found = checkpoint.tensors()
        assert found.keys() == tensors.keys()
        assert all(found[name].equal(tensor) for name, tensor in tensors.items())
    shutil.rmtree(first)
    load_objective(model, list_checkpoints(tmp_path)[0])
    assert all(tensor.equal(expected[1][name]) for name, tensor in model.state_dict().items())


def test_a_copy_under_another_name_is_no_checkpoint(tmp_path):
    """It would be averaged twice, and take the place of another among those that are kept."""
    checkpoints = Checkpoints(keep="best 5")
    for update in (9, 10):
        save(checkpoints, tmp_path, update, score=0.5)
    for name in ("00000010.bak2", "00000010-copy", "10", "1e5"):
        shutil.copytree(tmp_path / "00000010", tmp_path / name)
    assert [c.update for c in list_checkpoints(tmp_path)] == [9, 10]
    save(checkpoints, tmp_path, 11, score=0.1)
    assert [c.update for c in list_checkpoints(tmp_path)] == [9, 10, 11]
    assert (tmp_path / "00000010.bak2").is_dir(), "a copy is not ours to delete"


def test_a_copy_under_the_name_of_another_update_is_named(tmp_path):
    save(Checkpoints(), tmp_path, 10)
    shutil.copytree(tmp_path / "00000010", tmp_path / "00000011")
    refuses(DataError, r"00000011/meta\.json: is that of update 10, not of 11", list_checkpoints, tmp_path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[]", r"\[\] is not an object"),
        ("{}", "'update' is missing"),
        ('{"update": "1", "score": null}', "'update' is \"1\", not a whole number"),
        ('{"update": 1, "score": "high"}', "'score' is \"high\", not a number or null"),
        ('{"update": 1, "score": 0.5, "adapter_scale": []}', "'adapter_scale' is"),
        ('{"update": 1e400, "score": 0.5}', "'update' is Infinity"),
        ('{"update": %s, "score": 0.5}' % ("9" * 23), "'update' is 9+, not a whole number"),
        ("[" * 100_000, "is not JSON"),
        ("\xff", "can't decode"),
    ],
)
def test_an_odd_description_of_a_checkpoint_is_named(tmp_path, content, message):
    save(Checkpoints(), tmp_path, 1)
    file = tmp_path / "00000001" / "meta.json"
    file.write_text(content, encoding="latin-1")
    said = rf"00000001/meta\.json: not a readable .*{message}.*; delete .*00000001, and"
    refuses(DataError, said, list_checkpoints, tmp_path)


def test_a_training_state_of_something_else_is_named(tmp_path):
    save(Checkpoints(), tmp_path, 1)
    torch.save({"model": {}}, tmp_path / "00000001" / "training.pt")
    [stored] = list_checkpoints(tmp_path)
    refuses(DataError, r"training\.pt: not a readable .* lacks optimizer, position, ranks", stored.training)


def test_another_model_is_refused_with_names_and_shapes(tmp_path):
    save(Checkpoints(), tmp_path, 1)
    other = nn.ModuleDict({"system": nn.Linear(3, 1), "extra": nn.Linear(1, 1, bias=False)})
    said = r"missing extra\.weight.*system\.weight is \(1, 2\) instead of \(1, 3\)"
    refuses(DataError, said, load_objective, other, list_checkpoints(tmp_path)[0])
