"""Quality: each reason to drop an output, and limits that make no sense."""

import pytest

from shared.errors import UsageError
from shared.phases.quality import Quality


def test_what_quality_asks():
    quality = Quality(minimum_score=-1.0, maximum_ratio=2.0, maximum_rate=5.0)
    good = {"score": -0.5, "tokens": 6, "inputs": [4], "seconds": 2.0}
    assert quality.reason(**good) == ""
    for change, reason in (
        ({"tokens": 0}, "empty"),
        ({"score": -1.5}, "score below -1"),
        ({"score": float("nan")}, "score below -1"),
        ({"tokens": 9}, "ratio above 2"),
        ({"tokens": 1}, "ratio above 2"),
        ({"inputs": [4, 13]}, "ratio above 2"),
        ({"seconds": 1.0}, "more than 5 tokens per second"),
        ({"inputs": [], "seconds": None, "tokens": 900}, ""),
    ):
        assert quality.reason(**good | change) == reason
    for wrong in ({"maximum_ratio": 0.5}, {"maximum_rate": 0.0}, {"maximum_dropped": 1.5}):
        with pytest.raises(UsageError, match=str(next(iter(wrong.values())))):
            Quality(**wrong)
