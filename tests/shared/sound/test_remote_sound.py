"""Sound and manifests in an object store are what the same bytes are on a disk, or an error that names the object."""

from __future__ import annotations

import io

import numpy as np
import pytest
import soundfile

from dragoman import DataError, Manifest
from dragoman.preparing.preparation import prepare
from dragoman.preparing.probing import check_segments
from dragoman.shared.batches.find import find_manifests
from dragoman.shared.batches.loader import Loader
from dragoman.shared.batches.speech_field import SpeechField
from dragoman.shared.batches.stream import Budget, Stream
from dragoman.shared.machine import remote
from dragoman.shared.sound import shards
from dragoman.shared.sound.audio import probe, read_audio
from dragoman.st.corpora.tsv import Tsv
from tests.object_store import SLOW_DOWN, answering
from tests.small import refuses
from tests.st.corpora.shards import sound, write_shard


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.setattr(remote, "WAITS", (0.0, 0.0))
    shards._opened.cache_clear()
    shards._column.cache_clear()
    with answering(monkeypatch, tmp_path / "cache") as found:
        yield found


@pytest.mark.parametrize("kind", ["WAV", "FLAC", "OGG", "MP3"])
def test_a_sound_file_is_read_as_from_a_disk(store, tmp_path, kind):
    noise = np.random.default_rng(1).uniform(-0.5, 0.5, (30 * 16000, 2))
    with io.BytesIO() as file:
        soundfile.write(file, noise, 16000, format=kind)
        content = file.getvalue()
    store.objects["sound/a.bin"] = content
    (tmp_path / "a.bin").write_bytes(content)
    for place in ("s3://sound/a.bin", f"file://{tmp_path}/a.bin"):
        for segment in ((0.0, None), (10.1, 2.5)):
            for channel in ("", "#channel:1"):
                expected = read_audio(f"{tmp_path}/a.bin{channel}", *segment)
                np.testing.assert_array_equal(read_audio(place + channel, *segment), expected)
        assert probe(place) == probe(tmp_path / "a.bin")
        assert check_segments([(place, 1.0, 2.0)]) == [2.0]


def test_of_a_long_recording_only_what_is_decoded_is_fetched(store):
    with io.BytesIO() as file:
        soundfile.write(file, np.zeros(16000 * 600), 16000, format="WAV", subtype="PCM_16")
        store.objects["sound/talk.wav"] = file.getvalue()  # 18 blocks
    assert len(read_audio("s3://sound/talk.wav", 300.0, 5.0)) == 80000
    blocks = [first >> 20 for method, _, first, _ in store.asked if method == "GET"]
    assert blocks == [0, 300 * 32000 >> 20]


@pytest.mark.parametrize("faults", [[SLOW_DOWN] * 2, ["cut"] * 2, ["reset", SLOW_DOWN]])
def test_faults_that_pass_change_nothing(store, faults):
    noise, store.objects["sound/a.wav"] = sound(1, seconds=2.0)
    store.faults = list(faults)
    np.testing.assert_allclose(read_audio("s3://sound/a.wav"), noise, atol=1e-4)
    assert not store.faults


@pytest.mark.parametrize("kind", ["WAV", "FLAC", "OGG"])
def test_no_half_of_a_file_is_decoded(store, kind, capfd):
    """A fault in its middle, or another file of this name from there on."""
    store.objects["sound/a.bin"] = content = sound(1, seconds=120.0, kind=kind)[1]
    beginning = [None] * (-(-len(content) // remote.BLOCK) - 2)
    store.faults = [*beginning, "cut", "cut", "cut"]
    refuses(DataError, r"^s3://sound/a\.bin: cannot be read \(", read_audio, "s3://sound/a.bin")
    remote._known.cache_clear()
    remote._block.cache_clear()
    other = sound(2, seconds=120.0, kind=kind)[1]
    store.faults = [*beginning, lambda: store.objects.update({"sound/a.bin": other})]
    refuses(DataError, r"^s3://sound/a\.bin: has been changed", read_audio, "s3://sound/a.bin")
    assert capfd.readouterr().err == ""


def test_what_is_not_there_or_no_sound_is_named(store):
    store.objects |= {"sound/text.wav": b"text", "sound/a.m4a": b"film"}
    refuses(DataError, r"^s3://sound/none\.wav: there is no such object$", read_audio, "s3://sound/none.wav")
    refuses(DataError, r"^s3://sound/text\.wav: not readable as sound \(4 bytes", read_audio, "s3://sound/text.wav")
    refuses(DataError, r"^s3://sound/a\.m4a: such files are read from a disk only", read_audio, "s3://sound/a.m4a")
    [finding] = check_segments([("s3://sound/none.wav", 0.0, None)])
    assert finding == "s3://sound/none.wav: there is no such object"


def test_rows_of_a_shard_are_read_by_row_groups(store, tmp_path):
    write_shard(tmp_path / "x.parquet", {"audio": [sound(n, seconds=20.0)[1] for n in range(12)]})
    store.objects["sound/x.parquet"] = content = (tmp_path / "x.parquet").read_bytes()
    np.testing.assert_allclose(read_audio("s3://sound/x.parquet#audio:3"), sound(3, seconds=20.0)[0], atol=1e-4)
    fetched = sum(last - first + 1 for method, _, first, last in store.asked if method == "GET")
    assert fetched < 0.5 * len(content)
    store.faults = [SLOW_DOWN]
    np.testing.assert_allclose(read_audio("s3://sound/x.parquet#audio:4"), sound(4, seconds=20.0)[0], atol=1e-4)
    refuses(DataError, "x.parquet#audio:12: the file has 12 rows", read_audio, "s3://sound/x.parquet#audio:12")
    refuses(DataError, "^s3://sound/y.parquet: there is no such object", read_audio, "s3://sound/y.parquet#audio:0")
    store.objects["sound/x.parquet"] = content[:-1] + b"x"
    refuses(DataError, "^s3://sound/x.parquet: has been changed", read_audio, "s3://sound/x.parquet#audio:0")


def batches(manifests, workers):
    stream = Stream(name="s", manifests=manifests, fields={"speech": SpeechField()}, budget=Budget(seconds=2))
    loader = Loader(streams=[stream], seed=1, workers=workers)
    found = [(batch.ids, batch.fields["speech"].values.numpy().tobytes()) for batch in loader.epoch(0)]
    loader.close()
    return found


def test_training_data_in_a_store_gives_the_batches_of_a_disk(store, tmp_path):
    """A table with URIs, its manifest in the store too, read by workers, while requests fail."""
    for place, root in (("disk", f"{tmp_path}/sound"), ("store", "s3://sound")):
        lines = [f"r{n}\t{root}/{n}.wav\ttext {n}" for n in range(12)]
        (tmp_path / place).mkdir()
        (tmp_path / place / "train.tsv").write_text("\n".join(["id\taudio\tsource_text", *lines]) + "\n")
    (tmp_path / "sound").mkdir()
    for number in range(12):
        store.objects[f"sound/{number}.wav"] = content = sound(number, seconds=0.3 + 0.02 * number)[1]
        (tmp_path / "sound" / f"{number}.wav").write_bytes(content)
    for place in ("disk", "store"):
        prepare(Tsv(root=tmp_path / place, source_language="en"), tmp_path / "out" / place, workers=2)
    paths = {place: next((tmp_path / "out" / place).rglob("train.arrow")) for place in ("disk", "store")}
    assert Manifest.open(paths["store"])[3]["audio"] == "s3://sound/3.wav"
    store.objects["corpora/en/train.arrow"] = paths["store"].read_bytes()
    expected = batches([str(paths["disk"])], 0)
    for workers in (0, 2):
        store.faults = [SLOW_DOWN, "cut"] if workers else ["reset"]
        assert batches(["s3://corpora/*/train.arrow"], workers) == expected
    del store.objects["sound/5.wav"]
    remote._known.cache_clear()
    remote._block.cache_clear()
    with pytest.raises(DataError, match=r"row 'r5': field 'speech': s3://sound/5\.wav: there is no such object"):
        batches(["s3://corpora/en/train.arrow"], 1)


def test_manifests_in_a_store_are_opened_by_name_and_pattern(store, tmp_path):
    written = Manifest.write(tmp_path / "train.arrow", [{"id": "a", "source_text": "x"}])
    for direction in ("de-en", "fr-en"):
        store.objects[f"m/{direction}/train.arrow"] = written.path.read_bytes()
    assert Manifest.open("s3://m/de-en/train.arrow")[0]["id"] == "a"
    assert Manifest.open(f"file://{written.path}").fingerprint == written.fingerprint
    found = find_manifests(["s3://m/*-en/train.arrow", written.path])
    assert [f"{path.parent.name}/{path.name}" for path in found[:2]] == ["de-en/train.arrow", "fr-en/train.arrow"]
    refuses(DataError, r"^s3://m/\*/dev\.arrow: there is no such manifest$", find_manifests, ["s3://m/*/dev.arrow"])
    refuses(DataError, r"^s3://m/dev\.arrow: there is no such object$", find_manifests, ["s3://m/dev.arrow"])
    store.objects["m/cut.arrow"] = written.path.read_bytes()[:500]
    refuses(DataError, r"s3/m/cut\.arrow: not an Arrow file, or cut off", Manifest.open, "s3://m/cut.arrow")
