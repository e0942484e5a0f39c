"""Quality: each reason to drop an output, and limits that make no sense."""

from dragoman.shared.phases.quality import Quality


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


def test_limits_themselves_are_kept():
    quality = Quality(minimum_score=-1.0, maximum_ratio=2.0, maximum_rate=5.0)
    good = {"score": -1.0, "tokens": 8, "inputs": [4, 16], "seconds": 1.6}
    assert quality.reason(**good) == ""
    plain = Quality()
    assert plain.reason(score=float("nan"), tokens=1, inputs=[99], seconds=0.001) == ""
    assert plain.minimum_score is plain.maximum_ratio is plain.maximum_rate is None and plain.maximum_dropped == 0.5
    assert Quality(maximum_ratio=1.0).reason(score=0.0, tokens=3, inputs=[3], seconds=None) == ""
    assert Quality(maximum_rate=1e-9).maximum_rate == 1e-9
    assert Quality(minimum_score=0.0).reason(score=-0.1, tokens=1, inputs=[], seconds=None) == "score below 0"
