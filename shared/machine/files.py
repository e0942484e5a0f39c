"""Writing to disk so that a kill at any moment leaves either the old content or the new, never half of it."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import glob
import os
import re
import shutil
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import IO

from dragoman.shared.errors import DataError

AT_FDCWD = -100  # Linux: paths are meant as the process sees them
RENAME_EXCHANGE = 2

#: No space, no quota, a file longer than the system or a limit allows: only writing fails so.
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

#: What this process is writing now, in either of the ways below.
_written: set[Path] = set()

#: Held while something written takes its place, and from when it is discarded on: half of it must not get there.
_placing = threading.Lock()

_LEFT_BEHIND = re.compile(r"\..+\.\d+\.(tmp|old)")


#: What is no file on a disk, by the test that knows it.
_SPECIAL = {
    "a folder": stat.S_ISDIR,
    "a named pipe": stat.S_ISFIFO,
    "a socket": stat.S_ISSOCK,
    "a device": lambda mode: stat.S_ISCHR(mode) or stat.S_ISBLK(mode),
}


def check_regular(path: str | Path, what: str = "file") -> None:
    """Refuse what is no file on a disk: who reads a named pipe waits for ever, and a device may have no end.

    Raises:
        DataError: if there is something else.
    """
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return
    for kind, test in _SPECIAL.items():
        if test(mode):
            raise DataError(f"{path}: {kind}, not a {what}")


@contextmanager
def names_when_full(path: Path) -> Iterator[None]:
    """Put the file's name into the error of a full disk: those of ``write``, ``fsync`` and pyarrow have none.

    Raises:
        OSError: with the name.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in _FULL or error.filename is not None:
            raise
        raise OSError(error.errno, os.strerror(error.errno), str(path)) from error


@contextmanager
def replaced_file(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside ``path``; when the block ends well it is synced and takes the path's place."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = _beside(path, "tmp")
    _written.add(temporary)
    try:
        with names_when_full(path):
            yield temporary
            sync(temporary)
            with _placing:
                os.replace(temporary, path)
            sync(path.parent)
    finally:
        temporary.unlink(missing_ok=True)
        _written.discard(temporary)


@contextmanager
def replaced_folder(path: Path, *, lasting: bool = True) -> Iterator[Path]:
    """Yield an empty temporary folder beside ``path``; when the block ends well it takes the path's place.

    What is not ``lasting`` is not waited for until it is on the disk: it may be half there when the machine fails.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = _beside(path, "tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    _written.add(temporary)
    temporary.mkdir()
    try:
        with names_when_full(path):
            yield temporary
            for place in [*temporary.rglob("*"), temporary] if lasting else ():
                sync(place)
            with _placing:
                if path.exists():
                    _exchange(temporary, path)
                else:
                    os.replace(temporary, path)
            if lasting:
                sync(path.parent)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        _written.discard(temporary)


@cache
def fork_between_placings() -> None:
    """Let a process that writes in a thread fork only while nothing takes its place: a worker could never write."""
    os.register_at_fork(before=_placing.acquire, after_in_parent=_placing.release, after_in_child=_placing.release)


def discard_temporaries() -> None:
    """Delete what this process has half written: for who ends it at once, in any thread.

    Nothing takes its place afterwards. What is being put there at this moment is left as it is.
    """
    if not _placing.acquire(blocking=False):
        return
    for place in list(_written):
        if place.is_dir():
            shutil.rmtree(place, ignore_errors=True)
        else:
            place.unlink(missing_ok=True)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a lock file, waiting for it, while the block runs; other processes and machines that share the disk wait."""
    path.parent.mkdir(parents=True, exist_ok=True)
    while True:
        with open(path, "a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            if _is_at(file, path):
                try:
                    yield
                finally:
                    path.unlink(missing_ok=True)
                return
        # who held it has deleted it: another file of that name is the lock now


def _is_at(file: IO[str], path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False


def is_empty(folder: Path) -> bool:
    """Tell whether a folder holds nothing."""
    return next(folder.iterdir(), None) is None


def discard_folder(path: Path) -> None:
    """Delete a folder; a kill leaves it whole, or nothing of that name."""
    retired = _beside(path, "old")
    try:
        os.replace(path, retired)
    except FileNotFoundError:
        return
    shutil.rmtree(retired)


def sweep(folder: Path) -> None:
    """Delete what killed processes left half written anywhere below a folder in which nobody is at work."""
    for place in [path for path in folder.rglob(".*") if _LEFT_BEHIND.fullmatch(path.name)]:
        if place.is_dir():
            shutil.rmtree(place)
        else:
            place.unlink(missing_ok=True)


def forget_left(path: Path) -> None:
    """Delete what killed processes left half written of one file, which nobody is writing now."""
    for left in path.parent.glob(f".{glob.escape(path.name)}.[0-9]*.tmp"):
        left.unlink(missing_ok=True)


def sync(path: Path) -> None:
    """Flush a file or folder to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _beside(path: Path, kind: str) -> Path:
    return path.with_name(f".{path.name}.{os.getpid()}.{kind}")


def _exchange(new: Path, old: Path) -> None:
    """Let two folders change names, in one step where the system can; there is no portable call for it."""
    renameat2 = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if renameat2 and not renameat2(AT_FDCWD, os.fsencode(new), AT_FDCWD, os.fsencode(old), RENAME_EXCHANGE):
        return
    # In between, nothing has the name; the old content is beside it.
    retired = _beside(old, "old")
    os.replace(old, retired)
    os.replace(new, old)
    os.replace(retired, new)
