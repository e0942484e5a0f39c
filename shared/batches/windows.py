"""Windows of an epoch: rows that stand together in a manifest come together, so that what holds them is read once.

A manifest is cut into runs of neighbours. An epoch draws the runs in a random order, a window takes the next of them,
and rows are shuffled inside a window alone. Of several processes, each has runs of its own in a window.

Legend: R rows.
"""

from __future__ import annotations

import numpy as np

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
