"""Numbers of seconds; what readers pass over stands in the report and among the findings."""

import os
from pathlib import Path

import numpy as np
import pytest
import soundfile

from dragoman.commands.inspection import check_corpus
from dragoman.mt.corpora.monolingual import Monolingual
from dragoman.mt.corpora.moses import Moses
from dragoman.preparing.preparation import prepare
from dragoman.preparing.report import render
from dragoman.shared.errors import DataError
from dragoman.shared.preparing.reader import SourceRow, Unusable, seconds, sound_file, source
from dragoman.st.corpora.librilight import LibriLight
from dragoman.st.corpora.librispeech import LibriSpeech
from dragoman.st.corpora.tsv import Tsv
from tests.small import refuses


@pytest.mark.parametrize("value", [10**309, "9" * 309, float("inf"), "nan", -1, "1e12", True, None, [], "", "1,5", "x"])
def test_what_is_no_number_of_seconds(value):
    refuses(DataError, r"offset is .*, not a number of seconds", seconds, "offset", value)


def test_numbers_of_seconds():
    assert [seconds("x", value) for value in (0, 1.5, "2.25", " 3 ")] == [0.0, 1.5, 2.25, 3.0]
    assert seconds("x", -1, least=-1) == -1.0


def test_what_is_passed_over_is_counted_and_said(tmp_path):
    (tmp_path / "train.en").write_text("One.\n\n  \nTwo.\n")
    reader = Monolingual(root=tmp_path, language="en")
    for _ in range(2):  # the second report is of what was finished before
        reports = prepare(reader, tmp_path / "out", workers=1)
        assert "train: passed over: blank lines: 2" in render(reports)
    [found] = check_corpus(reader, workers=1).findings.examples["passed over"]
    assert found == "train: blank lines: 2"


def test_files_that_belong_to_no_split_are_named(tmp_path):
    for name in ("train.en", "train.de", "news.en", "test.de"):
        (tmp_path / name).write_text("One.\n")
    pair = {"source_language": "en", "target_language": "de"}
    assert Moses(root=tmp_path, **pair).passed_over("train") == {"files without the other side (news.en, test.de)": 2}
    for name in ("train.tsv", "dev.TSV", "test.csv", "readme.md"):
        (tmp_path / name).write_text("id\tsource_text\na\tHi.\n")
    assert Tsv(root=tmp_path).passed_over("train") == {"files that are not read (dev.TSV, test.csv)": 2}


def test_recordings_of_which_no_row_is_made(tmp_path):
    chapter = tmp_path / "dev-clean" / "1" / "2"
    chapter.mkdir(parents=True)
    for name in ("1-2-0.flac", "1-2-1.wav", "1-2-2.flac"):
        soundfile.write(chapter / name, np.zeros(1600), 16000)
    (chapter / "1-2.trans.txt").write_text("1-2-0 ONE\n1-2-1 TWO\n")
    reader = LibriSpeech(root=tmp_path)
    assert [os.path.basename(row["audio"]) for row in reader.rows("dev-clean")] == ["1-2-0.flac", "1-2-1.wav"]
    assert reader.passed_over("dev-clean") == {"sound files of which no row is made": 1}
    assert sound_file(chapter, "1-2-9").name == "1-2-9.flac"


def test_librilight_counts_short_segments_and_recordings_without_times(tmp_path):
    book = tmp_path / "small" / "1" / "b"
    book.mkdir(parents=True)
    (book / "a.json").write_text('{"voice_activity": [[0.5, 1.0], [40, 45]]}')
    for name in "ab":
        soundfile.write(book / f"{name}.flac", np.zeros(16000), 16000)
    (book / "c.json").write_text('{"voice_activity": [[0, 1%s]]}' % ("0" * 309))
    reader = LibriLight(root=tmp_path, held_out=0)
    [row, bad] = reader.rows("train")
    assert row["start"] == 40.0 and "not a number of seconds" in bad.reason
    assert reader.passed_over("train") == {"segments of less than 1 s": 1, "sound files of which no row is made": 1}


def test_rows_and_mistakes_name_their_places():
    row = SourceRow({"id": "a"}, file=Path("t.tsv"), line=3, files={"text": Path("t.de")})
    assert row == {"id": "a"} and source(row) == (Path("t.tsv"), 3)
    assert source(row, "text") == (Path("t.de"), 3) and source(row, "other") == (Path("t.tsv"), 3)
    assert SourceRow({}, file=Path("t"), line=1).files == {}
    assert source({"id": "a"}) == (None, None) and source(Unusable("wrong")) == (None, None)
    wrong = Unusable("wrong", Path("t.tsv"), 4)
    assert source(wrong) == (Path("t.tsv"), 4) and wrong.id == ""
    assert str(wrong) == "t.tsv, line 4: wrong" and str(Unusable("wrong")) == "wrong"
