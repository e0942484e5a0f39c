"""Measurements of comparisons with other libraries; table.py makes docs/parity.md of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch


def weighted(x: torch.Tensor) -> torch.Tensor:
    """Return a sum whose gradients tell all elements apart."""
    return (x * torch.linspace(-1, 1, x.numel()).view_as(x)).sum()


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

    def gradients(
        self, ours: Any, names: Callable[[str], Sequence[str]], theirs: Mapping[str, Any], least: float = 1
    ) -> None:
        """Compare a model's gradients, each as a share of its largest element, or of ``least`` if that is larger."""
        compared = 0
        for name, parameter in ours.named_parameters():
            parts = [theirs.get(part) for part in names(name)]
            if not parts or any(part is None for part in parts):
                assert parameter.grad is None or not parameter.grad.any(), name
                continue
            expected = torch.cat(parts)
            size = expected.abs().max().clamp(min=least)
            self.close("gradients", parameter.grad / size, expected / size, message=name)
            compared += 1
        assert compared > 25

    def same(self, what: str, found: Sequence[Any], expected: Sequence[Any]) -> None:
        """Refuse outputs, one after the other, that are not the same."""
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert one == other
        self.equal[what] = self.equal.get(what, 0) + len(found)
