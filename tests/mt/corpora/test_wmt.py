"""WMT's test sets: miniatures with every trap of the formats that we know; sacreBLEU reads the same texts."""

import pytest

from dragoman import DataError, Manifest
from dragoman.mt.corpora.segments import read_segments
from dragoman.mt.corpora.wmt import WMT
from dragoman.preparing.preparation import prepare
from tests.small import refuses

SOURCE = """<srcset setid="newstest2014" srclang="any">
<doc sysid="ref" docid="one" genre="news" origlang="de">
<p>
<seg id="1">Er &amp; sie   kamen.</seg>
<seg id="2">AT&T fiel.</seg>
</p>
</doc>
<DOC docid=two sysid="ref">
<seg id="1">„Neu“</seg>
</DOC>
</srcset>
"""
REFERENCE = SOURCE.replace("Er &amp; sie   kamen.", "He &amp; she came.").replace("AT&T fiel.", "AT&T fell.")
REFERENCE = REFERENCE.replace("„Neu“", "“New”")
XML = """<?xml version='1.0' encoding='utf-8'?>
<dataset id="newstest2021"><collection id="general">
<doc id="a" origlang="de"><src lang="de"><p><seg id="1">Eins &amp; zwei</seg></p><p><seg id="2">Drei</seg></p></src>
<ref lang="en" translator="A"><p><seg id="1">One &amp; two</seg></p><p><seg id="2">Three</seg></p></ref>
<ref lang="en" translator="C"><p><seg id="1">One, two</seg></p></ref>
<hyp lang="en" system="X"><p><seg id="1">nothing</seg></p></hyp></doc>
<doc id="b" origlang="de"><src lang="de"><p><seg id="1">Vier</seg></p><p><seg id="2">Ohne</seg></p></src>
<ref lang="en" translator="C"><p><seg id="1">Four</seg></p></ref></doc>
<doc id="c" origlang="de" testsuite="x"><src lang="de"><p><seg id="1">Probe</seg></p></src></doc>
</collection></dataset>
"""


def rows(root, split, source="de", target="en"):
    return list(WMT(root=root, source_language=source, target_language=target).rows(split))


@pytest.fixture
def sgm(tmp_path):
    (tmp_path / "newstest2014-deen-src.de.sgm").write_text(SOURCE, encoding="utf-8")
    (tmp_path / "newstest2014-deen-ref.en.sgm").write_text(REFERENCE, encoding="utf-8")
    return tmp_path


def test_segments_have_documents_and_plain_text(sgm):
    found = rows(sgm, "newstest2014")
    assert [(row["source_text"], row["target_text"], row["document"]) for row in found] == [
        ("Er & sie kamen.", "He & she came.", "one"),
        ("AT&T fiel.", "AT&T fell.", "one"),
        ("„Neu“", "“New”", "two"),
    ]
    assert [row["id"] for row in found] == ["newstest2014_1", "newstest2014_2", "newstest2014_3"]
    assert (found[2].file.name, found[2].line) == ("newstest2014-deen-src.de.sgm", 9)
    assert set(found[0]) >= {"source_language", "target_language"} and found[0]["source_language"] == "de"


def test_sacrebleu_reads_the_same_texts(sgm, tmp_path):
    from sacrebleu.dataset.fake_sgml import FakeSGMLDataset

    file = sgm / "newstest2014-deen-src.de.sgm"
    reader = FakeSGMLDataset("newstest2014", data=[], description="", citation="")
    reader._convert_format(str(file), str(tmp_path / "texts"))
    theirs = (tmp_path / "texts").read_text(encoding="utf-8").replace("&amp;", "&").splitlines()
    assert [segment.text for segment in read_segments(file)] == theirs


def test_names_without_a_pair_and_names_of_the_other_pair_are_found(tmp_path):
    for stem in ("newstest2013", "newsdev2016-roen", "newstest2016-enro", "newstest2016-roen"):
        for side in ("src.ro", "ref.en", "src.en", "ref.ro"):
            if "enro" in stem and side in ("src.ro", "ref.en") or "roen" in stem and side in ("src.en", "ref.ro"):
                continue
            (tmp_path / f"{stem}-{side}.sgm").write_text(f'<doc docid="{stem}"><seg id="1">{side}</seg></doc>')
    assert rows(tmp_path, "newstest2016", "ro", "en")[0]["document"] == "newstest2016-roen"
    assert rows(tmp_path, "newstest2016", "en", "ro")[0]["document"] == "newstest2016-enro"
    corpus = WMT(root=tmp_path, source_language="ro", target_language="en")
    assert sorted(corpus.splits()) == ["newsdev2016", "newstest2013", "newstest2016"]


def test_documents_that_come_again_are_further_references(sgm):
    again = REFERENCE.replace('sysid="ref"', 'sysid="refB"').replace("He", "He there").replace("New", "")
    (sgm / "newstest2014-deen-ref.en.sgm").write_text(REFERENCE + again.replace("“”", ""), encoding="utf-8")
    found = rows(sgm, "newstest2014")
    assert [row["target_text_1"] for row in found] == ["He there & she came.", "AT&T fell.", None]
    prepare(WMT(root=sgm, source_language="de", target_language="en"), sgm / "out")
    assert Manifest.open(sgm / "out/de-en/newstest2014.arrow")[0]["target_text_1"] == "He there & she came."


def test_xml_has_several_references_and_leaves_out_what_has_none(tmp_path):
    (tmp_path / "newstest2021.de-en.xml").write_text(XML, encoding="utf-8")
    found = rows(tmp_path, "newstest2021")
    assert [(r["source_text"], r["target_text"], r["target_text_1"], r["document"]) for r in found] == [
        ("Eins & zwei", "One & two", "One, two", "a"),
        ("Drei", "Three", None, "a"),
        ("Vier", "Four", "Four", "b"),
    ]
    refuses(DataError, "no files ending in", rows, tmp_path, "newstest2021", "en", "de")


def test_training_text_and_tests_are_splits_of_one_corpus(sgm):
    (sgm / "europarl-v7.de-en.de").write_text("Eins.\n")
    (sgm / "europarl-v7.de-en.en").write_text("One.\n")
    splits = ["train=europarl-v7", "test=newstest2014"]
    corpus = WMT(root=sgm, source_language="de", target_language="en", splits=splits)
    assert corpus.splits() == ["train", "test"] and (corpus.count("train"), corpus.count("test")) == (1, 3)
    names = ["newstest2014-deen-src.de.sgm", "newstest2014-deen-ref.en.sgm"]
    assert [path.name for path in corpus.inputs("test")] == names
    [train, test] = prepare(corpus, sgm / "out")
    assert (train.rows, test.rows) == (1, 3)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            '<seg id="2">AT&T fell.</seg>\n',
            "",
            r"src\.de\.sgm: 3 segments, but newstest2014-deen-ref\.en\.sgm has 2 by ref",
        ),
        (
            '<seg id="2">',
            '<seg id="3">',
            r"line 5: segment 2 of document 'one', but .*, line 5, has segment 3 of 'one'",
        ),
        ('<seg id="2">', "<seg>", r"ref\.en\.sgm, line 5: a segment without an id"),
        ("came.</seg>", "came.", r"ref\.en\.sgm, line 4: segment 1 of document 'one' has no end"),
        (REFERENCE, "<refset></refset>", r"ref\.en\.sgm: no <seg> in it"),
    ],
)
def test_what_is_broken_is_named(sgm, old, new, message):
    assert old in REFERENCE
    (sgm / "newstest2014-deen-ref.en.sgm").write_text(REFERENCE.replace(old, new), encoding="utf-8")
    refuses(DataError, message, rows, sgm, "newstest2014")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("&amp;", "&", "not well-formed"),
        ("utf-8", "klingon", "unknown encoding"),
        ("utf-8", "shift_jis", "multi-byte encodings"),
        ('<seg id="2">Drei', '<seg id="1">Drei', "two segments '1' in one text: 'Eins & zwei' is the first"),
        ('<seg id="2">Three', '<seg id="1">Three', "two segments '1' in one text: 'One & two' is the first"),
    ],
)
def test_broken_xml_is_refused(tmp_path, old, new, message):
    (tmp_path / "newstest2021.de-en.xml").write_text(XML.replace(old, new), encoding="utf-8")
    refuses(DataError, rf"newstest2021\.de-en\.xml: .*{message}", rows, tmp_path, "newstest2021")


def test_xml_does_not_hide_files_of_its_name(tmp_path):
    (tmp_path / "newstest2021.de-en.xml").write_text(XML, encoding="utf-8")
    for language in ("de", "en"):
        (tmp_path / f"newstest2021.{language}").write_text("x\n")
    refuses(DataError, "both this and .*newstest2021.de would be 'newstest2021'", rows, tmp_path, "newstest2021")
