"""Nesting that a parser cannot follow is refused before it is parsed; what it can follow is left alone."""

from __future__ import annotations

import json

import pytest
import yaml

from dragoman import DataError, Recipe, UsageError
from dragoman.exchange.fairseq.fairseq_s2t import DataConfig
from dragoman.exchange.vocabularies.vocabulary import read_vocabulary
from dragoman.shared.machine import nesting
from dragoman.shared.machine.nesting import DEPTH, REPEATED, from_json, yaml_problem
from tests.shared.recipe_parts import Fit
from tests.small import refuses


@pytest.mark.parametrize("opening", ["[", "{a: ", "- ", "? "])
@pytest.mark.parametrize("levels", [DEPTH + 1, 3_000, 100_000])
def test_yaml_that_is_nested_too_deep_is_refused_with_its_line(opening, levels):
    line, problem = yaml_problem("# a comment\n" + opening * levels) or (0, "")
    assert line == 2
    assert problem == f"nested more than {DEPTH} levels deep"


def test_yaml_of_the_greatest_depth_is_parsed():
    text = "[" * DEPTH + "]" * DEPTH
    assert yaml_problem(text) is None
    assert json.dumps(yaml.safe_load(text)) == text


def test_brackets_in_text_and_one_after_the_other_are_no_nesting():
    assert yaml_problem('a: "' + "[" * 3_000 + '"\n' + "- not YAML") is None
    assert yaml_problem("- [1, 2]\n" * 3_000) is None


def aliases(levels: int, each: int) -> str:
    """Return a text of lists, each of which repeats the one before `each` times."""
    lines = [f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * each)}]" for level in range(1, levels)]
    return "\n".join(["a0: &a0 x", *lines])


def test_aliases_that_multiply_each_other_are_refused():
    line, problem = yaml_problem(aliases(levels=40, each=10)) or (0, "")
    assert line == 8  # 10 + 110 + 1,110 + ... values
    assert problem == f"aliases repeat more than {REPEATED:,} values"


@pytest.mark.parametrize(("value", "size"), [("x", 1), ("[x, y]", 3), ("{x: [y]}", 4)])
def test_what_an_alias_repeats_is_counted(value, size, monkeypatch):
    monkeypatch.setattr(nesting, "REPEATED", 12)
    for times in (12 // size, 12 // size + 1):
        found = yaml_problem(f"- &a {value}\n" + "- *a\n" * times)
        assert found == (None if times * size <= 12 else (times + 1, "aliases repeat more than 12 values"))


def test_aliases_of_one_value_are_no_problem():
    assert yaml_problem("- &speaker spk.1\n" + "- *speaker\n" * 10_000) is None


def test_what_is_not_yaml_is_left_to_the_parser():
    assert yaml_problem("a: [1, 2") is None
    assert yaml_problem("\udce4: 1") is None


@pytest.mark.parametrize("levels", [DEPTH + 1, 3_000, 100_000])
@pytest.mark.parametrize("opening, closing", [("[", "]"), ('{"a":', "}")])
def test_json_that_is_nested_too_deep_is_a_value_error(opening, closing, levels):
    refuses(ValueError, f"nested more than {DEPTH} levels deep", from_json, opening * levels + "1" + closing * levels)


def test_json_is_what_json_reads():
    text = '{"a": [1, {"b": [[]]}], "c": "[[["}'
    assert from_json(text) == json.loads(text)
    assert from_json(b"3") == 3
    with pytest.raises(json.JSONDecodeError):
        from_json("{")


TOO_DEEP = f"nested more than {DEPTH} levels deep"


@pytest.mark.parametrize("levels", [DEPTH + 1, 3_000, 100_000])
@pytest.mark.parametrize("opening", ["[", "{a: "])
def test_a_recipe_that_is_nested_too_deep_is_refused_with_file_and_line(tmp_path, opening, levels):
    file = tmp_path / "deep.yaml"
    file.write_text(f"seed: 1\nlist: {opening * levels}", encoding="utf-8")
    refuses(UsageError, rf"deep\.yaml:2: {TOO_DEEP}$", Recipe.load, file)


@pytest.mark.parametrize("levels", [3_000, 100_000])
def test_a_key_of_the_command_line_that_is_nested_too_deep_is_refused_by_name(levels):
    with pytest.raises(UsageError, match=f"^command line: --source_language: {TOO_DEEP}$"):
        Recipe.load("own/mt", ["--source_language", "[" * levels])


def test_a_chain_of_references_that_is_too_long_is_refused(tmp_path):
    chain = "".join(f"a{i}: !ref <a{i + 1}>\n" for i in range(3_000))
    file = tmp_path / "chain.yaml"
    file.write_text(f"{chain}a3000: 1\nphases: {{fit: !new:{Fit.__module__}.Fit {{rate: !ref <a0>}}}}\n", "utf-8")
    with pytest.raises(UsageError, match=rf"chain\.yaml:\d+: a\d+: is {TOO_DEEP} when references are followed"):
        Recipe.load(file).plan["fit"].plain


def test_tuples_in_tuples_are_refused_however_many(tmp_path):
    file = tmp_path / "tuples.yaml"
    file.write_text(f"shape: {'(' * 3_000}1{')' * 3_000}\n", encoding="utf-8")
    refuses(UsageError, r"tuples\.yaml:1: shape.*: a tuple holds plain values only", Recipe.load, file)


def test_a_recipe_of_the_greatest_depth_is_built(tmp_path):
    levels = DEPTH - 5  # those of the phase around it
    file = tmp_path / "deep.yaml"
    file.write_text(
        f"output_folder: x\nphases: {{fit: !new:{Fit.__module__}.Fit "
        f"{{model: !new:{Fit.__module__}.Model {{layers: [], free: {'{a: ' * levels}1{'}' * levels}}}, rate: 0.1}}}}\n",
        encoding="utf-8",
    )
    value = Recipe.load(file).plan["fit"].build().model.free
    for _ in range(levels):
        value = value["a"]
    assert value == 1


def test_a_vocabulary_that_is_nested_too_deep_is_a_data_error(tmp_path):
    (tmp_path / "vocab.json").write_text("[" * 3_000 + "]" * 3_000, encoding="utf-8")
    refuses(DataError, f"vocab.json: cannot be read .{TOO_DEEP}", read_vocabulary, tmp_path / "vocab.json")


def test_settings_of_fairseq_that_are_nested_too_deep_are_a_data_error(tmp_path):
    (tmp_path / "config.yaml").write_text("transforms: " + "[" * 3_000 + "]" * 3_000, encoding="utf-8")
    refuses(DataError, f"config.yaml, line 1: {TOO_DEEP}", DataConfig, tmp_path / "config.yaml")
