"""Tatoeba and BUCC: miniatures of their published layouts."""

import pytest

from dragoman import DataError
from dragoman.mt.corpora.retrieval import Bucc, Tatoeba
from dragoman.shared.text.lines import Unusable
from tests.small import refuses


def test_tatoeba_is_read_in_both_directions_by_codes_of_three_letters(tmp_path):
    (tmp_path / "tatoeba.cmn-eng.cmn").write_text("你好\n再见\n", encoding="utf-8")
    (tmp_path / "tatoeba.cmn-eng.eng").write_text("Hello\nGoodbye\n", encoding="utf-8")
    corpus = Tatoeba(root=tmp_path, source_language="zh", target_language="en")
    assert corpus.splits() == ["test"] and corpus.folder == "zh-en" and corpus.count("test") == 2
    assert [row["source_text"] for row in corpus.rows("test")] == ["你好", "再见"]
    [first, _] = Tatoeba(root=tmp_path, source_language="en", target_language="zh").rows("test")
    assert (first["source_text"], first["target_text"], first["target_language"]) == ("Hello", "你好", "zh")
    given = {"root": tmp_path, "source_language": "de"}
    refuses(DataError, "pairs are with English, not of de and fr", Tatoeba, target_language="fr", **given)
    refuses(DataError, "no files", Tatoeba, target_language="en", **given)


@pytest.fixture
def bucc(tmp_path):
    (tmp_path / "de-en").mkdir()
    for name in ("sample", "training"):
        stem = f"{tmp_path}/de-en/de-en.{name}"
        for ending, text in (
            ("de", "de-1\tEin Hund\nde-2\tEine Katze\nde-3\n"),
            ("en", "en-1\tA cat\nen-2\tRain\n"),
            ("gold", "de-2\ten-1\n"),
        ):
            with open(f"{stem}.{ending}", "w", encoding="utf-8") as file:
                file.write(text)
    return tmp_path


def test_bucc_has_the_rows_of_both_languages(bucc):
    corpus = Bucc(root=bucc, language="de")
    assert corpus.splits() == ["dev", "test"] and corpus.folder == "de-en" and corpus.count("test") == 5
    assert [path.name for path in corpus.inputs("dev")] == [f"de-en.sample.{ending}" for ending in ("de", "en", "gold")]
    rows = list(corpus.rows("test"))
    found = [(row["id"], row["source_language"], row["counterpart"]) for row in rows if not isinstance(row, Unusable)]
    assert found == [("de-1", "de", None), ("de-2", "de", "en-1"), ("en-1", "en", "de-2"), ("en-2", "en", None)]
    [wrong] = [row for row in rows if isinstance(row, Unusable)]
    assert "de-en.training.de, line 3: not an id and a sentence" in str(wrong)
    refuses(DataError, r"fr-en.training.\{fr,en,gold\}", Bucc, root=bucc, language="fr")


@pytest.mark.parametrize(("gold", "line"), [("de-2\n", 1), ("de-2\ten-1\nde-3\ten-1\n", 2), ("de-2\t\n", 1)])
def test_a_solution_that_is_not_pairs_is_named(bucc, gold, line):
    (bucc / "de-en/de-en.training.gold").write_text(gold, encoding="utf-8")
    corpus = Bucc(root=bucc, language="de")
    refuses(DataError, rf"de-en.training.gold, line {line}: .* is not two ids", lambda: list(corpus.rows("test")))
