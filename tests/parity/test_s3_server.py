"""Objects of a server that speaks S3, moto's, are what was put there; tests/object_store.py has the faults."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from dragoman import DataError, Manifest
from dragoman.shared.batches.find import find_manifests
from dragoman.shared.machine import remote
from dragoman.shared.machine.remote import local_copy, open_remote, remote_matches, remote_stamp
from dragoman.shared.sound import shards
from dragoman.shared.sound.audio import read_audio
from dragoman.st.corpora.webdataset import WebDataset
from tests.object_store import environment
from tests.small import refuses
from tests.st.corpora.shards import sound, write_shard
from tests.st.corpora.test_tar_shards import sample, write_tar

CONTENT = np.random.default_rng(0).bytes(3_500_000)


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """Start a server; return its address."""
    pytest.importorskip("flask")
    pytest.importorskip("flask_cors")
    server = pytest.importorskip("moto.server").ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        yield "http://{}:{}".format(*server.get_host_and_port())
    finally:
        server.stop()


@pytest.fixture
def client(server, tmp_path, monkeypatch):
    """A client of another library, with an empty bucket "corpora" to which ``s3://corpora`` leads."""
    boto3 = pytest.importorskip("boto3")
    environment(monkeypatch, server, tmp_path / "cache")
    monkeypatch.setattr(remote, "WAITS", ())
    for kept in (shards._opened, shards._column, shards._content):
        kept.cache_clear()
    found = boto3.client("s3", endpoint_url=server)
    found.create_bucket(Bucket="corpora")
    yield found
    boto3.resource("s3", endpoint_url=server).Bucket("corpora").objects.all().delete()


@pytest.mark.parametrize("key", ["a.bin", "deep/er/a b+c&d=e%20f.bin", "Größe/音.bin"])
def test_objects_of_any_name_are_read_in_any_part_and_copied(client, key):
    client.put_object(Bucket="corpora", Key=key, Body=CONTENT)
    with open_remote(f"s3://corpora/{key}") as file:
        for start, count in ((0, 10), (1_048_570, 20), (3_499_990, 100), (5, 2_000_000)):
            file.seek(start)
            assert file.read(count) == CONTENT[start : start + count]
    tag = client.head_object(Bucket="corpora", Key=key)["ETag"]
    assert remote_stamp(f"s3://corpora/{key}") == (len(CONTENT), tag)
    assert local_copy(f"s3://corpora/{key}").read_bytes() == CONTENT


def test_an_object_that_is_put_there_in_parts_is_whole_and_a_replaced_one_an_error(client):
    upload = client.create_multipart_upload(Bucket="corpora", Key="a")["UploadId"]
    parts, whole = [], CONTENT * 3
    for number, start in enumerate(range(0, len(whole), 5 << 20), 1):
        given = {"Bucket": "corpora", "Key": "a", "UploadId": upload, "PartNumber": number}
        tag = client.upload_part(**given, Body=whole[start : start + (5 << 20)])["ETag"]
        parts.append({"PartNumber": number, "ETag": tag})
    client.complete_multipart_upload(Bucket="corpora", Key="a", UploadId=upload, MultipartUpload={"Parts": parts})
    with open_remote("s3://corpora/a") as file:
        assert file.read(5_000_000) == whole[:5_000_000]
        client.put_object(Bucket="corpora", Key="a", Body=whole[::-1])
        refuses(DataError, "^s3://corpora/a: has been changed since it was first read", file.read)


@pytest.mark.slow
def test_patterns_match_in_lists_of_several_pages(client):
    for number in range(1003):  # a page has 1000
        client.put_object(Bucket="corpora", Key=f"m/{number:04}.arrow", Body=b"x")
    client.put_object(Bucket="corpora", Key="m/deep/0000.arrow", Body=b"x")
    assert remote_matches("s3://corpora/m/*.arrow") == [f"s3://corpora/m/{number:04}.arrow" for number in range(1003)]
    assert remote_matches("s3://corpora/m/*/00*.arrow") == ["s3://corpora/m/deep/0000.arrow"]


def test_what_is_not_there_is_named(client):
    refuses(DataError, "^s3://corpora/none: there is no such object$", open_remote, "s3://corpora/none")
    refuses(DataError, "^s3://other/none: there is no such object$", open_remote, "s3://other/none")
    refuses(
        DataError,
        r"^s3://corpora/\*/dev\.arrow: there is no such manifest$",
        find_manifests,
        ["s3://corpora/*/dev.arrow"],
    )


def test_manifests_and_sound_in_files_of_all_kinds_are_read_there(client, tmp_path):
    noise, content = sound(1, seconds=2.0, kind="FLAC")
    write_shard(tmp_path / "x.parquet", {"audio": [content, sound(2)[1]]}, rows_per_group=1)
    write_tar(tmp_path / "train-0.tar", *sample(3), *sample(4))
    written = Manifest.write(tmp_path / "train.arrow", [{"id": "a", "audio": "s3://corpora/x.flac", "duration": 2.0}])
    (tmp_path / "x.flac").write_bytes(content)
    for path in (tmp_path / "x.flac", tmp_path / "x.parquet", tmp_path / "train-0.tar", written.path):
        client.upload_file(str(path), "corpora", path.name)
    row = Manifest.open("s3://corpora/train.arrow")[0]
    for audio in (row["audio"], "s3://corpora/x.parquet#audio:0"):
        np.testing.assert_allclose(read_audio(audio, 0.5, 1.0), noise[8000:24000], atol=1e-4)
    found = [*WebDataset(root="s3://corpora", source_language="en").rows("train")]
    for number, sample_row in zip((3, 4), found, strict=True):
        np.testing.assert_allclose(read_audio(sample_row["audio"]), sound(number)[0], atol=1e-4)
