"""Mapped word vectors: a planted rotation is found; neighbours and CSLS by loops; wrong dictionaries are seen."""

import logging

import pytest
import torch

from dragoman.mt import mapping
from dragoman.mt.induction import InduceLexicon
from dragoman.mt.mapping import Entries, MapVectors, entries_by_shape, nearest, procrustes, self_learned, unit
from dragoman.mt.vector_tables import WordVectors
from dragoman.shared.errors import DataError, UsageError
from tests.small import refuses, run

WIDTH, WORDS = 12, 80


def rotation(generator: torch.Generator) -> torch.Tensor:
    return torch.linalg.qr(torch.randn(WIDTH, WIDTH, dtype=torch.float64, generator=generator))[0]


def planted(folder, noise: float = 0.02, words: int = WORDS):
    """Write two tables, one of which is the other one turned, with some noise and in another order."""
    generator = torch.Generator().manual_seed(3)
    clusters = torch.randn(8, WIDTH, dtype=torch.float64, generator=generator)
    x = torch.randn(words, WIDTH, dtype=torch.float64, generator=generator) + 1.5 * clusters[torch.arange(words) % 8]
    y = x @ rotation(generator) + noise * torch.randn(words, WIDTH, dtype=torch.float64, generator=generator)
    order = torch.randperm(words, generator=generator)
    WordVectors([f"w{n}" for n in range(words)], x).write(folder / "de.vec")
    WordVectors([f"v{n}" for n in order.tolist()], y[order]).write(folder / "en.vec")
    (folder / "truth.txt").write_text("".join(f"w{n}\tv{n}\n" for n in range(words)))
    (folder / "seed.txt").write_text("".join(f"w{n}\tv{n}\n" for n in range(0, words, 4)))


def mapped(folder, **options):
    run(MapVectors(**{"source": folder / "de.vec", "target": folder / "en.vec"} | options), folder, "map")


def precision(folder) -> float:
    mapped = run(InduceLexicon(source=folder / "map/de.vec", target=folder / "map/en.vec", top=2), folder, "induce")
    lines = [line.split("\t")[:2] for line in (mapped.folder / "de-en.txt").read_text().splitlines()]
    first = dict(reversed(lines))  # the first line of a word is the last here
    return sum(first[f"w{n}"] == f"v{n}" for n in range(WORDS)) / WORDS


def test_the_map_is_orthogonal_and_undoes_a_rotation():
    generator = torch.Generator().manual_seed(1)
    x, turn = torch.randn(40, WIDTH, dtype=torch.float64, generator=generator), rotation(generator)
    torch.testing.assert_close(procrustes(x, x @ turn), turn)
    noisy = procrustes(x, torch.randn(40, WIDTH, dtype=torch.float64, generator=generator))
    torch.testing.assert_close(noisy @ noisy.T, torch.eye(WIDTH, dtype=torch.float64))


@pytest.mark.parametrize("k", [0, 3])
def test_neighbours_equal_a_loop(k):
    generator = torch.Generator().manual_seed(2)
    x, y = (unit(torch.randn(size, 5, generator=generator)) for size in (9, 11))
    scores, found = nearest(x, y, k, 2)

    def around(vector, others):
        return sum(sorted((float(vector @ other) for other in others), reverse=True)[:k]) / k if k else 0.0

    for row, vector in enumerate(x):
        csls = [(2 if k else 1) * float(vector @ other) - around(vector, y) - around(other, x) for other in y]
        best = sorted(range(11), key=lambda place: -csls[place])[:2]
        assert found[row].tolist() == best
        assert scores[row].tolist() == pytest.approx([csls[place] for place in best])


def test_a_vector_near_to_everything_is_not_every_words_neighbour():
    """Two words and their translations, and a hub between them that is nearer to both by the cosine."""
    x = torch.nn.functional.normalize(torch.tensor([[1.0, 0.6, 0.0], [1.0, -0.6, 0.0]]), dim=-1)
    y = torch.nn.functional.normalize(torch.tensor([[1.0, 0.9, 1.0], [1.0, -0.9, 1.0], [1.0, 0.0, 0.0]]), dim=-1)
    assert nearest(x, y, 0)[1].tolist() == [[2], [2]]
    assert nearest(x, y, 2)[1].tolist() == [[0], [1]]


@pytest.mark.parametrize(("seed", "learn"), [("seed.txt", False), ("seed.txt", True), ("unsupervised", True)])
def test_a_planted_rotation_is_recovered(tmp_path, seed, learn):
    planted(tmp_path)
    given = str(tmp_path / seed) if seed.endswith("txt") else seed
    mapped(tmp_path, seed=given, learn=learn)
    assert precision(tmp_path) > 0.95


def test_cosines_within_a_language_stay(tmp_path):
    planted(tmp_path)
    mapped(tmp_path, seed=str(tmp_path / "seed.txt"))
    for name in ("de", "en"):
        before = unit(WordVectors.read(tmp_path / f"{name}.vec").values)
        after = WordVectors.read(tmp_path / f"map/{name}.vec").values.double()
        torch.testing.assert_close(after @ after.T, before @ before.T, atol=1e-4, rtol=0)


def test_self_learning_makes_good_a_poor_seed(tmp_path):
    planted(tmp_path, noise=0.1)
    (tmp_path / "seed.txt").write_text("".join(f"w{n}\tv{n}\n" for n in range(5)))
    results = []
    for learn in (False, True):
        mapped(tmp_path, seed=str(tmp_path / "seed.txt"), learn=learn)
        results.append(precision(tmp_path))
    assert results[0] < 0.5 and results[1] > 0.9


def test_self_learning_grows_when_nothing_is_gained_and_ends_when_all_is_kept(monkeypatch):
    """By hand: with a patience of 2, the third round in a row without a gain of 0.25 doubles the share, or ends."""
    gained = [0.5, 0.5, 0.5, 0.75, 0.9, 0.5, 0.9, 0.0, 0.0, 0.0, 1.25, 1.25, 1.25, 1.25]
    shares, rounds = [], iter(gained)

    def entries(x, y, k, kept, generator, *, both_ways):
        shares.append(kept)
        return Entries(torch.arange(len(x)), torch.arange(len(y)))

    monkeypatch.setattr(mapping, "GAIN", 0.25)
    monkeypatch.setattr(mapping, "PATIENCE", 2)
    monkeypatch.setattr(mapping, "GROWTH", 2)
    monkeypatch.setattr(mapping, "nearest", lambda *_: (torch.full((3, 1), next(rounds)), None))
    monkeypatch.setattr(mapping, "_nearest_entries", entries)
    x = torch.eye(3)
    first = Entries(torch.arange(3), torch.arange(3))
    options = {"k": 1, "cutoff": 3, "generator": torch.Generator(), "both_ways": False}
    torch.testing.assert_close(self_learned(x, x, first, kept=0.4, **options), x)
    # 0.5, no, no, 0.75 (just enough), no, no, no: 0.8; no, no, no: 1; 1.25, no, no, no: the end.
    assert shares == [0.4] * 6 + [0.8] * 3 + [1.0] * 4 and next(rounds, None) is None


def test_settings_of_2017_find_a_planted_rotation(tmp_path):
    """All words at once, nearest to the first language's alone, by the cosine: a handful of entries is enough."""
    planted(tmp_path)
    (tmp_path / "seed.txt").write_text("".join(f"w{n}\tv{n}\n" for n in range(9)))
    mapped(tmp_path, neighbours=0, seed=str(tmp_path / "seed.txt"), kept=1.0, both_ways=False)
    assert precision(tmp_path) > 0.99


def test_numerals_and_identical_words_are_seeds(tmp_path, caplog):
    for name, words in (("de", ["eins", "12", "7", "Haus", "Berlin"]), ("en", ["7", "house", "Berlin", "12"])):
        WordVectors(words, torch.randn(len(words), 3)).write(tmp_path / f"{name}.vec")
    found = {}
    for seed in ("numerals", "identical"):
        with caplog.at_level(logging.INFO, "dragoman"):
            mapped(tmp_path, seed=seed, learn=False)
        found[seed] = caplog.records[-1].args[0]
    assert found == {"numerals": 2, "identical": 3}


def test_shapes_of_one_language_turned_are_the_same():
    generator = torch.Generator().manual_seed(4)
    x = unit(torch.randn(60, 6, generator=generator))
    y = x @ torch.linalg.qr(torch.randn(6, 6, dtype=torch.float64, generator=generator))[0]
    entries = entries_by_shape(x, y, 5)
    assert torch.equal(entries.x, entries.y) and len(entries.x) == 120


def test_refusals(tmp_path):
    planted(tmp_path)
    tables = {"source": tmp_path / "de.vec", "target": tmp_path / "en.vec"}
    message = "seed 'numerals': 0 of 0 entries have vectors on both sides, 2 are needed"
    refuses(DataError, message, mapped, tmp_path, seed="numerals")
    refuses(UsageError, "it needs learn: True", MapVectors, **tables, seed="unsupervised", learn=False)
    refuses(UsageError, "MapVectors: cutoff must be at least 1, not 0", MapVectors, **tables, cutoff=0)
    refuses(UsageError, "neighbours must be at least 0", MapVectors, **tables, neighbours=-1)
    for kept in (0.0, 1.5):
        refuses(UsageError, f"kept must be above 0 and at most 1, not {kept}", MapVectors, **tables, kept=kept)
    WordVectors(["a", "b"], torch.randn(2, 3)).write(tmp_path / "narrow.vec")
    refuses(DataError, "vectors of different widths", mapped, tmp_path, source=tmp_path / "narrow.vec")
