"""Faults in data, seen through the command: a line with file, line and value, exit code 1, nothing lost."""

import os

import numpy as np
import pyarrow as pa
import pytest
import soundfile

from dragoman.shared.batches.manifest import COLUMNS, Manifest

TONE = 0.3 * np.sin(np.arange(16000) / 9)


@pytest.fixture
def table(tmp_path):
    """Three rows of own data, in which "c" is fine in every test."""
    root = tmp_path / "own"
    root.mkdir()
    for name in "abc":
        soundfile.write(root / f"{name}.wav", TONE, 16000)
    rows = ["id\taudio\tsource_text\ttarget_text\tsource_language"]
    rows += [f"{name}\t{name}.wav\tOne {name}.\tEins {name}.\ten" for name in "abc"]
    (root / "train.tsv").write_text("\n".join(rows) + "\n")
    return root


@pytest.fixture
def texts(tmp_path):
    root = tmp_path / "texts"
    root.mkdir()
    (root / "train.en").write_text("One.\nTwo.\n")
    (root / "train.de").write_text("Eins.\nZwei.\n")
    return root


def cut(root):
    path = root / "b.wav"
    path.write_bytes(path.read_bytes()[:-1000])


def not_a_number(root):
    values = TONE.copy()
    values[5000] = np.nan
    soundfile.write(root / "b.wav", values, 16000, subtype="FLOAT")


def replace(name, old, new):
    def change(root):
        path = next(root.rglob(name))
        content = path.read_bytes()
        assert old in content
        path.write_bytes(content.replace(old, new, 1))

    return change


def empty(*names):
    def change(root):
        for name in names:
            next(root.rglob(name)).write_bytes(b"")

    return change


OWN = ("table", "tsv", ["--target-language", "de"])
TEXTS = ("texts", "moses", ["--source-language", "en", "--target-language", "de"])
LONG = b"x" * 10_000_000
BAD = {
    "truncated wav": (OWN, cut, ["own/train.tsv, line 3", "b.wav: cut off: 32000 bytes", "31000 there"]),
    "NaN audio": (OWN, not_a_number, ["own/train.tsv, line 3", "b.wav: not a number among the samples"]),
    "unknown language": (OWN, replace("train.tsv", b"b.\ten", b"b.\txx"), ["train.tsv, line 3", "'xx'"]),
    "no table": (OWN, empty("train.tsv"), ["train.tsv, line 1: empty, where the names"]),
    "10 MB line": (TEXTS, replace("train.de", b"Zwei", LONG), ["train.de, line 2", "10,000,001 characters"]),
    "not UTF-8": (TEXTS, replace("train.de", b"Zwei", b"Zw\xe4i"), ["train.de, line 2", "byte 0xe4", "Zw\\udce4i"]),
    "no lines": (TEXTS, empty("train.en", "train.de"), ["moses/en-de/train: 0 of 0 rows are left: ", "train.en"]),
}


@pytest.mark.parametrize("name", BAD)
def test_a_corpus_is_named_and_its_manifest_stays(name, request, dragoman, tmp_path):
    (fixture, corpus, options), spoil, parts = BAD[name]
    root = request.getfixturevalue(fixture)
    out = tmp_path / "out"
    options = ["--root", root, *options, "--workers", 1]
    assert dragoman("prepare", corpus, *options, "--out", out)[0] == 0
    before = {path: path.read_bytes() for path in out.rglob("*.*") if path.suffix in (".arrow", ".json")}
    spoil(root)
    for path in root.rglob("train.*"):  # of a finished split only the texts are looked at
        os.utime(path, (1, 1))
    code, _, complaint = dragoman("prepare", corpus, *options, "--out", out)
    assert code == 1 and complaint.startswith("dragoman: error: ") and complaint.count("\n") == 1, complaint
    assert all(part in complaint for part in parts) and len(complaint) < 1000, complaint
    assert {path: path.read_bytes() for path in before} == before
    assert not list(out.rglob("*.tmp")) and not list(out.rglob("*.skipped.tsv"))
    code, table, complaint = dragoman("check", corpus, *options)
    assert code == 1 and complaint.count("\n") == 1 and ": 1 error\n" in complaint
    assert name == "no lines" or all(part in table for part in parts), table


def test_an_id_that_is_not_utf8_can_be_left_out(table, dragoman, tmp_path):
    """The note on it can be written; found by the fuzz test."""
    path = table / "train.tsv"
    path.write_bytes(path.read_bytes() + b"\xff\t\tOne.\tEins.\ten\n")
    options = ["--root", table, "--target-language", "de", "--workers", 1]
    code, output, _ = dragoman("prepare", "tsv", *options, "--skip-bad", "--out", tmp_path / "out")
    assert code == 0 and "line 5: row \\udcff: id is not UTF-8 (byte 0xff at character 0)" in output, output
    assert "\\udcff" in (tmp_path / "out" / "prepared.json").read_text(encoding="utf-8")
    code, output, _ = dragoman("check", "tsv", *options)
    assert code == 1 and "byte 0xff" in output


@pytest.mark.parametrize("option", ["--source-language", "--target-language"])
@pytest.mark.parametrize("command", ["prepare", "check"])
def test_a_language_that_nobody_knows(texts, dragoman, tmp_path, option, command):
    wrong = [option, "germann"]  # the later one counts
    options = [*TEXTS[2], *wrong]
    out = ["--out", tmp_path / "out"] if command == "prepare" else []
    code, _, complaint = dragoman(command, "moses", "--root", texts, *options, *out)
    assert code == 1 and "unknown language code 'germann'; did you mean" in complaint and complaint.count("\n") == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("shard", [[], ["--shard", "1/1"]])
def test_a_folder_that_cannot_be_written(texts, dragoman, tmp_path, shard):
    """A file stands where the folder should: not even root can write there."""
    (tmp_path / "file").write_text("mine")
    given = [*TEXTS[2], "--out", tmp_path / "file" / "m", *shard]
    code, _, complaint = dragoman("prepare", "moses", "--root", texts, *given)
    assert code == 1 and f"{tmp_path}/file" in complaint and complaint.count("\n") == 1
    assert (tmp_path / "file").read_text() == "mine"


def test_a_manifest_without_a_column(texts, dragoman, tmp_path):
    path = Manifest.write(tmp_path / "train.arrow", [{"id": "a", "source_text": "Hi.", "source_language": "en"}]).path
    assert dragoman("check", path)[0] == 0
    with pa.ipc.open_file(str(path)) as reader:
        table = reader.read_all().drop_columns(["speaker"])
    with pa.ipc.new_file(str(path), table.schema) as writer:
        writer.write_table(table)
    content = path.read_bytes()
    for command in (["check", path], ["evaluate", "tests/golden/model", path, "--device", "cpu"]):
        code, output, complaint = dragoman(*command)
        assert code == 1 and complaint.count("\n") == 1
        assert f"{path}: column 'speaker' is missing (it has id, audio" in output + complaint
    assert path.read_bytes() == content and "speaker" in COLUMNS


def test_wrong_usage_of_check(texts, dragoman, tmp_path):
    for arguments, message in (
        (["moses"], "--root is missing"),
        (["moses", "tsv", "--root", texts], "give one corpus or several manifests"),
        (["a.arrow", "--root", texts], "manifests need no --root"),
        (["almanac", "--root", texts], "almanac is made, not read"),
        (["moses", "--root", texts, "--langs", "en"], "--langs is not an option of Moses"),
    ):
        code, _, complaint = dragoman("check", *arguments)
        assert code == 2 and message in complaint, complaint
    code, _, complaint = dragoman("check", tmp_path / "none.arrow")
    assert code == 1 and "none.arrow: there is no such manifest" in complaint


def test_warnings_alone_are_no_failure(texts, dragoman):
    (texts / "train.de").write_text("One.\nZwei.\n")
    code, table, complaint = dragoman("check", "moses", "--root", texts, *TEXTS[2])
    assert code == 0 and "untranslated text" in table and not complaint


def test_a_table_of_nothing_but_a_header_is_an_error_of_check(table, texts, dragoman, tmp_path):
    path = table / "train.tsv"
    path.write_text("id\tsource_text\n")
    code, output, complaint = dragoman("check", "tsv", "--root", table, "--source-language", "en")
    assert code == 1 and f"{path}: no rows" in output and ": 1 error\n" in complaint
    (texts / "train.en").write_text("")
    code, output, _ = dragoman("check", "monolingual", "--root", texts, "--language", "en")
    assert code == 1 and f"{texts / 'train.en'}: no rows" in output
    code, output, _ = dragoman("check", Manifest.write(tmp_path / "none.arrow", []).path)
    assert code == 1 and f"{tmp_path / 'none.arrow'}: no rows" in output


LATIN = os.fsdecode(b"k\xfcche")


def test_names_that_are_not_utf8(table, texts, dragoman, tmp_path):
    """A row cannot name such a file; folders, tables and manifests may have such names."""
    (table / "a.wav").rename(table / f"{LATIN}.wav")
    path = table / "train.tsv"
    path.write_bytes(path.read_bytes().replace(b"a.wav", b"k\xfcche.wav"))
    own = ["--target-language", "de", "--workers", 1]
    message = "train.tsv, line 2: row a: audio is not UTF-8 (byte 0xfc"
    code, _, complaint = dragoman("prepare", "tsv", "--root", table, *own, "--out", tmp_path / "out")
    assert code == 1 and message in complaint and complaint.count("\n") == 1
    code, output, _ = dragoman("check", "tsv", "--root", table, *own)
    assert code == 1 and message in output
    folder = texts.rename(tmp_path / LATIN)
    languages = TEXTS[2]
    for out in ("out", LATIN + "_out"):
        for _ in range(2):  # the second time, what is prepared is found
            assert dragoman("prepare", "moses", "--root", folder, *languages, "--out", tmp_path / out)[0] == 0
        manifest = tmp_path / out / "en-de" / "train.arrow"
        assert [row["source_text"] for row in Manifest.open(manifest)] == ["One.", "Two."]
        assert dragoman("check", manifest)[0] == 0
    assert dragoman("check", "moses", "--root", folder, *languages)[0] == 0


@pytest.mark.parametrize("number", ["9" * 23, "1e308", "1e9", "9" * 5000])
@pytest.mark.parametrize("column", ["start", "duration"])
def test_times_that_no_recording_has(table, dragoman, tmp_path, column, number):
    path = table / "train.tsv"
    lines = path.read_text().splitlines()
    path.write_text("\n".join([f"{lines[0]}\t{column}", f"{lines[1]}\t{number}", *(f"{x}\t" for x in lines[2:])]))
    options = ["--root", table, "--target-language", "de", "--workers", 1]
    code, _, complaint = dragoman("prepare", "tsv", *options, "--out", tmp_path / "out")
    assert code == 1 and "train.tsv, line 2: row a: " in complaint
    assert len(complaint) < 600 and complaint.count("\n") == 1
    code, output, _ = dragoman("check", "tsv", *options)
    assert code == 1 and "train.tsv, line 2: " in output


@pytest.mark.parametrize("name", ["../train", "a/b", "", "train,train"])
def test_names_of_splits_that_no_manifest_can_have(texts, dragoman, tmp_path, name):
    splits = ",".join(f"{part}=train" for part in name.split(","))
    options = ["--root", texts, "--language", "en", "--splits", splits]
    code, _, complaint = dragoman("prepare", "monolingual", *options, "--out", tmp_path / "out")
    assert code == 2 and "split" in complaint and complaint.count("\n") == 1 and not (tmp_path / "out").exists()
