"""Pairs mined by margins, and how they are judged."""

import math

import pytest
import torch

from dragoman import DataError
from dragoman.mt.understanding import mining
from dragoman.mt.understanding.mining import Candidate, Mine, judged, mine, nearest
from dragoman.shared.batches.fields import TextField
from dragoman.shared.batches.manifest import Manifest
from dragoman.shared.batches.stream import Budget
from dragoman.shared.evaluation.results import read
from dragoman.shared.machine.workspace import Workspace
from tests import small
from tests.small import refuses


def cosine(a, b):
    return float(a @ b / (a.norm() * b.norm()))


def looped(one, other, neighbours):
    """Ratio margins and the retrieval "max" by loops over all pairs."""

    def near(x, pool):
        return sum(sorted((cosine(x, z) for z in pool), reverse=True)[:neighbours]) / min(neighbours, len(pool))

    def score(x, y):
        return cosine(x, y) / ((near(x, other) + near(y, one)) / 2) if neighbours else cosine(x, y)

    found = []
    for x in range(len(one)):
        y = max(range(len(other)), key=lambda y: score(one[x], other[y]))
        found.append((score(one[x], other[y]), x, y))
    for y in range(len(other)):
        x = max(range(len(one)), key=lambda x: score(one[x], other[y]))
        found.append((score(one[x], other[y]), x, y))
    taken = {}
    for value, x, y in sorted(found, reverse=True):
        if x not in taken and y not in {pair[0] for pair in taken.values()}:
            taken[x] = (y, value)
    return {(x, y): value for x, (y, value) in taken.items()}


@pytest.mark.parametrize("neighbours", [0, 2, 30])
def test_pairs_are_those_of_a_loop(neighbours, monkeypatch):
    monkeypatch.setattr(mining, "BLOCK", 40)  # several blocks
    torch.manual_seed(2)
    one = torch.rand(13, 6)
    other = torch.cat([one[:7] + 0.2 * torch.rand(7, 6), torch.rand(4, 6)])
    wanted = looped(one, other, neighbours)
    found = mine(one, other, neighbours)
    if neighbours != 2:  # with few neighbours, the best margin may lie beyond them
        assert {(pair.one, pair.other) for pair in found} == {*wanted}
    for pair in found:
        if (pair.one, pair.other) in wanted:
            assert pair.score == pytest.approx(wanted[pair.one, pair.other], abs=1e-5)
    assert [pair.score for pair in found] == sorted((pair.score for pair in found), reverse=True)
    values, places = nearest(one, other, 3)
    assert values[4].tolist() == pytest.approx(sorted((cosine(one[4], y) for y in other), reverse=True)[:3], abs=1e-5)
    assert cosine(one[4], other[places[4, 0]]) == pytest.approx(float(values[4, 0]), abs=1e-5)


def test_the_threshold_is_that_of_the_best_f1():
    pairs = [Candidate(0, 0, 0.9), Candidate(1, 5, 0.8), Candidate(2, 2, 0.7), Candidate(3, 9, 0.6)]
    right = {(0, 0), (2, 2), (7, 7)}
    best = judged(pairs, right)
    assert 0.6 < best.threshold < 0.7 and best.f1 == pytest.approx(100 * 2 * (2 / 3) * (2 / 3) / (4 / 3))
    assert best.precision == best.recall == pytest.approx(200 / 3)
    given = judged(pairs, right, 0.85)
    assert given == pytest.approx((50.0, 100.0, 100 / 3, 0.85))
    assert judged(pairs, right, 2.0).f1 == 0 and judged([], right).threshold == math.inf


def test_the_phase_chooses_on_dev_and_tests(tmp_path):
    torch.manual_seed(1)
    tokenizer = small.tokenizer(["the dog", "a red house", "we go", "der hund", "ein rotes haus"] * 3)
    embedding = small.embedding(tokenizer, 16, None)
    parts = {"embeddings": {"source": embedding}, "target_embedding": embedding}
    model = small.translator(tokenizer, sizes={"feedforward": 16}, **parts)
    small.system(tokenizer, model, output=TextField(tokenizer=tokenizer)).save(tmp_path / "model")
    texts = [("e1", "en", "the dog", "d1"), ("e2", "en", "we go", None), ("d1", "de", "the dog", "e1")]
    texts.append(("d2", "de", "ein rotes haus", None))
    rows = [{"id": a, "source_language": b, "source_text": c, "counterpart": d} for a, b, c, d in texts]
    paths = [str(Manifest.write(tmp_path / "de-en" / f"{name}.arrow", rows).path) for name in ("dev", "test")]
    given = {"model": str(tmp_path / "model"), "budget": Budget(rows=2), "manifests": paths[1:], "neighbours": 0}
    for debug in (False, True):
        here = Workspace(output=tmp_path, recipe="a/x", phase="mine", noprogressbar=True, device="cpu", debug=debug)
        Mine(dev=paths[:1], **given).run(here)
        [row] = read(tmp_path / "results.jsonl")
        assert (row["metric"], row["value"], row["precision"], row["recall"]) == ("mining_f1", 100, 100, 100)
        assert 0.9 < row["threshold"] <= 1  # the same text behind the tags of two languages
    refuses(DataError, "0 manifests for development are in a folder de-en", Mine(dev=[], **given).run, here)
    here = Workspace(output=tmp_path, recipe="a/x", phase="mine", noprogressbar=True, device="cpu")
    Manifest.write(tmp_path / "de-en" / "test.arrow", [*rows[:2], rows[2] | {"counterpart": "e9"}, rows[3]])
    refuses(DataError, "row 'd1': its counterpart 'e9' is no row in en", Mine(dev=paths[:1], **given).run, here)
    Manifest.write(tmp_path / "de-en" / "test.arrow", rows[:2])
    refuses(DataError, "two languages are mined, not en", Mine(dev=paths[:1], **given).run, here)
