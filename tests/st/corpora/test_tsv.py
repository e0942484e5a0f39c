"""The reader of one's own tables."""

import numpy as np
import pytest
import soundfile

from dragoman.preparing.preparation import prepare
from dragoman.shared.batches.manifest import COLUMNS, Manifest
from dragoman.shared.errors import DataError, UsageError
from dragoman.shared.preparing.reader import Unusable
from dragoman.shared.sound.channels import with_channel
from dragoman.st.corpora.tsv import Tsv
from tests.small import refuses, sides

HEADER = "id\taudio\tsource_text\ttarget_text\tsource_language\ttarget_language\tstart\tduration\tspeaker\tmood"


def make_table(folder, *lines, header=HEADER, name="train"):
    """Write a table and two sound files of 2 s; return the folder."""
    (folder / "clips").mkdir(parents=True, exist_ok=True)
    tone = np.sin(np.arange(44100 * 2) / 10)
    soundfile.write(folder / "clips" / "a.flac", np.stack([tone, tone], 1), 44100)
    soundfile.write(folder / "clips" / "b.ogg", tone, 44100, format="OGG", subtype="VORBIS")
    (folder / f"{name}.tsv").write_text("\n".join([header, *lines]) + "\n", encoding="utf-8")
    return folder


def test_rows_and_manifest(tmp_path):
    """Audio, a segment of it, and text alone; quotes are text; other columns are kept; empty is None."""
    make_table(
        tmp_path,
        'a\tclips/a.flac\t"Hi," he\\she said.\tHallo.\ten\tde\t\t\tanna\tglad',
        "b\tclips/b.ogg\t\tBon.\t\tfr\t0.5\t1.25\t\t",
        "c\t\tOnly text.\tNur Text.\ten\tde\t\t\t\tsad\r",
    )
    rows = list(Tsv(root=tmp_path).rows("train"))
    assert rows[0] == dict.fromkeys(COLUMNS) | {
        "id": "a",
        "audio": str(tmp_path / "clips/a.flac"),
        "source_text": '"Hi," he\\she said.',
        "source_language": "en",
        "target_text": "Hallo.",
        "target_language": "de",
        "speaker": "anna",
        "mood": "glad",
    }
    assert (rows[1]["start"], rows[1]["duration"], rows[1]["source_text"]) == (0.5, 1.25, None)
    assert rows[2]["audio"] is None and rows[2]["mood"] == "sad"
    (report,) = prepare(Tsv(root=tmp_path), tmp_path / "out", workers=1)
    assert report.rows == 3 and report.seconds == pytest.approx(2.0 + 1.25)
    manifest = Manifest.open(tmp_path / "out" / "train.arrow")
    np.testing.assert_allclose(manifest.column("duration"), [2.0, 1.25, np.nan])
    assert manifest.column("mood").to_pylist() == ["glad", None, "sad"]


def test_one_file_and_given_languages(tmp_path):
    make_table(tmp_path, "a\tHi.\tHallo.", header="id\tsource_text\ttarget_text", name="mine")
    corpus = Tsv(root=tmp_path / "mine.tsv", source_language="en", target_language="de")
    assert corpus.splits() == ["mine"] and corpus.count("mine") == 1
    (row,) = corpus.rows("mine")
    assert (row["source_language"], row["target_language"], row["audio"]) == ("en", "de", None)


def test_splits(tmp_path):
    for name in ("test", "train", "dev", "extra"):
        make_table(tmp_path, "a\tHi.", header="id\tsource_text", name=name)
    assert Tsv(root=tmp_path, source_language="en").splits() == ["train", "dev", "test", "extra"]
    assert Tsv(root=tmp_path, splits=["dev"]).splits() == ["dev"]
    refuses(DataError, r"no split 'valid'; there are dev, extra, test, train", Tsv, root=tmp_path, splits=["valid"])
    message = "none: there is no such file or folder; own data is train.tsv, .*train.en and"
    refuses(DataError, message, Tsv, root=tmp_path / "none")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("\tclips/a.flac\tHi.\tHallo.\ten\tde\t\t\t\t", "line 3: the id is empty"),
        ("x\tclips/a.flac\tHi.\tHallo.\ten\tde\t\t\t\t", "line 3: id 'x' is already used in line 2"),
        ("y\t\t\t\ten\tde\t\t\t\t", "line 3: neither audio nor text in row 'y'"),
        ("y\tclips/a.flac\tHi.\t\ten\tde\t1,5\t\t\t", "line 3: start is '1,5', not a number of seconds"),
        ("y\tclips/a.flac\tHi.\t\ten\tde\t\t-1\t\t", "line 3: duration is '-1', not a number of seconds"),
        ("y\t\tHi.\t\ten\tde\t1.5\t\t\t", "line 3: start is 1.5, but there is no audio"),
        ("y\t\tHi.\t\tenglish\tde\t\t\t\t", "line 3: source_language: unknown language code 'english'"),
        ("y\t\tHi.\tHallo.\ten\t\t\t\t\t", "line 3: target_language is empty, and none was given"),
        ("y\t\tHi.\tHallo.\ten", "line 3: 5 cells where the header has 10"),
    ],
)
def test_bad_lines(tmp_path, line, message):
    make_table(tmp_path, "x\t\tHi.\tHallo.\ten\tde\t\t\t\t", line)
    place, colon, reason = message.partition(": ")
    message = rf"train\.tsv, {place}: (row [xy]: )?{reason}"
    refuses(DataError, message, prepare, Tsv(root=tmp_path), tmp_path / "out", workers=1)


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("id\tspeaker", "'id', 'speaker' names no text and no audio; own data is train.tsv, train.csv or .* en and de"),
        ("a\tb", "'a', 'b' names no text and no audio"),
        ("source\tsrc\tde", "'source' and 'src' could both be the source_text: rename one$"),
        ("id\tsource_text\ttarget_txt", "rename the columns 'target_txt' to 'target_text'$"),
        (  # Common Voice, with a translation; nothing in it is called what this reader calls it
            "client_id\tpath\tsentence\ttranslation",
            "rename the columns 'client_id' to 'speaker', 'path' to 'audio', 'sentence' to 'source_text', "
            "'translation' to 'target_text'$",
        ),
        ("ID\tpath", "rename the columns 'path' to 'audio'$"),
        ("id\tsource_text\t", "a column has no name; is it a tab or comma too many?$"),
        ("id\tsource_text\tsource_text", "column 'source_text' is named twice"),
        ("id,source_text", "no tab or comma, which would separate columns: 'id,source_text'"),
    ],
)
def test_bad_headers(tmp_path, header, message):
    cells = "\t".join("x" for _ in header.split("\t"))
    message = rf"train\.tsv, line 1: {message}".replace("?", r"\?")
    refuses(DataError, message, rows_of, tmp_path, cells, header=header)


def test_free_column_beside_ours(tmp_path):
    [row] = rows_of(tmp_path, "a\tHi.\tx/y", header="id\tsource_text\tsource")
    assert row["source"] == "x/y"


def test_files_that_are_not_read_are_passed_over_by_name(tmp_path):
    make_table(tmp_path, "a\tHi.", header="id\tsource_text")
    (tmp_path / "train.en").write_text("Hi.\n")
    (tmp_path / "train.de").write_text("Hallo.\n")
    corpus = Tsv(root=tmp_path, source_language="en", target_language="de")
    [report] = prepare(corpus, tmp_path / "out", workers=1)
    assert any("files that are not read" in str(name) for name in report.passed_over)
    assert corpus.count("train") == 1 and corpus.inputs("train") == [tmp_path / "train.tsv"]


def rows_of(folder, *lines, header, **given):
    make_table(folder, *lines, header=header)
    return [*Tsv(root=folder, **{"source_language": "en", "target_language": "de"} | given).rows("train")]


def test_columns_may_have_the_names_of_languages(tmp_path):
    [row] = rows_of(tmp_path, "Hi.\tHallo.\tx", header="English\tDE\tnote")
    assert (row["source_text"], row["target_text"], row["note"], row["id"]) == ("Hi.", "Hallo.", "x", "2")
    assert sides(rows_of(tmp_path, "Hi.\tHallo.", header="src\ttgt")) == [("Hi.", "Hallo.")]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("clips/a.flac\t-1", "channel is '-1', not the number of a channel of the sound (from 0)"),
        ("clips/a.flac\t1.0", "channel is '1.0', not the number of a channel of the sound (from 0)"),
        ("clips/a.flac\t99999", "channel is '99999', not the number of a channel of the sound (from 0)"),
        (
            "clips/a.flac\t" + "9" * 5000,
            "channel is '999999999999...9999999999999', not the number of a channel of the sound (from 0)",
        ),
        ("\t1", "neither audio nor text in row '2'"),
    ],
)
def test_channels_are_numbers(tmp_path, line, said):
    [found] = rows_of(tmp_path, line, header="audio\tchannel")
    assert isinstance(found, Unusable) and found.reason == said and (found.line, found.id) == (2, "2")
    [row] = rows_of(tmp_path, "clips/a.flac\t1", header="audio\tchannel")
    assert row["audio"] == with_channel(str(tmp_path / "clips/a.flac"), 1)
    [row] = rows_of(tmp_path, "clips/a.flac\t", header="audio\tchannel")
    assert row["audio"] == str(tmp_path / "clips/a.flac")


def test_a_share_is_held_out_where_there_is_no_such_file(tmp_path):
    lines = [f"a{n}\tText number {n}." for n in range(200)]
    make_table(tmp_path, *lines, header="id\tsource_text", name="mine")
    corpus = Tsv(root=tmp_path / "mine.tsv", source_language="en", held_out=0.1)
    assert corpus.splits() == ["train", "dev", "test"] and corpus.count("train") is None
    ids = {split: {row["id"] for row in corpus.rows(split)} for split in corpus.splits()}
    assert sorted(name for own in ids.values() for name in own) == sorted(f"a{n}" for n in range(200))
    assert all(5 < len(ids[split]) < 40 for split in ("dev", "test"))
    make_table(tmp_path / "more", *lines, header="id\tsource_text", name="train")
    make_table(tmp_path / "more", "b\tText.", header="id\tsource_text", name="dev")
    corpus = Tsv(root=tmp_path / "more", source_language="en", held_out=0.1)
    assert [row["id"] for row in corpus.rows("dev")] == ["b"] and corpus.count("dev") == 1
    assert sum(1 for split in ("train", "test") for _ in corpus.rows(split)) == 200
    make_table(tmp_path / "none", "b\tText.", header="id\tsource_text", name="dev")
    make_table(tmp_path / "none", "b\tText.", header="id\tsource_text", name="extra")
    message = f"^{tmp_path / 'none'}: no train, from which test could be drawn$"
    refuses(DataError, message, Tsv, root=tmp_path / "none", source_language="en", held_out=0.1)
    for share in (-0.1, 0.9):
        refuses(UsageError, "^Tsv: held_out must be between 0 and 0.3", Tsv, root=tmp_path / "more", held_out=share)


def test_plain_files_need_their_languages(tmp_path):
    for code, text in (("en", "Hi.\nYes.\n"), ("de", "Hallo.\nJa.\n")):
        (tmp_path / f"train.{code}").write_text(text)
    corpus = Tsv(root=tmp_path, source_language="en", target_language="de")
    assert corpus.count("train") == 2 and [path.name for path in corpus.inputs("train")] == ["train.en", "train.de"]
    assert sides(corpus.rows("train")) == [("Hi.", "Hallo."), ("Yes.", "Ja.")]
