"""Windows of an epoch: rows that stand together in a manifest come together, so that what holds them is read once.

A manifest is cut into runs of neighbours. An epoch draws the runs in a random order, a window takes the next of them,
and rows are shuffled inside a window alone. Of several processes, each has runs of its own in a window.

Legend: R rows.
"""

from __future__ import annotations

import os

import numpy as np

from dragoman.shared.batches.steps import Pass
from dragoman.shared.batches.stream import Stream
from dragoman.shared.sound.shards import VARIABLE, bytes_of_row_groups, room_for_row_groups

#: Runs that a process's part of a window is put together from: its rows come from so many places of the manifests.
MIXED = 16


def parts_of(rows: int, window: int, world: int) -> int:
    """Return into how many parts of about ``window`` rows a pass is divided, a multiple of ``world``: one a process."""
    return world * max(rows // (window * world), 1)


def run_of(rows: int, parts: int) -> int:
    """Return how many rows a run has."""
    return max(rows // (parts * MIXED), 1)


def permuted(rng: np.random.Generator, rows: np.ndarray, run: int | None) -> np.ndarray:
    """Return rows (R,) in a random order; if ``run`` is given, one in which those of a run stay together."""
    if run is None:
        return rng.permutation(rows)
    numbers, places = np.unique(rows // run, return_inverse=True)
    return rows[np.argsort(rng.permutation(len(numbers))[places], kind="stable")]


def dealt(rng: np.random.Generator, rows: np.ndarray, copies: np.ndarray, run: int, parts: int) -> list[np.ndarray]:
    """Deal out runs in a random order to parts that have equally many rows, up to a run.

    Args:
        rng: decides on the order.
        rows: (R,) numbers of rows, at least as many as parts.
        copies: (R,) int: how often each was drawn before; what is drawn again is a run of its own.
        run: rows of a run, see :func:`run_of`.
        parts: how many.

    Returns:
        Of each part, the places of its rows in ``rows``, none empty.
    """
    keys = rows.astype(np.int64) // run * (int(copies.max()) + 1) + copies
    _, places, sizes = np.unique(keys, return_inverse=True, return_counts=True)
    order = rng.permutation(len(sizes))
    ends = np.cumsum(sizes[order])
    part = np.empty(len(sizes), dtype=np.int64)
    part[order] = (ends - sizes[order]) * parts // len(rows)
    of_rows = part[places]
    return np.split(np.argsort(of_rows, kind="stable"), np.cumsum(np.bincount(of_rows, minlength=parts))[:-1])


def crowding(stream: Stream, whole: Pass, shared: tuple[int, int] | None) -> str:
    """Say that two windows, the one that is read and the one ahead, find no room on this machine; "" if they do.

    Args:
        stream: whose windows.
        whole: a pass through it.
        shared: how many processes take turns at its batches, and how many there are to do so; None: all read all.

    Raises:
        DataError: if a shard cannot be read.
        UsageError: if ``DRAGOMAN_CACHE_GB`` is no number.
    """
    if stream.window is None:
        return ""
    own = np.arange([*whole.windows.tolist(), len(whole), len(whole)][2])
    if shared is not None:
        planned, world = shared
        own = own[own % planned % world < int(os.environ.get("LOCAL_WORLD_SIZE", world))]
    rows = np.unique(np.concatenate([whole.rows[whole.bounds[one] : whole.bounds[one + 1]] for one in own])).tolist()
    located = (stream.locate(row) for row in rows)
    wanted = bytes_of_row_groups(manifest[index].get("audio") for manifest, index in located)
    if wanted <= (room := room_for_row_groups()):
        return ""
    return (
        f"stream {stream.name!r}: {len(rows):,} rows, two windows of {stream.window:,}, stand in about "
        f"{wanted / 1e9:.3g} GB of row groups, and {room / 1e9:.3g} GB are kept: each is read again and again; "
        f"make {VARIABLE} larger or the window smaller"
    )
