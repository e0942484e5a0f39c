"""Measurements of comparisons are kept in the report of ``pytest --junitxml``; table.py reads them there."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.parity.compared import Compared


@pytest.fixture
def compared(record_property: Callable[[str, object], None]) -> Iterator[Compared]:
    """Note what a test measures as properties of its report."""
    found = Compared()
    yield found
    record_property("library", found.library)
    record_property("model", found.model)
    for kind, values in (("largest", found.largest), ("equal", found.equal)):
        for what, value in values.items():
            record_property(f"{kind} {what}", value)
