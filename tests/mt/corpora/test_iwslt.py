"""IWSLT: a miniature of a pair's folder, with the tags, titles and loose ampersands of the real files."""

import pytest

from dragoman.mt.corpora.iwslt import IWSLT
from dragoman.preparing.preparation import prepare
from dragoman.shared.errors import DataError, UsageError
from tests.small import refuses

TRAIN = """<url>http://www.ted.com/talks/{name}</url>
<keywords>talks, art</keywords>
<speaker>{name}</speaker>
<talkid>{number}</talkid>
<title>{name}: Title in {language}</title>
<description>TED Talk in {language}</description>
{language} one &amp; more
<i>{language} two</i> R&D
 {language} three
"""
TEST = """<?xml version="1.0" encoding="UTF-8"?>
<mteval><{kind} setid="iwslt2014-dev2010" srclang="german"><doc docid="69" genre="lectures">
<url>http://www.ted.com/talks/x</url>
<title>{language} title</title>
<seg id="1"> {language} first & best </seg>
<seg id="2"> {language} second </seg>
</doc></{kind}></mteval>
"""


@pytest.fixture
def folder(tmp_path):
    pair = tmp_path / "de-en"
    pair.mkdir()
    for language, kind in (("de", "srcset"), ("en", "refset")):
        talks = (TRAIN.format(name=f"talk{n}", number=n, language=language) for n in (7, 8))
        (pair / f"train.tags.de-en.{language}").write_text("".join(talks))
        for name in ("TED.dev2010", "TEDX.dev2012"):
            (pair / f"IWSLT14.{name}.de-en.{language}.xml").write_text(TEST.format(language=language, kind=kind))
    return tmp_path


def texts(corpus, split):
    return [(row["source_text"], row["target_text"], row["document"]) for row in corpus.rows(split)]


def test_lines_of_tags_are_no_sentences_and_name_the_talk(folder):
    corpus = IWSLT(root=folder, source_language="de", target_language="en")
    assert corpus.splits() == ["train", "TED.dev2010", "TEDX.dev2012"]
    talk = [("de one & more", "en one & more"), ("<i>de two</i> R&D", "<i>en two</i> R&D"), ("de three", "en three")]
    assert texts(corpus, "train")[:3] == [(*pair, "7") for pair in talk]
    assert [talk for _, _, talk in texts(corpus, "train")] == ["7"] * 3 + ["8"] * 3
    assert corpus.passed_over("train")["lines of tags"] > 0
    assert next(corpus.rows("train")).line == 7 and corpus.folder == "de-en"


def test_titles_and_descriptions_may_be_kept(folder):
    corpus = IWSLT(root=folder, source_language="de", target_language="en", about=True)
    assert texts(corpus, "train")[:3] == [
        ("talk7: Title in de", "talk7: Title in en", "7"),
        ("TED Talk in de", "TED Talk in en", "7"),
        ("de one & more", "en one & more", "7"),
    ]


def test_every_nth_sentence_may_validate(folder):
    corpus = IWSLT(root=folder, source_language="de", target_language="en", valid_every=3)
    assert corpus.splits()[:2] == ["train", "valid"]
    assert [source for source, *_ in texts(corpus, "valid")] == ["de three"] * 2
    assert len(texts(corpus, "train")) == 4
    ids = [row["id"] for split in ("train", "valid") for row in corpus.rows(split)]
    assert len(set(ids)) == 6
    assert corpus.count("valid") is None and corpus.inputs("valid") == corpus.inputs("train")
    corpus = IWSLT(root=folder, source_language="de", target_language="en", valid_every=2)
    assert [source for source, *_ in texts(corpus, "valid")] == ["<i>de two</i> R&D", "de one & more", "de three"]


def test_tests_are_read_in_both_directions_and_joined(folder):
    splits = ["train", "test=TED.dev2010+TEDX.dev2012"]
    corpus = IWSLT(root=folder / "de-en", source_language="en", target_language="de", splits=splits)
    first = ("en first & best", "de first & best", "69")
    assert texts(corpus, "test") == [first, ("en second", "de second", "69")] * 2
    assert corpus.count("test") == 4 and corpus.count("train") is None and len(corpus.inputs("test")) == 4
    results = prepare(corpus, folder / "out")
    assert [result.rows for result in results] == [6, 4]


def test_sides_that_do_not_fit_are_named(folder):
    file = folder / "de-en" / "train.tags.de-en.en"
    lines = file.read_text().splitlines()
    corpus = IWSLT(root=folder, source_language="de", target_language="en")
    file.write_text("\n".join([*lines[:3], "a sentence", *lines[4:]]))
    message = r"\.de, line 4: a line <talkid>, but train\.tags\.de-en\.en has a sentence there"
    refuses(DataError, message, list, corpus.rows("train"))
    file.write_text("\n".join(lines[:-1]))
    refuses(DataError, r"\.de: 18 lines, but train\.tags\.de-en\.en has 17", list, corpus.rows("train"))


def test_what_there_is_not_is_refused(folder):
    pair = {"root": folder, "source_language": "de", "target_language": "en"}
    refuses(DataError, r"no train\.tags\.fr-en\.fr and no IWSLT", IWSLT, **pair | {"source_language": "fr"})
    for every in (-1, 1):
        refuses(UsageError, f"^valid_every must be 0 or at least 2, not {every}$", IWSLT, **pair, valid_every=every)
