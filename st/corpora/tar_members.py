"""The members of uncompressed tar files, by place and size: nothing is unpacked."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple, cast

from dragoman.shared.errors import DataError, one_line, shortened
from dragoman.shared.machine.remote import uri_of
from dragoman.shared.preparing.reader import SOUND_ENDINGS
from dragoman.shared.sound.shards import HEADER, Member, open_file, read_member
from dragoman.shared.text.lines import LONGEST_LINE

#: Endings of sound files that are read from a tar file: those that FFmpeg decodes need a file of their own.
SOUNDS = tuple(ending for ending in SOUND_ENDINGS if ending != ".m4a")

#: The first bytes of compressed files.
_PACKED = {b"\x1f\x8b": "gzip", b"BZh": "bzip2", b"\xfd7zXZ": "xz", b"\x28\xb5\x2f\xfd": "zstd"}


class Entry(NamedTuple):
    """A file in a tar file.

    Attributes:
        name: with its folders, as the tar file has it.
        number: of the member, from 1.
        place: of its content.
        wrong: why it cannot be read, None if it can.
    """

    name: str
    number: int
    place: Member
    wrong: str | None


def members(path: Path) -> Iterator[Entry]:
    """Yield the members of a tar file in their order, folders left out.

    Raises:
        DataError: if the file is missing, compressed, no tar file, or cut off.
    """
    try:
        with open_file(path, "tar file") as file:
            start = file.read(max(map(len, _PACKED)))
            kind = next((kind for mark, kind in _PACKED.items() if start.startswith(mark)), None)
            if kind is not None:
                raise DataError(f"{path}: compressed ({kind}); members are read at their places in a plain tar file")
            file.seek(0)
            yield from _members(path, tarfile.open(fileobj=file, mode="r:"))
    except tarfile.TarError as error:
        raise DataError(f"{path}: not a tar file ({shortened(one_line(error), 100)})") from error
    except OSError as error:
        raise DataError(f"{path}: {(error.strerror or 'cannot be read').lower()}") from error


def _members(path: Path, tar: tarfile.TarFile) -> Iterator[Entry]:
    last, number = "the beginning", 0
    try:
        while (info := tar.next()) is not None:
            cast(Any, tar).members.clear()  # it would keep them all
            last, number = f"member {info.name!r}", number + 1
            if not info.isdir():
                place = Member(uri_of(path) or str(path), info.offset_data, info.size, PurePosixPath(info.name).name)
                yield Entry(info.name, number, place, _wrong(info))
    except tarfile.TarError as error:
        if number == 0:
            raise
        raise DataError(f"{path}: cut off in {last} ({shortened(one_line(error), 100)})") from error
    assert tar.fileobj is not None
    tar.fileobj.seek(tar.offset)
    if tar.fileobj.read(HEADER) != bytes(HEADER):
        raise DataError(f"{path}: damaged or cut off after {last}: neither another member nor the mark of the end")


def _wrong(info: tarfile.TarInfo) -> str | None:
    if info.issparse() or not info.isreg():
        return "a link, a device or a sparse file, not a file"
    name = PurePosixPath(info.name)
    return "a path that leads outside" if name.is_absolute() or ".." in name.parts else None


def text_of(member: Member) -> str:
    """Return the text that a member is.

    Raises:
        DataError: if it cannot be read, is too long or not UTF-8.
    """
    if member.size > LONGEST_LINE:
        raise DataError(f"{member}: longer than {LONGEST_LINE:,} bytes, which no text is")
    try:
        return read_member(member).decode("utf-8-sig").strip()
    except UnicodeDecodeError as error:
        raise DataError(f"{member}: not UTF-8 (byte 0x{error.object[error.start]:02x} at {error.start})") from error
