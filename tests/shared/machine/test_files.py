"""Files and folders that are replaced whole: killed anywhere, the old content or the new is there."""

import os
import signal
import subprocess
import sys

import pytest

from shared.machine import files
from shared.machine.files import discard_folder, replaced_file, replaced_folder, sweep


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
from shared.machine import files

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
