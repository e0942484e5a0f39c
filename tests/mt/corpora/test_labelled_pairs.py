"""XNLI and PAWS-X: miniatures of their published layouts."""

import pytest

from dragoman import DataError
from dragoman.mt.corpora.labelled_pairs import PawsX, Xnli
from dragoman.shared.text.lines import Unusable
from tests.small import refuses

HEADER = """language gold_label sentence1_binary_parse sentence2_binary_parse sentence1_parse sentence2_parse sentence1
sentence2 promptID pairID genre label1 label2 label3 label4 label5 sentence1_tokenized sentence2_tokenized
match""".split()


def xnli_line(language, label, one, other, number):
    cells = dict.fromkeys(HEADER, "x") | {"language": language, "gold_label": label, "pairID": str(number)}
    return "\t".join((cells | {"sentence1": one, "sentence2": other}).values())


@pytest.fixture
def xnli(tmp_path):
    (tmp_path / "XNLI-1.0").mkdir()
    (tmp_path / "XNLI-MT-1.0/multinli").mkdir(parents=True)
    lines = ["\t".join(HEADER), xnli_line("de", "neutral", 'Er rief "Mama', "Er ist müde.", 1)]
    lines += [xnli_line("en", "contradiction", "He called", "He was silent", 1), xnli_line("de", "-", "a", "b", 2)]
    (tmp_path / "XNLI-1.0/xnli.dev.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    train = "premise\thypo\tlabel\nDu weißt\tDu verlierst\tcontradictory\nEins\tZwei\tentailment\n"
    (tmp_path / "XNLI-MT-1.0/multinli/multinli.train.de.tsv").write_text(train, encoding="utf-8")
    return tmp_path


def test_xnli_has_one_set_of_labels(xnli):
    corpus = Xnli(root=xnli, language="de")
    assert corpus.splits() == ["train", "dev"] and corpus.folder == "de"
    rows = list(corpus.rows("train"))
    first = {"id": "train_1", "source_text": "Du weißt", "second_text": "Du verlierst", "label": "contradiction"}
    assert rows[0] == first | {"source_language": "de"} and rows[1]["label"] == "entailment" and rows[1].line == 3
    [row, wrong] = corpus.rows("dev")
    assert (row["id"], row["source_text"], row["label"]) == ("dev_1", 'Er rief "Mama', "neutral")
    assert isinstance(wrong, Unusable) and "dev.tsv, line 4: label '-' is not one of neutral, entailment" in str(wrong)
    assert corpus.passed_over("dev") == {"rows in other languages": 1}
    refuses(DataError, "no split 'test'; there are train, dev", Xnli, root=xnli, language="de", splits=["test"])
    refuses(DataError, "other: no files of xnli in en", Xnli, root=xnli / "other", language="en")


def test_paws_x_passes_over_what_was_not_translated(tmp_path):
    for code, name in (("en", "train"), ("de", "translated_train"), ("de", "test_2k")):
        folder = tmp_path / "x-final" / code
        folder.mkdir(parents=True, exist_ok=True)
        table = "id\tsentence1\tsentence2\tlabel\n7\tA b\tB a\t1\n8\tNS\tB\t0\n9\tA\t\t0\n10\tC\tD\t0\n"
        (folder / f"{name}.tsv").write_text(table, encoding="utf-8")
    assert PawsX(root=tmp_path, language="en").splits() == ["train"]
    corpus = PawsX(root=tmp_path, language="de")
    assert corpus.splits() == ["train", "test"] and corpus.inputs("test")[0].name == "test_2k.tsv"
    found = [(row["id"], row["source_text"], row["second_text"], row["label"]) for row in corpus.rows("test")]
    assert found == [("test_7", "A b", "B a", "paraphrase"), ("test_10", "C", "D", "different")]
    assert corpus.passed_over("test") == {"pairs without one of the texts": 2}
