"""The manifest: what a prepared split is on disk. One row is one utterance or one pair of sentences.

A manifest is an Arrow IPC file with the columns of :data:`COLUMNS` and any number of free ones. It is written in record
batches of :data:`BATCH_ROWS` rows to a temporary file, synced and renamed, and read through a memory map: opening costs
the same for ten rows and for ten million, and a row costs only the pages that hold it. The last record batch is empty
and carries the number of rows and the fingerprint, which are known only at the end.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path
from reprlib import repr as shown
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dragoman.shared.errors import DataError
from dragoman.shared.machine.files import replaced_file
from dragoman.shared.machine.nesting import from_json
from dragoman.shared.machine.remote import local_copy, on_disk, uri_of

Row = dict[str, Any]

#: The columns of every manifest. ``start`` and ``duration`` are seconds; what a row lacks is None.
COLUMNS: dict[str, pa.DataType] = {
    "id": pa.string(),
    "audio": pa.string(),
    "start": pa.float64(),
    "duration": pa.float64(),
    "source_text": pa.string(),
    "source_language": pa.string(),
    "target_text": pa.string(),
    "target_language": pa.string(),
    "speaker": pa.string(),
    "document": pa.string(),
}

#: Rows in a record batch; all batches but the last full one have this many, so that a row is found by division.
BATCH_ROWS = 16384

_VERSION = "1"
_OTHER_SIDE = {"source": "target", "target": "source"}
_SIMPLE = {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_()}


class Manifest:
    """Rows on disk, or a selection of them. Open one with :meth:`open`, make one with :meth:`write`.

    It can be pickled (to loader workers): the copy opens the file again.
    """

    def __init__(
        self,
        path: Path,
        reader: Any,
        trailer: dict[str, Any],
        indices: np.ndarray | None = None,
        is_turned: bool = False,
    ) -> None:
        """Not to be called from outside; see :meth:`open`."""
        self._path = path
        self._reader = reader
        self._trailer = trailer
        self._indices = indices
        self._is_turned = is_turned
        self._batches: dict[int, Any] = {}

    @classmethod
    def open(cls, path: str | Path) -> Manifest:
        """Open a manifest; nothing but its footer is read. One that is given by URI is copied to this machine.

        Raises:
            DataError: if the file is missing, is not a manifest, is cut off, or lacks a column.
        """
        uri = uri_of(path)
        path = Path(on_disk(path)) if uri is None else local_copy(uri)
        try:
            reader = pa.ipc.open_file(pa.memory_map(os.fsencode(path)))
            _, metadata = reader.get_batch_with_custom_metadata(reader.num_record_batches - 1)
        except FileNotFoundError:
            raise DataError(f"{path}: there is no such manifest") from None
        except (pa.ArrowInvalid, OSError, IndexError, OverflowError) as error:
            if path.suffix != ".arrow":
                raise DataError(f"{path}: not a manifest (*.arrow); dragoman prepare writes one") from error
            size = path.stat().st_size if path.is_file() else 0
            reason = str(error).splitlines()[0]
            raise DataError(f"{path}: not an Arrow file, or cut off ({size} bytes; {reason})") from error
        for name, kind in COLUMNS.items():
            if name not in reader.schema.names:
                raise DataError(f"{path}: column {name!r} is missing (it has {', '.join(reader.schema.names)})")
            if reader.schema.field(name).type != kind:
                raise DataError(f"{path}: column {name!r} is {reader.schema.field(name).type}, not {kind}")
        try:
            trailer = dict(from_json((metadata or {}).get(b"manifest", b"{}")))
        except (TypeError, ValueError) as error:
            raise DataError(f"{path}: an Arrow file, but not a manifest ({error})") from error
        if trailer.get("version") != _VERSION:
            raise DataError(
                f"{path}: an Arrow file, but not a manifest of version {_VERSION} (version {trailer.get('version')!r})"
            )
        try:
            full_batches = -(-int(trailer["rows"]) // int(trailer["batch_rows"]))
            whole = full_batches == reader.num_record_batches - 1 and isinstance(trailer["fingerprint"], str)
        except (KeyError, TypeError, ValueError, ZeroDivisionError):
            whole = False
        if not whole:
            raise DataError(f"{path}: damaged: {reader.num_record_batches} record batches, but {shown(trailer)}")
        return cls(path, reader, trailer)

    @staticmethod
    def write(
        path: str | Path, rows: Iterable[Mapping[str, Any]], columns: Mapping[str, type | pa.DataType] | None = None
    ) -> Manifest:
        """Write rows to a manifest and open it. The file appears when it is whole, or not at all.

        Args:
            path: where to; missing folders are made.
            rows: consumed as a stream. A missing key means None; ``id`` must be there.
            columns: the free columns and their types; if None, those of the first ``BATCH_ROWS`` rows.

        Raises:
            DataError: if a row has no id, a column that was not announced, or a value of the wrong type.
        """
        path = Path(path)
        stream = iter(rows)
        batch = list(islice(stream, BATCH_ROWS))
        schema = _schema(path, batch, columns)
        digest = hashlib.blake2b(str(schema).encode(), digest_size=16)
        count = 0
        with (
            replaced_file(path) as temporary,
            pa.OSFile(os.fsencode(temporary), "wb") as file,
            pa.ipc.new_file(file, schema) as writer,
        ):
            while batch:
                table = _record_batch(path, schema, batch, count)
                for name, column in zip(schema.names, table.columns, strict=True):
                    for buffer in _content(name, column).buffers():
                        digest.update(b"-" if buffer is None else memoryview(buffer))
                writer.write_batch(table)
                count += len(batch)
                batch = list(islice(stream, BATCH_ROWS))
            trailer = {"version": _VERSION, "rows": count, "batch_rows": BATCH_ROWS, "fingerprint": digest.hexdigest()}
            last = _record_batch(path, schema, [], count)
            writer.write_batch(last, custom_metadata={"manifest": json.dumps(trailer)})
        return Manifest.open(path)

    @property
    def path(self) -> Path:
        """The file."""
        return self._path

    @property
    def fingerprint(self) -> str:
        """A hash of the content (and of the selection), computed when the file was written.

        Sound files count by their names without folders: a corpus is the same wherever it lies.
        """
        if self._indices is None:
            return self._trailer["fingerprint"]
        return hashlib.blake2b(
            self._trailer["fingerprint"].encode() + self._indices.tobytes(), digest_size=16
        ).hexdigest()

    @property
    def columns(self) -> list[str]:
        """The names of all columns."""
        return [self._name(name) for name in self._reader.schema.names]

    @property
    def free_columns(self) -> dict[str, pa.DataType]:
        """The columns beyond :data:`COLUMNS`, and their types."""
        return {self._name(field.name): field.type for field in self._reader.schema if field.name not in COLUMNS}

    def __len__(self) -> int:
        """Return the number of rows."""
        return self._trailer["rows"] if self._indices is None else len(self._indices)

    def __getitem__(self, index: int) -> Row:
        """Return row ``index`` (negative ones count from the end) as a dictionary with all columns."""
        index = int(index)
        if not -len(self) <= index < len(self):
            raise IndexError(f"{self._path}: row {index} of {len(self)}")
        index %= len(self)
        number, offset = divmod(
            index if self._indices is None else int(self._indices[index]), self._trailer["batch_rows"]
        )
        batch = self._batch(number)
        columns = zip(batch.schema.names, batch.columns, strict=True)
        return {self._name(name): column[offset].as_py() for name, column in columns}

    def __iter__(self) -> Iterator[Row]:
        """Go through the rows in order, a record batch at a time."""
        if self._indices is not None:
            yield from (self[index] for index in range(len(self)))
            return
        for number in range(self._reader.num_record_batches - 1):
            for row in self._reader.get_batch(number).to_pylist():
                yield {self._name(name): value for name, value in row.items()} if self._is_turned else row

    def column(self, name: str) -> Any:
        """Return a whole column: numbers as a numpy array (None is NaN), anything else as an Arrow array.

        Raises:
            DataError: if there is no such column.
        """
        if name not in self.columns:
            raise DataError(f"{self._path}: column {name!r} is missing (it has {', '.join(self.columns)})")
        position = self._reader.schema.get_field_index(self.stored_name(name))
        kind = self._reader.schema.field(position).type
        chunks = [self._batch(number).column(position) for number in range(self._reader.num_record_batches)]
        if not (pa.types.is_floating(kind) or pa.types.is_integer(kind)):
            values = pa.chunked_array(chunks, type=kind)
            return values if self._indices is None else pc.take(values, pa.array(self._indices))
        # By numpy: Arrow keeps the memory of what it has put together.
        numbers = np.concatenate([chunk.to_numpy(zero_copy_only=False) for chunk in chunks])
        return numbers if self._indices is None else numbers[self._indices]

    def select(self, indices: Sequence[int] | np.ndarray) -> Manifest:
        """Return a manifest of some rows, in the order given, with repetition if asked; nothing is copied."""
        chosen = np.asarray(indices, dtype=np.int64)
        if chosen.size and not (0 <= chosen.min() and chosen.max() < len(self)):
            raise IndexError(f"{self._path}: rows {chosen.min()} to {chosen.max()} asked of {len(self)}")
        if self._indices is not None:
            chosen = self._indices[chosen]
        return Manifest(self._path, self._reader, self._trailer, chosen, self._is_turned)

    def turned(self) -> Manifest:
        """Return the manifest with the columns ``source_...`` and ``target_...`` exchanged; nothing is copied."""
        return Manifest(self._path, self._reader, self._trailer, self._indices, not self._is_turned)

    def stored_name(self, name: str) -> str:
        """Return what a column is called in the file: another name if the manifest is turned."""
        return self._name(name)  # what exchanges two names also undoes it

    def _name(self, name: str) -> str:
        side, mark, kind = name.partition("_")
        if not self._is_turned or not mark or side not in _OTHER_SIDE:
            return name
        return f"{_OTHER_SIDE[side]}_{kind}"

    def _batch(self, number: int) -> Any:
        """Return a record batch; those once used are kept, which costs no memory but their headers."""
        if number not in self._batches:
            self._batches[number] = self._reader.get_batch(number)
        return self._batches[number]

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as a path and a selection."""
        return _reopen, (self._path, self._trailer["fingerprint"], self._indices, self._is_turned)

    def __repr__(self) -> str:
        """Show path and number of rows."""
        return f"Manifest({str(self._path)!r}, {len(self)} rows)"


def _reopen(path: Path, fingerprint: str, indices: np.ndarray | None, is_turned: bool) -> Manifest:
    manifest = Manifest.open(path)
    if manifest.fingerprint != fingerprint:
        raise DataError(f"{path}: the file was replaced while it was in use")
    return Manifest(path, manifest._reader, manifest._trailer, indices, is_turned)


def _schema(path: Path, rows: list[Mapping[str, Any]], columns: Mapping[str, type | pa.DataType] | None) -> pa.Schema:
    """Return the fixed columns and the free ones: as announced, or as found in ``rows`` (only None counts as text)."""
    if columns is None:
        free = {}
        for name in dict.fromkeys(chain.from_iterable(rows)):
            if name not in COLUMNS:
                try:
                    kind = pa.infer_type([row.get(name) for row in rows])
                except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
                    reason = str(error).splitlines()[0]
                    raise DataError(f"{path}: column {name!r} holds values of several types ({reason})") from error
                free[name] = pa.string() if pa.types.is_null(kind) else kind
    else:
        free = {name: _SIMPLE.get(kind, kind) for name, kind in columns.items() if name not in COLUMNS}
    for name, kind in free.items():
        if not isinstance(kind, pa.DataType):
            raise DataError(f"{path}: column {name!r} cannot be of type {kind!r}")
    return pa.schema([pa.field(name, kind) for name, kind in (COLUMNS | free).items()])


def _record_batch(path: Path, schema: pa.Schema, rows: list[Mapping[str, Any]], first: int) -> pa.RecordBatch:
    """Turn rows into columns; ``first`` is the number of the first of them, for messages."""
    names = set(schema.names)
    for number, row in enumerate(rows, first):
        if not names.issuperset(row):
            raise DataError(f"{path}: row {number} has the new column {sorted(set(row) - names)[0]!r}")
        if not row.get("id"):
            raise DataError(f"{path}: row {number} has no id (column 'id' is {row.get('id')!r})")
    arrays = []
    for field in schema:
        values = [row.get(field.name) for row in rows]
        try:
            arrays.append(pa.array(values, type=field.type))
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError, UnicodeError) as error:
            number, value = _first_misfit(values, field.type)
            message = f"{path}: row {first + number}, column {field.name!r}: {value!r} is not of type {field.type}"
            raise DataError(message) from error
    return pa.record_batch(arrays, schema=schema)


def _content(name: str, column: pa.Array) -> pa.Array:
    """Return what of a column counts for the fingerprint."""
    return pc.replace_substring_regex(column, pattern=r"^(?s:.*)/", replacement="") if name == "audio" else column


def _first_misfit(values: list[Any], kind: pa.DataType) -> tuple[int, Any]:
    for number, value in enumerate(values):
        try:
            pa.array([value], type=kind)
        except Exception:  # whatever it is, the caller raises it with the place named
            return number, value
    return 0, values
