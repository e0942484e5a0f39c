"""Checkpoints of unbabel-comet give the scores here that they give there.

``comet/`` holds what make_comet_fixtures.py wrote inside the environment of ``make comet-env``: checkpoints with random
weights, segments, and the scores of unbabel-comet. COMET_FIXTURES names such a folder that was made anew.
"""

import json
import os
from pathlib import Path

import pytest

from dragoman.exchange.comet import read_comet
from dragoman.exchange.learned import LearnedMetric

HERE = Path(os.environ.get("COMET_FIXTURES") or Path(__file__).parent / "comet")
EXPECTED = json.loads((HERE / "expected.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("case", EXPECTED)
def test_scores_are_those_of_unbabel_comet(case, compared):
    compared.named("unbabel-comet", f"COMET ({case.replace('_', ' ')})")
    segments = json.loads((HERE / "segments.json").read_text(encoding="utf-8"))
    sources, hypotheses, references = ([row[key] for row in segments] for key in ("src", "mt", "ref"))
    model = read_comet(HERE / case)
    metric = LearnedMetric(model, sources, [references] if model.with_reference else [])
    counts = metric.count(hypotheses)
    compared.close("scores", counts.values[:, 0], EXPECTED[case], tolerance=1e-5)
    assert counts.score == pytest.approx(100 * sum(EXPECTED[case]) / len(segments), abs=1e-3)
    assert model.cut == 2 or (case.startswith("joined") and model.cut > 2)  # the two long texts of one segment
