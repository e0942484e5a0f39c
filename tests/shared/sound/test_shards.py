"""Sound inside Parquet files is what the same bytes are in a file of their own."""

import os

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dragoman.preparing.probing import check_segments
from dragoman.shared.batches.speech_field import SpeechField
from dragoman.shared.errors import DataError, UsageError
from dragoman.shared.machine import remote
from dragoman.shared.machine.files import locked
from dragoman.shared.sound import shards
from dragoman.shared.sound.audio import read_audio
from dragoman.shared.sound.shards import (
    Place,
    check_sound_column,
    file_of,
    keep_row_groups,
    open_sound,
    place_in_shard,
)
from tests.small import refusal, refuses
from tests.st.corpora.shards import sound, write_shard


@pytest.fixture
def shard(tmp_path):
    path = tmp_path / "train.parquet"
    write_shard(path, {"audio": [sound(n)[1] for n in range(5)], "text": list("abcde")})
    return path


@pytest.mark.parametrize("kind", ["WAV", "FLAC", "OGG"])
def test_a_sound_in_a_shard_is_that_of_a_file(tmp_path, kind):
    _, content = sound(3, seconds=2.0, kind=kind)
    (tmp_path / "a.sound").write_bytes(content)
    write_shard(tmp_path / "x.parquet", {"audio": [b"", content]})
    inside = str(Place(str(tmp_path / "x.parquet"), "audio", 1))
    for segment in ((0.0, None), (0.1, 0.15)):
        np.testing.assert_array_equal(read_audio(inside, *segment), read_audio(tmp_path / "a.sound", *segment))
    assert check_segments([(inside, 0.0, None)]) == check_segments([(str(tmp_path / "a.sound"), 0.0, None)])


@pytest.mark.parametrize("row", range(5))
def test_each_row_of_each_row_group_is_found(shard, row):
    found = SpeechField()({"id": "r", "audio": f"{shard}#audio:{row}"}, np.random.default_rng(0))
    np.testing.assert_allclose(found.numpy(), sound(row)[0], atol=1e-4)


def test_bytes_without_a_struct_are_read_too(tmp_path):
    pq.write_table(pa.table({"sound": [sound(1)[1]]}), tmp_path / "x.parquet")
    np.testing.assert_allclose(read_audio(f"{tmp_path}/x.parquet#sound:0"), sound(1)[0], atol=1e-4)


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("x.parquet#audio:5", r"x\.parquet#audio:5: the file has 5 rows"),
        ("y.parquet#audio:0", r"y\.parquet: no such file"),
        ("z.parquet#audio:0", r"z\.parquet: not a Parquet file, or cut off"),
        ("n.parquet#audio:0", r"n\.parquet#audio:0: no sound in this row"),
        ("t.parquet#audio:0", r"t\.parquet#audio:0: not readable as sound \(4 bytes"),
    ],
)
def test_what_cannot_be_read_is_named(shard, tmp_path, place, message):
    shard.rename(tmp_path / "x.parquet")
    (tmp_path / "z.parquet").write_bytes(b"PAR1 and no more")
    write_shard(tmp_path / "n.parquet", {"audio": [None]})
    write_shard(tmp_path / "t.parquet", {"audio": [b"text"]})
    refuses(DataError, message, read_audio, tmp_path / place)
    [finding] = check_segments([(str(tmp_path / place), 0.0, None)])
    assert isinstance(finding, str)


def test_places_have_a_file_a_column_and_a_row_of_at_most_twelve_digits():
    assert place_in_shard("a.parquet#b:123456789012") == Place("a.parquet", "b", 123456789012)
    for audio in ("a.parquet#b:1234567890123", "a.parquet#b:", "a.parquet#:1", "a.parquet#b:-1", "a.parquet#b:1.wav"):
        assert place_in_shard(audio) is None
    assert str(Place("a.parquet", "b", 3)) == "a.parquet#b:3" and file_of("a.parquet#b:3") == "a.parquet"
    assert place_in_shard("/a/x.parquet") is None and file_of("/a/b#c:1.wav") == "/a/b#c:1.wav"


def test_sound_is_opened_on_disk_or_in_a_shard(shard, tmp_path):
    (tmp_path / "a.wav").write_bytes(b"sound")
    with open_sound(tmp_path / "a.wav") as file:
        assert file.read() == b"sound"
    with open_sound(f"{shard}#audio:2") as file:
        assert file.read() == sound(2)[1]
    refuses(FileNotFoundError, "none.wav", open_sound, tmp_path / "none.wav")
    (tmp_path / "folder").mkdir()
    refuses(DataError, "folder", open_sound, tmp_path / "folder")


def test_columns_of_sound_are_bytes_or_have_them(tmp_path, shard):
    large = pa.array([b"x"], pa.large_binary())
    other = pa.array([{"path": "x"}])
    pq.write_table(pa.table({"large": large, "struct": other, "text": ["x"]}), tmp_path / "y.parquet")
    check_sound_column(tmp_path / "y.parquet", "large")
    check_sound_column(shard, "audio")
    for column, kind in (("struct", "struct<path: string>"), ("text", "string")):
        complaint = refusal(DataError, check_sound_column, tmp_path / "y.parquet", column)
        assert complaint == f"{tmp_path / 'y.parquet'}: column {column!r} is {kind}, not the bytes of sound files"
    complaint = refusal(DataError, check_sound_column, tmp_path / "y.parquet", "voice")
    assert complaint == f"{tmp_path / 'y.parquet'}: column 'voice' is missing (it has large, struct, text)"


def test_rows_are_found_in_groups_of_any_size(tmp_path):
    with pq.ParquetWriter(tmp_path / "x.parquet", pa.schema({"a": pa.binary()})) as writer:
        for group in ([b"0", b"1"], [b"2"], [b"3", b"4", b"5"]):
            writer.write_table(pa.table({"a": group}))
    for row in range(6):
        with open_sound(f"{tmp_path}/x.parquet#a:{row}") as file:
            assert file.read() == str(row).encode()
    refuses(DataError, "x.parquet#a:6: the file has 6 rows$", open_sound, f"{tmp_path}/x.parquet#a:6")
    pq.write_table(pa.table({"a": pa.array([], pa.binary())}), tmp_path / "y.parquet")
    refuses(DataError, "y.parquet#a:0: the file has 0 rows$", open_sound, f"{tmp_path}/y.parquet#a:0")


def test_a_row_group_that_is_damaged_is_named(shard, monkeypatch):
    class Broken:
        schema_arrow = pq.ParquetFile(shard).schema_arrow
        metadata = pq.ParquetFile(shard).metadata

        def read_row_group(self, *given, **how):
            raise pa.ArrowInvalid("broken\npage")

    monkeypatch.setattr(shards, "open_shard", lambda path: Broken())
    shards._column.cache_clear()
    complaint = refusal(DataError, open_sound, f"{shard}#audio:0")
    assert complaint == f"{shard}: row group 0 cannot be read (broken page)"


def decoded_anew(places):
    shards._column.cache_clear()
    for place in places:
        with open_sound(place) as file:
            yield file.read()


def test_row_groups_are_kept_for_all_processes_until_others_need_their_room(shard, tmp_path, monkeypatch):
    monkeypatch.setenv(remote.VARIABLE, str(tmp_path / "cache"))
    places = [f"{shard}#audio:{row}" for row in range(5)]
    keep_row_groups([*places[:2], None, "a.wav"])
    folder = tmp_path / "cache" / "row_groups"
    assert len([*folder.iterdir()]) == 1
    keep_row_groups(places)
    assert len([*folder.iterdir()]) == 3
    with monkeypatch.context() as damaged:
        damaged.setattr(shards, "_decoded", None)  # nothing is decoded any more
        assert [*decoded_anew(places)] == [sound(row)[1] for row in range(5)]
    for group, used in ((0, 200), (1, 100), (2, 300)):
        os.utime(shards._kept(str(shard), "audio", group), (used, used))
    write_shard(tmp_path / "y.parquet", {"audio": [sound(9)[1]]})
    monkeypatch.setenv(shards.VARIABLE, str(3e-5))  # 30 kB: a group of two sounds has 20
    keep_row_groups([f"{tmp_path}/y.parquet#audio:0"])
    assert {*folder.iterdir()} == {
        shards._kept(f"{tmp_path}/y.parquet", "audio", 0),
        shards._kept(str(shard), "audio", 2),
    }
    assert [*decoded_anew(places)] == [sound(row)[1] for row in range(5)]


def test_a_row_group_that_is_kept_is_not_that_of_another_file_of_this_name(shard, tmp_path, monkeypatch):
    monkeypatch.setenv(remote.VARIABLE, str(tmp_path / "cache"))
    keep_row_groups([f"{shard}#audio:0"])
    write_shard(shard, {"audio": [sound(7, seconds=0.4)[1]]})
    assert [*decoded_anew([f"{shard}#audio:0"])] == [sound(7, seconds=0.4)[1]]


def test_what_cannot_be_kept_is_an_error_when_its_turn_comes(shard, tmp_path, monkeypatch):
    monkeypatch.setenv(remote.VARIABLE, str(tmp_path / "cache"))
    lost = [f"{tmp_path}/none.parquet#audio:0", f"{shard}#audio:5", f"{shard}#text:0"]
    keep_row_groups([*lost, f"{shard}#audio:4"], ahead=True)
    assert len([*(tmp_path / "cache" / "row_groups").iterdir()]) == 1
    for place in lost:
        refuses(DataError, r"none\.parquet|the file has 5 rows|'text' is string", keep_row_groups, [place])
    monkeypatch.setenv(shards.VARIABLE, "much")
    refuses(UsageError, "DRAGOMAN_CACHE_GB is 'much', not a number of GB", keep_row_groups, [f"{shard}#audio:0"])


def test_a_row_group_that_another_process_is_about_to_keep_is_waited_for_only_where_it_is_needed(
    shard, tmp_path, monkeypatch
):
    monkeypatch.setenv(remote.VARIABLE, str(tmp_path / "cache"))
    kept = shards._kept(str(shard), "audio", 0)
    with locked(kept.with_suffix(".lock")):
        keep_row_groups([f"{shard}#audio:0"], ahead=True)
        assert not kept.exists()
    keep_row_groups([f"{shard}#audio:0"], ahead=True)
    assert kept.exists()
