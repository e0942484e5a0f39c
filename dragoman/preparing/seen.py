"""Keys that have been met before, and their places: 16 bytes a key, however long the keys are."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np


class Seen:
    """Keys and the numbers of the places where each was first met.

    Keys are kept as 64-bit hashes, in sorted arrays that are merged as they grow: among a hundred million keys, two
    different ones are taken for the same with a probability of 0.03 %.
    """

    def __init__(self) -> None:
        self._parts: list[tuple[np.ndarray, np.ndarray]] = []

    def add(self, keys: Sequence[str], places: Sequence[int]) -> list[int | None]:
        """Note keys; return for each the place where it was met before, None for a new one."""
        hashes, numbers = _hashes(keys), np.asarray(places, dtype=np.int64)
        before = self._find(hashes)
        order = np.argsort(hashes, kind="stable")
        unique, first = np.unique(hashes[order], return_index=True)
        firsts = order[first]
        here = firsts[np.searchsorted(unique, hashes)]
        new = self._find(unique) < 0
        self._merge(unique[new], numbers[firsts[new]])
        again = np.where(before >= 0, before, np.where(here != np.arange(len(here)), numbers[here], -1))
        return [number if number >= 0 else None for number in again.tolist()]

    def find(self, keys: Sequence[str]) -> list[int | None]:
        """Return for each key the place where it was first met, None for one that was not."""
        return [number if number >= 0 else None for number in self._find(_hashes(keys)).tolist()]

    def _find(self, hashes: np.ndarray) -> np.ndarray:
        """Return (keys,) int64 places, -1 for those not met."""
        places = np.full(len(hashes), -1, dtype=np.int64)
        for stored, numbers in self._parts:
            position = np.minimum(np.searchsorted(stored, hashes), len(stored) - 1)
            there = stored[position] == hashes
            places[there] = numbers[position[there]]
        return places

    def _merge(self, hashes: np.ndarray, numbers: np.ndarray) -> None:
        """Add a sorted part, and join it with earlier ones that are not more than twice as long."""
        if not len(hashes):
            return
        while self._parts and len(self._parts[-1][0]) <= 2 * len(hashes):
            stored, places = self._parts.pop()
            hashes, numbers = np.concatenate([stored, hashes]), np.concatenate([places, numbers])
            order = np.argsort(hashes, kind="stable")
            hashes, numbers = hashes[order], numbers[order]
        self._parts.append((hashes, numbers))


def _hashes(keys: Sequence[str]) -> np.ndarray:
    """Return (keys,) uint64."""
    digests = b"".join(hashlib.blake2b(key.encode("utf-8", "surrogatepass"), digest_size=8).digest() for key in keys)
    return np.frombuffer(digests, dtype=np.uint64)
