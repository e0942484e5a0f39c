"""Files that may be compressed with gzip, bzip2 or xz: found beside plain ones, and opened as what is in them."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path
from typing import IO, Any

from dragoman.shared.errors import DataError, one_line, shortened
from dragoman.shared.machine.files import check_regular

_OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}

#: Endings of compressed files that are read.
COMPRESSED = tuple(_OPENERS)

_ARCHIVES = (".tar", ".tgz", *(f".tar{ending}" for ending in COMPRESSED), ".zip", ".rar", ".7z")

#: Endings of compressed files that are not: each is refused, as nobody would see that it is missing.
UNREAD = (*_ARCHIVES, ".zst", ".lz4", ".lzma", ".Z", *(ending.upper() for ending in (*COMPRESSED, *_ARCHIVES)))

ENDINGS = (*COMPRESSED, *UNREAD)


def plain_name(path: Path) -> str:
    """Return the name of a file without the ending of its compression."""
    return path.name.removesuffix(ending) if (ending := _ending(path)) in COMPRESSED else path.name


def _ending(path: Path) -> str:
    return max((ending for ending in ENDINGS if path.name.endswith(ending)), key=len, default="")


def beside(path: Path) -> Path | None:
    """Return the file of this name, plain or compressed; None if there is none.

    Raises:
        DataError: if there are several, or one that is not read here.
    """
    there = [place for ending in ("", *ENDINGS) if _is_there(place := path.with_name(path.name + ending))]
    if len(there) > 1:
        raise DataError(f"{there[0]}: both this and {there[1].name} are there; which one is meant? Move the other away")
    if there and there[0].name != path.name and _ending(there[0]) in UNREAD:
        raise DataError(f"{there[0]}: not read; unpack it, or compress it as {', '.join(COMPRESSED)}")
    return there[0] if there else None


def _is_there(path: Path) -> bool:
    """Tell whether there is something that may be meant as a file; a pipe or a lost link is refused by who opens it."""
    return os.path.lexists(path) and not path.is_dir()


def plain_or_packed(folder: Path, pattern: str = "*") -> list[Path]:
    """Return the files of a folder whose name without the ending of a compression has a pattern, sorted by that name.

    Raises:
        DataError: as :func:`beside`.
    """
    paths = set()
    for path in folder.glob("*"):
        name = path.name.removesuffix(_ending(path))
        if fnmatchcase(name, pattern) and _is_there(path):
            paths.add(path.with_name(name))
    return [place for path in sorted(paths) if (place := beside(path)) is not None]


@contextmanager
def opened(path: Path) -> Iterator[IO[bytes]]:
    """Open a file for reading what is in it.

    Raises:
        DataError: if it is missing, no file on a disk, or damaged.
    """
    check_regular(path)
    try:
        with _OPENERS.get(path.suffix, open)(path, "rb") as file:
            yield file
    except FileNotFoundError as error:
        raise DataError(f"{path}: there is no such file") from error
    except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
        raise DataError(f"{path}: cannot be read ({shortened(one_line(error), 200)})") from error
