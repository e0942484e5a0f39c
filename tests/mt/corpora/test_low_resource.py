"""Settings with few pairs: which documents give pairs and which text, samples that hold each other, lexicons."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from dragoman import DataError, UsageError
from dragoman.mt.corpora.low_resource import LowResource
from dragoman.mt.corpora.monolingual import Monolingual
from dragoman.mt.corpora.moses import Moses
from dragoman.shared.batches.manifest import Row
from dragoman.shared.preparing.held_out import hashed
from dragoman.shared.preparing.reader import SourceRow
from dragoman.shared.text.lines import Unusable
from tests.small import refuses

WORDS = {"fi": ["koira", "kissa", "talo", "puu", "vene"], "de": ["Hund", "Katze", "Haus", "Baum", "Boot"]}
ENGLISH = ["dog", "cat", "house", "tree", "boat"]
DOCUMENTS = 60


class Made:
    """Three rows a document; words of all languages are in the order of the list."""

    name = "made"

    def __init__(self, *, source_language, target_language, document="document", bad=()):
        self.words, self.document, self.bad = (WORDS[source_language], ENGLISH), document, bad

    def rows(self, split):
        for number in range(DOCUMENTS if split == "train" else 4):
            for line in range(3):
                first, second = number % 5, (number // 5 + line) % 5
                sides = [[words[first], words[second], f"{number}.{line}"] for words in self.words]
                row: Row = {"source_text": " ".join(sides[0]), "target_text": "  ".join(sides[1])}
                row |= {self.document: f"page{number}"}
                yield SourceRow(row, file=Path("page"), line=line + 1)
        yield from self.bad


def setting(root, **options):
    usual = {"reader": Made, "pivot": "en", "languages": ["fi", "de"], "few": ["fi"], "pairs": 12}
    return LowResource(root=root, **usual | options)


def lines(path):
    return path.read_text(encoding="utf-8").splitlines()


def documents_of(path):
    """The documents whose lines a file has."""
    return {int(line.rpartition(" ")[2].partition(".")[0]) for line in lines(path) if line}


def test_pairs_and_texts_are_of_different_documents(tmp_path):
    setting(tmp_path / "a").write()
    text, mono = tmp_path / "a" / "text", tmp_path / "a" / "monolingual"
    tenths = {number: hashed(f"page{number}") % 10 for number in range(DOCUMENTS)}
    pairs = documents_of(text / "train.fi-en.fi")
    assert pairs == documents_of(text / "train.fi-en.en") and {tenths[number] for number in pairs} <= {0, 1}
    assert documents_of(mono / "train.fi") == {number for number, tenth in tenths.items() if 2 <= tenth < 6}
    assert documents_of(mono / "train.de") == documents_of(mono / "train.fi")
    assert documents_of(mono / "train.en") == {number for number, tenth in tenths.items() if tenth >= 6}
    assert len(lines(text / "train.fi-en.fi")) == 12 and len(lines(text / "train.de-en.de")) == 3 * DOCUMENTS
    for one, other in zip(lines(text / "train.de-en.de"), lines(text / "train.de-en.en"), strict=True):
        assert [WORDS["de"].index(word) for word in one.split()[:2]] == [ENGLISH.index(w) for w in other.split()[:2]]
        assert one.split()[2] == other.split()[2]
    for split in ("dev", "test"):
        assert len(lines(text / f"{split}.fi-en.en")) == 12 and len(lines(mono / f"{split}.fi")) == 12 + 3


class Twice(Made):
    """Each document begins with the same Finnish sentence, whose translations differ."""

    def rows(self, split):
        for number in range(DOCUMENTS):
            for texts in ((f"koira 9.{number % 2}", f"dog {number}.0"), (f"kissa {number}.1", f"cat {number}.1")):
                row: Row = {"source_text": texts[0], "target_text": texts[1], "document": f"page{number}"}
                yield SourceRow(row, file=Path("page"), line=1)


def test_translations_of_one_text_are_not_in_the_other(tmp_path):
    setting(tmp_path / "a", reader=Twice, languages=["fi"], pairs=None).write()
    tenths = {number: hashed(f"page{number}") % 10 for number in range(DOCUMENTS)}
    english = [line for line in lines(tmp_path / "a" / "monolingual" / "train.en") if line]
    assert english == [f"cat {number}.1" for number, tenth in tenths.items() if tenth >= 6]
    assert "koira 9.1" in lines(tmp_path / "a" / "monolingual" / "train.fi")


def test_readers_of_plain_files_find_all(tmp_path):
    setting(tmp_path / "a").write()
    moses = Moses(root=tmp_path / "a" / "text", source_language="en", target_language="fi")
    assert moses.splits() == ["train", "dev", "test"] and len(list(moses.rows("train"))) == 12
    mono = Monolingual(root=tmp_path / "a" / "monolingual", language="en", characters=1000)
    texts = [row["source_text"] for row in mono.rows("test")]
    assert len(texts) == 4 and texts[0].startswith("dog dog 0.0 dog cat 0.1")  # a document is one text


def test_fewer_pairs_are_among_more(tmp_path):
    for number in (3, 12):
        setting(tmp_path / str(number), pairs=number).write()
    few, more = (lines(tmp_path / name / "text" / "train.fi-en.fi") for name in ("3", "12"))
    assert len(few) == 3 and set(few) < set(more) and [line for line in more if line in few] == few
    setting(tmp_path / "all", pairs=None).write()
    assert len(lines(tmp_path / "all" / "text" / "train.fi-en.fi")) == 3 * DOCUMENTS
    refuses(DataError, "fi-en: ", setting(tmp_path / "none", pairs=1000).write)
    assert not (tmp_path / "none").exists()


def test_lexicons_have_what_translates_each_other(tmp_path):
    setting(tmp_path / "a").write()
    for code in ("fi", "de"):
        found = [line.split("\t") for line in lines(tmp_path / "a" / "lexicons" / f"{code}-en.txt")]
        assert sorted(found) == sorted(
            [word.lower(), english] for word, english in zip(WORDS[code], ENGLISH, strict=True)
        )
        turned = [line.split("\t") for line in lines(tmp_path / "a" / "lexicons" / f"en-{code}.txt")]
        assert sorted(turned) == sorted([english, word] for word, english in found)


def test_what_is_there_stays_and_another_setting_is_refused(tmp_path):
    made, heard = setting(tmp_path / "a"), []
    made.write(progress=lambda *done: heard.append(done))
    assert heard == [(1, 2), (2, 2)]
    (tmp_path / "a" / "text" / "train.fi-en.fi").write_text("mine\n")
    setting(tmp_path / "a", reader=None).write()
    assert lines(tmp_path / "a" / "text" / "train.fi-en.fi") == ["mine"]
    refuses(DataError, "asked for is", setting(tmp_path / "a", pairs=3).write)
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "thesis.txt").write_text("mine")
    refuses(DataError, "not empty", setting(tmp_path / "b").write)
    (tmp_path / "a" / "low_resource.json").write_text("{")
    refuses(DataError, "low_resource.json: not JSON", made.write)


def test_who_needs_no_lexicons_takes_a_folder_with_them_but_not_the_other_way_round(tmp_path):
    setting(tmp_path / "with").write()
    assert "lexicons" not in (tmp_path / "with" / "low_resource.json").read_text(), "as before there was a choice"
    setting(tmp_path / "with", lexicons=False, reader=None).write()
    without = setting(tmp_path / "without", lexicons=False)
    without.write()
    written = {path.relative_to(tmp_path / "without") for path in (tmp_path / "without").rglob("*.*")}
    whole = {path.relative_to(tmp_path / "with") for path in (tmp_path / "with").rglob("*.*")}
    assert {str(path.parent) for path in whole - written} == {"lexicons"} and written < whole
    without.write()
    refuses(DataError, "'lexicons': False.*asked for is", setting(tmp_path / "without").write)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"few": ["fr"]}, "few: fr: not one of the languages fi, de"),
        ({"languages": ["fi", "en"]}, "languages en, fi, en: each must be named once"),
        ({"languages": ["xx"], "few": []}, "xx"),
    ],
)
def test_languages_that_do_not_fit_are_refused(tmp_path, options, problem):
    refuses((UsageError, DataError), problem, setting, tmp_path / "a", **options)


def test_rows_that_cannot_be_used_are_named_and_nothing_is_left(tmp_path):
    bad = [Unusable("no text", file=Path("page7"), line=3)]
    refuses(DataError, "page7, line 3: no text", setting(tmp_path / "a", reader=partial(Made, bad=bad)).write)
    without = setting(tmp_path / "a", reader=partial(Made, document="talk"))
    refuses(DataError, "page, line 1: made names no document", without.write)
    assert not (tmp_path / "a").exists()
