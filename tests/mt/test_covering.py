"""How much of a text a lexicon knows, by hand."""

import logging

import pytest

from dragoman import DataError, Manifest, UsageError
from dragoman.mt.covering import LexiconCoverage
from dragoman.mt.lexicon import Lexicon
from tests.small import refuses, row, run


@pytest.fixture
def lexicon(tmp_path):
    (tmp_path / "de-en.txt").write_text("hund\tdog\nberlin\tBerlin\nhomme\tman\nsieht\tsees\n", encoding="utf-8")
    (tmp_path / "zh-en.txt").write_text("北京\tBeijing\n", encoding="utf-8")
    return Lexicon(files={name: str(tmp_path / f"{name}.txt") for name in ("de-en", "zh-en")})


def covered(folder, lexicon, texts, **arguments):
    rows = [row(n, text, source_language=code) for n, (code, text) in enumerate(texts)]
    Manifest.write(folder / "train.arrow", rows)
    phase = LexiconCoverage(manifests=[str(folder / "train.arrow")], lexicon=lexicon, **arguments)
    lines = (run(phase, folder, "coverage").folder / "coverage.tsv").read_text().splitlines()
    return {line.split("\t")[0]: [*map(int, line.split("\t")[1:])] for line in lines[1:]}


def test_words_are_counted_by_hand(lexicon, tmp_path, caplog):
    """Case does not matter; numbers are no words; where nothing divides words, the longest known one counts."""
    texts = [
        ("de", "Der Hund, der Hund: 12 sieht Berlin."),
        ("de", "l'homme HUND"),
        ("zh", "北京人"),
        ("en", "the dog"),
    ]
    with caplog.at_level(logging.INFO, "dragoman"):
        found = covered(tmp_path, lexicon, texts, least=60.0)
    # der hund der hund sieht berlin l homme hund: nine words, six different ones
    assert found == {"de": [9, 6, 6, 4], "en": [2, 0, 2, 0], "zh": [2, 1, 2, 1]}
    messages = [record.getMessage() for record in caplog.records]
    assert "de: the lexicon has 66.7 % of 9 words, 66.7 % of 6 different ones" in messages
    warned = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert warned == [f"{code}: less than 60 % of the words can be replaced" for code in ("en", "zh")]
    assert covered(tmp_path, lexicon, texts, limit=1) == {"de": [6, 4, 4, 3]}


def test_what_cannot_be_is_refused(lexicon, tmp_path):
    refuses(DataError, r"train\.arrow: no word in source_text whose", covered, tmp_path, lexicon, [("de", "12 !")])
    for wrong, said in (
        ({"least": -1}, "LexiconCoverage: least must be at least 0, not -1"),
        ({"limit": -2}, "LexiconCoverage: limit must be at least 0, not -2"),
        ({"columns": ["text"]}, r"LexiconCoverage: columns: item 0: 'text' is not one of 'source_text', 'target_text'"),
    ):
        refuses(UsageError, f"^{said}$", LexiconCoverage, manifests=[], lexicon=lexicon, **wrong)


def test_columns_limits_and_defaults(lexicon, tmp_path, caplog):
    Manifest.write(tmp_path / "t.arrow", [row("a", "dog", "Hund"), row("b", "dog")])
    both = {"columns": ["source_text", "target_text"], "languages": ["de"]}  # the source's English is not asked for
    phase = LexiconCoverage(manifests=[str(tmp_path / "t.arrow")], lexicon=lexicon, least=100.0, **both)
    written = (run(phase, tmp_path, "coverage").folder / "coverage.tsv").read_text()
    assert written == "language\twords\tknown\tdifferent\tdifferent_known\nde\t1\t1\t1\t1\n"
    assert not [record for record in caplog.records if record.levelname == "WARNING"]
    texts = [("de", "Hund"), ("de", "x"), ("de", "y")]
    assert covered(tmp_path, lexicon, texts, limit=0) == {"de": [3, 1, 3, 1]}
    assert covered(tmp_path, lexicon, texts, limit=2) == {"de": [2, 1, 2, 1]}
