"""Texts of LibreOffice's help with their titles."""

import pytest

from dragoman import DataError, Manifest, UsageError
from dragoman.mt.corpora import help_titles
from dragoman.mt.corpora.help_titles import HelpTitles
from dragoman.preparing.preparation import prepare
from dragoman.shared.machine import extras
from tests.mt.corpora.test_libreoffice import DEV, MORE, TEST, TRAIN, write
from tests.small import refuses

KEYS = ("before", "hd_1", "a", "b", "hd_2", "c")
ENGLISH = ("Menu", "Open files", "Choose a file.", "Then open it.", "Syntax", "Open")
GERMAN = ("Menü", "Dateien öffnen", "Datei wählen.", "Dann öffnen.", "Syntax", "Auf")


@pytest.fixture
def packages(tmp_path):
    page, translated = (dict(zip(KEYS, texts, strict=True)) for texts in (ENGLISH, GERMAN))
    more = {"hd_1": "OPEN  files", "a": "choose it!", "hd_3": "Nothing", "hd_4": "Held", "d": "In  DEV"}
    more |= {"hd_5": "Save", "e": "Save it."}
    held, test = {"hd_1": "In dev", "x": "In dev"}, {"hd_1": "Test", "t": "A test"}
    write(tmp_path, "en-US", {TRAIN: page, MORE: more, DEV: held, TEST: test})
    more = {"hd_1": "Offen", "a": "choose it!", "hd_4": "Gehalten", "d": "In  DEV"}
    held, test = {"hd_1": "In Arbeit", "x": "dort"}, {"hd_1": "Probe", "t": "Eine Probe"}
    write(tmp_path, "de", {TRAIN: translated, MORE: more, DEV: held, TEST: test})
    return tmp_path


def rows(root, source, target, split="train", **options):
    corpus = HelpTitles(root=root, source_language=source, target_language=target, **options)
    found = sorted(corpus.rows(split), key=lambda row: row["document"] == MORE)  # which comes first otherwise
    return [(row["source_text"], row["target_text"]) for row in found], dict(corpus.passed_over(split))


def test_the_first_heading_is_the_title_of_a_page(packages):
    texts, passed = rows(packages, "en", "en")
    assert texts == [
        ("Choose a file. Then open it. Syntax Open", "Open files"),
        ("choose it! Nothing Held In DEV Save Save it.", "OPEN files"),
    ]
    assert passed == {} and rows(packages, "en", "en", "test")[0] == [("A test", "Test")]
    assert rows(packages, "en", "de")[0] == [
        (text, title) for (text, _), title in zip(texts, ("Dateien öffnen", "Offen"), strict=True)
    ]
    assert rows(packages, "de", "de")[0][0] == ("Datei wählen. Dann öffnen. Syntax Auf", "Dateien öffnen")
    assert rows(packages, "de", "en", "test")[0] == [("Eine Probe", "Test")]


def test_sections_are_rows_on_demand(packages):
    texts, passed = rows(packages, "en", "en", sections=True)
    assert texts == [
        ("Choose a file. Then open it.", "Open files"),
        ("Open", "Syntax"),
        ("choose it!", "OPEN files"),
        ("Save it.", "Save"),
    ]
    assert passed == {"titles without a text, or not in both languages": 1, "texts of dev or test": 1}


def test_what_is_not_translated_is_left_out(packages):
    texts, passed = rows(packages, "en", "de", sections=True)
    assert texts == [("Choose a file. Then open it.", "Dateien öffnen"), ("choose it!", "Offen")]
    assert passed["titles that are the English itself"] == 1  # "Syntax"
    assert passed["titles without a text, or not in both languages"] == 2
    texts, passed = rows(packages, "de", "de", sections=True)
    assert texts == [("Datei wählen. Dann öffnen.", "Dateien öffnen")]
    assert passed["texts that are the English itself"] == 2 and passed["titles that are the English itself"] == 1


def test_titles_of_many_pages_are_left_out(packages, monkeypatch):
    monkeypatch.setattr(help_titles, "MOST_PAGES", 1)
    texts, passed = rows(packages, "en", "en", sections=True)
    assert texts == [("Open", "Syntax"), ("Save it.", "Save")] and passed["titles of many pages"] == 2


def test_it_becomes_manifests(packages, tmp_path, monkeypatch):
    codes = {"source_language": "en", "target_language": "de"}
    corpus = HelpTitles(root=packages, **codes)
    prepare(corpus, tmp_path / "out", workers=1)
    [_, first] = Manifest.open(tmp_path / "out" / "en-de" / "train.arrow")
    assert (first["id"], first["document"], first["target_language"]) == (f"{TRAIN}#hd_1", TRAIN, "de")
    assert len(corpus.inputs("test")) == 4 + 1 and corpus.folder == "en-de"
    other = codes | {"target_language": "fr"}
    refuses(DataError, "nothing in fr; there are de, en-US", HelpTitles, root=packages, **other)
    monkeypatch.setattr(extras, "find_spec", lambda name: None)
    refuses(UsageError, "help_titles needs the library lxml", HelpTitles, root=packages, **codes)
