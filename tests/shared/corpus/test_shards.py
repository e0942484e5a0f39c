"""Sound inside Parquet files is what the same bytes are in a file of their own."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shared.corpus.audio import read_audio
from shared.corpus.probing import check_segments
from shared.corpus.shards import Place, file_of, place_in_shard
from shared.corpus.speech_field import SpeechField
from shared.errors import DataError
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


def test_places_are_read_as_they_are_written(tmp_path):
    place = Place("/a#b:1/x.parquet", "audio", 12)
    assert place_in_shard(str(place)) == place and file_of(str(place)) == place.file
    assert place_in_shard("/a/x.wav") is None and place_in_shard("/a/x.parquet") is None
    assert file_of("/a/b#c:1.wav") == "/a/b#c:1.wav"


def test_bytes_without_a_struct_are_read_too(tmp_path):
    pq.write_table(pa.table({"sound": [sound(1)[1]]}), tmp_path / "x.parquet")
    np.testing.assert_allclose(read_audio(f"{tmp_path}/x.parquet#sound:0"), sound(1)[0], atol=1e-4)


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("x.parquet#audio:5", r"x\.parquet#audio:5: the file has 5 rows"),
        ("x.parquet#text:0", r"column 'text' is string, not the bytes of sound files"),
        ("x.parquet#voice:0", r"column 'voice' is missing \(it has .*audio"),
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
    with pytest.raises(DataError, match=message):
        read_audio(tmp_path / place)
    [finding] = check_segments([(str(tmp_path / place), 0.0, None)])
    assert isinstance(finding, str)
