"""XLIFF 1.2 and 2.0: miniatures with every trap of the formats that we know of, also broken ones."""

import pytest

from dragoman import DataError
from dragoman.mt.corpora.memories import read_units
from dragoman.mt.corpora.xliff import Xliff
from dragoman.preparing.preparation import prepare
from tests.small import refuses, sides

OLD = """<?xml version="1.0"?>
<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2">
<file original="menu.ui" {languages}><header><note>not this</note></header><body>
{units}
</body></file></xliff>
"""
NEW = """<?xml version="1.0"?>
<xliff version="2.0" xmlns="urn:oasis:names:tc:xliff:document:2.0" {languages}><file id="f1">
{units}
</file></xliff>
"""
OLD_PAIR = 'source-language="en" target-language="de"'
NEW_PAIR = 'srcLang="en" trgLang="de"'


def unit(source, target=None, attributes="", state=""):
    translation = "" if target is None else f"<target{state}>{target}</target>"
    return f'<trans-unit id="1"{attributes}><source>{source}</source>{translation}</trans-unit>'


def segment(source, target=None, attributes=""):
    translation = "" if target is None else f"<target>{target}</target>"
    return f"<segment{attributes}><source>{source}</source>{translation}</segment>"


def write(path, *units, frame=OLD, languages=None):
    languages = languages or (OLD_PAIR if "<body>" in frame else NEW_PAIR)
    path.write_text(frame.format(languages=languages, units="\n".join(units)), encoding="utf-8")
    return path


def reader(root, source="en", target="de"):
    return Xliff(root=root, source_language=source, target_language=target)


def pairs(*arguments):
    return sides(reader(*arguments).rows("train"))


def test_finished_units_of_1_2_are_rows_and_others_are_counted(tmp_path):
    alternative = "<alt-trans><source>Not</source><target>Nicht</target></alt-trans>"
    write(
        tmp_path / "a.xlf",
        unit("One &amp; all", " Eins\n &amp; alle "),
        unit("Two", "Zwei", ' approved="yes"', ' state="final"'),
        unit("No", "Nein", ' approved="no"'),
        "<group>" + unit("Three", "Drei", state=' state="translated"') + "</group>",
        *(unit("No", "Nein", state=f' state="{state}"') for state in ("new", "needs-translation", "needs-review-l10n")),
        unit("No"),
        unit("No", " "),
        unit("No", "Nein", ' translate="no"'),
        unit("Four").replace("</trans-unit>", f"{alternative}<target>Vier</target></trans-unit>"),
        unit("No").replace("</trans-unit>", f"{alternative}</trans-unit>"),
    )
    corpus = reader(tmp_path)
    found = list(corpus.rows("train"))
    assert sides(found) == [("One & all", "Eins & alle"), ("Two", "Zwei"), ("Three", "Drei"), ("Four", "Vier")]
    assert [row["id"] for row in found] == ["a_1", "a_2", "a_4", "a_11"] and found[1].line == 6
    assert {row["document"] for row in found} == {"menu.ui"}
    assert corpus.passed_over("train") == {
        "units that are not finished": 4,
        "units without a translation": 3,
        "units that are not to be translated": 1,
    }
    [report] = prepare(corpus, tmp_path / "out", workers=1)
    assert report.rows == 4


def test_segments_of_2_0_are_rows(tmp_path):
    write(
        tmp_path / "a.xliff",
        f"<unit id='u1'>{segment('One.', 'Eins.')}<ignorable><source> </source></ignorable>"
        + segment("Two.", "Zwei.", " state='reviewed'")
        + segment("No", "Nein", " state='initial'")
        + "</unit>",
        f"<group id='g'><unit id='u2'><notes><note>not this</note></notes>{segment('Three', 'Drei')}"
        f"{segment('Four', 'Vier')}</unit></group>",
        f"<unit id='u5'>{segment('Five', 'Fünf')}</unit>",
        f"<unit id='u3' translate='no'>{segment('No', 'Nein')}</unit>",
        f"<unit id='u4'>{segment('No')}</unit>",
        frame=NEW,
    )
    corpus = reader(tmp_path)
    found = [(row["id"], row["source_text"], row["target_text"], row["document"]) for row in corpus.rows("train")]
    assert found == [
        ("a_1.1", "One.", "Eins.", "f1"),
        ("a_1.2", "Two.", "Zwei.", "f1"),
        ("a_2.1", "Three", "Drei", "f1"),
        ("a_2.2", "Four", "Vier", "f1"),
        ("a_3", "Five", "Fünf", "f1"),
    ]
    assert corpus.passed_over("train") == {
        "units that are not finished": 1,
        "units without a translation": 1,
        "units that are not to be translated": 1,
    }


@pytest.mark.parametrize(
    ("frame", "content", "text"),
    [
        (OLD, "Save <g id='1'>all <g id='2'>of it</g></g>", "Save all of it"),
        (OLD, "a<x id='1'/>b<bx id='2'/>c<ex id='2'/>d<ph id='3'>&lt;br></ph>e<bpt id='4'>x</bpt>", "abcde"),
        (OLD, "<mrk mtype='seg' mid='1'>One.</mrk> <mrk mtype='seg' mid='2'>Two.</mrk>", "One. Two."),
        (OLD, "one<x id='1' ctype='lb'/>two<ph id='2'>a<sub>b</sub></ph>", "one two"),
        (NEW, "<pc id='1'>bold <mrk id='m'>word</mrk></pc><ph id='2'/><sc id='3'/>x<ec startRef='3'/>", "bold wordx"),
        (NEW, "one<ph id='1' type='fmt' subType='xlf:lb'/>two<cp hex='001A'/>", "one two"),
    ],
)
def test_codes_are_left_out(tmp_path, frame, content, text):
    whole = unit(content, "x") if frame == OLD else f"<unit id='u'>{segment(content, 'x')}</unit>"
    for space in (' xmlns="urn:oasis:names:tc:xliff:document:', ' note="'):  # a namespace may be missing
        write(tmp_path / "a.xlf", whole, frame=frame.replace(' xmlns="urn:oasis:names:tc:xliff:document:', space))
        assert pairs(tmp_path) == [(text, "x")]


def test_what_a_file_or_group_says_of_translating_holds_for_its_units(tmp_path):
    units = [f'<unit translate="yes">{segment("a", "b")}</unit>', f"<unit>{segment('c', 'd')}</unit>"]
    frame = NEW.replace('<file id="f1">', '<file id="f1" translate="no">')
    write(tmp_path / "a.xlf", *units, frame=frame)
    corpus = reader(tmp_path)
    assert [row["source_text"] for row in corpus.rows("train")] == ["a"]
    assert corpus.passed_over("train")["units that are not to be translated"] == 1


def test_files_of_the_other_direction_are_turned(tmp_path):
    write(tmp_path / "a.xlf", unit("One", "Eins"))
    write(tmp_path / "b.xlf", unit("Zwei", "Two"), languages='source-language="de-DE" target-language="en-US"')
    write(tmp_path / "c.xlf", unit("Trois", "Three"), languages='source-language="fr" target-language="en"')
    corpus = reader(tmp_path)
    assert sides(corpus.rows("train")) == [("One", "Eins"), ("Two", "Zwei")]
    assert corpus.passed_over("train") == {"units of other languages": 1}
    assert pairs(tmp_path, "en", "fr") == [("Three", "Trois")]
    refuses(DataError, "in fr and de; there are de-DE-en-US, en-de, fr-en", pairs, tmp_path, "fr", "de")


def test_languages_that_are_not_said(tmp_path):
    path = write(tmp_path / "a.xlf", unit("One", "Eins", state=' xml:lang="de"'), languages='source-language="en"')
    assert pairs(tmp_path) == [("One", "Eins")]
    write(path, unit("One", "Eins"), languages='source-language="en"')
    refuses(DataError, r"a\.xlf, line 3: does not say which its target language is", pairs, tmp_path)
    write(path, f"<unit id='u'>{segment('One', 'Eins')}</unit>", frame=NEW, languages='trgLang="de"')
    refuses(DataError, r"a\.xlf, line 2: does not say which its source language is", pairs, tmp_path)
    path.write_text(f'<xliff version="1.2">{unit("One", "Eins")}</xliff>')
    refuses(DataError, r"a\.xlf, line 1: does not say which its source language is", pairs, tmp_path)
    write(path, unit("One"), languages='source-language="en"')
    refuses(DataError, "no text of train is in en and de; units without a translation: 1", pairs, tmp_path)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('<?xml version="1.0"?>', '<!DOCTYPE xliff [<!ENTITY a "aa"><!ENTITY b "&a;&a;">]>', "declares the entity 'a'"),
        ("</file></xliff>", "", "Premature end of data"),
        ("One", "<g>One", "mismatch: g line 4"),
        ("xliff ", "tmx ", "its outermost element is not <xliff>"),
        ("One", "&nbsp;", "Entity 'nbsp' not defined"),
    ],
)
def test_broken_files_are_named(tmp_path, old, new, message):
    path = write(tmp_path / "a.xlf", unit("One", "Eins"))
    text = path.read_text().replace(old, new)
    path.write_text(text.replace("</xliff>", "</tmx>") if "<tmx" in text else text)
    refuses(DataError, rf"a\.xlf(:|, line \d+:) .*{message}", pairs, tmp_path)


def test_units_in_groups_are_forgotten(tmp_path):
    path = write(tmp_path / "a.xlf", *(f"<group>{unit(f'text {n}', 'Text ' * 20)}</group>" for n in range(4000)))
    kept = []
    for number, one in enumerate(read_units(path, "xliff", "trans-unit", "unit")):
        if number % 500 == 499:
            kept.append(sum(1 for _ in one.getroottree().iter("{*}group")))
    assert len(kept) == 8 and max(kept) < 400
