"""The table of a stream's rows: what planning needs to know of each.

Legend: F fields, R rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Table:
    """The lengths and numbers of a stream's rows that planning needs, numbered through all manifests.

    Attributes:
        kept: per manifest, the (kept,) int32 numbers of the rows that are trained on.
        lengths: (F, R) int32, the greatest length of each field of each row.
        padded: (F, R) int32, what these are padded to, see ``Budget.padded``; without a grid, the same.
        capacities: (R,) int32, see ``Budget.capacities``, of padded rows.
        groups: (R,) int32 number of each row's group.
        group_names: what the groups are called; [None] if the stream has none.
        dropped: number of rows dropped, by reason; a row counts for the first that applies.
    """

    kept: list[np.ndarray]
    lengths: np.ndarray
    padded: np.ndarray
    capacities: np.ndarray
    groups: np.ndarray
    group_names: list[str | None]
    dropped: dict[str, int]

    def stored(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Return what :meth:`restored` makes the table of again: arrays, and plain data."""
        arrays = {"kept": np.concatenate(self.kept), "lengths": self.lengths, "capacities": self.capacities}
        arrays |= {} if self.padded is self.lengths else {"padded": self.padded}
        arrays |= {"groups": self.groups} if len(self.group_names) > 1 else {}
        sizes = [len(part) for part in self.kept]
        return arrays, {"kept": sizes, "group_names": self.group_names, "dropped": self.dropped}

    @staticmethod
    def restored(arrays: dict[str, np.ndarray], beside: dict[str, Any]) -> Table:
        """Return the table that was stored."""
        lengths = arrays["lengths"]
        return Table(
            np.split(arrays["kept"], np.cumsum(beside["kept"])[:-1]),
            lengths,
            arrays.get("padded", lengths),
            arrays["capacities"],
            arrays.get("groups", np.broadcast_to(np.int32(0), lengths.shape[1])),
            beside["group_names"],
            beside["dropped"],
        )
