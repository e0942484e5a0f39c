"""Writing to disk so that a kill at any moment leaves either the old content or the new, never half of it."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import glob
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

AT_FDCWD = -100  # Linux: paths are meant as the process sees them
RENAME_EXCHANGE = 2

#: No space, no quota, a file longer than the system or a limit allows: only writing fails so.
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

_LEFT_BEHIND = re.compile(r"\..+\.\d+\.(tmp|old)")


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
    try:
        with names_when_full(path):
            yield temporary
            sync(temporary)
            os.replace(temporary, path)
            sync(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def replaced_folder(path: Path) -> Iterator[Path]:
    """Yield an empty temporary folder beside ``path``; when the block ends well it takes the path's place."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = _beside(path, "tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir()
    try:
        with names_when_full(path):
            yield temporary
            for place in [*temporary.rglob("*"), temporary]:
                sync(place)
            if path.exists():
                _exchange(temporary, path)
            else:
                os.replace(temporary, path)
            sync(path.parent)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


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
    for place in [found for found in folder.rglob(".*") if _LEFT_BEHIND.fullmatch(found.name)]:
        if place.is_dir():
            shutil.rmtree(place)
        else:
            place.unlink(missing_ok=True)


def forget_left(path: Path) -> None:
    """Delete what killed processes left half written of one file, which nobody is writing now."""
    for left in path.parent.glob(f".{glob.escape(path.name)}.*.tmp"):
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
