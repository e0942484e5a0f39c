"""Counting tokens once: a sidecar file beside each manifest keeps the counts that batching needs."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa

from dragoman.shared.batches.manifest import Manifest
from dragoman.shared.errors import shortened
from dragoman.shared.machine.files import replaced_file

#: Manifests with fewer rows are counted anew each time, which takes less than 0.1 s.
SMALLEST_KEPT = 4096


def kept_counts(
    manifest: Manifest, *, key: str, column: str, count: Callable[[], np.ndarray], folder: Path | None = None
) -> np.ndarray:
    """Return ``count()``, from the sidecar if it was written before.

    The sidecar is ``.lengths-<key>-<column>-<fingerprint of the manifest>.arrow`` beside the manifest (hidden, so that
    no pattern takes it for a manifest), or in ``folder`` if the manifest's own cannot be written to. Selections of a
    manifest and small ones have none.

    Args:
        manifest: whose rows are counted.
        key: fingerprint of how they are counted (tokenizer, normalizers).
        column: of the text.
        count: gives (rows,) integers, -1 for a row without the text.
        folder: where sidecars of read-only corpora go.

    Returns:
        (rows,) integers; those of a sidecar are mapped, and take no memory.
    """
    if len(manifest) < SMALLEST_KEPT or Manifest.open(manifest.path).fingerprint != manifest.fingerprint:
        return count()
    stored = re.sub(r"[^A-Za-z0-9_]", "_", manifest.stored_name(column))
    name = f".lengths-{key}-{stored}-{manifest.fingerprint[:16]}.arrow"
    beside = manifest.path.parent
    for place in (beside, folder):
        if place is not None and (place / name).is_file():
            kept = _read(place / name, len(manifest))
            if kept is not None:
                return kept
    counts = count()
    place = beside if os.access(beside, os.W_OK) else folder
    if place is None:
        logging.getLogger("dragoman").warning(
            "%s: the folder is read-only and no other was given: tokens are counted again at each start", beside
        )
    else:
        _write(place / name, counts)
    return counts


def _read(path: Path, rows: int) -> np.ndarray | None:
    """Return the counts of a sidecar, None for one that is damaged or of another number of rows."""
    try:
        column = pa.ipc.open_file(pa.memory_map(os.fsencode(path))).read_all()["length"]
        column.validate(full=True)
        if not pa.types.is_integer(column.type) or column.null_count:
            raise pa.ArrowInvalid(f"counts are expected, not {column.type} with {column.null_count} nulls")
        counts = column.to_numpy()
    except (pa.ArrowInvalid, OSError, KeyError) as error:
        reason = shortened(str(error).splitlines()[0], 200)
        logging.getLogger("dragoman").warning("%s: unreadable, counting again (%s)", path, reason)
        return None
    return counts if len(counts) == rows and (counts >= -1).all() else None


def _write(path: Path, counts: np.ndarray) -> None:
    table = pa.table({"length": pa.array(counts, type=pa.int32())})
    with (
        replaced_file(path) as temporary,
        pa.OSFile(os.fsencode(temporary), "wb") as file,
        pa.ipc.new_file(file, table.schema) as writer,
    ):
        writer.write_table(table)
