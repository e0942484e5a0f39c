"""The reader of the table of TED talks in many languages."""

import pytest

from dragoman import DataError, Manifest
from dragoman.mt.corpora.ted import Ted
from dragoman.preparing.preparation import prepare
from dragoman.shared.text.lines import Unusable
from tests.small import refuses

HEADER = ["en", "talk_name", "fr", "pt-br"]
TRAIN = [
    ['I love " a challenge .', "one", "J&apos; aime .", "Eu amo ."],
    ["Only here", "one", "__NULL__", "_ _ NULL _ _"],
    ["_ _ NULL _ _", "one", "Pas d' anglais", "Sem"],
    ["", "two", "vide", "vazio"],
    [" Two words ", "two", "deux mots", "  "],
]


def table(rows):
    return "".join("\t".join(cells) + "\n" for cells in (HEADER, *rows))


@pytest.fixture
def folder(tmp_path):
    root = tmp_path / "ted"
    root.mkdir()
    for split, rows in (("test", TRAIN[:1]), ("train", TRAIN), ("dev", TRAIN[4:])):
        (root / f"all_talks_{split}.tsv").write_text(table(rows), encoding="utf-8")
    return root


def test_sentences_with_both_sides(folder):
    corpus = Ted(root=folder, source_language="fr", target_language="en")
    assert corpus.splits() == ["train", "dev", "test"] and corpus.folder == "fr-en" and corpus.count("train") is None
    assert corpus.inputs("dev") == [folder / "all_talks_dev.tsv"]
    rows = list(corpus.rows("train"))
    languages = {"source_language": "fr", "target_language": "en"}
    assert rows == [
        {"id": "train_1", "source_text": "J&apos; aime .", "target_text": 'I love " a challenge .', "document": "one"}
        | languages,
        {"id": "train_5", "source_text": "deux mots", "target_text": "Two words", "document": "two"} | languages,
    ]
    assert [row.line for row in rows] == [2, 6]


def test_columns_are_in_lower_case(folder):
    corpus = Ted(root=folder, source_language="en", target_language="pt-BR", splits=["train"])
    assert [row["target_text"] for row in corpus.rows("train")] == ["Eu amo ."]
    assert {row["target_language"] for row in corpus.rows("train")} == {"pt-BR"}


def test_it_becomes_manifests(folder, tmp_path):
    prepare(Ted(root=folder, source_language="en", target_language="fr"), tmp_path / "manifests", workers=1)
    manifest = Manifest.open(tmp_path / "manifests" / "en-fr" / "train.arrow")
    found = [(row["source_text"], row["document"]) for row in manifest]
    assert found == [('I love " a challenge .', "one"), ("Two words", "two")]


def test_a_line_with_other_cells_is_named(folder):
    path = folder / "all_talks_test.tsv"
    path.write_text(table(TRAIN[:1]) + "one\ttwo\n", encoding="utf-8")
    *rows, last = Ted(root=folder, source_language="en", target_language="fr").rows("test")
    assert len(rows) == 1 and isinstance(last, Unusable) and last.line == 3
    assert "2 cells where the header has 4" in last.reason


def test_what_is_not_there_is_named(folder, tmp_path):
    def refused(message, target="fr", root=folder, **options):
        refuses(DataError, message, Ted, root=root, source_language="en", target_language=target, **options)

    refused("source and target language are both 'en'", "en")
    refused("no split 'valid'; there are dev, test, train", splits=["valid"])
    refused(r"neither a file that ends in \.tsv nor a folder with one", root=tmp_path)
    german = Ted(root=folder, source_language="en", target_language="de").rows("train")
    refuses(DataError, "no column 'de' for the language 'de'; there are en, fr, pt-br", list, german)
