"""Measurements of comparisons are kept in the report of ``pytest --junitxml``; table.py reads them there."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest
import soundfile

from tests.parity.compared import Compared
from tests.parity.lines import a_thousand_lines


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


@pytest.fixture(scope="session")
def lines() -> list[str]:
    return a_thousand_lines()


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> list[str]:
    """Write sounds like voices: gliding harmonics that swell, and noise."""
    folder, rng = tmp_path_factory.mktemp("audio"), np.random.default_rng(3)
    for number, seconds in enumerate((0.7, 1.3, 0.45)):
        time = np.arange(int(seconds * 16000)) / 16000
        phase = 2 * np.pi * np.cumsum(120 + 50 * rng.random() + 30 * np.sin(9 * time)) / 16000
        tones = sum(rng.random() / (1 + k) * np.sin(k * phase) for k in range(1, 20))
        x = 0.2 * (0.6 + 0.4 * np.sin(25 * time)) * tones + 0.004 * rng.standard_normal(len(time)) + 0.01
        soundfile.write(folder / f"{number}.wav", x, 16000, subtype="PCM_16")
    return sorted(map(str, folder.glob("*.wav")))
