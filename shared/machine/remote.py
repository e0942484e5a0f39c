"""Files by URI: in object stores (``s3://``, ``gs://``), on the Hugging Face Hub (``hf://``), on a disk (``file://``).

Objects are read in ranges, of which each process keeps the last ones. A request that fails is repeated after a while.
An object that is replaced by another one while it is read ends that with an error: nothing is made of halves.

Credentials, region and endpoint are those of the environment, as other programs have them: ``AWS_ACCESS_KEY_ID``,
``AWS_REGION``, ``AWS_ENDPOINT_URL``, ``GOOGLE_APPLICATION_CREDENTIALS``, ``STORAGE_EMULATOR_HOST``, ``HF_TOKEN``.
"""

from __future__ import annotations

import io
import json
import logging
import os
import re
import time
from collections.abc import Callable
from datetime import timedelta
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TypeVar

from dragoman.shared.errors import DataError, one_line, shortened
from dragoman.shared.machine.files import locked, replaced_file

#: The variable of the environment that names the folder of copies. Default: dragoman in the user's folder of caches.
VARIABLE = "DRAGOMAN_CACHE"

#: Bytes that are read at a time: half a minute of sound.
BLOCK = 1 << 20
#: Blocks and objects that a process keeps.
_BLOCKS, _OBJECTS = 64, 1024
#: Seconds after which Google's library gives a request up.
GIVEN_UP = 30.0
#: Seconds before a failed request is repeated, and before each further time.
WAITS = (1.0, 4.0, 16.0, 60.0)

# Path() makes one slash of two.
_URI = re.compile(r"(?s)(s3|gs|hf|file):/+(.+)")
#: What is wrong and stays so, as the libraries of the stores say it.
_REFUSED = re.compile(
    r"ACCESS_DENIED|NO_SUCH_BUCKET|INVALID_ACCESS_KEY|SIGNATURE_DOES_NOT_MATCH|HTTP status 40[134]\b|OAuth2 access|"
    "offline mode|40[13] (Unauthorized|Forbidden)"
)

T = TypeVar("T")


class Stamp(NamedTuple):
    """The mark by which an object is told from another one of its name: its size in bytes, and its tag or time."""

    size: int
    tag: str


def uri_of(path: str | Path) -> str | None:
    """Return the URI that ``path`` is, None for what lies on a disk."""
    match = _URI.fullmatch(str(path))
    return None if match is None or match[1] == "file" else f"{match[1]}://{match[2]}"


def on_disk(path: str | Path) -> str:
    """Return a path on a disk, which may be given as ``file:///...``."""
    match = _URI.fullmatch(str(path))
    return "/" + match[2] if match is not None and match[1] == "file" else str(path)


def beside(folder: Path, name: str) -> str:
    """Return the path or URI that a file in a folder names: relative to the folder, if it is no URI."""
    return uri_of(name) or str(folder / on_disk(name))


def open_remote(uri: str) -> BinaryIO:
    """Open an object for reading bytes, any part of it.

    Raises:
        DataError: naming the URI, if it does not exist or cannot be read; when reading, if it has changed, too.
    """
    return io.BufferedReader(RemoteBytes(uri))


def remote_stamp(uri: str) -> Stamp:
    """Return what tells an object from another one of this name, as this process has found it first.

    Raises:
        DataError: naming the URI, if it does not exist or cannot be read.
    """
    return _known(os.getpid(), uri)[1]


def local_copy(uri: str) -> Path:
    """Return a copy of an object on this machine, made if there is none yet of the object as it is now.

    Processes that ask for the same wait for the first.

    Raises:
        DataError: naming the URI, if it does not exist, cannot be read, or changes while it is copied.
    """
    scheme, _, key = uri.partition("://")
    place = cache_folder() / scheme / key
    if ".." in Path(key).parts:
        raise DataError(f"{uri}: a name with '..' cannot be copied")
    note = place.with_name(f".{place.name}.copy.json")
    with locked(place.with_name(f".{place.name}.lock")):
        file, stamp = _opened(uri)  # as it is now
        if place.is_file() and _noted(note) == [uri, *stamp]:
            return place
        logging.getLogger("dragoman").info("%s: copied to %s (%s bytes)", uri, place, f"{stamp.size:,}")
        with replaced_file(place) as temporary, open(temporary, "wb") as copy:
            for start in range(0, stamp.size, 8 * BLOCK):
                copy.write(_range(uri, file, stamp, start, min(start + 8 * BLOCK, stamp.size)))
        with replaced_file(note) as temporary:
            temporary.write_text(json.dumps([uri, *stamp]), encoding="utf-8")
    return place


def located(root: str | Path) -> Path:
    """Return the absolute path of a folder or file, or its URI, as a path (in which one slash is left of two)."""
    return Path(root) if uri_of(root) else Path(on_disk(root)).absolute()


def files_in(folder: Path, *patterns: str) -> list[Path]:
    """Return the files of a folder, on disk or by URI, that patterns (``*/*.tar``) match, sorted.

    Raises:
        DataError: naming the URI, if the store cannot be asked.
    """
    uri = uri_of(folder)
    if uri is None:
        return sorted(path for pattern in patterns for path in folder.glob(pattern))
    return sorted(Path(found) for pattern in patterns for found in remote_matches(f"{uri}/{pattern}"))


def remote_matches(pattern: str) -> list[str]:
    """Return the URIs of the objects that a pattern (``s3://bucket/*-en/train.arrow``) matches, sorted.

    Raises:
        DataError: naming the URI, if the store cannot be asked.
    """
    from pyarrow.fs import FileSelector, FileType

    parts = pattern.split("/")
    fixed = next(number for number, part in enumerate([*parts, "*"]) if re.search(r"[*?\[]", part))
    if fixed == len(parts):
        return [pattern]
    if fixed < 3:
        raise DataError(f"{pattern}: the name of a bucket cannot be a pattern")
    base = "/".join(parts[:fixed])

    def listed() -> list[Any]:
        system, path = _system(os.getpid(), base)
        return system.get_file_info(FileSelector(path, allow_not_found=True, recursive=fixed < len(parts) - 1))

    scheme = pattern.partition("://")[0]
    found = [f"{scheme}://{info.path}" for info in _repeated(pattern, listed) if info.type == FileType.File]
    names = {uri: uri.split("/") for uri in found}
    return sorted(u for u in names if len(names[u]) == len(parts) and all(map(fnmatchcase, names[u], parts)))


class RemoteBytes(io.RawIOBase):
    """The bytes of an object; see :func:`open_remote`.

    Args:
        uri: of the object.
        ends: what cannot be read ends the object instead of raising an error, which is kept: for libraries that lose
            errors of what they read from.

    Attributes:
        error: what could not be read.

    Raises:
        DataError: if the object does not exist or cannot be opened.
    """

    def __init__(self, uri: str, *, ends: bool = False) -> None:
        self.error: DataError | None = None
        self._uri = uri
        self._ends = ends
        self._size = remote_stamp(uri).size
        self._place = 0

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Let the next reading begin elsewhere."""
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._place, os.SEEK_END: self._size}[whence]
        self._place = max(start + offset, 0)
        return self._place

    def tell(self) -> int:
        """Return where the next reading begins."""
        return self._place

    def readinto(self, buffer: Any) -> int:
        """Read bytes that are left, as many as the buffer takes or fewer; return how many."""
        wanted = min(len(buffer), self._size - self._place)
        if wanted <= 0:
            return 0
        try:
            found = self._read(wanted)
        except DataError as error:
            self.error = error
            if not self._ends:
                raise
            return 0
        buffer[: len(found)] = found
        self._place += len(found)
        return len(found)

    def _read(self, wanted: int) -> bytes:
        if wanted > BLOCK:  # a part of a shard, which is not read twice
            file, stamp = _known(os.getpid(), self._uri)
            return _range(self._uri, file, stamp, self._place, self._place + wanted)
        number, offset = divmod(self._place, BLOCK)
        return _block(os.getpid(), self._uri, number)[offset : offset + wanted]


@lru_cache(maxsize=_OBJECTS)
def _known(_process: int, uri: str) -> tuple[Any, Stamp]:
    """Return an open object, and its stamp as this process has found it first."""
    return _opened(uri)


@lru_cache(maxsize=_BLOCKS)
def _block(process: int, uri: str, number: int) -> bytes:
    file, stamp = _known(process, uri)
    return _range(uri, file, stamp, number * BLOCK, min((number + 1) * BLOCK, stamp.size))


def _opened(uri: str) -> tuple[Any, Stamp]:
    """Return an open object, and its stamp as it is now."""

    def opened() -> tuple[Any, Stamp]:
        system, path = _system(os.getpid(), uri)
        file = system.open_input_file(path)
        if isinstance(system, _Hub):
            return file, system.stamp(path)
        try:
            told = file.metadata()
        except NotImplementedError:
            told = {}
        tag = told.get("ETag") or told.get("Last-Modified") or b""
        return file, Stamp(file.size(), tag.decode("utf-8", "replace") or str(system.get_file_info(path).mtime))

    return _repeated(uri, opened)


def _range(uri: str, file: Any, stamp: Stamp, start: int, end: int) -> bytes:
    """Return the bytes of an object from ``start`` to ``end``.

    Raises:
        DataError: if they cannot be read, or the object is another one by now than that of the stamp.
    """

    def read() -> bytes:
        content = file.read_at(end - start, start)
        if len(content) < end - start:
            raise OSError(f"cut off: {end - start} bytes asked for from byte {start} on, {len(content)} there")
        return content

    try:
        content = _repeated(uri, read)
    except DataError:
        _check_same(uri, stamp)  # which may be the reason
        raise
    _check_same(uri, stamp)  # once it is read: so that all of it was of this object
    return content


def _check_same(uri: str, stamp: Stamp) -> None:
    now = _opened(uri)[1]
    if now != stamp:
        raise DataError(
            f"{uri}: has been changed since it was first read ({stamp.size} bytes and {stamp.tag} then, "
            f"{now.size} and {now.tag} now); start again"
        )


def _repeated(uri: str, request: Callable[[], T]) -> T:
    """Return what a request returns, which is repeated if it fails for a reason that may pass.

    Raises:
        DataError: naming the URI, if it fails for another one, or for the last time.
    """
    for wait in (*WAITS, None):
        try:
            return request()
        except DataError:
            raise
        except FileNotFoundError as error:
            raise DataError(f"{uri}: there is no such object") from error
        except Exception as error:
            # A lost connection is no OSError for the Hub's library, and the module of its HTTPError has changed.
            if not {"OSError", "ValueError", "HTTPError"} & {kind.__name__ for kind in type(error).mro()}:
                raise
            reason = shortened(one_line(error), 300)
            if wait is None or isinstance(error, ValueError | PermissionError) or _REFUSED.search(reason):
                raise DataError(f"{uri}: cannot be read ({reason})") from error
            logging.getLogger("dragoman").warning("%s: %s; asking again in %g s", uri, reason, wait)
            time.sleep(wait)
    raise AssertionError("the last request returns or fails")


def _system(process: int, uri: str) -> tuple[Any, str]:
    """Return the file system that a URI is in, and its path there."""
    scheme, _, path = uri.partition("://")
    bucket = path.partition("/")[0]
    return _system_of(process, scheme, bucket if scheme == "s3" else ""), path


@lru_cache(maxsize=16)
def _system_of(_process: int, scheme: str, bucket: str) -> Any:
    """Return a file system of this process alone: connections are not to be shared with one that was forked."""
    import pyarrow.fs

    try:
        if scheme == "hf":
            return _Hub()
        names = ("STORAGE_EMULATOR_HOST",) if scheme == "gs" else ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
        endpoint = next(filter(None, map(os.environ.get, names)), "")
        kind, _, address = endpoint.rpartition("://")
        how: dict[str, Any] = {"endpoint_override": address, "scheme": kind or "https"} if endpoint else {}
        if scheme == "gs":  # whose library would ask again for a quarter of an hour, and say nothing
            once = timedelta(seconds=GIVEN_UP)
            return pyarrow.fs.GcsFileSystem(anonymous=bool(endpoint), retry_time_limit=once, **how)
        how["region"] = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
        if not endpoint and not how["region"]:
            how["region"] = pyarrow.fs.resolve_s3_region(bucket)
        once = pyarrow.fs.AwsStandardS3RetryStrategy(max_attempts=1)  # it is repeated here, for all stores alike
        return pyarrow.fs.S3FileSystem(connect_timeout=10, request_timeout=30, retry_strategy=once, **how)
    except ImportError as error:
        raise DataError(f"{scheme}://: needs a library that is not installed ({one_line(error)})") from error


class _Hub:
    """The Hugging Face Hub as pyarrow has file systems, whose own takes every error for an object that is not there."""

    def __init__(self) -> None:
        from huggingface_hub import HfFileSystem

        self._files = HfFileSystem(skip_instance_cache=True)

    def open_input_file(self, path: str) -> Any:
        from pyarrow import PythonFile

        return PythonFile(self._files.open(path, "rb", cache_type="none"), mode="r")

    def stamp(self, path: str) -> Stamp:
        found = self._files.info(path, refresh=True, expand_info=True)
        return Stamp(found["size"], str(found.get("blob_id") or found.get("xet_hash") or found.get("mtime")))

    def get_file_info(self, selector: Any) -> list[Any]:
        from pyarrow.fs import FileInfo, FileType

        try:
            found = self._files.find(selector.base_dir, maxdepth=None if selector.recursive else 1, refresh=True)
        except FileNotFoundError:
            return []
        return [FileInfo(path, FileType.File) for path in found]


def _noted(note: Path) -> Any:
    try:
        return json.loads(note.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def cache_folder() -> Path:
    """Return the folder of copies."""
    given = os.environ.get(VARIABLE)
    return Path(given) if given else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dragoman"
