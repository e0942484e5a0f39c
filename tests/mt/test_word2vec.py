"""Skip-grams against loops, and against the statistics that their vectors factorise (Levy and Goldberg 2014)."""

import logging
import math
import random
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from dragoman import DataError, Manifest, UsageError
from dragoman.mt.mapping import seed_entries
from dragoman.mt.vector_tables import WordVectors
from dragoman.mt.word2vec import SkipGram, TrainVectors, window_pairs
from tests.small import refuses, row, run


def manifest(folder: Path, texts: list[str], language: str = "en") -> str:
    rows = (row(n, text, source_language=language) for n, text in enumerate(texts))
    return str(Manifest.write(folder / "train.arrow", rows).path)


def learned(folder: Path, path: str, seed: int = 1, **arguments) -> WordVectors:
    phase = TrainVectors(manifests=[path], language="en", **{"width": 8, "least": 1} | arguments)
    return WordVectors.read(run(phase, folder, "vectors", seed=seed).folder / "en.vec")


def test_the_loss_equals_a_loop():
    torch.manual_seed(1)
    model = SkipGram(words=7, width=4)
    torch.nn.init.normal_(model.contexts.weight)
    centres, contexts, negatives = torch.tensor([0, 3, 3]), torch.tensor([1, 2, 6]), torch.randint(7, (3, 5))
    expected = 0.0
    for pair in range(3):
        vector = model.centres.weight[centres[pair]]
        scores = [vector @ model.contexts.weight[word] for word in (contexts[pair], *negatives[pair])]
        truth = torch.tensor([1.0] + [0.0] * 5)
        expected += F.binary_cross_entropy_with_logits(torch.stack(scores), truth, reduction="sum")
    torch.testing.assert_close(model(centres, contexts, negatives), expected)


def test_pairs_are_those_of_the_windows():
    """With one random number for each word, a loop over words and distances finds the same pairs."""
    rng = np.random.default_rng(5)
    ids, sentences = rng.integers(0, 50, 40), np.repeat([0, 1, 2], [17, 1, 22])
    found = Counter(zip(*window_pairs(ids, sentences, 4, np.random.default_rng(3)), strict=True))
    reach = np.random.default_rng(3).integers(1, 5, 40)
    expected = Counter(
        (ids[here], ids[there])
        for here in range(40)
        for there in range(40)
        if here != there and sentences[here] == sentences[there] and abs(here - there) <= reach[here]
    )
    assert found == expected and found.total() > 100
    assert [len(side) for side in window_pairs(ids[:1], sentences[:1], 4, rng)] == [0, 0]


def test_products_follow_the_shifted_mutual_information(tmp_path):
    """With enough dimensions, v_c . u_o is log(P(c, o) / (P(c) P'(o))) - log K, P' being that of the negatives."""
    chance = random.Random(4)
    topics = [["a", "b", "c", "d"], ["e", "f", "g", "h"], ["a", "f", "i", "j"]]
    texts = [" ".join(chance.choices(topics[chance.randrange(3)], [6, 3, 2, 1], k=6)) for _ in range(1500)]
    pairs: Counter[tuple[str, str]] = Counter()
    for text in texts:
        words = text.split()
        pairs.update((words[i], words[j]) for i in range(6) for j in range(6) if abs(i - j) == 1)
    counts = Counter(word for text in texts for word in text.split())
    flat = {word: counts[word] ** 0.75 for word in counts}
    total, one = pairs.total(), Counter(centre for centre, _ in pairs.elements())
    options = {"width": 12, "window": 1, "negatives": 3, "epochs": 20, "least": 1, "learning_rate": 0.02, "batch": 256}
    phase = TrainVectors(manifests=[manifest(tmp_path, texts)], language="en", **options)
    kept = []
    phase._train, train = lambda model, *rest: kept.append(model) or train(model, *rest), phase._train  # type: ignore[method-assign]
    words = WordVectors.read(run(phase, tmp_path, "vectors").folder / "en.vec").words
    products = kept[-1].centres.weight @ kept[-1].contexts.weight.T
    seen = [(i, j) for i, a in enumerate(words) for j, b in enumerate(words) if pairs[a, b] > 30]
    shares = {word: count / sum(flat.values()) for word, count in flat.items()}
    named = [(words[i], words[j]) for i, j in seen]
    expected = torch.tensor([math.log(pairs[a, b] / one[a] / shares[b] / 3) for a, b in named])
    found = torch.stack([products[i, j] for i, j in seen]).detach()
    assert total > 10_000 and len(seen) > 30
    assert float(torch.corrcoef(torch.stack([found, expected]))[0, 1]) > 0.9
    assert float((found - expected).abs().mean()) < 0.25


def test_words_are_lower_case_frequent_first_and_rare_ones_have_no_vector(tmp_path, caplog):
    path = manifest(tmp_path, ["The dog, the cat.", "the Dog barks"])
    with caplog.at_level(logging.INFO, "dragoman"):
        found = learned(tmp_path, path, least=2, epochs=3)
    assert found.words == ["the", "dog"] and found.values.shape == (2, 8)
    assert len({tuple(row) for row in found.values.tolist()}) == 2


def test_numbers_are_words_and_a_seed(tmp_path):
    """Of two languages that share no word, numbers are the first lexicon."""
    tables = {}
    for language, text in (("de", "Im Jahr 1984 kamen 12 Hunde"), ("en", "In 1984, 12 dogs came; 7.")):
        folder = tmp_path / language
        folder.mkdir()
        phase = TrainVectors(manifests=[manifest(folder, [text] * 9, language)], language=language, width=8, least=1)
        tables[language] = WordVectors.read(run(phase, folder, "vectors").folder / f"{language}.vec")
    assert sorted(tables["en"].words) == ["12", "1984", "7", "came", "dogs", "in"]
    entries = seed_entries(tables["de"], tables["en"], "numerals")
    pairs = zip(entries.x.tolist(), entries.y.tolist(), strict=True)
    found = sorted((tables["de"].words[one], tables["en"].words[other]) for one, other in pairs)
    assert found == [("12", "12"), ("1984", "1984")]


def test_the_same_seed_gives_the_same_vectors_and_another_one_others(tmp_path):
    path = manifest(tmp_path, ["one two three four", "two three one five six"] * 20)
    runs = [learned(tmp_path / str(number), path, seed=seed, epochs=2) for number, seed in enumerate((1, 1, 2))]
    assert torch.equal(runs[0].values, runs[1].values) and not torch.equal(runs[0].values, runs[2].values)


def test_frequent_words_are_left_out_now_and_then(tmp_path, caplog):
    """With a share of 0.01, a word that is half of the text stays in a seventh of its places, and the others stay."""
    rare = [one + other for one in "abcdefghij" for other in "klmnopqrst"]
    texts = ["the " * 10 + " ".join(rare[n % 97] for n in range(k, k + 10)) for k in range(300)]
    pairs, path = [], manifest(tmp_path, texts)
    for subsample in (0.0, 0.01):
        with caplog.at_level(logging.INFO, "dragoman"):
            learned(tmp_path / str(subsample), path, width=4, window=1, epochs=1, subsample=subsample)
        pairs.append(int(re.findall(r"epoch 1: (\d+) pairs", caplog.text)[-1]))
    assert pairs[0] == 300 * 19 * 2
    assert pairs[1] == pytest.approx(300 * 2 * (10 * (0.01 / 0.5) ** 0.5 + 10 - 1), rel=0.03)


def test_refusals(tmp_path):
    path = manifest(tmp_path, ["one two", "one two"])
    refuses(DataError, "0 words of language en come 5 times in the texts", learned, tmp_path, path, least=5)
    refuses(UsageError, "must be at least 1", TrainVectors, manifests=[path], language="en", window=0)
    message = "TrainVectors: column: 'audio' is not one of 'source_text', 'target_text'"
    refuses(UsageError, message, TrainVectors, manifests=[path], language="en", column="audio")


def test_numbers_at_the_ends_of_their_ranges():
    ones = dict.fromkeys(("width", "window", "negatives", "epochs", "least", "batch"), 1)
    TrainVectors(manifests=[], language="en", column="target_text", learning_rate=1e-9, **ones)
    wrong = [(name, 0, "at least 1") for name in ones]
    wrong += [("subsample", -0.1, "at least 0"), ("learning_rate", 0.0, "above 0")]
    for name, value, said in wrong:
        message = f"^TrainVectors: {name} must be {said}, not {value}$"
        refuses(UsageError, message, TrainVectors, manifests=[], language="en", **{name: value})


def test_new_vectors_are_small_and_contexts_zero():
    torch.manual_seed(0)
    model = SkipGram(words=500, width=4)
    weights = model.centres.weight
    assert -0.125 <= weights.min() < -0.12 and 0.12 < weights.max() <= 0.125
    assert not model.contexts.weight.any()
    assert float(model(torch.tensor([0]), torch.tensor([1]), torch.tensor([[2, 3]]))) == pytest.approx(3 * math.log(2))


def test_the_learning_rate_falls_to_nothing(tmp_path):
    path = manifest(tmp_path, ["one two three four five"] * 30)
    phase = TrainVectors(manifests=[path], language="en", width=4, least=1, epochs=4, batch=50, learning_rate=0.5)
    rates = []
    phase._train = lambda model, optimizer, sides, drawn, given: rates.append(given.tolist()) or 0.0
    for debug, expected in ((False, [[0.5, 0.375], [0.375, 0.25], [0.25, 0.125], [0.125, 0.0]]), (True, [[0.5, 0.0]])):
        rates.clear()
        run(phase, tmp_path / str(debug), "vectors", debug=debug)
        assert rates == [pytest.approx(pair) for pair in expected]
