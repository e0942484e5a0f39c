"""What recipes may name: this project, torch's layers and optimisers, and their modules, by where it is defined."""

from __future__ import annotations

import sys
import sysconfig
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from dragoman import Recipe, UsageError
from dragoman.shared import described
from dragoman.shared.recipe import reach
from tests.small import refuses

MINE = """\
import functools
import os

from torch import nn


class Part:
    def __init__(self, *, value=1):
        self.value = value

    def run(self, workspace):
        pass


remove = os.remove
later = functools.partial(os.remove, "kept")
"""
RECIPE = "output_folder: out\nvalue: {value}\nphases:\n  part: !new:mine.Part {{value: !ref <value>}}\n"


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """A folder with a module, and a file that a recipe would like to remove."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(MINE)
    (tmp_path / "kept").touch()
    yield
    sys.modules.pop("mine", None)


def load(tmp_path, value="1", *overrides, top=""):
    (tmp_path / "recipe.yaml").write_text(top + RECIPE.format(value=value))
    return Recipe.load(tmp_path / "recipe.yaml", overrides)


@pytest.mark.parametrize(
    "value",
    [
        "!new:torch.nn.Linear {in_features: 2, out_features: 3}",
        "!name:torch.optim.Adam",
        "!name:torch.nn.functional.relu",
        "!name:torch.nn.functional.gelu",
        "!name:torch.nn.functional.conv1d",
        "!new:shared.batches.stream.Budget {tokens: 3}",
        "!name:shared.text.lines.LONGEST_LINE",
        "!new:mine.Part {}",
        "!new:mine.nn.Linear {in_features: 2, out_features: 3}",
    ],
)
def test_within_reach(tmp_path, value):
    load(tmp_path, value).check()
    load(tmp_path).check()
    load(tmp_path, "1", "--value", value).check()


REFUSED = [
    "!apply:os.remove [kept]",
    "!name:os.remove",
    "!module:os",
    "!apply:eval ['1']",
    "!apply:builtins.exec ['1']",
    "!new:subprocess.Popen {args: [ls]}",
    "!name:functools.partial",
    "!apply:mine.remove [kept]",
    "!apply:mine.os.remove [kept]",
    "!name:mine.later",
    "!apply:shared.recipe.locations.os.remove [kept]",
    "!apply:shared.text.lines.csv.reader [x]",
    "!apply:shared.recipe.tree.read_text {text: 'a: 1', shown: x}",
    "!apply:shared.described.use_package {path: mine.py}",
    "!name:shared.machine.files.discard_folder",
    "!name:dragoman.runs.nested.run_recipe",
    "!name:dragoman.runs.running.run_recipe",
    "!new:dragoman.runs.phase_changes.PhaseNow {}",
    "!apply:shared.nn.layer.Layer.__init__ {}",
    "!name:shared.nn.layer.Layer.__subclasses__",
    "!name:shared.nn.layer.Layer.mro",
    "!name:torch.load",
    "!name:torch.nn.functional.importlib.import_module",
    "!name:torch.nn.functional.np.load",
    "!new:collections.Counter {}",
    "!apply:dragoman.run {recipe: own/mt}",
    "!new:antigravity.x {}",
]


@pytest.mark.parametrize("value", REFUSED)
def test_out_of_reach_is_refused_in_the_file_and_on_the_command_line_and_can_be_trusted(tmp_path, value):
    for recipe in (load(tmp_path, value), load(tmp_path, "1", "--value", value)):
        refuses(UsageError, r"a recipe may not name .*, add --trust-recipe$", recipe.check)
    assert (tmp_path / "kept").exists() and "antigravity" not in sys.modules
    load(tmp_path, "1", "--value", value.replace("[x]", "[[x]]"), "--trust-recipe")


def test_trusted_recipes_name_everything(tmp_path):
    part = load(tmp_path, "!apply:os.path.join [a, b]", "--trust-recipe").plan["part"].build()
    assert part.value == "a/b"
    with pytest.raises(UsageError, match="may not name os.path.join"):
        load(tmp_path, "!apply:os.path.join [a, b]", "--trust-recipe=false").plan["part"].build()
    refuses(UsageError, "--trust-recipe takes no value, not 'maybe'", load, tmp_path, "1", "--trust-recipe", "maybe")


@pytest.mark.parametrize("value", ["!ref <thing.__class__>", "!apply:getattr [1, __class__]", "!ref <module.os>"])
def test_attributes_lead_to_no_modules_and_no_insides(tmp_path, value):
    top = "thing: !new:mine.Part {}\nmodule: !module:mine\n"
    refuses(UsageError, "may not name the attribute", load(tmp_path, value, top=top).check)
    assert (
        load(tmp_path, "!ref <thing.value>", top="thing: !new:mine.Part {value: 7}\n").plan["part"].build().value == 7
    )


def test_a_recipe_inside_another_is_bound_too_and_trusted_by_the_outer_one_alone(tmp_path):
    (tmp_path / "recipe.yaml").write_text(RECIPE.format(value="!apply:os.path.join [a, b]"))
    outer = tmp_path / "outer.yaml"
    inner = "!new:dragoman.runs.RunRecipe {recipe: recipe.yaml, overrides: {output_folder: in"
    outer.write_text(f"output_folder: out\nphases:\n  inner: {inner}}}}}\n")
    refuses(UsageError, r"recipe\.yaml:2: value: a recipe may not name os\.path\.join", Recipe.load(outer).check)
    Recipe.load(outer, ["--trust-recipe"]).check()
    for key in ("trust_recipe", "run"):
        outer.write_text(f"output_folder: out\nphases:\n  inner: {inner}, {key}: True}}}}\n")
        refuses(UsageError, f"no such key in .*{key}|{key}: no such key", Recipe.load(outer).check)


def test_what_an_outer_recipe_hands_on_is_within_its_reach(tmp_path):
    (tmp_path / "apart").mkdir()
    inner = "output_folder: in\nvalue: 1\nphases:\n  part: !new:shared.batches.stream.Budget {tokens: !ref <value>}\n"
    (tmp_path / "apart" / "inner.yaml").write_text(
        inner.replace("shared.batches.stream.Budget {tokens", "mine.Part {value")
    )
    outer = "output_folder: out\nphases:\n  inner: !new:dragoman.runs.RunRecipe\n    recipe: apart/inner.yaml\n"
    (tmp_path / "outer.yaml").write_text(outer + "    overrides: {value: !new:mine.Part {value: 3}}\n")
    Recipe.load(tmp_path / "outer.yaml").check()


def test_folders_of_installed_modules_are_none_of_a_recipe(tmp_path):
    paths = sysconfig.get_paths()
    top = f"modules: [{paths['stdlib']}, {paths['purelib']}]\n"
    for value in ("!apply:os.remove [kept]", "!apply:hyperpyyaml.load_hyperpyyaml ['a: 1']"):
        refuses(UsageError, "may not name|is hidden by", load(tmp_path, value, top=top).check)
    refuses(UsageError, "no such key", load, tmp_path, "1", "--modules", "[/]")


def test_registered_packages_are_within_reach(tmp_path, monkeypatch):
    (tmp_path / "apart").mkdir()
    for name in ("theirs", "readers"):
        (tmp_path / "apart" / f"{name}.py").write_text(MINE)
        refuses(UsageError, "no module", load(tmp_path, f"!new:{name}.Part {{}}").check)
    described.use_package(tmp_path / "apart" / "theirs.py")
    load(tmp_path, "!new:theirs.Part {}").check()
    refuses(UsageError, "may not name readers.Part", load(tmp_path, "!new:readers.Part {}").check)
    points = [EntryPoint("mine", "readers:Part", reach.GROUP)]
    monkeypatch.setattr(reach, "entry_points", lambda group: points if group == reach.GROUP else [])
    reach._readers.cache_clear()
    load(tmp_path, "!new:readers.Part {}").check()
    reach._readers.cache_clear()


@pytest.mark.parametrize("path", ["a..b", ".", "mine.Part.", "a-b.c"])
def test_what_is_no_path(tmp_path, path):
    refuses(UsageError, "is not the path of a class, function or module", load(tmp_path, f"!new:{path} {{}}").check)


def test_the_page_on_training_begins_with_it():
    """Before its first section, and with what is within reach."""
    page = (Path(__file__).parents[3] / "docs" / "training.md").read_text(encoding="utf-8")
    top = page.split("\n## ")[0]
    for part in ("A recipe is code", "`torch.nn`", "`torch.optim`", "entry", "`modules:`", "`--trust-recipe`"):
        assert part in top
