"""Sound inside Parquet files, as the Hugging Face Hub keeps it, and tar files: it is read from there, never unpacked.

In a manifest, ``audio`` then names a file, a column and a row: ``/data/fleurs/de_de/train-0.parquet#audio:17``. The
column holds a whole sound file in each row: bytes, or a struct with ``bytes``. Of a tar file, it names the place and
the size of a member in bytes, and the member: ``/data/train-0.tar#1536:48044:a17.flac``.

Such files, and sound files of their own, may also lie in an object store (shared/machine/remote.py).

A row group is decoded as a whole, so that the last ones are kept: rows in their order cost little, rows in a random
order a row group each (100 rows in most shards of the Hub). Where an epoch has windows (shared/batches/windows.py), its
row groups are decoded once and kept on this machine for all processes, which map them.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
from collections.abc import Hashable, Iterable
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dragoman.shared.errors import DataError, UsageError, one_line, shortened
from dragoman.shared.machine.files import check_regular, locked, replaced_file
from dragoman.shared.machine.remote import RemoteBytes, cache_folder, on_disk, open_remote, remote_stamp, uri_of
from dragoman.shared.sound.channels import split_channel

_PLACE = re.compile(r"(?s)(.+\.parquet)#([^#:/]+):(\d{1,12})")

_MEMBER = re.compile(r"(?s)(.+\.tar)#(\d{1,15}):(\d{1,12}):([^/#]+)")
#: Bytes of a member's header, which stands before it (POSIX 1003.1, "pax", ustar Interchange Format).
HEADER = 512

#: Row groups kept by each process.
_KEPT = 2
#: Files whose footers are read for an estimate: in a store, each takes a request.
_ASKED = 16

#: The variable of the environment that says how many GB of row groups are kept on this machine, and what it is without.
VARIABLE, KEPT_GB = "DRAGOMAN_CACHE_GB", 20.0


class Place(NamedTuple):
    """The place of a sound inside a shard.

    Attributes:
        file: the Parquet file.
        column: the column with the sound.
        row: counted from 0 over the whole file.
    """

    file: str
    column: str
    row: int

    def __str__(self) -> str:
        """Return the place as the column ``audio`` of a manifest has it."""
        return f"{self.file}#{self.column}:{self.row}"


class Member(NamedTuple):
    """A member of a tar file.

    Attributes:
        file: the tar file.
        start: byte at which its content begins.
        size: of the content, in bytes.
        name: without folders.
    """

    file: str
    start: int
    size: int
    name: str

    def __str__(self) -> str:
        """Return the place as the column ``audio`` of a manifest has it."""
        return f"{self.file}#{self.start}:{self.size}:{self.name}"


def member_of(audio: str | Path) -> Member | None:
    """Return the member of a tar file that ``audio`` names, None for anything else."""
    match = _MEMBER.fullmatch(split_channel(audio)[0])
    return None if match is None else Member(match[1], int(match[2]), int(match[3]), match[4])


def place_in_shard(audio: str | Path) -> Place | None:
    """Return the place that ``audio`` names, None for a file of its own."""
    match = _PLACE.fullmatch(split_channel(audio)[0])
    return None if match is None else Place(match[1], match[2], int(match[3]))


def file_of(audio: str | Path) -> str:
    """Return the file that holds a sound, on disk or by URI."""
    place = place_in_shard(audio) or member_of(audio)
    return on_disk(split_channel(audio)[0] if place is None else place.file)


def open_sound(audio: str | Path) -> BinaryIO:
    """Open a sound file, on disk, by URI or inside a shard, for reading bytes.

    Raises:
        DataError: if it is no file on a disk, a shard cannot be read, or it has no sound at this place.
        OSError: if a file of its own cannot be opened.
    """
    place = place_in_shard(audio)
    if place is not None:
        return io.BytesIO(_bytes(place))
    member = member_of(audio)
    if member is not None:
        return io.BytesIO(read_member(member))
    return open_file(file_of(audio), "sound file")


def open_file(path: str | Path, what: str = "file") -> BinaryIO:
    """Open a file on disk or by URI for reading bytes; ``what`` it should be, for messages.

    Raises:
        DataError: if it is no file on a disk, or an object that cannot be read.
        OSError: if a file on a disk cannot be opened.
    """
    uri = uri_of(path)
    if uri is not None:
        return open_remote(uri)
    check_regular(on_disk(path), what)
    return open(os.fsencode(on_disk(path)), "rb")


def read_member(member: Member) -> bytes:
    """Return the content of a member of a tar file.

    Raises:
        DataError: if the tar file cannot be read, is cut off, or has no member of this size there: it was changed.
    """
    try:
        return _content(member, _mark(member.file))
    except OSError as error:
        raise DataError(f"{member}: {(error.strerror or 'cannot be read').lower()}") from error


@lru_cache(maxsize=_KEPT)
def _content(member: Member, _mark: Hashable) -> bytes:
    with open_file(member.file, "tar file") as file:
        file.seek(max(member.start - HEADER, 0))
        header, content = file.read(HEADER), file.read(member.size)
    size = header[124:135]
    if header[257:262] != b"ustar" or not size.isdigit() or int(size, 8) != member.size:
        raise DataError(f"{member}: no member of this size is there; the tar file has been changed: prepare it anew")
    if len(content) < member.size:
        raise DataError(f"{member}: cut off: {len(content)} bytes of the member are there")
    return content


def open_shard(path: str | Path) -> pq.ParquetFile:
    """Open a Parquet file; nothing but its footer is read.

    Raises:
        DataError: if it is missing or is none.
    """
    check_regular(path)
    try:
        return _opened(str(path), _mark(path))
    except DataError:
        raise
    except OSError as error:
        raise DataError(f"{path}: {(error.strerror or 'cannot be read').lower()}") from error
    except (pa.ArrowException, ValueError) as error:
        raise DataError(f"{path}: not a Parquet file, or cut off ({shortened(one_line(error), 200)})") from error


def column_type(shard: pq.ParquetFile, path: str | Path, column: str) -> pa.DataType:
    """Return the type of a column.

    Raises:
        DataError: if there is none of this name.
    """
    names = shard.schema_arrow.names
    if column not in names:
        raise DataError(f"{path}: column {column!r} is missing (it has {', '.join(names)})")
    return shard.schema_arrow.field(column).type


def check_sound_column(path: str | Path, column: str) -> None:
    """Refuse a column that holds no sound files.

    Raises:
        DataError: if the column is missing, or is neither bytes nor a struct with bytes.
    """
    kind = column_type(open_shard(path), path, column)
    inside = kind.field("bytes").type if pa.types.is_struct(kind) and kind.get_field_index("bytes") >= 0 else kind
    if not (pa.types.is_binary(inside) or pa.types.is_large_binary(inside)):
        raise DataError(f"{path}: column {column!r} is {kind}, not the bytes of sound files")


def _mark(path: str | Path) -> Hashable:
    """Return what changes when a file does; of objects in a store, reading tells."""
    if uri_of(path) is not None:
        return os.getpid()  # a connection is not shared with processes that are forked
    status = os.stat(on_disk(path))
    return status.st_size, status.st_mtime_ns


@lru_cache(maxsize=256)
def _opened(path: str, _mark: Hashable) -> pq.ParquetFile:
    uri = uri_of(path)
    if uri is not None:
        # What a buffer is too long for would be asked for in two requests: whole buffers, and the rest.
        return pq.ParquetFile(io.BufferedReader(RemoteBytes(uri), 1), pre_buffer=True)
    return pq.ParquetFile(on_disk(path), memory_map=True)


def keep_row_groups(sounds: Iterable[str | None], *, ahead: bool = False) -> None:
    """Decode the row groups that hold some sounds, and keep them on this machine; those that were used last stay.

    Args:
        sounds: as a manifest's column ``audio`` has them; what is in no shard is passed over.
        ahead: leave out those that another process is about to keep, and what cannot be read: whose turn it is later
            says so.

    Raises:
        DataError: if a shard cannot be read.
        OSError: if the disk is full.
        UsageError: if ``DRAGOMAN_CACHE_GB`` is no number.
    """
    done = set()
    for audio in sounds:
        place = None if audio is None else place_in_shard(audio)
        if place is None:
            continue
        with suppress(*[DataError] if ahead else []):
            group, _ = _group(place)
            if (key := (place.file, place.column, group)) not in done:
                done.add(key)
                _keep(*key, wait=not ahead)


def _keep(path: str, column: str, group: int, *, wait: bool) -> None:
    kept = _kept(path, column, group)
    lock = kept.with_suffix(".lock")
    if kept.exists() or (lock.exists() and not wait):
        return
    with locked(lock):
        if kept.exists():
            return
        values = _decoded(path, column, group)
        table = pa.table({"bytes": values})
        with (
            replaced_file(kept) as temporary,
            pa.OSFile(os.fsencode(temporary), "wb") as file,
            pa.ipc.new_file(file, table.schema) as writer,
        ):
            writer.write_table(table)
    _make_room(kept.parent)


def room_for_row_groups() -> float:
    """Return how many bytes of row groups are kept on this machine.

    Raises:
        UsageError: if ``DRAGOMAN_CACHE_GB`` is no number.
    """
    try:
        return float(os.environ.get(VARIABLE, KEPT_GB)) * 1e9
    except ValueError:
        raise UsageError(f"{VARIABLE} is {os.environ[VARIABLE]!r}, not a number of GB") from None


def bytes_of_row_groups(sounds: Iterable[str | None]) -> float:
    """Return about how many bytes the row groups that hold some sounds have where they are kept.

    Args:
        sounds: as a manifest's column ``audio`` has them; what is in no shard is passed over.

    Raises:
        DataError: if a shard cannot be read.
    """
    rows: dict[tuple[str, str], set[int]] = {}
    for place in (place_in_shard(audio) for audio in sounds if audio is not None):
        if place is not None:
            rows.setdefault((place.file, place.column), set()).add(place.row)
    asked = sorted(rows)[:: -(-len(rows) // _ASKED) or 1]
    found = sum(_stored_bytes(*key, rows[key]) for key in asked)
    return found * len(rows) / max(len(asked), 1)


def _stored_bytes(path: str, column: str, rows: set[int]) -> int:
    """Return how many bytes a column has in the row groups of some rows, unpacked."""
    shard = open_shard(path)
    inside = np.array([row for row in rows if row < shard.metadata.num_rows], dtype=np.int64)
    groups = np.unique(np.searchsorted(_ends(shard), inside, side="right")).tolist()
    chunks = [
        shard.metadata.row_group(group).column(number)
        for group in groups
        for number in range(shard.metadata.num_columns)
    ]
    return sum(chunk.total_uncompressed_size for chunk in chunks if chunk.path_in_schema in (column, f"{column}.bytes"))


def _make_room(folder: Path) -> None:
    """Delete the row groups that were not used for the longest time; who has one open reads on."""
    room = room_for_row_groups()
    found = []
    for path in folder.glob("*.arrow"):
        with suppress(FileNotFoundError):  # another process makes room, too
            status = path.stat()
            found.append((status.st_mtime_ns, status.st_size, path))
    for _, size, path in sorted(found, reverse=True):
        room -= size
        if room < 0:
            path.unlink(missing_ok=True)


def _kept(path: str, column: str, group: int) -> Path:
    """Return where a row group is kept, or would be: elsewhere when its file is another one."""
    uri = uri_of(path)
    mark = _mark(path) if uri is None else remote_stamp(uri)
    name = hashlib.blake2b(repr((path, mark, column, group)).encode(), digest_size=16).hexdigest()
    return cache_folder() / "row_groups" / f"{name}.arrow"


def _bytes(place: Place) -> bytes:
    """Return a sound file that a shard holds."""
    group, number = _group(place)
    value = _column(place.file, _mark(place.file), place.column, group)[number].as_py()
    if not value:
        raise DataError(f"{place}: no sound in this row (it may lie in a file beside the shard)")
    return bytes(value)


def _group(place: Place) -> tuple[int, int]:
    """Return the row group of a place, and the number of its row there."""
    ends = _ends(open_shard(place.file))
    if place.row >= ends[-1]:
        raise DataError(f"{place}: the file has {ends[-1]} rows")
    group = int(np.searchsorted(ends, place.row, side="right"))
    return group, place.row - (int(ends[group - 1]) if group else 0)


def _ends(shard: pq.ParquetFile) -> np.ndarray:
    """Return the row behind the last one of each row group; (groups,) int64."""
    metadata = shard.metadata
    return np.cumsum([metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)] or [0])


@lru_cache(maxsize=_KEPT)
def _column(path: str, _mark: Hashable, column: str, group: int) -> Any:
    """Return the sound files of a row group, as an Arrow array of bytes: one that is kept, or decoded now."""
    kept = _kept(path, column, group)
    try:
        os.utime(kept)  # used last
        return pa.ipc.open_file(pa.memory_map(os.fsencode(kept))).read_all().column(0).combine_chunks()
    except FileNotFoundError:
        return _decoded(path, column, group)


def _decoded(path: str, column: str, group: int) -> Any:
    check_sound_column(path, column)
    shard = open_shard(path)
    struct = pa.types.is_struct(column_type(shard, path, column))
    try:
        table = shard.read_row_group(group, columns=[f"{column}.bytes" if struct else column], use_threads=False)
    except (pa.ArrowException, OSError) as error:
        reason = shortened(one_line(error), 200)
        raise DataError(f"{path}: row group {group} cannot be read ({reason})") from error
    values = table.column(0).combine_chunks()
    return values.field("bytes") if struct else values
