"""WikiANN and Universal Dependencies: miniatures of their published layouts."""

from dragoman import DataError, Manifest
from dragoman.mt.corpora.tagged_words import UniversalDependencies, WikiAnn
from dragoman.preparing.preparation import prepare
from dragoman.shared.text.lines import Unusable
from tests.small import refuses

NAMES = "fr:Les\tO\nfr:Beatles\tB-ORG\nfr:1 000\tI-ORG\n\n\nfr::\tO\nfr:fr:\tB-PER\n"
TREES = """# text = du pain
1-2\tdu\t_\t_\t_\t_\t_\t_\t_\t_
1\tde\tde\tADP\t_\t_\t2\tcase\t_\t_
2\tle\tle\tDET\t_\t_\t3\tdet\t_\t_
3\tpain\tpain\tNOUN\t_\t_\t0\troot\t_\t_
3.1\tvu\tvoir\tVERB\t_\t_\t_\t_\t_\t_

# text = 1 000
1\t1 000\t1000\tNUM\t_\t_\t0\troot\t_\t_

1\tOh\toh\tINTJ
"""


def test_names_have_a_tag_each(tmp_path):
    (tmp_path / "fr").mkdir()
    (tmp_path / "fr" / "test").write_text(NAMES + "\nalone\n", encoding="utf-8")
    corpus = WikiAnn(root=tmp_path, language="fr")
    assert corpus.splits() == ["test"]
    *rows, wrong = corpus.rows("test")
    texts = [(row["source_text"], row["label"]) for row in rows]
    assert texts == [("Les Beatles 1_000", "O B-ORG I-ORG"), (": fr:", "O B-PER")]
    assert [(row["id"], row.line) for row in rows] == [("test_1", 1), ("test_6", 6)]
    assert isinstance(wrong, Unusable) and str(wrong).endswith("line 9: 1 cells where a word and a tag should be")
    refuses(DataError, "no files of wikiann in de", WikiAnn, root=tmp_path, language="de")


def test_words_of_syntax_have_their_part_of_speech(tmp_path):
    for name, text in (("fr_gsd-ud-train", TREES.rpartition("1\tOh")[0]), ("fr_pud-ud-train", TREES)):
        (tmp_path / f"{name}.conllu").write_text(text, encoding="utf-8")
    corpus = UniversalDependencies(root=tmp_path, language="fr")
    assert [path.stem for path in corpus.inputs("train")] == ["fr_gsd-ud-train", "fr_pud-ud-train"]
    *rows, wrong = corpus.rows("train")
    assert [(row["source_text"], row["label"]) for row in rows] == 2 * [
        ("de le pain", "ADP DET NOUN"),
        ("1_000", "NUM"),
    ]
    assert "line 11: '1\\tOh\\toh\\tINTJ' is no line of CoNLL-U: it has 4 cells" in str(wrong)
    (tmp_path / "fr_pud-ud-train.conllu").unlink()
    prepare(corpus := UniversalDependencies(root=tmp_path, language="fr"), tmp_path / "out", workers=1)
    assert Manifest.open(tmp_path / "out" / corpus.folder / "train.arrow")[0]["label"] == "ADP DET NOUN"
