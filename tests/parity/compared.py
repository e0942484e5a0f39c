"""Measurements of comparisons with other libraries; table.py makes docs/parity.md of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch


class Compared:
    """One model's numbers beside those of the library that it comes from.

    Attributes:
        largest: by what was compared, the largest absolute difference.
        equal: how many outputs were the same, one by one.

    """

    def __init__(self) -> None:
        self.model, self.library = "", ""
        self.largest: dict[str, float] = {}
        self.equal: dict[str, int] = {}

    def named(self, library: str, model: str) -> None:
        """Say what is compared: a line of the table."""
        self.library, self.model = library, model

    def close(self, what: str, found: Any, expected: Any, *, tolerance: float = 1e-4, message: str = "") -> None:
        """Refuse numbers that are not the same within a tolerance, absolute for what is below 1, else relative."""
        found, expected = (torch.as_tensor(x, dtype=torch.float64).detach() for x in (found, expected))

        def explained(text: str) -> str:
            return f"{message or what}: {text}"

        torch.testing.assert_close(found, expected, atol=tolerance, rtol=tolerance, msg=explained)
        if found.numel():
            difference = float((found - expected).abs().max())
            self.largest[what] = max(self.largest.get(what, 0.0), difference)

    def same(self, what: str, found: Sequence[Any], expected: Sequence[Any]) -> None:
        """Refuse outputs, one after the other, that are not the same."""
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert one == other
        self.equal[what] = self.equal.get(what, 0) + len(found)
