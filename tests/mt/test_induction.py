"""Lexicons from vectors: similarities by a loop, precision by hand; dictionaries that are wrong are warned of."""

import math

import pytest
import torch

from dragoman.mt.induction import InduceLexicon, LexiconAccuracy, unit_length
from dragoman.mt.lexicon import read_entries
from dragoman.mt.vector_tables import WordVectors
from dragoman.shared.errors import DataError, UsageError
from dragoman.shared.evaluation.results import read
from tests.mt.test_mapping import mapped as map_vectors
from tests.mt.test_mapping import planted
from tests.small import refuses, run


def test_a_lexicon_has_the_softmax_of_similarities(tmp_path):
    """Against a loop over pairs of words; probabilities of a word add up to 1, and a small one is not written as 0."""
    generator = torch.Generator().manual_seed(3)
    for name, count in (("de", 7), ("en", 9)):
        words = [f"{name}{number}" for number in range(count)]
        WordVectors(words, torch.randn(count, 4, generator=generator)).write(tmp_path / f"{name}.vec")
    tables = {"source": tmp_path / "de.vec", "target": tmp_path / "en.vec"}
    workspace = run(InduceLexicon(**tables, top=2, neighbours=0, temperature=0.2), tmp_path, "map")
    x, y = (WordVectors.read(tmp_path / f"{name}.vec") for name in ("de", "en"))
    expected = []
    for word, vector in zip(x.words, x.values, strict=True):
        rows = zip(y.words, y.values, strict=True)
        near = [(float(torch.cosine_similarity(vector, other, dim=0)), name) for name, other in rows]
        best = sorted(near, reverse=True)[:2]
        total = sum(math.exp(value / 0.2) for value, _ in best)
        expected += [(word, name, max(1e-4, math.exp(value / 0.2) / total)) for value, name in best]
    found = [*read_entries(workspace.folder / "de-en.txt")]
    assert [entry[:2] for entry in found] == [entry[:2] for entry in expected]
    assert [entry[2] for entry in found] == pytest.approx([entry[2] for entry in expected], abs=1e-4)
    assert len([*read_entries(workspace.folder / "en-de.txt")]) == 18


def judged(folder, lexicon: str, **arguments):
    (folder / "de-en.txt").write_text(lexicon)
    (folder / "truth.txt").write_text("hund\tdog\nhund\thound\nkatze\tcat\nbaum\ttree\nauge\teye\n")
    run(LexiconAccuracy(lexicon=folder / "de-en.txt", truth=folder / "truth.txt", **arguments), folder, "accuracy")
    return {row["metric"]: row["value"] for row in read(folder / "results.jsonl")}


def warnings(caplog) -> list[tuple]:
    return [record.args for record in caplog.records if record.levelname == "WARNING"]


def test_precision_by_hand(tmp_path, caplog):
    """Of three words that both have, one is right at once, and one by its second word; the fourth is missing."""
    scores = judged(tmp_path, "hund\thound\nhund\tcat\nkatze\tdog\nkatze\tcat\nbaum\tdog\nbaum\teye\n")
    assert scores == pytest.approx({"precision_1": 100 / 3, "precision_2": 200 / 3, "coverage": 75.0}, abs=0.01)
    [warned] = warnings(caplog)
    assert warned[1:] == (pytest.approx(100 / 3), 40.0)
    judged(tmp_path, "hund\tdog\n")
    assert warnings(caplog) == [warned]


def test_a_dictionary_of_the_least_similar_words_is_warned_of(tmp_path, caplog):
    planted(tmp_path)
    map_vectors(tmp_path, seed=str(tmp_path / "seed.txt"))
    mapped = [WordVectors.read(tmp_path / f"map/{name}.vec") for name in ("de", "en")]
    worst = (mapped[0].values @ mapped[1].values.T).argmin(1).tolist()
    lines = "".join(f"{word}\t{mapped[1].words[place]}\n" for word, place in zip(mapped[0].words, worst, strict=True))
    (tmp_path / "de-en.txt").write_text(lines)
    caplog.clear()
    run(LexiconAccuracy(lexicon=tmp_path / "de-en.txt", truth=tmp_path / "truth.txt"), tmp_path, "accuracy")
    [warned] = warnings(caplog)
    assert warned[1] < 5


def test_vectors_become_as_long_as_one():
    found = unit_length(torch.tensor([[3.0, 4.0], [0.0, -2.0], [0.0, 0.0]]))
    assert found.dtype == torch.float64 and found.tolist() == [pytest.approx([0.6, 0.8]), [0.0, -1.0], [0.0, 0.0]]


def test_refusals(tmp_path):
    for name, value, said in (
        ("top", 0, "at least 1"),
        ("neighbours", -1, "at least 0"),
        ("temperature", 0.0, "above 0"),
    ):
        message = f"^InduceLexicon: {name} must be {said}, not {value}$"
        refuses(UsageError, message, InduceLexicon, source="de.vec", target="en.vec", **{name: value})
    refuses(DataError, "has none of the words of", judged, tmp_path, "fisch\tfish\n")
