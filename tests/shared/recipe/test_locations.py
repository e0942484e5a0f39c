"""Recipes that are not installed: bases by name, and classes of modules beside them wherever they are needed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from dragoman import Recipe, UsageError
from dragoman.shared import described
from dragoman.shared.recipe import locations
from tests.small import refusal, refuses

ROOT = Path(__file__).parents[3]
LAYERS = """\
from dragoman.shared.nn.transformer import Layer


class Doubled(Layer):
    def __init__(self, *, width: int, heads: int, feedforward: int, dropout: float) -> None:
        super().__init__(width=width, heads=heads, feedforward=2 * feedforward, dropout=dropout)


class First:
    def __call__(self, words, rng):
        return words[:1]
"""
RECIPE = """\
# A layer and a noise of my own
base: own/mt

output_folder: !ref <results_folder>/mine/<seed>
stream:
    fields:
        source: !new:mt.noise.NoisyText
            field: !ref <source>
            noise: [!new:{module}.parts.First {{}}]
model:
    encoder:
        layer: !new:{module}.parts.Doubled
            width: !ref <width>
            heads: !ref <heads>
            feedforward: !ref <feedforward>
            dropout: !ref <dropout>
"""
GIVEN = "--source_language en --target_language de --data_folder data".split()
TINY = "--width 16 --heads 2 --feedforward 16 --encoder_layers 1 --decoder_layers 1 --pieces 300".split()


@pytest.fixture(autouse=True)
def unchanged_path(monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])


@pytest.fixture
def project(tmp_path):
    """A folder with a recipe, a package beside it, and tables."""
    (tmp_path / "mymethods").mkdir()
    (tmp_path / "mymethods" / "parts.py").write_text(LAYERS)
    (tmp_path / "mine.yaml").write_text(RECIPE.format(module="mymethods"))
    (tmp_path / "data").mkdir()
    for split in ("train", "dev", "test"):
        rows = [f"{split}{n}\tnumber {n} of {split}\tNummer {n} von {split}" for n in range(20)]
        (tmp_path / "data" / f"{split}.tsv").write_text("\n".join(["id\tsource_text\ttarget_text", *rows]) + "\n")
    return tmp_path


def dragoman(*arguments, folder, text=None):
    """Run the command as one that is installed: neither the folder it is called in nor the project is on the path."""
    code = (
        f"import sys; sys.path[0], sys.argv[0] = {str(ROOT)!r}, 'dragoman'; import dragoman.cli.main as cli; cli.main()"
    )
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, input=text, capture_output=True, text=True, cwd=folder, timeout=300)


@pytest.mark.parametrize("base", ["own/mt", "own/mt.yaml", "recipes/own/mt.yaml"])
def test_an_installed_recipe_is_a_base_by_its_name(tmp_path, base):
    (tmp_path / "mine.yaml").write_text(f"base: {base}\nupdates: 7\n")
    recipe = Recipe.load(tmp_path / "mine.yaml", GIVEN)
    assert (recipe.value("updates"), recipe.value("warmup")) == (7, 4000)
    recipe.check()


def test_a_file_beside_the_recipe_comes_before_an_installed_one(tmp_path):
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "mt.yaml").write_text("warmup: 3\n")
    (tmp_path / "mine.yaml").write_text("base: own/mt.yaml\n")
    assert Recipe.load(tmp_path / "mine.yaml").value("warmup") == 3


def test_a_base_that_is_nowhere_is_compared_with_installed_ones(tmp_path):
    (tmp_path / "mine.yaml").write_text("base: own/mtt\n")
    message = r"mine\.yaml:1: base: no file 'own/mtt' beside the recipe, and no installed recipe.*mean 'own/mt'"
    refuses(UsageError, message, Recipe.load, tmp_path / "mine.yaml")


@pytest.mark.slow
def test_classes_beside_the_recipe_train_and_translate(project):
    run = dragoman("run", "mine.yaml", *GIVEN, *TINY, "--updates", "2", "--workers", "1", folder=project)
    assert run.returncode == 0, run.stderr
    output = project / "results" / "own" / "en-de" / "mine" / "1"
    model = output / "average" / "model"
    last = run.stderr.splitlines()[-1]
    assert f"dragoman --package {project}/mymethods translate {output.relative_to(project)}/average/model" in last
    refused = dragoman("translate", model, folder=project, text="number 1\n")
    assert refused.returncode == 1
    assert "'Doubled' is not a class that a model folder may name" in refused.stderr
    assert "dragoman --package PATH" in refused.stderr
    elsewhere = project / "elsewhere"
    elsewhere.mkdir()
    done = dragoman("--package", "../mymethods", "translate", model, folder=elsewhere, text="number 1\n")
    assert done.returncode == 0 and done.stdout.count("\n") == 1, done.stderr
    again = dragoman("run", output / "recipe.yaml", folder=project)
    assert again.returncode == 0 and "evaluate: done before" in again.stderr, again.stderr


def test_a_recipe_names_folders_of_modules(project):
    (project / "recipes").mkdir()
    (project / "mine.yaml").rename(project / "recipes" / "mine.yaml")
    (project / "mymethods").rename(project / "moved_methods")
    text = RECIPE.format(module="moved_methods")
    file = project / "recipes" / "mine.yaml"
    file.write_text(text)
    said = r"there is no module 'moved_methods', installed or beside the recipe"
    refuses(UsageError, said, Recipe.load(file, GIVEN).check)
    file.write_text(f"modules: [..]\n{text}")
    Recipe.load(file, GIVEN).check()
    file.write_text(f"modules: [../nowhere]\n{text}")
    refuses(UsageError, r"mine\.yaml:1: modules\.0: no folder '.*nowhere'", Recipe.load, file, GIVEN)


def test_a_module_that_is_hidden_by_an_installed_one_is_refused(project):
    (project / "mymethods").rename(project / "yaml")
    (project / "yaml" / "__init__.py").touch()
    (project / "mine.yaml").write_text(RECIPE.format(module="yaml"))
    said = rf"{project}/yaml/__init__\.py is hidden by .*: give it another name"
    refuses(UsageError, said, Recipe.load(project / "mine.yaml", GIVEN).check)


def test_a_class_with_the_name_of_another_is_refused_before_anything_is_trained(project):
    parts = project / "mymethods" / "parts.py"
    parts.write_text(LAYERS.replace("import Layer", "import Layer as Base").replace("Doubled(Layer)", "Encoder(Base)"))
    (project / "mymethods").rename(project / "mymethods_twice")
    (project / "mine.yaml").write_text(RECIPE.format(module="mymethods_twice").replace("Doubled", "Encoder"))
    message = r"mine\.yaml:\d+: model\.encoder\.layer: .*'Encoder' is the name of several classes \(in .*: rename one"
    refuses(UsageError, message, Recipe.load(project / "mine.yaml", GIVEN).check)


@pytest.mark.parametrize("path, message", [("nowhere", "neither a folder nor a module"), ("yaml", "hidden by")])
def test_a_package_that_cannot_be_used_is_refused(tmp_path, path, message):
    (tmp_path / "yaml").mkdir()
    refuses(UsageError, f"--package .*{path}: {message}", described.use_package, tmp_path / path)


def test_headers_and_titles_are_comments_at_the_top(tmp_path):
    path = tmp_path / "a.yaml"
    path.write_text("# A model\n#of speech\n#\n#   dragoman run a\nx: 1\n# no more\n")
    assert locations.header(path) == "A model\nof speech\n\ndragoman run a"
    assert locations.title(path) == "A model of speech"
    path.write_text("# A model\n# dragoman run a\n")
    assert locations.title(path) == "A model"
    path.write_text("x: 1\n")
    assert locations.header(path) == locations.title(path) == ""
    for name, base in (("base.yaml", True), ("base_a.yaml", True), ("based.yaml", False), ("base/a.yaml", True)):
        assert locations.is_base(Path("recipes") / name) is base


def test_a_recipe_is_a_file_or_an_installed_one(tmp_path):
    (tmp_path / "mine.yaml").write_text("x: 1\n")
    assert locations.find(tmp_path / "mine.yaml") == (tmp_path / "mine.yaml", str(tmp_path / "mine.yaml"), "mine")
    file, shown, name = locations.find("own/mt")
    assert (shown, name) == ("recipes/own/mt.yaml", "own/mt") and file.is_file()
    assert locations.find(file) == (file, str(file), "own/mt")
    complaint = refusal(UsageError, locations.find, "own/mtt")
    assert complaint.startswith("no recipe 'own/mtt': neither a file nor an installed recipe (did you mean ")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("base: {a: 1}", "a.yaml:1: base: base names a recipe file, seen from this one, or an installed recipe, or a "
         "list of these"),
        ("base: a.yaml", "a.yaml: base recipes include each other in a circle"),
        ("base: b.yam", "a.yaml:1: base: no file 'b.yam' beside the recipe, and no installed recipe of this name (did "
         "you mean 'b.yaml'?)"),
        ("modules: [1]", "a.yaml:1: modules.0: modules is a list of folders, seen from the recipe"),
        ("modules: none", "a.yaml:1: modules: no folder '{folder}/none'"),
    ],
)  # fmt: skip
def test_what_is_said_of_bases_and_modules_that_are_none(tmp_path, text, said):
    (tmp_path / "a.yaml").write_text(f"{text}\n")
    (tmp_path / "b.yaml").write_text("x: 1\n")
    complaint = refusal(UsageError, locations.Layers(tmp_path / "a.yaml", "a.yaml").read)
    assert complaint == said.format(folder=tmp_path)


def test_bases_lie_below_what_names_them(tmp_path):
    texts = {"a": "base: [b.yaml, c.yaml]\none: 1", "b": "base: d.yaml\none: 2\ntwo: 2", "c": "two: 3\nfour: 3",
             "d": "four: 4\nfive: 5"}  # fmt: skip
    for name, text in texts.items():
        (tmp_path / f"{name}.yaml").write_text(f"{text}\n")
    layers = locations.Layers(tmp_path / "a.yaml", "x/a.yaml")
    root = layers.read()
    assert {name: node.value for name, node in root.items()} == {"one": 1, "two": 3, "four": 3, "five": 5}
    assert {name: node.place for name, node in root.items()} == {
        "one": "x/a.yaml:2", "two": "x/c.yaml:1", "four": "x/c.yaml:2", "five": "x/d.yaml:2",
    }  # fmt: skip
    assert layers.folders == [str(tmp_path)]
    assert {name: node.own for name, node in root.items()} == {"one": True, "two": False, "four": False, "five": False}
    assert locations.bases(tmp_path / "d.yaml") == {}
    assert [node.value for node in locations.bases(tmp_path / "a.yaml")["base"].value] == [
        str(tmp_path / "b.yaml"), str(tmp_path / "c.yaml"),
    ]  # fmt: skip
    (tmp_path / "e.yaml").write_text("base: recipes/own/mt.yaml\n")
    assert [node.value for node in locations.bases(tmp_path / "e.yaml")["base"].value] == ["own/mt"]


def test_so_many_bases_are_too_many(tmp_path, monkeypatch):
    monkeypatch.setattr(locations, "MOST_BASES", 3)
    for number in range(4):
        base = f"base: {number + 1}.yaml\n" if number < 3 else ""
        (tmp_path / f"{number}.yaml").write_text(f"{base}x: {number}\n")
    assert locations.Layers(tmp_path / "1.yaml", "1.yaml").read().value["x"].value == 1
    said = "^3.yaml: the recipe has more than 3 bases$"
    refuses(UsageError, said, locations.Layers(tmp_path / "0.yaml", "0.yaml").read)
