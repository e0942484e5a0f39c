"""NCLS: a miniature of its layout, as user scripts imply it."""

import pytest

from dragoman import DataError
from dragoman.mt.corpora.ncls import Ncls
from dragoman.shared.text.lines import Unusable
from tests.small import refuses

SENTENCE = """<EN-REF{0}>
a summary of {0} .
</EN-REF{0}>
<ZH-REF{0}>
摘要机器{0}
</ZH-REF{0}>
<ZH-REF{0}-human-corrected>
摘要{0}
</ZH-REF{0}-human-corrected>
"""
DOCUMENT = "<doc id={0}>\n<Article>\narticle {0} < 5 , <b> .\n</Article>\n{1}</doc>\n"


@pytest.fixture
def corpus(tmp_path):
    text = DOCUMENT.format(0, SENTENCE.format(1) + SENTENCE.format(2)) + DOCUMENT.format(1, SENTENCE.format(1))
    (tmp_path / "EN2ZHSUM_train.txt").write_text(text, encoding="utf-8")
    (tmp_path / "EN2ZHSUM_valid.txt").write_text(text, encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize(
    ("target", "summaries"),
    [("zh", ["摘要1 摘要2", "摘要1"]), ("en", ["a summary of 1 . a summary of 2 .", "a summary of 1 ."])],
)
def test_summaries_are_in_either_language(corpus, target, summaries):
    reader = Ncls(root=corpus, source_language="en", target_language=target)
    assert reader.splits() == ["train", "dev"] and reader.folder == f"en-{target}"
    rows = list(reader.rows("train"))
    assert [row["target_text"] for row in rows] == summaries
    assert [(row["id"], row["source_text"], row.line) for row in rows] == [
        ("train_1", "article 0 < 5 , <b> .", 1),
        ("train_2", "article 1 < 5 , <b> .", 24),
    ]
    assert reader.inputs("dev") == [corpus / "EN2ZHSUM_valid.txt"] and reader.count("dev") is None


def test_the_first_of_several_texts_is_read_where_none_is_corrected(tmp_path):
    text = DOCUMENT.format(0, SENTENCE.format(1).replace("-human-corrected", "-BACK"))
    (tmp_path / "ZH2ENSUM_test.txt").write_text(text, encoding="utf-8")
    [row] = Ncls(root=tmp_path, source_language="zh", target_language="zh").rows("test")
    assert row["target_text"] == "摘要机器1"


def test_what_is_wrong_is_named(corpus):
    whole = DOCUMENT.format(0, SENTENCE.format(1))
    without = DOCUMENT.format(1, "<ZH-REF1>\n摘要\n</ZH-REF1>\n")
    text = whole.replace("</doc>\n", "") + without + without.replace("Article>", "X>") + whole + "<doc>\n"
    (corpus / "EN2ZHSUM_train.txt").write_text(text, encoding="utf-8")
    found = list(Ncls(root=corpus, source_language="en", target_language="en").rows("train"))
    assert [type(one) is Unusable for one in found] == [True, True, True, False, True]
    messages = [str(one).rpartition("/")[2].partition(": ") for one in found if isinstance(one, Unusable)]
    assert [message[0] for message in messages] == [f"EN2ZHSUM_train.txt, line {n}" for n in (1, 14, 22, 44)]
    assert messages[0][2] == "this document goes on to line 14, where '<doc id=1>' stands"
    assert messages[1][2] == "this document is without a summary in en: it has ARTICLE, ZH-REF"
    assert messages[2][2].startswith("this document is without an article") and messages[3][2].endswith("no end")
    refuses(DataError, "ncls is in en and zh, not en-de", Ncls, root=corpus, source_language="en", target_language="de")
    refuses(DataError, "no files of ncls in zh-en", Ncls, root=corpus, source_language="zh", target_language="en")
