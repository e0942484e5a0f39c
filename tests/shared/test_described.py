"""Described: objects become plain data and come back; nothing outside the project is ever built."""

import contextlib
import copy
import importlib
import json
import pickle
import pkgutil
import sys
from collections import defaultdict
from importlib.metadata import entry_points
from typing import Any

import pytest
from torch import nn

from dragoman.shared import described
from dragoman.shared.described import Described, build, describe
from dragoman.shared.errors import UsageError
from tests.small import refusal, refuses


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
    monkeypatch.setattr(described, "PACKAGES", (*described.PACKAGES, __name__))
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
    assert type(build({"class": "dragoman.shared.of.old.Lowercase", "arguments": {}})).__name__ == "Lowercase"


def test_every_described_class_has_a_name_of_its_own():
    for package in map(importlib.import_module, ("dragoman.shared", "dragoman.mt", "dragoman.st")):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            with contextlib.suppress(ModuleNotFoundError):  # of an extra
                importlib.import_module(module.name)
    modules = defaultdict(set)
    for kind in below(Described):
        if kind.__module__.split(".")[0] == "dragoman":
            modules[kind.__name__].add(kind.__module__)
    assert len(modules) > 60
    assert {name: found for name, found in modules.items() if len(found) > 1} == {}


def below(kind):
    for child in kind.__subclasses__():
        yield child
        yield from below(child)


def test_a_registered_package_brings_classes_of_its_own(tmp_path, monkeypatch):
    (tmp_path / "of_others").mkdir()
    (tmp_path / "of_others" / "parts.py").write_text(
        "from dragoman.shared.described import Described\n\n\nclass Theirs(Described):\n"
        "    def __init__(self, *, size: int) -> None:\n        self.size = size\n"
    )
    metadata = tmp_path / "of_others-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: of_others\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[dragoman.packages]\nof_others = of_others\n")
    refuses(ValueError, "'Theirs' is not a class", build, {"class": "Theirs", "arguments": {"size": 2}})
    monkeypatch.syspath_prepend(tmp_path)
    described._registered.cache_clear()
    theirs = build({"class": "Theirs", "arguments": {"size": 2}})
    assert (type(theirs).__module__, theirs.size) == ("of_others.parts", 2)
    assert describe(theirs) == {"class": "Theirs", "arguments": {"size": 2}}


def test_two_classes_of_one_name_are_refused(tmp_path, monkeypatch):
    for package in ("one", "two"):
        (tmp_path / f"{package}_of_two.py").write_text(
            "from dragoman.shared.described import Described\n\n\nclass Same(Described):\n    pass\n"
        )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(described, "PACKAGES", ("one_of_two", "two_of_two"))
    refuses(ValueError, "several classes.*one_of_two, two_of_two", build, {"class": "Same", "arguments": {}})


@pytest.mark.parametrize(
    "name", ["os.system", "subprocess.Popen", "dragoman.shared.machine.files.sync", "dragoman.shared.padded.Padded"]
)
def test_a_folder_cannot_name_foreign_classes(name):
    refuses(ValueError, "is not a class", build, {"class": name, "arguments": {}})


READERS = {entry.name: entry.load() for entry in entry_points(group="dragoman.corpora")}


@pytest.mark.parametrize("name", sorted(READERS))
def test_a_folder_cannot_name_a_reader_of_a_corpus(name):
    """One would open whatever file a downloaded folder names."""
    with pytest.raises(ValueError, match="is not a class that a model folder may name"):
        build({"class": READERS[name].__name__, "arguments": {"root": "/"}})


def test_positional_arguments_and_undescribed_parts_are_refused():
    refuses(TypeError, "keyword", Leaf, 3)
    refuses(TypeError, "left", describe, Tree(left=type("Plain", (), {"size": 1})(), right=Leaf(size=1), names={}))


@pytest.mark.parametrize("place", ["/nowhere", "/b", ["/a"], None])
def test_a_part_that_stands_nowhere_is_named(place):
    description = describe(Leaf(size=1))
    with pytest.raises(ValueError, match="/a: same_as is .*, and no object before it stands there"):
        build({"a": {"same_as": place}, "b": description})


class Part(Described):
    """One argument of each kind."""

    def __init__(
        self, *, flag: bool = False, count: int = 0, share: float = 0.0, items: list[int] | None = None,
        table: dict[str, float] | None = None, leaf: Leaf | None = None, any: Any = None, choice: int | str = 0,
    ) -> None:  # fmt: skip
        pass


@pytest.mark.parametrize(
    ("arguments", "wrong"),
    [
        ({"flag": True, "count": 3, "share": 0.5, "items": [1], "table": {"a": 0.5}, "any": {"x": [1]}}, None),
        ({"share": 3, "table": {"a": 1}, "items": None, "choice": "a", "any": True}, None),
        ({"flag": 1}, "flag: 1 is not a bool"),
        ({"count": 2**63 - 1}, None),
        ({"count": 2**63}, "count: 9223372036854775808 is a number of more than 64 bits"),
        ({"items": [1, "x"]}, "items: item 1: 'x' is not an int"),
        ({"items": {"a": 1}}, "items: {'a': 1} is not list[int]"),
        ({"leaf": {"class": "Part", "arguments": {}}}, "leaf: Part is not a Leaf"),
        ({"leaf": {"class": "Leaf", "arguments": {"size": 1}}}, None),
    ],
)  # fmt: skip
def test_arguments_fit_their_annotations(arguments, wrong):
    description = {"part": {"class": "Part", "arguments": arguments}}
    if wrong is None:
        build(description)
    else:
        assert refusal(ValueError, build, description) == f"/part/{wrong}"


@pytest.mark.parametrize(
    ("description", "said"),
    [
        ({"class": "Leaf", "arguments": [3]}, "model: the arguments of a Leaf are named, not [3]"),
        ({"x": {"class": "Leaf", "arguments": 3}}, "/x: the arguments of a Leaf are named, not 3"),
        ({"class": 3, "arguments": {}}, "model: 3 is not the name of a class"),
        ({"class": "Leaf", "arguments": {"size": 1, "file": "x"}}, "/file: 'x' is not a file of the model folder"),
        ({"class": "Leaf", "arguments": {"size": 1, "file": {"asset": "x", "b": 1}}},
         "/file: {'asset': 'x', 'b': 1} is not a file of the model folder"),
        ({"asset": "x"}, ": 'x' is not a file of the model folder"),  # there is no folder
        ({"same_as": 3}, "model: same_as is 3, and no object before it stands there"),
        ({"class": "os.system", "arguments": {}},
         f"model: 'os.system' is not a class of this project or a registered package "
         f"(dragoman.shared, dragoman.mt, dragoman.st, dragoman.exchange, {__name__})"),
        ({"class": "Nothing", "arguments": {}},
         "model: 'Nothing' is not a class that a model folder may name; if it is one of your own, name the package or "
         "module that has it: dragoman --package PATH"),
    ],
)  # fmt: skip
def test_what_is_said_of_wrong_descriptions(description, said):
    assert refusal(ValueError, build, description) == said


@pytest.mark.parametrize("name", ["", "..", "a/b", "/a", 3, None])
def test_assets_are_names_of_files_in_the_folder(name, tmp_path):
    refuses(ValueError, "is not a file of the model folder", build, {"asset": name}, tmp_path)
    assert build({"asset": "a.b"}, tmp_path) == str(tmp_path / "a.b")


def test_files_of_one_name_get_names_of_their_own(tmp_path):
    for folder in "abc":
        (tmp_path / folder).mkdir()
    assets = {}
    files = [str(tmp_path / folder / "x.model") for folder in "aabc"]
    found = [describe(Leaf(size=1, file=file), assets)["arguments"]["file"] for file in files]
    assert found == [{"asset": name} for name in ("x.model", "x.model", "x-2.model", "x-3.model")]
    assert {name: str(file) for name, file in assets.items()} == dict(
        zip(("x.model", "x-2.model", "x-3.model"), files[1:], strict=True)
    )
    described_twice = {"a": [{"asset": "x"}, {"b": {"asset": "y"}}], "c": {"asset": "x"}, "d": 3}
    assert described.assets_of(described_twice) == ["x", "y"] and described.assets_of("x") == []


def test_plain_values_are_described_as_they_are(tmp_path):
    values = [None, True, 1, 0.5, "x", (1, 2), {3: tmp_path}]
    assert describe(values) == [None, True, 1, 0.5, "x", [1, 2], {"3": str(tmp_path)}]
    refuses(TypeError, "^the object: a set cannot be described as plain data$", describe, {1})
    refuses(TypeError, "^/a/1: a set cannot be described as plain data$", describe, {"a": [0, {1}]})
    leaf = Leaf(size=1)
    assert describe({"a": [leaf, leaf]})["a"][1] == {"same_as": "/a/0"}


def test_arguments_are_changed_by_their_paths():
    tree = describe({"tree": Tree(left=Leaf(size=1), right=Leaf(size=2), names={"a": Leaf(size=3)})})
    described.change(tree, "tree.left.size", 7)
    described.change(tree, "tree.names.a.size", 8)
    described.change(tree, "tree.scale", 0.5)  # one that was not given
    described.change(tree, "tree.names.a", 5)
    found = tree["tree"]["arguments"]
    assert found["left"]["arguments"] == {"size": 7} and found["scale"] == 0.5 and found["names"] == {"a": 5}
    for path, said in (
        ("tree.middle.size", "there is no 'middle', only left, right, names, scale"),
        ("tree.names.b", "there is no 'b', only a"),
        ("tree.left.width", "there is no 'width', only size, file"),
        ("tree.scale.x", "there is no 'x', only what has no parts"),
        ("self", "there is no 'self', only tree"),
    ):
        assert refusal(ValueError, described.change, tree, path, 1) == f"{path}: {said}"


def test_modules_of_a_description():
    tree = describe({"a": [Tree(left=Leaf(size=1), right=Leaf(size=2), names={})], "b": 3})
    assert described.modules_of(tree) == {__name__}
    assert described.modules_of(3) == described.modules_of([]) == set()
    assert described.named("Leaf") is Leaf


def test_a_package_of_ones_own_is_registered_by_its_place(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.path", [*sys.path])
    (tmp_path / "mine.py").write_text(
        "from dragoman.shared.described import Described\n\n\nclass Mine(Described):\n    pass\n"
    )
    (tmp_path / "many").mkdir()
    (tmp_path / "many" / "__init__.py").write_text("")
    for name in ("mine.py", "many"):
        described.use_package(tmp_path / name)
        described.use_package(tmp_path / name)
    assert sys.path.count(str(tmp_path)) == 1
    assert described.packages()[-2:] == ("mine", "many")
    assert (described.place_of("mine"), described.place_of("many")) == (tmp_path / "mine.py", tmp_path / "many")
    assert described.place_of("shared") is None
    assert type(build({"class": "Mine", "arguments": {}})).__module__ == "mine"
    (tmp_path / "text.txt").touch()
    for path in (tmp_path / "text.txt", tmp_path / "nowhere"):
        complaint = refusal(UsageError, described.use_package, path)
        assert complaint == f"--package {path}: neither a folder nor a module (*.py)"
    (tmp_path / "json.py").touch()
    with pytest.raises(UsageError, match=rf"^--package {tmp_path}/json.py: hidden by .*json.*: give it another name$"):
        described.use_package(tmp_path / "json.py")
    refuses(ValueError, "^no package or module 'not_there'$", described.register, "not_there")
