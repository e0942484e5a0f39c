"""The commands and overrides that headers of recipes name can be pasted: each is checked as a run checks it."""

import re
from pathlib import Path

import pytest

from dragoman.shared.recipe.locations import is_base
from dragoman.shared.recipe.recipe import Recipe
from tests.recipes.installed import RECIPES, swept
from tests.recipes.test_recipes import FILLED_IN

VALUE = r"""(?:"[^"]*"|'[^']*'|\S+)"""
OPTION = rf"--([a-z_](?:[\w.\[\]]*[\w\]])?) +({VALUE})"
OPTIONS = re.compile(rf"(?:dragoman run (?P<name>\S+) +)?(?P<options>{OPTION}(?: +{OPTION})*)")


def overrides(header):
    """Yield the recipe that is run (None: the header's own) and the changes, of each command and part of the text."""
    lines = header.replace("\\\n", "").splitlines()
    commands = [line for line in lines if line.startswith("dragoman ")]
    text = " ".join(line for line in lines if line not in commands)
    for place in (*(line for line in commands if line.startswith("dragoman run ")), text):
        for match in OPTIONS.finditer(re.sub(r"\s+", " ", place)):
            given = re.findall(OPTION, match["options"])
            options = {key: value[1:-1] if value[0] in "'\"" else value.rstrip(".,;:)") for key, value in given}
            yield match["name"], options


ROOT = Path(__file__).parents[2]
#: Recipes over real data, which are not installed.
REAL_INPUT = [path for path in sorted((ROOT / "docs/real_input").glob("*.yaml")) if not is_base(path)]
HEADERS = {name: [*overrides(recipe.header)] for name, recipe in RECIPES.items()}


def test_overrides_are_found_in_commands_and_texts():
    commands = 'dragoman run a/b --x 1 \\\n--y.z "[2, 3]"\ndragoman translate c --reads d\n'
    header = f"Title\n\n{commands}\nWithout: --x null --w\n4. More: dragoman run e/f --v '{{a: 5}}'."
    found = [("a/b", {"x": "1", "y.z": "[2, 3]"}), (None, {"x": "null", "w": "4"}), ("e/f", {"v": "{a: 5}"})]
    assert [*overrides(header)] == found


@pytest.mark.parametrize("name", swept(name for name, found in HEADERS.items() if found))
def test_what_a_header_names_can_be_given(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for other, changes in HEADERS[name]:
        one = other or name
        missing = {key: FILLED_IN.get(key, key) for key in Recipe.load(one, changes).placeholders}
        Recipe.load(one, missing | changes).check()


def test_recipes_over_real_input_are_found():
    assert {"cascade.yaml", "multilingual.yaml", "xstnet.yaml"} <= {path.name for path in REAL_INPUT}


@pytest.mark.parametrize("path", REAL_INPUT, ids=lambda path: path.name)
def test_the_commands_of_recipes_over_real_input_are_complete(path, monkeypatch):
    """Nothing is filled in here: the command names all folders that such a recipe needs."""
    monkeypatch.chdir(ROOT)  # from which its path is written
    shown, commands = path.relative_to(ROOT).as_posix(), {}
    for name, changes in overrides(Recipe.load(path).header):
        if name is None:  # a variant of the recipe, told in the text after its command
            changes = commands.get(shown, {}) | changes
        else:
            commands[name] = changes
        Recipe.load(name or shown, changes).check()
    assert shown in commands, f"the header of {shown} has no command 'dragoman run {shown} --...'"
