"""How texts write their words, by hand: what a lexicon inserts."""

import pytest

from dragoman import DataError, Manifest
from dragoman.mt.forms import CountForms
from dragoman.mt.lexicon import Lexicon
from dragoman.shared.text.normalise import Lowercase
from tests.small import refuses, row, run

PAIRS = [
    ("The doll. The NATO doll", "Die Puppe. Eine PUPPE und die NATO."),
    ("A doll, Anna!", "Puppe, sagt Anna: die Puppe."),
    ("", "Puppen sind puppe"),
]


def counted(folder, pairs, **arguments):
    Manifest.write(folder / "train.arrow", [row(n, *pair) for n, pair in enumerate(pairs)])
    made = run(CountForms(manifests=[str(folder / "train.arrow")], **arguments), folder, "forms").folder
    return {path.stem: path.read_text(encoding="utf-8").split() for path in made.glob("*.txt")}


def test_the_most_frequent_form_inside_of_sentences_is_written(tmp_path):
    """Puppe twice, PUPPE and puppe once; nothing is known of what only begins sentences, as Puppen and Eine do."""
    found = counted(tmp_path, PAIRS)
    assert found == {"en": ["Anna", "doll", "NATO"], "de": ["Anna", "die", "NATO", "Puppe", "sagt", "sind", "und"]}
    lexicon = Lexicon(files={"en-de": str(tmp_path / "en-de.txt")}, forms=str(tmp_path / "forms"))
    assert lexicon.written(("de", "puppe"), capital=False) == "Puppe"


def test_limits_normalizers_and_scripts_without_capitals(tmp_path):
    assert counted(tmp_path, PAIRS, limit=1) == {"en": ["doll", "NATO"], "de": ["die", "NATO", "PUPPE", "und"]}
    plain = counted(tmp_path, PAIRS, normalizers=[Lowercase()])
    assert plain["en"] == ["a", "anna", "doll", "nato", "the"]  # no capital begins a sentence any more: all count
    Manifest.write(tmp_path / "zh.arrow", [row(1, "北京人", source_language="zh")])
    made = run(CountForms(manifests=[str(tmp_path / "zh.arrow")]), tmp_path / "zh", "forms").folder
    assert made.is_dir() and not [*made.iterdir()]
    refuses(DataError, r"train\.arrow: no text whose language is named", counted, tmp_path, [("", "")])


@pytest.mark.parametrize("more", [0, 1])
def test_of_two_forms_as_frequent_the_first_of_the_alphabet_is_written(tmp_path, more):
    found = counted(tmp_path, [("", "a Weg. Der weg " + "x weg " * more)])
    assert ("Weg" in found["de"], "weg" in found["de"]) == (not more, bool(more))
