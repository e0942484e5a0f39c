"""A recipe in one piece, with the places and comments of its lines."""

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dragoman import Recipe, UsageError
from dragoman.cli.main import app
from tests.small import slow_but

ROOT = Path(__file__).resolve().parents[3]
NOTE = re.compile(r"(.*?) +# (\S+\.yaml:\d+|command line|default)(?: +(.*))?")
LISTED = Recipe.list()
NAMES = [name for name, _ in LISTED]


def shown(*arguments):
    return CliRunner().invoke(app, ["show", *map(str, arguments)], catch_exceptions=False).stdout


def notes(text):
    """Return (key and value, place, comment) of all lines below the header."""
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    found = [NOTE.fullmatch(line) for line in lines]
    assert None not in found, [line for line, match in zip(lines, found, strict=True) if match is None]
    return [(match[1].strip(), match[2], match[3] or "") for match in found]


def line_of(text, start):
    (line,) = [note for note in notes(text) if note[0].startswith(start)][:1]
    return line


def top_level(text):
    return {line.partition(":")[0] for line in text.splitlines() if re.match(r"\w", line)}


def given(name):
    """Return arguments that give a value to all keys of a recipe that need one."""
    return [word for key in Recipe.load(name).placeholders for word in (f"--{key}", "given")]


def said(recipe):
    return recipe.flat(), {phase: recipe.plan[phase].plain for phase in recipe.phases}


def test_every_line_names_the_line_of_a_file_that_says_so():
    found = notes(shown("almanac/st"))
    files = {place.rpartition(":")[0] for _, place, _ in found}
    assert {"recipes/base/run.yaml", "recipes/base/speech.yaml", "recipes/almanac/st.yaml"} <= files
    for written, place, _ in found:
        file, _, number = place.rpartition(":")
        if file:
            lines = (ROOT / file).read_text().splitlines()
            assert written.lstrip("- ").split(":")[0].split()[0] in lines[int(number) - 1], (written, place)


def test_a_comment_of_the_base_explains_a_value_from_elsewhere():
    text = shown("almanac/st", "--width", "32")
    assert line_of(text, "width: 32")[1:] == ("command line", "model dimension")
    assert line_of(text, "validate_every: 200")[2] == "updates"
    assert line_of(text, "label_smoothing: 0.1")[1].startswith("recipes/base/run.yaml:")
    assert line_of(text, "device: auto")[1:] == ("default", "auto, cpu, cuda, cuda:1, mps")


def test_a_comment_of_several_lines_is_one(tmp_path):
    (tmp_path / "base.yaml").write_text("a: [1, 2]   # first,\n            # second\n# -- heading\nb: 'x # y'\n")
    (tmp_path / "one.yaml").write_text(
        "# Header\nbase: base.yaml\noutput_folder: out\n\n# above\n# it\nc: {d: 1}  # behind\n"
        "phases:\n    one: !new:tests.shared.recipe_parts.Slab   # a phase\n"
        '        size: [!ref <a>, !ref <b>, !ref <c>]\n        text: "a\\n # b"  # two lines\n'
    )
    text = shown(tmp_path / "one.yaml")
    assert line_of(text, "a:")[2] == "first, second"
    assert line_of(text, "b: 'x # y'")[2] == ""
    assert line_of(text, "c:")[2] == "above it behind"
    assert line_of(text, "one:")[2] == "a phase"
    assert line_of(text, 'text: "a\\n # b"')[2] == "two lines"
    assert str(tmp_path / "base.yaml:1") in line_of(text, "a:")[1]


#: One recipe of each folder.
FIRST = {name.partition("/")[0]: name for name in reversed(NAMES)}.values()


@pytest.mark.parametrize("name", slow_but(FIRST, NAMES))
def test_the_output_is_the_same_recipe(name, tmp_path):
    arguments = given(name)
    whole = Recipe.load(name, arguments)
    (tmp_path / "whole.yaml").write_text(shown(name, *arguments))
    assert said(Recipe.load(tmp_path / "whole.yaml")) == said(whole)
    (tmp_path / "changed.yaml").write_text(shown(name, "--changed", *arguments, "--pieces", "77"))
    assert said(Recipe.load(tmp_path / "changed.yaml")) == said(Recipe.load(name, [*arguments, "--pieces", "77"]))


def test_a_phase_is_shown_with_what_it_is_built_from(tmp_path):
    text = shown("almanac/st", "--phase", "tokenizer")
    assert {"phases", "output_folder", "seed", "pieces", "source_normalizers"} <= top_level(text)
    assert not {"model", "optimizer", "width", "updates", "reader", "device"} & top_level(text)
    (tmp_path / "one.yaml").write_text(text)
    one = Recipe.load(tmp_path / "one.yaml")
    one.check()
    assert one.phases == ["tokenizer"]
    assert one.plan["tokenizer"].plain == Recipe.load("almanac/st").plan["tokenizer"].plain
    with pytest.raises(UsageError, match="no phase 'tokeniser' .did you mean 'tokenizer'"):
        shown("almanac/st", "--phase", "tokeniser")


def test_changed_leaves_out_what_only_bases_say():
    text = shown("mustc/st", "--changed")
    assert line_of(text, "- base/speech")[1] == "recipes/mustc/st.yaml:11"
    assert line_of(text, "pieces: 8000")[1].startswith("recipes/mustc/st.yaml:")
    assert not {"width", "device", "optimizer", "data_folder"} & top_level(text)
    assert "objective" not in text

    item = shown("almanac/st", "--changed", "--source_normalizers.0.lowercase", "true")
    assert line_of(item, "lowercase: true")[1] == "command line"
    assert line_of(item, "punctuation: !ref")[1].startswith("recipes/base/run.yaml:")  # with the whole list


def test_keys_without_a_value_are_shown_as_such():
    written, place, comment = line_of(shown("mustc/st"), "data_folder:")
    assert (written, comment) == ("data_folder: !PLACEHOLDER", "the folder with en-de/, en-fr/, ...")
    assert place.startswith("recipes/mustc/base.yaml:")


def test_recipes_are_listed_with_their_whole_titles(dragoman):
    code, output, _ = dragoman("recipes")
    lines = output.splitlines()
    assert code == 0 and [line.split()[0] for line in lines] == NAMES
    for line, (_, title) in zip(lines, LISTED, strict=True):
        assert line.endswith(title) and title.count("(") == title.count(")")


def test_recipes_can_be_looked_for(dragoman):
    found = [line.split()[0] for line in dragoman("recipes", "mustc", "Conformer")[1].splitlines()]
    assert found == ["mustc/asr_conformer", "mustc/st_conformer"]
    code, _, messages = dragoman("recipes", "mustc", "conforming")
    assert code == 2 and "no recipe has 'mustc' and 'conforming' in its name or title" in messages
