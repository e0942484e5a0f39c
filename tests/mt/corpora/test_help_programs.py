"""Paragraphs of LibreOffice's help with their programs."""

import pytest

from dragoman import DataError, Manifest
from dragoman.mt.corpora.help_programs import HelpPrograms
from dragoman.preparing.preparation import prepare
from tests.mt.corpora.test_libreoffice import DEV, MORE, TEST, TRAIN, write
from tests.small import refuses

CALC = MORE.replace("swriter", "scalc")  # a function of its name: any split will do


@pytest.fixture
def packages(tmp_path):
    english = {"a": "Open a text", "b": "Save", "c": "LibreOffice", "d": "Open a text", "e": "In  DEV"}
    german = {"a": "Text öffnen", "b": "Speichern", "c": "LibreOffice", "e": "Anders"}
    for language, texts, held in (("en-US", english, {"x": "In dev"}), ("de", german, {"x": "In Dev"})):
        write(tmp_path, language, {TRAIN: texts, DEV: held, TEST: {"t": f"Test {language}"}})
    return tmp_path


def rows(root, language, split):
    corpus = HelpPrograms(root=root, language=language)
    return [(row["source_text"], row["label"]) for row in corpus.rows(split)], dict(corpus.passed_over(split))


def test_a_paragraph_has_the_program_of_its_page(packages):
    texts, passed = rows(packages, "en", "train")
    assert texts == [("Open a text", "swriter"), ("Save", "swriter"), ("LibreOffice", "swriter")]
    assert passed == {"repeated texts": 1, "texts of dev or test": 1}
    texts, passed = rows(packages, "de", "train")
    assert texts == [("Text öffnen", "swriter"), ("Speichern", "swriter")]
    assert passed == {"texts that are the English itself": 1, "texts of dev or test": 1}
    assert rows(packages, "de", "test") == ([("Test de", "swriter")], {})
    assert rows(packages, "de", "dev")[0] == [("In Dev", "swriter")]


def test_what_stands_in_the_help_of_several_programs_has_none(packages):
    write(packages, "en-US", {CALC: {"a": "SAVE", "b": "Add up"}})
    write(packages, "de", {CALC: {"b": "Summieren"}})
    texts, passed = rows(packages, "de", "train")
    found = texts + rows(packages, "de", "dev")[0] + rows(packages, "de", "test")[0]
    assert ("Summieren", "scalc") in found and ("Speichern", "swriter") not in texts
    assert passed["texts of several programs"] == 1


def test_it_becomes_manifests(packages, tmp_path):
    prepare(HelpPrograms(root=packages, language="de"), tmp_path / "out", workers=1)
    [first, _] = Manifest.open(tmp_path / "out" / "de" / "train.arrow")
    assert (first["label"], first["document"], first["source_language"]) == ("swriter", TRAIN, "de")
    refuses(DataError, "nothing in fr; there are de, en-US", HelpPrograms, root=packages, language="fr")
    refuses(DataError, "no usr/share/libreoffice/help/en-US/text", HelpPrograms, root=tmp_path / "no", language="de")
