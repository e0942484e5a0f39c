"""Objects of a store: what is read is what is there, in few requests; faults pass, or end with a clear error."""

from __future__ import annotations

import json
import logging
import multiprocessing
import re
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest

from dragoman import DataError
from dragoman.shared.machine import remote
from dragoman.shared.machine.remote import local_copy, on_disk, open_remote, remote_matches, uri_of
from tests.object_store import DENIED, SLOW_DOWN, Store, answering, wait
from tests.small import refusal, refuses

CONTENT = np.random.default_rng(0).bytes(3_500_000)


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.setattr(remote, "WAITS", (0.0, 0.0))
    with answering(monkeypatch, tmp_path / "cache") as found:
        found.objects["data/a/long.bin"] = CONTENT
        yield found


def test_uris_are_told_from_paths_also_where_path_has_made_one_slash_of_two():
    assert uri_of("s3://b/a c.wav") == uri_of(Path("s3://b/a c.wav")) == "s3://b/a c.wav"
    assert [uri_of(f"{scheme}://x/y") for scheme in ("gs", "hf")] == ["gs://x/y", "hf://x/y"]
    for path in ("file:///a/b.wav", "/a/s3:/b", "a.wav", "https://a/b", "C:/a", "s3:"):
        assert uri_of(path) is None
    assert on_disk("file:///a/b.wav") == on_disk(Path("file:///a/b.wav")) == on_disk("/a/b.wav") == "/a/b.wav"
    assert remote.beside(Path("/a"), "s3://b/c") == "s3://b/c"
    assert [remote.beside(Path("/a"), name) for name in ("b", "/b", "file:///b")] == ["/a/b", "/b", "/b"]


@pytest.mark.parametrize(("start", "count"), [(0, 10), (1_048_570, 20), (3_499_990, 100), (5, 2_000_000), (0, -1)])
def test_any_part_is_read_as_from_a_file(store, start, count):
    with open_remote("s3://data/a/long.bin") as file:
        file.seek(start)
        found = file.read(count)
        assert found == (CONTENT[start:] if count < 0 else CONTENT[start : start + count])
        assert file.tell() == start + len(found) and file.seek(0, 2) == len(CONTENT)


def test_only_the_parts_that_are_read_are_fetched_and_each_once(store):
    for _ in range(3):
        with open_remote("s3://data/a/long.bin") as file:
            file.seek(2_500_000)
            file.read(1000)
    fetched = [(first, last) for method, _, first, last in store.asked if method == "GET"]
    assert fetched == [(2 << 20, (3 << 20) - 1)]


@pytest.mark.parametrize("fault", [SLOW_DOWN, (500, "InternalError", "?"), "cut", "reset", wait(0.3)])
def test_a_fault_that_passes_changes_nothing(store, fault):
    store.faults = [fault] * 2
    with open_remote("s3://data/a/long.bin") as file:
        assert file.read() == CONTENT
    assert not store.faults


@pytest.mark.parametrize(
    ("fault", "message"),
    [(SLOW_DOWN, "(SLOW_DOWN|SERVICE_UNAVAILABLE)"), ("cut", "."), ("reset", ".")],
)
def test_a_fault_that_stays_ends_with_an_error_that_names_the_object(store, fault, message, caplog):
    store.faults = [fault] * 99
    with open_remote("s3://data/a/long.bin") as file, caplog.at_level(logging.WARNING, "dragoman"):
        complaint = refusal(DataError, file.read)
    assert re.fullmatch(rf"s3://data/a/long\.bin: cannot be read \(.*{message}.*\)", complaint)
    assert [record.message.partition(": ")[0] for record in caplog.records] == ["s3://data/a/long.bin"] * 2


@pytest.mark.parametrize(
    ("address", "options"),
    [
        ("http://127.0.0.1:9023", {"anonymous": True, "scheme": "http", "endpoint_override": "127.0.0.1:9023"}),
        ("", {"anonymous": False}),
    ],
)
def test_googles_store_is_that_of_the_environment_and_gives_up_soon(store, monkeypatch, address, options, caplog):
    given, message = [], "Retry policy exhausted ... Could not create a OAuth2 access token to authenticate the request"

    class Refusing:
        def __init__(self, **known):
            given.append(known)

        def open_input_file(self, path):
            given.append(path)
            raise OSError(message)

    monkeypatch.setenv("STORAGE_EMULATOR_HOST", address)
    monkeypatch.setattr("pyarrow.fs.GcsFileSystem", Refusing)
    refuses(DataError, r"^gs://data/a/long\.bin: cannot be read \(Retry policy", open_remote, "gs://data/a/long.bin")
    assert given == [options | {"retry_time_limit": timedelta(seconds=30)}, "data/a/long.bin"] and not caplog.records


def test_what_will_not_pass_is_not_asked_for_again(store):
    refuses(DataError, "^s3://data/none: there is no such object$", open_remote, "s3://data/none")
    refuses(DataError, "^s3://none/a: there is no such object$", open_remote, "s3://none/a")
    with open_remote("s3://data/a/long.bin") as file:
        store.faults = [DENIED] * 9
        refuses(DataError, r"^s3://data/a/long\.bin: cannot be read \(.*ACCESS_DENIED", file.read, 10)
    assert len(store.faults) == 8


@pytest.mark.parametrize("other", [CONTENT[::-1], CONTENT[:-1], CONTENT + b"more", CONTENT[: 1 << 20]])
def test_an_object_that_is_replaced_while_it_is_read_is_an_error(store, other):
    """Before a part is read, and after its bytes have been asked for."""
    with open_remote("s3://data/a/long.bin") as file:
        assert file.read(100) == CONTENT[:100]
        store.faults = [lambda: store.objects.update({"data/a/long.bin": other})]
        refuses(DataError, r"^s3://data/a/long\.bin: has been changed since it was first read", file.read)
    again = open_remote("s3://data/a/long.bin")
    again.seek(2 << 20)
    refuses(DataError, "has been changed", again.read, 10)


def test_an_object_that_is_deleted_while_it_is_read_is_an_error(store):
    with open_remote("s3://data/a/long.bin") as file:
        del store.objects["data/a/long.bin"]
        refuses(DataError, r"^s3://data/a/long\.bin: there is no such object$", file.read)


def test_a_copy_is_made_once_and_anew_when_the_object_is_another(store, tmp_path):
    place = local_copy("s3://data/a/long.bin")
    assert place == tmp_path / "cache" / "s3" / "data" / "a" / "long.bin" and place.read_bytes() == CONTENT
    before = len([one for one in store.asked if one[0] == "GET"])
    assert local_copy("s3://data/a/long.bin") == place
    assert len([one for one in store.asked if one[0] == "GET"]) == before
    store.objects["data/a/long.bin"] = CONTENT[::-1]
    assert local_copy("s3://data/a/long.bin").read_bytes() == CONTENT[::-1]
    assert json.loads((place.parent / ".long.bin.copy.json").read_text())[:2] == ["s3://data/a/long.bin", len(CONTENT)]
    refuses(DataError, r"'\.\.' cannot be copied", local_copy, "s3://data/../../x")
    store.objects["data/empty"] = b""
    assert local_copy("s3://data/empty").read_bytes() == b""


def test_a_copy_that_fails_leaves_what_was_there(store):
    place = local_copy("s3://data/a/long.bin")
    store.objects["data/a/long.bin"] = CONTENT[::-1]
    store.faults = ["cut"] * 99
    refuses(DataError, "cannot be read", local_copy, "s3://data/a/long.bin")
    assert place.read_bytes() == CONTENT
    store.faults = [lambda: store.objects.update({"data/a/long.bin": CONTENT[:100]})]
    refuses(DataError, "has been changed", local_copy, "s3://data/a/long.bin")
    assert place.read_bytes() == CONTENT and not list(place.parent.glob(".*.tmp"))


def test_patterns_match_as_in_a_folder(store):
    for name in ("de-en/train", "fr-en/train", "de-en/dev", "de-en/x/train"):
        store.objects[f"data/m/{name}.arrow"] = b"x"
    assert remote_matches("s3://data/m/*-en/train.arrow") == [f"s3://data/m/{d}-en/train.arrow" for d in ("de", "fr")]
    assert remote_matches("s3://data/m/de-en/*.arrow") == [f"s3://data/m/de-en/{n}.arrow" for n in ("dev", "train")]
    assert remote_matches("s3://data/m/[a-d]*/d??.arrow") == ["s3://data/m/de-en/dev.arrow"]
    assert remote_matches("s3://data/none/*.arrow") == []
    assert remote_matches("s3://data/m/x.arrow") == ["s3://data/m/x.arrow"]
    refuses(DataError, "bucket cannot be a pattern", remote_matches, "s3://*/x")


def _reads(sender: multiprocessing.connection.Connection, start: int) -> None:
    with open_remote("s3://data/a/long.bin") as file:
        file.seek(start)
        sender.send_bytes(file.read(1000))


def test_processes_that_are_forked_read_by_connections_of_their_own(store: Store):
    with open_remote("s3://data/a/long.bin") as file:
        file.read(1000)
    context = multiprocessing.get_context("fork")
    pipes, started = [], []
    for number in range(4):
        receiver, sender = context.Pipe(duplex=False)
        pipes.append(receiver)
        started.append(context.Process(target=_reads, args=(sender, number << 20), daemon=True))
        started[-1].start()
    for number, receiver in enumerate(pipes):
        assert receiver.poll(30), "a process that was forked hangs"
        assert receiver.recv_bytes() == CONTENT[number << 20 :][:1000]
    for one in started:
        one.join()
