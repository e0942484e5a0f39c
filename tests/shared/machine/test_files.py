"""Files and folders that are replaced whole: killed anywhere, the old content or the new is there."""

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from dragoman.shared.errors import DataError
from dragoman.shared.machine import files
from dragoman.shared.machine.files import discard_folder, replaced_file, replaced_folder, sweep
from tests.small import refusal, refuses


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("exchange", [True, False])
def test_a_folder_is_replaced_and_nothing_else_stays(tmp_path, monkeypatch, exchange):
    if not exchange:  # another system than Linux
        monkeypatch.setattr(files.ctypes, "CDLL", lambda *_, **__: object())
    for text in ("old", "new"):
        with replaced_folder(tmp_path / "model") as temporary:
            (temporary / text).write_text(text)
    assert names(tmp_path) == ["model"] and names(tmp_path / "model") == ["new"]


def test_an_error_leaves_the_old_content(tmp_path):
    with replaced_folder(tmp_path / "model") as temporary:
        (temporary / "old").touch()
    with pytest.raises(KeyError), replaced_folder(tmp_path / "model") as temporary:
        (temporary / "half").touch()
        raise KeyError
    (tmp_path / "file").write_text("old")
    with pytest.raises(KeyError), replaced_file(tmp_path / "file") as temporary:
        temporary.write_text("half")
        raise KeyError
    assert names(tmp_path) == ["file", "model"] and names(tmp_path / "model") == ["old"]
    assert (tmp_path / "file").read_text() == "old"


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_content_is_on_the_disk_before_it_gets_its_name_and_the_name_after(tmp_path, monkeypatch, kind):
    """Or a power cut would leave an empty file under the right name."""
    calls = []
    fsync, replace = os.fsync, os.replace

    def synced(descriptor):
        calls.append(("sync", os.fstat(descriptor).st_ino))
        fsync(descriptor)

    def replaced(old, new):
        calls.append(("replace", os.stat(old).st_ino))
        replace(old, new)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", replaced)
    place = tmp_path / "place"
    with (replaced_file if kind == "file" else replaced_folder)(place) as temporary:
        content = temporary if kind == "file" else temporary / "content"
        content.write_text("new")
    inodes = [path.stat().st_ino for path in ([place] if kind == "file" else [place / "content", place])]
    assert calls == [
        *(("sync", inode) for inode in inodes),
        ("replace", place.stat().st_ino),
        ("sync", tmp_path.stat().st_ino),
    ]


KILLED = """
import os, signal, sys
from pathlib import Path
from dragoman.shared.machine import files

left = int(sys.argv[2])

def counted(function):
    def call(*arguments, **keywords):
        global left
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*arguments, **keywords)
    return call

os.fsync = lambda descriptor: None
for name in ("replace", "unlink", "rmdir", "fsync"):
    setattr(os, name, counted(getattr(os, name)))
place = Path(sys.argv[1])
with files.replaced_folder(place) as temporary:
    for number in range(2):
        (temporary / str(number)).write_text("new")
files.discard_folder(place)
"""


def test_killed_at_any_call_the_folder_is_old_or_new_or_gone(tmp_path):
    seen = set()
    for kill in range(40):
        place = tmp_path / str(kill) / "model"
        place.mkdir(parents=True)
        for number in range(2):
            (place / str(number)).write_text("old")
        code = subprocess.run([sys.executable, "-c", KILLED, place, str(kill)]).returncode
        sweep(place.parent)
        if place.exists():
            texts = [(place / str(number)).read_text() for number in range(2)]
            assert names(place) == ["0", "1"] and texts in (["old", "old"], ["new", "new"])
            seen.add(texts[0])
        else:
            seen.add("gone")
        assert names(place.parent) in ([], ["model"])
        if code == 0:
            break
        assert code == -signal.SIGKILL
    assert code == 0 and seen == {"old", "new", "gone"}


def test_only_what_was_left_behind_is_swept(tmp_path):
    kept = [".hidden", "model", ".file.tmp", "x.12.tmp"]
    for name in [*kept, ".model.12.tmp", ".file.7.old"]:
        (tmp_path / name).mkdir()
        (tmp_path / name / "inside").touch()
    (tmp_path / "model" / ".config.json.123.tmp").touch()
    sweep(tmp_path)
    assert names(tmp_path) == sorted(kept) and names(tmp_path / "model") == ["inside"]


def test_discarding_nothing_is_no_error(tmp_path):
    discard_folder(tmp_path / "missing")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("replaced", [replaced_file, replaced_folder])
def test_a_full_disk_names_what_was_to_be_written(tmp_path, file_size_limit, replaced):
    path = tmp_path / "place"
    with file_size_limit(10), pytest.raises(OSError, match=rf"File too large: '{path}'"), replaced(path) as temporary:
        (temporary / "inside" if temporary.is_dir() else temporary).write_text("x" * 100)
    assert names(tmp_path) == []


def test_only_the_error_of_a_full_disk_gets_the_name(tmp_path):
    """An error of reading, say, is not about the file that is being written."""
    with pytest.raises(OSError, match=r"^\[Errno 5\] Input/output error$"), replaced_file(tmp_path / "place"):
        raise OSError(5, "Input/output error")
    with pytest.raises(OSError, match="'/other'"), replaced_file(tmp_path / "place"):
        raise OSError(28, "No space left on device", "/other")


def test_what_is_no_file_on_a_disk_is_refused_by_its_kind(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    kinds = {tmp_path: "a folder", tmp_path / "pipe": "a named pipe", Path("/dev/null"): "a device"}
    for place, kind in kinds.items():
        assert refusal(DataError, files.check_regular, place, "sound file") == f"{place}: {kind}, not a sound file"
    refuses(DataError, "a folder, not a file$", files.check_regular, str(tmp_path))
    (tmp_path / "file").touch()
    for place in (tmp_path / "file", tmp_path / "none", "\0"):
        assert files.check_regular(place) is None


def test_a_lock_is_held_by_one_at_a_time_and_leaves_nothing(tmp_path):
    order = []

    def second():
        with files.locked(tmp_path / "new" / "lock"):
            order.append("second")

    with files.locked(tmp_path / "new" / "lock"):
        thread = threading.Thread(target=second)
        thread.start()
        thread.join(0.2)
        order.append("first")
        assert names(tmp_path / "new") == ["lock"]
    thread.join(60)
    assert order == ["first", "second"] and names(tmp_path / "new") == []
    with pytest.raises(KeyError), files.locked(tmp_path / "lock"):
        raise KeyError
    assert not (tmp_path / "lock").exists()
    with open(tmp_path / "a", "w") as file:
        assert files._is_at(file, tmp_path / "a")
        (tmp_path / "b").touch()
        assert not files._is_at(file, tmp_path / "b") and not files._is_at(file, tmp_path / "none")


def test_what_is_half_written_is_deleted_by_who_ends_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "_placing", threading.Lock())  # it is never let go of: this process does not end
    with pytest.raises(FileNotFoundError), replaced_file(tmp_path / "file") as file:
        with replaced_folder(tmp_path / "folder") as folder:
            file.write_text("half")
            (folder / "half").touch()
            assert names(tmp_path) == sorted([file.name, folder.name]) and len(files._written) == 2
            files.discard_temporaries()
            assert names(tmp_path) == []
    assert files._written == set()


def test_what_is_left_of_one_file_is_forgotten(tmp_path):
    kept = ["file", ".file.tmp", ".other.7.tmp", ".file.7.old"]
    for name in [*kept, ".file.7.tmp", ".file.8.tmp", ".f[1].9.tmp"]:
        (tmp_path / name).touch()
    files.forget_left(tmp_path / "file")
    files.forget_left(tmp_path / "f[1]")
    assert names(tmp_path) == sorted(kept)
    assert not files.is_empty(tmp_path)
    (tmp_path / "empty").mkdir()
    assert files.is_empty(tmp_path / "empty")


DISCARDED = """
import os, sys, threading
from pathlib import Path
from dragoman.shared.machine import files

place = Path(sys.argv[1])
with files.replaced_folder(place / "folder") as folder, files.replaced_file(place / "file") as file:
    (folder / "inside").write_text("new")
    file.write_text("new")
    if sys.argv[2] == "placing":
        files._placing.acquire()
    threading.Thread(target=lambda: (files.discard_temporaries(), os._exit(0))).start()
    threading.Event().wait(float(sys.argv[3]))
"""


@pytest.mark.parametrize(("state", "seconds", "temporaries"), [("", 60, 0), ("", 0, 0), ("placing", 60, 2)])
def test_what_is_discarded_never_takes_its_place_and_what_is_being_placed_stays(tmp_path, state, seconds, temporaries):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("old")
    subprocess.run([sys.executable, "-c", DISCARDED, tmp_path, state, str(seconds)], check=True)
    found = names(tmp_path)
    assert len([name for name in found if name.startswith(".")]) == temporaries
    # without waiting, the file may have been there before
    assert [*(tmp_path / "folder").iterdir()] == [] and (seconds == 0 or (tmp_path / "file").read_text() == "old")


def test_a_process_that_is_forked_while_a_thread_writes_can_write(tmp_path):
    """Such as a worker of the loader, while a checkpoint takes its place."""
    files.fork_between_placings()
    held = threading.Event()

    def place():
        with files._placing:
            held.set()
            time.sleep(0.3)

    thread = threading.Thread(target=place)
    thread.start()
    held.wait()
    child = multiprocessing.get_context("fork").Process(target=written, args=(tmp_path / "file",), daemon=True)
    child.start()
    child.join(20)
    thread.join()
    assert child.exitcode == 0 and (tmp_path / "file").read_text() == "whole"


def written(path):
    with replaced_file(path) as temporary:
        temporary.write_text("whole")
