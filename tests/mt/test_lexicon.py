"""Lexicons in MUSE's layout, and every trap of the layout that we know."""

import pytest

from dragoman.mt.lexicon import Lexicon, lexicon_files
from dragoman.shared.errors import DataError, UsageError
from tests.small import refuses

# Spaces and tabs divide words; a word's translations need not stand together; a translation may have several words.
EN_DE = "the der\nthe die\ndog hund\ncat\tkatze\nthe das\nnew york  new york\n\ndog hündin\nicecream eis am stiel\n"


@pytest.fixture
def files(tmp_path):
    (tmp_path / "en-de.txt").write_text(EN_DE, encoding="utf-8")
    (tmp_path / "en-fr.txt").write_bytes("\ufeffdog chien\r\ncat chat\r\n".encode())
    return lexicon_files(folder=str(tmp_path), pairs=[["en", "de"], ["en", "fr"]])


def test_translations_are_read_by_word(files):
    lexicon = Lexicon(files=files)
    assert lexicon.candidates("the", "en") == [("de", "der"), ("de", "die"), ("de", "das")]
    assert lexicon.candidates("dog", "en") == [("de", "hund"), ("de", "hündin"), ("fr", "chien")]
    assert lexicon.candidates("dog", "en", ["fr"]) == [("fr", "chien")]
    assert lexicon.candidates("icecream", "en") == [("de", "eis am stiel")]
    assert lexicon.candidates("hund", "de") == lexicon.candidates("mouse", "en") == []
    assert lexicon.pairs == {("en", "de"), ("en", "fr")}


def test_a_translation_has_the_form_of_its_texts(files, tmp_path):
    """The word that it replaces decides nothing, but for a capital at the start of a sentence."""
    (tmp_path / "forms").mkdir()
    (tmp_path / "forms" / "de.txt").write_text("der\nHund\nNATO\nRad\nStiel\nEis\nam\n", encoding="utf-8")
    lexicon = Lexicon(files=files, forms=str(tmp_path / "forms"))
    assert lexicon.candidates("Dog", "en", ["de"])[0] == lexicon.candidates("dog", "en", ["de"])[0] == ("de", "hund")
    wanted = {"hund": "Hund", "der": "der", "Der": "der", "nato": "NATO", "sieht": "sieht"}
    wanted |= {"eis am stiel": "Eis am Stiel"}
    assert {word: lexicon.written(("de", word), capital=False) for word in wanted} == wanted
    assert [lexicon.written(("de", word), capital=True) for word in ("der", "hund")] == ["Der", "Hund"]
    assert lexicon.written(("fr", "Paris"), capital=False) == "Paris"  # there are no French texts
    assert Lexicon(files=files).written(("de", "hund"), capital=False) == "hund"
    lost = Lexicon(files=files, forms=str(tmp_path / "other"))
    refuses(DataError, "other: no such folder, which phase CountForms writes", lost.load)


def test_case_is_that_of_the_language(tmp_path):
    """Turkish has two letters i, each with a capital; Georgian has no capitals at the beginning of words."""
    (tmp_path / "en-tr.txt").write_text("station istasyon\nlight ışık\n", encoding="utf-8")
    lexicon = Lexicon(files={"en-tr": str(tmp_path / "en-tr.txt")}, both_ways=True)
    for word, other in (("İstasyon", "station"), ("İSTASYON", "station"), ("Işık", "light"), ("IŞIK", "light")):
        assert lexicon.candidates(word, "tr") == [("en", other)]
    begins = [("tr", "istasyon"), ("tr", "ışık"), ("az", "istasyon"), ("en", "istasyon"), ("ka", "ძაღლი")]
    found = [lexicon.written(word, capital=True) for word in begins]
    assert found == ["İstasyon", "Işık", "İstasyon", "Istasyon", "ძაღლი"]


def test_beside_a_tab_spaces_are_inside_of_words(tmp_path):
    (tmp_path / "en-es.txt").write_text("new york\tnueva york\nnew nuevo\n", encoding="utf-8")
    lexicon = Lexicon(files={"en-es": str(tmp_path / "en-es.txt")})
    assert {word: lexicon.candidates(word, "en") for word in lexicon.entries("en")} == {
        "new york": [("es", "nueva york")],
        "new": [("es", "nuevo")],
    }


def test_probabilities_stand_behind_a_second_tab(tmp_path):
    lines = "dog\thund\t0.75\ndog\tköter\t0.25\ncat\tkatze\nbig dog\tdogge\t1e-4\n"
    (tmp_path / "en-de.txt").write_text(lines, "utf-8")
    lexicon = Lexicon(files={"en-de": str(tmp_path / "en-de.txt")})
    found = lexicon.candidates("Dog", "en")
    assert found == [("de", "hund"), ("de", "köter")]
    assert lexicon.probabilities("Dog", "en", found) == [0.75, 0.25]
    assert lexicon.probabilities("DOG", "en", found[1:]) == [0.25]
    assert lexicon.probabilities("big dog", "en", [("de", "dogge")]) == [1e-4]
    assert lexicon.probabilities("cat", "en", [("de", "katze")]) is None
    mixed = tmp_path / "mixed.txt"  # a word some of whose lines name none, and one that comes twice
    mixed.write_text("dog\thund\ndog\tköter\t0.25\ndog\tköter\t0.5\ndog\twauwau\n", "utf-8")
    lexicon = Lexicon(files={"en-de": str(mixed)})
    found = lexicon.candidates("dog", "en")
    assert [lexicon.probabilities("dog", "en", [one]) for one in found] == [None, [0.25], None]
    assert lexicon.probabilities("dog", "en", found) is None
    for wrong in ("0", "1.5", "noun", "nan"):
        (tmp_path / "wrong.txt").write_text(f"cat\tkatze\ndog\thund\t{wrong}\n")
        lexicon = Lexicon(files={"en-de": str(tmp_path / "wrong.txt")})
        refuses(DataError, rf"wrong\.txt, line 2: a probability .* not '{wrong}'", lexicon.load)


def test_top_counts_words_not_lines(files):
    lexicon = Lexicon(files={"en-de": files["en-de"]}, top=2)
    assert sorted(lexicon.entries("en")) == ["dog", "the"]
    assert lexicon.candidates("dog", "en") == [("de", "hund"), ("de", "hündin")]


def test_both_ways_and_depth_lead_from_one_language_to_another(files):
    lexicon = Lexicon(files=files, both_ways=True)
    assert lexicon.candidates("hund", "de") == [("en", "dog")]
    wide = Lexicon(files=files, both_ways=True, depth=2)
    assert wide.candidates("Hund", "de") == [("en", "dog"), ("fr", "chien")]
    assert wide.candidates("Hund", "de", ["fr"]) == [("fr", "chien")]
    assert wide.candidates("dog", "en") == lexicon.candidates("dog", "en")
    assert wide.candidates("maus", "de") == []
    assert ("de", "fr") in wide.pairs and ("de", "fr") not in lexicon.pairs and ("en", "en") not in wide.pairs


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"dog hund\ncat\n", r"en-de\.txt, line 2: a word and its translation were expected, not 'cat'"),
        (b"\n\n", r"en-de\.txt: no word in it"),
        (b"dog h\xfcnd\n", r"en-de\.txt, line 1: not UTF-8"),
    ],
)
def test_a_broken_file_is_named_with_its_line(content, message, tmp_path):
    (tmp_path / "en-de.txt").write_bytes(content)
    refuses(DataError, message, Lexicon(files={"en-de": str(tmp_path / "en-de.txt")}).load)


def test_wrong_arguments_are_refused(tmp_path, files):
    refuses(DataError, r"en-it\.txt: there is no such file", Lexicon(files={"en-it": str(tmp_path / "en-it.txt")}).load)
    for direction in ("en", "en-en", "en-xx"):
        refuses(UsageError, "two different languages, such as 'en-de'", Lexicon, files={direction: files["en-de"]})
    refuses(UsageError, "top must be at least 1, not 0", Lexicon, files=files, top=0)
    refuses(UsageError, "depth must be at least 1, not 0", Lexicon, files=files, depth=0)
    assert Lexicon(files={"en-zh-CN": files["en-fr"]}).candidates("dog", "en") == [("zh-CN", "chien")]
