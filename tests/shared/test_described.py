"""Described: objects become plain data and come back; nothing outside the project is ever built."""

import contextlib
import copy
import importlib
import json
import pickle
import pkgutil
from collections import defaultdict
from importlib.metadata import entry_points

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
    monkeypatch.setattr(described, "PACKAGES", ("shared", "mt", "st", __name__))
    yield
    described._registered.cache_clear()


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


def test_classes_are_stored_under_names_that_moves_do_not_change():
    assert describe(Leaf(size=1))["class"] == "Leaf"
    stored = {"class": f"{__name__}.Leaf", "arguments": {"size": 4}}  # with its module, as in folders of old
    assert build(stored).size == 4
    assert type(build({"class": "shared.of.old.Lowercase", "arguments": {}})).__name__ == "Lowercase"


def test_every_described_class_has_a_name_of_its_own():
    for package in map(importlib.import_module, ("shared", "mt", "st")):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            with contextlib.suppress(ModuleNotFoundError):  # of an extra
                importlib.import_module(module.name)
    modules = defaultdict(set)
    for kind in below(Described):
        if kind.__module__.split(".")[0] in ("shared", "mt", "st"):
            modules[kind.__name__].add(kind.__module__)
    assert len(modules) > 60
    assert {name: found for name, found in modules.items() if len(found) > 1} == {}


def below(kind):
    for child in kind.__subclasses__():
        yield child
        yield from below(child)


def test_a_registered_package_brings_classes_of_its_own(tmp_path, monkeypatch):
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "parts.py").write_text(
        "from shared.described import Described\n\n\nclass Theirs(Described):\n"
        "    def __init__(self, *, size: int) -> None:\n        self.size = size\n"
    )
    metadata = tmp_path / "theirs-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[dragoman.packages]\ntheirs = theirs\n")
    with pytest.raises(ValueError, match="'Theirs' is not a class"):
        build({"class": "Theirs", "arguments": {"size": 2}})
    monkeypatch.syspath_prepend(tmp_path)
    described._registered.cache_clear()
    theirs = build({"class": "Theirs", "arguments": {"size": 2}})
    assert (type(theirs).__module__, theirs.size) == ("theirs.parts", 2)
    assert describe(theirs) == {"class": "Theirs", "arguments": {"size": 2}}


def test_two_classes_of_one_name_are_refused(tmp_path, monkeypatch):
    for package in ("one", "two"):
        (tmp_path / f"{package}_of_two.py").write_text(
            "from shared.described import Described\n\n\nclass Same(Described):\n    pass\n"
        )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(described, "PACKAGES", ("one_of_two", "two_of_two"))
    with pytest.raises(ValueError, match="several classes.*one_of_two, two_of_two"):
        build({"class": "Same", "arguments": {}})


@pytest.mark.parametrize("name", ["os.system", "subprocess.Popen", "shared.machine.files.sync", "shared.padded.Padded"])
def test_a_folder_cannot_name_foreign_classes(name):
    with pytest.raises(ValueError, match="is not a class"):
        build({"class": name, "arguments": {}})


READERS = {entry.name: entry.load() for entry in entry_points(group="dragoman.corpora")}


@pytest.mark.parametrize("name", sorted(READERS))
def test_a_folder_cannot_name_a_reader_of_a_corpus(name):
    """One would open whatever file a downloaded folder names."""
    with pytest.raises(ValueError, match="is not a class that a model folder may name"):
        build({"class": READERS[name].__name__, "arguments": {"root": "/"}})


def test_an_asset_cannot_lie_outside_the_folder(tmp_path):
    with pytest.raises(ValueError, match="not a file of the model folder"):
        build({"asset": "../secret"}, tmp_path)


def test_positional_arguments_and_undescribed_parts_are_refused():
    with pytest.raises(TypeError, match="keyword"):
        Leaf(3)
    with pytest.raises(TypeError, match="left"):
        describe(Tree(left=type("Plain", (), {"size": 1})(), right=Leaf(size=1), names={}))


@pytest.mark.parametrize("place", ["/nowhere", "/b", ["/a"], None])
def test_a_part_that_stands_nowhere_is_named(place):
    description = describe(Leaf(size=1))
    with pytest.raises(ValueError, match="/a: same_as is .*, and no object before it stands there"):
        build({"a": {"same_as": place}, "b": description})
