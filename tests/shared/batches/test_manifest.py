"""The manifest against plain Python lists of dictionaries."""

import json
import os
import pickle

import numpy as np
import pyarrow as pa
import pytest

from dragoman.shared.batches import manifest as module
from dragoman.shared.batches.manifest import COLUMNS, Manifest
from dragoman.shared.errors import DataError
from tests.small import refuses


@pytest.fixture(autouse=True)
def small_batches(monkeypatch):
    """Let a few rows be several record batches."""
    monkeypatch.setattr(module, "BATCH_ROWS", 4)


def make_rows(count):
    """Return rows with text only, audio only and both, and a free column."""
    rows = []
    for number in range(count):
        row = dict.fromkeys(COLUMNS) | {"id": f"row-{number}", "score": number / 7}
        if number % 3:
            row |= {"source_text": f"Grüße\u2028 {number}", "source_language": "de"}
        if number % 2:
            row |= {"audio": f"/a/{number}.wav", "start": number * 0.1, "duration": 1.5 + number}
        rows.append(row)
    return rows


@pytest.mark.parametrize("count", [0, 1, 3, 4, 5, 8, 11])
def test_rows_come_back(tmp_path, count):
    rows = make_rows(count)
    manifest = Manifest.write(tmp_path / "deep" / "train.arrow", iter(rows))
    assert len(manifest) == count
    assert [manifest[i] | {} for i in range(count)] == [row | {} for row in rows]
    assert list(manifest) == rows
    if count:
        assert Manifest.write(tmp_path / "m.arrow", [{"id": "a"}])[0] == dict.fromkeys(COLUMNS) | {"id": "a"}
        assert manifest[-1] == rows[-1]
    with pytest.raises(IndexError):
        manifest[count]
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["train.arrow"]


def test_columns(tmp_path):
    """Numbers come as numpy with NaN for None, texts as Arrow."""
    rows = make_rows(10)
    manifest = Manifest.write(tmp_path / "m.arrow", rows)
    expected = np.array([np.nan if row["duration"] is None else row["duration"] for row in rows])
    np.testing.assert_array_equal(manifest.column("duration"), expected)
    assert manifest.column("duration").dtype == np.float64
    assert manifest.column("source_text").to_pylist() == [row["source_text"] for row in rows]
    np.testing.assert_array_equal(manifest.column("score"), [row["score"] for row in rows])


def test_selection(tmp_path):
    """A selection, and a selection of a selection, behave as lists do."""
    rows = make_rows(10)
    manifest = Manifest.write(tmp_path / "m.arrow", rows)
    chosen = manifest.select([9, 2, 2, 5])
    assert list(chosen) == [rows[i] for i in (9, 2, 2, 5)]
    again = chosen.select(np.array([3, 0]))
    assert [row["id"] for row in again] == ["row-5", "row-9"]
    assert again[1] == rows[9]
    np.testing.assert_array_equal(chosen.column("score"), [rows[i]["score"] for i in (9, 2, 2, 5)])
    assert again.column("id").to_pylist() == ["row-5", "row-9"]
    assert len({manifest.fingerprint, chosen.fingerprint, again.fingerprint}) == 3
    assert manifest.select([9, 2, 2, 5]).fingerprint == chosen.fingerprint
    with pytest.raises(IndexError):
        manifest.select([10])
    with pytest.raises(IndexError):
        manifest.select([-1])


def test_pickling(tmp_path):
    """A worker's copy sees the same rows, and notices a file that was replaced."""
    manifest = Manifest.write(tmp_path / "m.arrow", make_rows(6)).select([4, 1])
    data = pickle.dumps(manifest)
    assert len(data) < 1000
    copy = pickle.loads(data)
    assert list(copy) == list(manifest) and copy.fingerprint == manifest.fingerprint
    Manifest.write(tmp_path / "m.arrow", make_rows(7))
    assert list(manifest) == list(copy), "an open manifest keeps the old file"
    refuses(DataError, "replaced", pickle.loads, data)


def test_nothing_is_left_of_a_failed_write(tmp_path):
    Manifest.write(tmp_path / "m.arrow", make_rows(3))

    def failing():
        yield from make_rows(6)
        raise DataError("no more")

    refuses(DataError, "no more", Manifest.write, tmp_path / "m.arrow", failing())
    assert os.listdir(tmp_path) == ["m.arrow"]
    assert len(Manifest.open(tmp_path / "m.arrow")) == 3


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"id": None}], "row 0 has no id"),
        ([{"id": str(i)} for i in range(5)] + [{"id": "x", "new": 1}], "row 5 has the new column 'new'"),
        ([{"id": str(i)} for i in range(5)] + [{"id": "x", "start": "1.0"}], r"row 5, column 'start': '1.0' is not"),
        ([{"id": "x", "source_text": 3}], "row 0, column 'source_text': 3 is not of type string"),
        ([{"id": "x", "source_text": "\ud800"}], "row 0, column 'source_text'"),
        ([{"id": "x", "free": 1}, {"id": "y", "free": "z"}], "column 'free'"),
    ],
)
def test_bad_rows(tmp_path, rows, message):
    """A row that does not fit is named."""
    with pytest.raises(DataError, match=message) as caught:
        Manifest.write(tmp_path / "m.arrow", rows)
    assert "\n" not in str(caught.value) and str(tmp_path / "m.arrow") in str(caught.value)


def test_announced_columns(tmp_path):
    rows = [{"id": str(i)} for i in range(5)] + [{"id": "x", "score": 2, "tags": ["a"]}]
    manifest = Manifest.write(tmp_path / "m.arrow", rows, columns={"score": float, "tags": pa.list_(pa.string())})
    assert manifest[5]["score"] == 2.0 and manifest[5]["tags"] == ["a"] and manifest[0]["score"] is None


def test_files_that_are_none(tmp_path):
    path = tmp_path / "m.arrow"
    Manifest.write(path, make_rows(9))
    data = path.read_bytes()
    refuses(DataError, "no such manifest", Manifest.open, tmp_path / "none.arrow")
    (tmp_path / "test.tsv").write_bytes(b"id\taudio\n")
    for other in (tmp_path, tmp_path / "test.tsv"):
        refuses(DataError, r": not a manifest \(\*\.arrow\); dragoman prepare writes one", Manifest.open, other)
    for content in (b"", b"id\taudio\n", data[: len(data) // 2], data[:-1], data[:-20]):
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"m\.arrow: not an Arrow file, or cut off \(\d+ bytes") as caught:
            Manifest.open(path)
        assert "\n" not in str(caught.value)
    with pa.ipc.new_file(str(path), pa.schema({"id": pa.string()})) as writer:
        writer.write(pa.table({"id": ["a"]}))
    refuses(DataError, r"m\.arrow: column 'audio' is missing", Manifest.open, path)
    with pa.ipc.new_file(str(path), pa.schema(COLUMNS | {"start": pa.string()})) as writer:
        writer.write(pa.table({name: [None] for name in COLUMNS}, schema=pa.schema(COLUMNS | {"start": pa.string()})))
    refuses(DataError, "column 'start' is string, not double", Manifest.open, path)
    with pa.ipc.new_file(str(path), pa.schema(COLUMNS)) as writer:
        writer.write(pa.table({name: [None] for name in COLUMNS}, schema=pa.schema(COLUMNS)))
    refuses(DataError, "not a manifest of version", Manifest.open, path)


def test_unknown_column(tmp_path):
    manifest = Manifest.write(tmp_path / "m.arrow", make_rows(2))
    refuses(DataError, r"m\.arrow: column 'text' is missing \(it has id, audio", manifest.column, "text")


def test_the_fingerprint_is_of_contents_not_of_places(tmp_path):
    """The same rows with sound in another folder are the same corpus; another file, text or time is another one."""

    def fingerprint(name, **changes):
        row = {"id": "a", "audio": "/data/en-de/wav/ted_1.wav", "start": 0.5, "duration": 2.0, "source_text": "Hi."}
        return Manifest.write(tmp_path / f"{name}.arrow", [row | changes, {"id": "b"}]).fingerprint

    first = fingerprint("first")
    assert fingerprint("again") == first
    assert fingerprint("moved", audio="/mnt/other disk/must-c\nv1/wav/ted_1.wav") == first
    others = [{"audio": "/data/en-de/wav/ted_2.wav"}, {"start": 0.5 + 1e-12}, {"source_text": ""}, {"audio": None}]
    others += [{"speaker": "x"}, {"score": 0.5}, {"score": 0.25}]
    assert len({first, *(fingerprint(f"other{n}", **change) for n, change in enumerate(others))}) == 8
    assert Manifest.open(tmp_path / "again.arrow").fingerprint == first


@pytest.mark.parametrize(
    "change",
    [{"rows": 10**9}, {"rows": -1}, {"rows": "x"}, {"batch_rows": 0}, {"batch_rows": None}, {"fingerprint": 5}],
)
def test_a_trailer_that_lies(tmp_path, change):
    path = tmp_path / "m.arrow"
    Manifest.write(path, [{"id": "a"}])
    with pa.ipc.open_file(str(path)) as reader:
        batches = [reader.get_batch_with_custom_metadata(number) for number in range(reader.num_record_batches)]
    trailer = json.loads(batches[-1][1][b"manifest"]) | change
    with pa.ipc.new_file(str(path), batches[0][0].schema) as writer:
        writer.write_batch(batches[0][0])
        writer.write_batch(batches[-1][0], custom_metadata={"manifest": json.dumps(trailer)})
    refuses(DataError, r"m\.arrow: damaged: 2 record batches, but \{", Manifest.open, path)


def test_a_turned_manifest_has_its_sides_exchanged(tmp_path):
    row = {"id": "1", "source_text": "dog", "source_language": "en", "target_text": "Hund", "target_language": "de"}
    row |= {"target_text_1": "Köter", "source": "x", "domain": "pets"}
    plain = Manifest.write(tmp_path / "train.arrow", [row, row | {"id": "2", "target_text": "Katze"}])
    turned = plain.turned()
    wanted = {"source_text": "Hund", "target_text": "dog", "source_language": "de", "target_language": "en"}
    wanted |= {"id": "1", "source_text_1": "Köter", "source": "x", "domain": "pets"}
    assert {name: turned[0][name] for name in wanted} == wanted
    assert list(turned)[0] == turned[0] and turned.turned()[0] == plain[0]
    assert turned.column("source_text").to_pylist() == ["Hund", "Katze"]
    assert turned.select([1])[0]["source_text"] == pickle.loads(pickle.dumps(turned))[1]["source_text"] == "Katze"
    assert "source_text_1" in turned.free_columns and "target_text_1" not in turned.columns
    refuses(DataError, "'target_text_1' is missing", turned.column, "target_text_1")
