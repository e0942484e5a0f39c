"""Trained metrics choose among hypotheses: what they say of each pair is what unbabel-comet says."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from dragoman import BeamSearch, DataError, Manifest, Rules, UsageError
from dragoman.exchange.comet import read_comet
from dragoman.exchange.comet_judges import ExpectedComet, QualityEstimate
from dragoman.exchange.learned import LearnedMetric
from dragoman.shared.batches.stream import Budget
from dragoman.shared.generator import Hypothesis
from dragoman.shared.machine.workspace import Workspace
from dragoman.shared.phases.generating import Generate
from dragoman.shared.phases.quality import Quality
from dragoman.shared.search import ChoosingSearch
from tests import small
from tests.small import GOLDEN, refuses

FIXTURES = Path(__file__).parents[2] / "parity" / "comet"
COMET, KIWI = str(FIXTURES / "mix_sparsemax"), str(FIXTURES / "joined_with_source")
SEGMENTS = json.loads((FIXTURES / "segments.json").read_text(encoding="utf-8"))

SYSTEM = SimpleNamespace(output_name="translation", device=torch.device("cpu"))


def hypotheses(*texts: str) -> list[Hypothesis]:
    return [Hypothesis([], 0.0, texts={"translation": text}) for text in texts]


def test_the_expected_comet_is_the_mean_over_all_pairs() -> None:
    rows = [small.row(str(number), segment["src"]) for number, segment in enumerate(SEGMENTS[:3])]
    first, second = (segment["mt"] for segment in SEGMENTS[:2])
    outputs = [("wo bist du", first, "ein haus"), (second,), ("das haus", "", "das haus", "am fluss")]
    found = ExpectedComet(model=COMET).judge(SYSTEM, rows, [hypotheses(*texts) for texts in outputs])
    model = read_comet(Path(COMET))
    for row, texts, values in zip(rows, outputs, found, strict=True):
        pairs = [
            [float(LearnedMetric(model, [row["source_text"]], [[other]]).count([text]).values[0, 0]) for other in texts]
            for text in texts
        ]
        assert values == pytest.approx(np.mean(pairs, axis=1).tolist(), abs=1e-5)
        assert len(texts) == 1 or max(values) - min(values) > 0.01


def test_an_estimate_is_that_of_unbabel_comet() -> None:
    expected = json.loads((FIXTURES / "expected.json").read_text(encoding="utf-8"))["joined_with_source"]
    rows = [small.row(str(number), segment["src"]) for number, segment in enumerate(SEGMENTS)]
    found = QualityEstimate(model=KIWI).judge(SYSTEM, rows, [hypotheses(one["mt"], "ein haus") for one in SEGMENTS])
    assert [values[0] for values in found] == pytest.approx(expected, abs=1e-5)
    assert all(len(values) == 2 for values in found)


def test_a_model_that_averages_three_passes_estimates_by_the_first() -> None:
    both, row = FIXTURES / "joined_with_both", small.row("1", "a house")
    [[value]] = QualityEstimate(model=str(both)).judge(SYSTEM, [row], [hypotheses("ein haus")])
    model = read_comet(both)
    sequence = [*model.tokens("ein haus"), model.field.tokenizer.eos, *model.tokens("a house")[1:]]
    with torch.no_grad():
        assert value == pytest.approx(float(model.regressor(small.padded([sequence]))), abs=1e-6)


def test_what_cannot_judge_is_refused(tmp_path: Path) -> None:
    row, one = small.row("7", "a house"), [hypotheses("ein haus")]
    for kind in ("without_reference", "joined_with_both"):
        judge = ExpectedComet(model=str(FIXTURES / kind))
        refuses(UsageError, "does not compare a hypothesis with a reference, each", judge.judge, SYSTEM, [row], one)
    refuses(UsageError, "needs a reference", QualityEstimate(model=COMET).judge, SYSTEM, [row], one)
    refuses(DataError, "row '7' has no source_text", QualityEstimate(model=KIWI).judge, SYSTEM, [small.row("7")], one)
    refuses(DataError, "hparams.yaml", QualityEstimate(model=str(tmp_path)).judge, SYSTEM, [row], one)


@pytest.mark.parametrize(
    ("option", "judge"), [("--mbr", ExpectedComet(model=COMET)), ("--rerank", QualityEstimate(model=KIWI))]
)
def test_the_command_prints_what_a_metric_chooses(dragoman: Any, option: str, judge: Any) -> None:
    asked = ["translate", GOLDEN, "--beam", 4, "--maximum-length-extra", 4, "--format", "json"]
    code, listed, _ = dragoman(*asked, "--n-best", 4, text="one two three\n")
    texts = [one["translation"] for one in json.loads(listed)["hypotheses"]]
    [values] = judge.judge(SYSTEM, [small.row("1", "one two three")], [hypotheses(*texts)])
    code, chosen, _ = dragoman(*asked, option, judge.model, text="one two three\n")
    [best] = json.loads(chosen)["hypotheses"]
    assert code == 0 and best["translation"] == texts[int(np.argmax(values))]
    assert best["score"] == pytest.approx(max(values), abs=1e-4)  # printed with four digits


def test_an_estimator_has_no_weight(dragoman: Any) -> None:
    code, output, messages = dragoman("translate", GOLDEN, "--rerank", KIWI, "--rerank-weight", 2, text="one\n")
    assert code == 2 and not output and "chooses alone" in messages


def test_translations_of_low_estimated_quality_are_dropped(tmp_path: Path) -> None:
    texts = ["one two", "three", "four five six", "seven one"]
    rows = [small.row(str(number), text, "") for number, text in enumerate(texts)]
    manifest = Manifest.write(tmp_path / "en-de" / "train.arrow", rows)
    short = BeamSearch(beam=1, rules=Rules(maximum_length_extra=4))
    search = ChoosingSearch(search=short, judge=QualityEstimate(model=KIWI))

    def made(name: str, quality: Quality | None) -> list[dict[str, Any]]:
        place = Workspace(output=tmp_path / name, phase="generate", device="cpu", noprogressbar=True, workers=0)
        options = {"manifests": [str(manifest.path)], "search": search, "budget": Budget(rows=2), "quality": quality}
        Generate(model=str(GOLDEN), **options).run(place)
        return list(Manifest.open(place.folder / "en-de" / "train.arrow"))

    everything = made("all", None)
    limit = float(np.median([row["score"] for row in everything]))
    kept = made("some", Quality(minimum_score=limit, maximum_dropped=0.9))
    assert [row["id"] for row in kept] == [row["id"] for row in everything if row["score"] >= limit]
    assert 0 < len(kept) < 4
    [values] = search.judge.judge(SYSTEM, [rows[1]], [hypotheses(everything[1]["target_text"])])
    assert values[0] == pytest.approx(everything[1]["score"], abs=1e-5)
