"""``dragoman check RECIPE``: what a run would refuse."""

import pytest

from dragoman.commands.check import check_recipe
from dragoman.shared.errors import UsageError

LATE = "warmup must end before total, which is 900, not at 900"


@pytest.mark.parametrize(
    ("recipe", "given"),
    [
        ("base: almanac/mt_low.yaml\nwarmup: 900\n", []),
        ("base: almanac/mt_low.yaml\n", ["--warmup", "900"]),
        ("base: almanac/mt_low.yaml\narms:\n    late: {warmup: 900}\n", []),
        ("base: almanac/mt_low.yaml\nphases:\n    before: !new:dragoman.runs.RunRecipe\n"
         "        recipe: almanac/mt_low\n        overrides: {warmup: 900, output_folder: before}\n", []),
    ],
    ids=["key", "command", "arm", "inner recipe"],
)  # fmt: skip
def test_values_that_constructors_refuse(recipe, given, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.yaml").write_text(recipe)
    with pytest.raises(UsageError, match=LATE):
        check_recipe("mine.yaml", given)


def test_what_nothing_has_written_yet_is_no_error(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    check_recipe("almanac/mt_from_mass", [])
    assert capsys.readouterr().out.startswith("almanac/mt_from_mass: corpus, ")
    assert not [*tmp_path.iterdir()]


def test_an_unknown_corpus_is_said_before_what_it_lacks(dragoman):
    code, _, messages = dragoman("check", "my_folder")
    assert code == 2 and "no corpus 'my_folder'; there are aligned, almanac" in messages
    code, _, messages = dragoman("check", "moses")
    assert code == 2 and "check moses: --root is missing" in messages
