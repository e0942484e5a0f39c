"""Tar files in the layouts of WebDataset and of lhotse's Shar: rows are what those libraries read."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path

import numpy as np
import pytest
import soundfile

from dragoman import DataError, Manifest
from dragoman.preparing.preparation import prepare
from dragoman.shared.batches.manifest import COLUMNS
from dragoman.shared.machine import remote
from dragoman.shared.sound import shards
from dragoman.shared.sound.audio import read_audio
from dragoman.shared.sound.shards import Member, file_of, member_of, open_sound
from dragoman.shared.text.lines import Unusable
from dragoman.st.corpora.parquet import Parquet
from dragoman.st.corpora.shar import Shar
from dragoman.st.corpora.tar_members import members
from dragoman.st.corpora.webdataset import WebDataset
from tests.object_store import answering
from tests.small import refusal, refuses
from tests.st.corpora.shards import sound, write_shard

WORDS = {"txt": b"How are you?\n", "json": '{"translation": "Wie geht’s?", "speaker": "anna"}'.encode()}


def write_tar(path: Path, *files: tuple[str, bytes], end: bool = True) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w") as tar:
        for name, content in files:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
        size = tar.offset
    if not end:
        path.write_bytes(path.read_bytes()[:size])
    return path


def sample(number: int, kind: str = "wav", **more: bytes) -> list[tuple[str, bytes]]:
    files = {kind: sound(number, kind=kind.upper())[1], **WORDS, **more}
    return [(f"a/{number:03}.{ending}", content) for ending, content in files.items()]


def rows(root: Path, **how: object) -> list[object]:
    reader = WebDataset(root=root, source_language="en", target_language="de", **how)  # type: ignore[arg-type]
    return [row for split in reader.splits() for row in reader.rows(split)]


def bad(root: Path, *files: tuple[str, bytes]) -> str:
    write_tar(root / "train-0.tar", *files)
    found = [row for row in rows(root) if isinstance(row, Unusable)]
    assert len(found) == 1
    return str(found[0])


@pytest.mark.parametrize("kind", ["wav", "flac", "ogg"])
def test_samples_become_manifests_that_read_the_tar_files(tmp_path, kind):
    for number in range(2):
        write_tar(tmp_path / f"train-{number:06}.tar", *sample(2 * number, kind), *sample(2 * number + 1, kind))
    reader = WebDataset(root=tmp_path, source_language="en", target_language="de", speaker="json.speaker")
    prepare(reader, tmp_path / "out", workers=1)
    manifest = Manifest.open(tmp_path / "out" / "en-de" / "train.arrow")
    assert [row["id"] for row in manifest] == [f"train-00000{n // 2}-a/00{n}" for n in range(4)]
    audio = manifest[2]["audio"]
    values = ("train-000001-a/002", audio, 0.0, 0.3, "How are you?", "en", "Wie geht’s?", "de", "anna", None)
    assert manifest[2] == dict(zip(COLUMNS, values, strict=True))
    for number in range(4):
        (tmp_path / "a.sound").write_bytes(sound(number, kind=kind.upper())[1])
        for segment in ((0.0, None), (0.1, 0.15)):
            expected = read_audio(tmp_path / "a.sound", *segment)
            np.testing.assert_array_equal(read_audio(manifest[number]["audio"], *segment), expected)
    assert read_audio(f"{manifest[0]['audio']}#channel:0").shape == (4800,)


def test_rows_are_those_that_webdataset_reads_of_what_it_wrote(tmp_path):
    webdataset = pytest.importorskip("webdataset")
    for shard in range(2):
        with webdataset.TarWriter(str(tmp_path / f"train-{shard:06}.tar")) as writer:
            for number in range(3):
                key = f"long/{'x' * 90}/{shard}{number}"  # as long as needs headers of their own
                texts = {"txt": f"line {number}", "json": {"translation": f"Zeile {number}"}}
                writer.write({"__key__": key, "flac": sound(3 * shard + number, kind="FLAC")[1], **texts})
    urls = [str(path) for path in sorted(tmp_path.glob("*.tar"))]
    theirs = [*webdataset.WebDataset(urls, shardshuffle=False)]
    ours = rows(tmp_path)
    assert len(theirs) == len(ours) == 6
    for one, row in zip(theirs, ours, strict=True):
        assert row["id"] == f"{Path(one['__url__']).stem}-{one['__key__']}"
        assert (
            row["source_text"] == one["txt"].decode() and row["target_text"] == json.loads(one["json"])["translation"]
        )
        with open_sound(row["audio"]) as file:
            assert file.read() == one["flac"]


def test_endings_splits_and_folders_are_as_asked(tmp_path):
    write_tar(tmp_path / "dev" / "00.tar", *sample(1, **{"de.txt": b"Wie geht es?"}))
    write_tar(tmp_path / "train.tar", *sample(2, **{"de.txt": b"Hallo"}), ("a/__meta__.json", b""), ("noending", b""))
    reader = WebDataset(root=tmp_path, source_language="en", target_language="de", translation="de.txt")
    assert reader.splits() == ["train", "dev"] and [path.name for path in reader.inputs("dev")] == ["00.tar"]
    assert [row["target_text"] for split in ("dev", "train") for row in reader.rows(split)] == ["Wie geht es?", "Hallo"]
    [row] = WebDataset(root=tmp_path, source_language="en", transcript=None, splits=["dev"]).rows("dev")
    assert (row["source_text"], row["target_text"]) == (None, None)


def test_samples_that_are_no_rows_say_why_with_file_and_member(tmp_path):
    wav, txt, translated = sample(1)
    place = f"{tmp_path}/train-0.tar, line 1: 'a/001' in the tar file: "
    assert bad(tmp_path, txt, translated).startswith(f"{place}0 members of sound")
    assert bad(tmp_path, wav, translated) == f"{place}there is no member .txt, only .wav, .json"
    assert bad(tmp_path, wav, ("a/001.flac", b""), txt).startswith(f"{place}2 members of sound")
    assert bad(tmp_path, wav, txt, translated, txt) == f"{place}member 'a/001.txt' is there twice"
    broken = [("a/001.json", content) for content in (b"{", b"[]", b"{}", b"\xff")]
    reasons = [bad(tmp_path, wav, txt, one) for one in broken]
    for reason, words in zip(reasons, ["not JSON", "not an object", "the key 'translation'", "not UTF-8"], strict=True):
        assert words in reason and "001.json" in reason
    inside = bad(tmp_path, ("../b.wav", wav[1]), ("../b.txt", b"x"))
    assert inside.endswith(
        "train-0.tar, line 1: '../b' in the tar file: member '../b.wav' is a path that leads outside"
    )


def test_links_are_not_followed(tmp_path):
    with tarfile.open(tmp_path / "train-0.tar", "w") as tar:
        link = tarfile.TarInfo("a.wav")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(link)
    [row] = rows(tmp_path)
    assert str(row).endswith("member 'a.wav' is a link, a device or a sparse file, not a file")


def test_tar_files_that_are_damaged_or_compressed_are_named(tmp_path):
    path = write_tar(tmp_path / "train-0.tar", *sample(1), *sample(2))
    whole = path.read_bytes()
    places = [entry.place for entry in members(path)]
    sixth = places[5]
    assert [place.name for place in places][3:] == ["002.wav", "002.txt", "002.json"]
    for size, message in (
        (places[3].start + 100, r"train-0\.tar: cut off in member 'a/002\.wav'"),
        (places[3].start - 512, r"train-0\.tar: damaged or cut off after member 'a/001\.json'"),
        (places[3].start - 300, r"train-0\.tar: damaged or cut off after member 'a/001\.json'"),
        (sixth.start + 512, r"train-0\.tar: damaged or cut off after member 'a/002\.json'"),
        (0, r"train-0\.tar: not a tar file"),
    ):
        path.write_bytes(whole[:size])
        refuses(DataError, message, rows, tmp_path)
    path.write_bytes(whole[: places[3].start - 512] + b"x" * 512 + whole[places[3].start :])
    refuses(DataError, r"damaged or cut off after member 'a/001\.json'", rows, tmp_path)
    path.write_bytes(b"\x1f\x8b" + whole)
    refuses(DataError, r"train-0\.tar: compressed \(gzip\)", rows, tmp_path)
    write_tar(path, *sample(1), *sample(2), *sample(1))
    refuses(DataError, r"member 'a/001\.wav': the key 'a/001' was there before", rows, tmp_path)
    path.rename(tmp_path / "train.tar.gz")
    refuses(
        DataError, r"neither tar files .*train\.tar\.gz is compressed", WebDataset, root=tmp_path, source_language="en"
    )
    for number in (0, 1, 3):
        write_tar(tmp_path / f"train-{number}.tar", *sample(number))
    refuses(DataError, r"train-3\.tar: number 2 of this split is not there, but 3 is", rows, tmp_path)


def test_a_tar_file_that_was_changed_after_it_was_prepared_is_an_error(tmp_path):
    path = write_tar(tmp_path / "train-0.tar", *sample(1), *sample(2))
    audio = str([*members(path)][3].place)
    assert member_of(audio) == Member(str(path), *map(int, audio.split("#")[1].split(":")[:2]), "002.wav")
    assert file_of(audio) == str(path)
    write_tar(path, ("b.txt", b"longer"), *sample(1), *sample(2))
    refuses(DataError, r"#\d+:\d+:002\.wav: no member of this size is there; the tar file has been", read_audio, audio)
    path.write_bytes(path.read_bytes()[:100])
    refuses(DataError, "no member of this size is there", read_audio, audio)
    path.unlink()
    refuses(DataError, r"002\.wav: no such file", read_audio, audio)


def write_shar(folder: Path) -> object:
    """Write with lhotse five cuts in files of two, of which two are of one recording; return what it reads of them."""
    lhotse = pytest.importorskip("lhotse")
    cuts = []
    for number in range(5):
        path = folder / f"wav-{number}.wav"
        path.parent.mkdir(parents=True, exist_ok=True)
        noise = np.random.default_rng(number).uniform(-0.5, 0.5, (16000, 2 if number == 4 else 1))
        soundfile.write(path, noise, 8000)
        recording = lhotse.Recording.from_file(path)
        spoken = lhotse.SupervisionSegment(
            f"s{number}", recording.id, 0.0, 1.0, channel=0, text=f"line {number}", language="en", speaker="anna"
        )
        spoken.custom = {"translation": f"Zeile {number}"}
        kind = lhotse.MultiCut if number == 4 else lhotse.MonoCut
        channel = [0, 1] if number == 4 else 0
        cuts.append(kind(f"c.{number}", 0.25 * number, 1.0, channel, recording=recording, supervisions=[spoken]))
    (folder / "train").mkdir()
    lhotse.CutSet.from_cuts(cuts).to_shar(folder / "train", fields={"recording": "flac"}, shard_size=2)
    return lhotse.CutSet.from_shar(in_dir=folder / "train")


def test_shar_is_read_as_lhotse_reads_it(tmp_path):
    theirs = [*write_shar(tmp_path)]
    reader = Shar(root=tmp_path, target_language="de")
    prepare(reader, tmp_path / "out", workers=1)
    ours = [*Manifest.open(tmp_path / "out" / "train.arrow")]
    assert len(ours) == len(theirs) == 5
    for cut, row in zip(theirs, ours, strict=True):
        [spoken] = cut.supervisions
        assert (row["id"], row["source_text"], row["speaker"]) == (cut.id, spoken.text, "anna")
        assert row["target_text"] == spoken.custom["translation"] and row["source_language"] == "en"
        assert (row["start"], row["duration"]) == (cut.start, cut.duration)
        expected = cut.resample(16000).load_audio()[0]
        np.testing.assert_allclose(read_audio(row["audio"], row["start"], row["duration"]), expected, atol=2e-3)


def test_cuts_and_tar_files_of_shar_belong_together(tmp_path):
    write_shar(tmp_path)
    folder = tmp_path / "train"
    cuts, tar = folder / "cuts.000002.jsonl.gz", folder / "recording.000002.tar"
    content = tar.read_bytes()

    def read() -> list[object]:
        return [*Shar(root=tmp_path, target_language="de").rows("train")]

    write_tar(tar)
    refuses(DataError, r"cuts\.000002\.jsonl\.gz, line 1: cut 'c\.4' has no member in recording\.000002\.tar", read)
    write_tar(tar, ("c.3.flac", b""))
    refuses(DataError, r"recording\.000002\.tar: member 'c\.3\.flac' stands where .* 'c\.4' is expected", read)
    write_tar(tar, ("c.4.flac", b""), ("c.4.json", b""), ("c.5.flac", b""))
    refuses(DataError, r"member 'c\.5\.flac' has no cut in cuts\.000002", read)
    for name, reason in (
        ("c.4.nodata", "is without sound"),
        ("c.4.npy", "is none of .flac"),
        ("c.4.m4a", "is none of"),
    ):
        write_tar(tar, (name, b""), ("c.4.nometa", b""))
        assert reason in str(read()[-1])
    tar.unlink()
    assert refusal(DataError, read) == f"{cuts}: there is no recording.000002.tar beside it"
    tar.write_bytes(content)
    cuts.unlink()
    assert refusal(DataError, read) == f"{tar}: there are no cuts beside it"
    refuses(DataError, "neither cuts", Shar, root=tmp_path / "none")


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.setattr(remote, "WAITS", (0.0, 0.0))
    shards._content.cache_clear()
    shards._opened.cache_clear()
    shards._column.cache_clear()
    with answering(monkeypatch, tmp_path / "cache") as found:
        yield found


def test_tar_and_parquet_files_in_a_store_are_prepared_and_read_there(store, tmp_path):
    write_tar(tmp_path / "web" / "train-0.tar", *sample(1), *sample(2))
    write_shar(tmp_path / "shar")
    for path in (tmp_path / "shar").glob("wav-*"):
        path.unlink()
    columns = {"audio": [sound(n)[1] for n in range(3)], "sentence": list("abc")}
    write_shard(tmp_path / "parquet" / "train-00000-of-00001.parquet", columns)
    for path in tmp_path.rglob("*.*"):
        if path.is_file():
            store.objects[f"b/{path.relative_to(tmp_path)}"] = path.read_bytes()
    readers = {
        "web": lambda root: WebDataset(root=root, source_language="en", target_language="de"),
        "shar": lambda root: Shar(root=root, target_language="de"),
        "parquet": lambda root: Parquet(root=root, source_language="en"),
    }
    for name, reader in readers.items():
        found = {}
        for where, root in (("disk", tmp_path / name), ("store", f"s3://b/{name}")):
            prepare(reader(root), tmp_path / "out" / name / where, workers=1)
            [path] = (tmp_path / "out" / name / where).rglob("*.arrow")
            found[where] = [*Manifest.open(path)]
        assert len(found["store"]) > 1
        for there, here in zip(found["store"], found["disk"], strict=True):
            assert there | {"audio": ""} == here | {"audio": ""}
            assert there["audio"] == here["audio"].replace(str(tmp_path), "s3://b")
            np.testing.assert_array_equal(read_audio(there["audio"]), read_audio(here["audio"]))
    audio = "s3://b/web/train-0.tar#512:9644:001.wav"
    np.testing.assert_allclose(read_audio(audio), sound(1)[0], atol=1e-4)
    store.objects["b/web/train-0.tar"] += b"x"
    for kept in (shards._content, remote._block):
        kept.cache_clear()
    refuses(DataError, r"^s3://b/web/train-0\.tar: has been changed since", read_audio, audio)
