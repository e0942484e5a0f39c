"""Tables of fairseq's S2T: whole files and segments in samples; features are refused."""

import csv

import numpy as np
import pytest
import soundfile

from dragoman.shared.errors import DataError
from dragoman.shared.text.lines import Unusable
from dragoman.st.corpora.fairseq_s2t import FairseqS2T

HEADER = "id\taudio\tn_frames\ttgt_text\tspeaker\tsrc_text\tsrc_lang\ttgt_lang\n"


@pytest.fixture
def table(tmp_path):
    soundfile.write(tmp_path / "a.wav", np.zeros(4 * 8000) + 0.1, 8000)

    def write(*lines):
        (tmp_path / "train_st.tsv").write_text(HEADER + "".join(f"{line}\n" for line in lines))
        return FairseqS2T(root=tmp_path)

    return write


def test_segments_are_counted_in_samples_of_the_file(table, tmp_path):
    reader = table("1\ta.wav:4000:12000\t12000\tGut.\tspk\tGood.\ten\tde", "2\ta.wav\t32000\tWell.\t\t\ten\ten")
    one, two = reader.rows("train_st")
    assert (one["audio"], one["start"], one["duration"]) == (str(tmp_path / "a.wav"), 0.5, 1.5)
    assert (one["source_text"], one["target_text"], one["target_language"]) == ("Good.", "Gut.", "de")
    assert (two["start"], two["duration"]) == (0.0, None)
    assert (two["source_text"], two["target_text"], two["target_language"]) == ("Well.", None, None)


def test_quotes_are_escaped_as_fairseq_writes_them(table, tmp_path):
    texts = ['"No", she said.', 'a 5" disk', "back\\slash"]
    reader = table()
    with (tmp_path / "train_st.tsv").open("a") as file:
        writer = csv.writer(file, "excel-tab", quoting=csv.QUOTE_NONE, escapechar="\\", lineterminator="\n")
        writer.writerows([n, "a.wav", 9, text, "", "", "en", "de"] for n, text in enumerate(texts))
    assert [row["target_text"] for row in reader.rows("train_st")] == texts


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("1\tfbank80.zip:123:456\t9\tGut.\t\t\ten\tde", "features, not sound"),
        ("1\tb.wav:0:10\t9\tGut.\t\t\ten\tde", "b.wav: there is no such sound file"),
        ("1\ta.wav\t9\tGut.\t\t\t\tde", "src_lang is empty"),
    ],
)
def test_what_is_not_sound_is_a_bad_row(table, line, reason):
    [row] = table(line).rows("train_st")
    assert isinstance(row, Unusable) and reason in row.reason


def test_a_column_that_is_missing_is_named(tmp_path):
    (tmp_path / "train.tsv").write_text("id\taudio\n1\ta.wav\n")
    with pytest.raises(DataError, match="column 'tgt_text' is missing"):
        list(FairseqS2T(root=tmp_path).rows("train"))
