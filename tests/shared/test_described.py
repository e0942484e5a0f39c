"""Described: objects become plain data and come back; nothing outside the project is ever built."""

import copy
import json
import pickle

import pytest
from torch import nn

from shared import described
from shared.described import Described, build, describe


class Leaf(Described):
    asset_arguments = ("file",)

    def __init__(self, *, size: int, file: str | None = None) -> None:
        self.size, self.file = size, file


class Tree(Described, nn.Module):
    def __init__(self, *, left: Leaf, right: Leaf, names: dict[str, Leaf], scale: float = 1.0) -> None:
        super().__init__()
        self.left, self.right, self.names, self.scale = left, right, names, scale
        self.weight = nn.Linear(left.size, 1)


@pytest.fixture(autouse=True)
def rooms(monkeypatch):
    monkeypatch.setattr(described, "ROOMS", ("shared", "mt", "st", __name__.split(".")[0]))


def test_round_trip_keeps_values_sharing_and_assets(tmp_path):
    file = tmp_path / "tok.model"
    file.write_bytes(b"x")
    leaf = Leaf(size=3, file=str(file))
    tree = Tree(left=leaf, right=leaf, names={"a": Leaf(size=5)}, scale=0.5)
    assets = {}
    data = json.loads(json.dumps(describe(tree, assets)))
    assert assets == {"tok.model": file}
    again = build(data, tmp_path)
    assert again.left is again.right
    assert (again.left.size, again.left.file, again.names["a"].size, again.scale) == (3, str(file), 5, 0.5)


def test_arguments_survive_copying_and_pickling():
    tree = Tree(left=Leaf(size=2), right=Leaf(size=2), names={})
    assert describe(copy.deepcopy(tree)) == describe(tree)
    assert describe(pickle.loads(pickle.dumps(Leaf(size=7)))) == describe(Leaf(size=7))


@pytest.mark.parametrize("name", ["os.system", "subprocess.Popen", "shared.files.sync", "shared.padded.Padded"])
def test_a_folder_cannot_name_foreign_classes(name):
    with pytest.raises(ValueError, match="is not a class"):
        build({"class": name, "arguments": {}})


def test_an_asset_cannot_lie_outside_the_folder(tmp_path):
    with pytest.raises(ValueError, match="not a file of the model folder"):
        build({"asset": "../secret"}, tmp_path)


def test_positional_arguments_and_undescribed_parts_are_refused():
    with pytest.raises(TypeError, match="keyword"):
        Leaf(3)
    with pytest.raises(TypeError, match="left"):
        describe(Tree(left=type("Plain", (), {"size": 1})(), right=Leaf(size=1), names={}))
