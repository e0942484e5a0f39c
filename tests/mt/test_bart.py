"""The noise of BART and mBART, against hand values, counts of all ways, and a loop."""

import math
from collections import Counter
from itertools import chain, combinations, permutations

import numpy as np
import pytest
import torch

from dragoman import Recipe, UsageError
from dragoman.mt.bart import DocumentRotation, SentencePermutation, TextInfilling, TokenDeletion, TokenMasking
from dragoman.mt.noise import NoisyText, words_of
from dragoman.shared.training.scheduled import Scheduled
from tests import small

TEXT = "One two. Three! Four five six? Seven"


@pytest.fixture(scope="module")
def tokenizer():
    return small.tokenizer([TEXT] * 3, ["en"])


class Drawn:
    """A generator that gives what the test wants."""

    def __init__(self, poisson, places):
        self.draws, self.places = list(poisson), places

    def poisson(self, mean, size):
        assert mean == 3.5
        return np.array(self.draws.pop(0))

    def permutation(self, spans):
        return np.array(spans)

    def choice(self, count, size, *, replace, shuffle):
        assert not replace and len(self.places) == size and max(self.places) < count
        return np.array(self.places)


def words(count, pieces=2):
    """Words of different pieces."""
    return [[1000 + 10 * number + piece for piece in range(pieces)] for number in range(count)]


def shown(noised, tokenizer):
    return "".join("_" if word == [tokenizer.mask] else chr(ord("a") + word[0] // 10 - 100) for word in noised)


@pytest.mark.parametrize(
    ("draws", "places", "result"),
    [
        ([[2, 0, 1]], [4, 1, 9], "a_de_fghi_"),  # b and c; a mask between e and f; j
        ([[5, 1, 1]], [0], "_defghij"),  # cut to three words
        ([[0, 0, 1], [0, 9, 9]], [0, 3, 6], "_bc_de_hij"),  # drawn again; two of three masks of no words are too many
        ([[1, 1, 1]], [0, 1, 9], "__cdefghi_"),  # spans may stand side by side
    ],
)
def test_infilling_by_hand(tokenizer, draws, places, result):
    infilling = TextInfilling(tokenizer=tokenizer, share=0.3)
    assert shown(infilling(words(10), Drawn(draws, places)), tokenizer) == result


class Spans(np.random.Generator):
    """A generator whose spans are three words, and then two, of which one is left."""

    def poisson(self, mean, size):
        return np.array([3, 2])


def test_every_way_to_place_the_spans_is_equally_likely(tokenizer):
    """Spans of three words and one among six: C(4, 2) places in the row of two masks and two kept words, twice."""
    infilling, rng = TextInfilling(tokenizer=tokenizer, share=0.6), Spans(np.random.PCG64(0))
    found = Counter(shown(infilling(words(6), rng), tokenizer) for _ in range(6000))
    expected = []
    for places in permutations(range(4), 2):
        letters, row = list("abcdef"), ""
        for slot in range(4):
            taken = [letters.pop(0) for _ in range({places[0]: 3, places[1]: 1}.get(slot, 1))]
            row += "_" if slot in places else taken[0]
        expected.append(row)
    assert {*found} == {*expected} and len(expected) == 12
    for row, count in Counter(expected).items():  # side by side, two orders look the same
        assert abs(found[row] - 500 * count) < 5 * math.sqrt(500 * count)


@pytest.mark.parametrize("count", [0, 1, 2, 3, 5, 30])
@pytest.mark.parametrize("share", [0.0, 0.1, 0.35, 1.0])
def test_a_text_never_becomes_longer(tokenizer, count, share):
    infilling, rng = TextInfilling(tokenizer=tokenizer, share=share, mean_length=0.3), np.random.default_rng(0)
    for _ in range(100):
        found = infilling(words(count, pieces=1), rng)
        assert len(found) <= count
        kept = [word for word in found if word != [tokenizer.mask]]
        assert len(kept) == count - math.ceil(share * count)
        assert (len(found) > len(kept)) == (share > 0 and count > 0)


def test_sentences_are_permuted_as_wholes_and_evenly(tokenizer):
    permutation, rng = SentencePermutation(tokenizer=tokenizer), np.random.default_rng(0)
    text = words_of(tokenizer).split(tokenizer.encode(TEXT), "en")
    found = Counter(tokenizer.decode([i for word in permutation(text, rng) for i in word]) for _ in range(2400))
    assert "Seven Three! One two. Four five six?" in found and len(found) == 24  # 4!
    assert all(abs(count - 100) < 50 for count in found.values())
    assert permutation(text[:2], rng) == text[:2]  # one sentence
    assert len({str(permutation(text[:3], rng)) for _ in range(20)}) == 2  # two
    assert permutation([], rng) == []


#: Three words of one, three and two tokens.
THREE = [[11], [21, 22, 23], [31, 32]]


class Chosen:
    """A generator that draws the tokens that the test wants, and begins texts where it wants."""

    def __init__(self, *tokens):
        self.tokens = list(tokens)

    def choice(self, count, size, *, replace, shuffle):
        assert count == 6 and not replace and size == len(self.tokens)
        return np.array(self.tokens)

    def random(self):
        return 0.0

    def integers(self, count):
        assert count == 6
        return self.tokens[0]


@pytest.mark.parametrize(
    ("share", "tokens", "masked", "deleted"),
    [
        (0.3, [0, 2], "_ 21_23 31.32", "21.23 31.32"),  # 1.8 tokens, rounded up: a word goes with its only token
        (0.5, [1, 2, 5], "11 __23 31_", "11 23 31"),
        (0.1, [4], "11 21.22.23 _32", "11 21.22.23 32"),
        (0.0, [], "11 21.22.23 31.32", "11 21.22.23 31.32"),
    ],
)
def test_tokens_are_masked_or_deleted_by_hand(tokenizer, share, tokens, masked, deleted):
    def written(words):
        names = [[str(token) if token != tokenizer.mask else "_" for token in word] for word in words]
        return " ".join(".".join(word).replace("._", "_").replace("_.", "_") for word in names)

    given = [list(word) for word in THREE]
    assert written(TokenMasking(tokenizer=tokenizer, share=share)(given, Chosen(*tokens))) == masked
    assert written(TokenDeletion(share=share)(given, Chosen(*tokens))) == deleted
    assert given == THREE  # what was given stays


@pytest.mark.parametrize(
    ("begin", "result"),
    [
        (0, [[11], [21, 22, 23], [31, 32]]),
        (1, [[21, 22, 23], [31, 32], [11]]),
        (2, [[22, 23], [31, 32], [11], [21]]),
        (3, [[23], [31, 32], [11], [21, 22]]),
        (4, [[31, 32], [11], [21, 22, 23]]),
        (5, [[32], [11], [21, 22, 23], [31]]),
    ],
)
def test_rotation_by_hand(begin, result):
    assert DocumentRotation()(THREE, Chosen(begin)) == result


def test_each_set_of_tokens_is_drawn_equally_often(tokenizer):
    rng = np.random.default_rng(0)
    masking, deletion = TokenMasking(tokenizer=tokenizer, share=0.3), TokenDeletion(share=0.3)
    left = Counter(tuple(chain.from_iterable(deletion(THREE, rng))) for _ in range(3000))
    masked = Counter(tuple(chain.from_iterable(masking(THREE, rng))) for _ in range(3000))
    tokens, expected, places = list(chain.from_iterable(THREE)), set(), set()
    for pair in combinations(range(6), 2):
        expected.add(tuple(token for number, token in enumerate(tokens) if number not in pair))
        places.add(tuple(tokenizer.mask if number in pair else token for number, token in enumerate(tokens)))
    assert {*left} == expected and {*masked} == places and len(expected) == 15
    assert all(abs(count - 200) < 70 for count in (*left.values(), *masked.values()))


def test_every_token_begins_a_rotated_text_equally_often():
    rotation, rng = DocumentRotation(), np.random.default_rng(0)
    tokens = list(chain.from_iterable(THREE))
    found = Counter(tuple(chain.from_iterable(rotation(THREE, rng))) for _ in range(3000))
    assert {*found} == {(*tokens[begin:], *tokens[:begin]) for begin in range(6)}
    assert all(abs(count - 500) < 110 for count in found.values())


def test_so_many_texts_are_rotated():
    rotation, rng = DocumentRotation(probability=0.3), np.random.default_rng(0)
    same = sum(rotation(THREE, rng) == THREE for _ in range(3000))
    assert same == pytest.approx(3000 * (0.7 + 0.3 / 6), abs=120)


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_a_token_always_stays_and_nothing_becomes_something(tokenizer, share):
    rng = np.random.default_rng(0)
    noises = [TokenDeletion(share=share), TokenMasking(tokenizer=tokenizer, share=share), DocumentRotation()]
    assert all(noise([], rng) == [] for noise in noises)
    found = {tuple(noises[0]([[5]], rng)[0]) for _ in range(20)}
    assert found == {(5,)}
    left = [list(chain.from_iterable(noises[0](THREE, rng))) for _ in range(50)]
    assert {len(tokens) for tokens in left} == {{0.0: 6, 0.3: 4, 1.0: 1}[share]}
    assert {len(list(chain.from_iterable(noises[1](THREE, rng)))) for _ in range(50)} == {6}


def test_shares_are_rounded_up_but_not_for_the_last_bit(tokenizer):
    rng = np.random.default_rng(0)
    for count, drawn in ((100, 7), (101, 8)):
        given = words(count, pieces=1)
        assert len(TokenDeletion(share=0.07)(given, rng)) == count - drawn
        assert TokenMasking(tokenizer=tokenizer, share=0.07)(given, rng).count([tokenizer.mask]) == drawn
        infilled = TextInfilling(tokenizer=tokenizer, share=0.07)(given, rng)
        assert len(infilled) - infilled.count([tokenizer.mask]) == count - drawn


def test_noises_can_be_applied_one_after_another(tokenizer):
    """Sentences first, then tokens, then the rotation: the order of the list, with the symbols around the text kept."""
    field = small.text(tokenizer)
    row = {"source_text": TEXT, "source_language": "en"}
    every = [
        SentencePermutation(tokenizer=tokenizer),
        TextInfilling(tokenizer=tokenizer, share=0.3),
        TokenMasking(tokenizer=tokenizer, share=0.1),
        TokenDeletion(share=0.2),
        DocumentRotation(),
    ]
    whole = field(row, np.random.default_rng(0)).tolist()
    for noise in permutations(every, 5):
        ids = NoisyText(field=field, noise=list(noise))(row, np.random.default_rng(1)).tolist()
        assert ids[0] == whole[0] and ids[-1] == whole[-1] and len(ids) < len(whole)
        assert not Counter(id for id in ids if id != tokenizer.mask) - Counter(whole)
        again = NoisyText(field=field, noise=list(noise))(row, np.random.default_rng(1)).tolist()
        assert ids == again
    by_hand = words_of(tokenizer).split(tokenizer.encode(TEXT), "en")
    rng = np.random.default_rng(2)
    for noise in (every[0], every[3], every[4]):
        by_hand = noise(by_hand, rng)
    found = NoisyText(field=field, noise=[every[0], every[3], every[4]])(row, np.random.default_rng(2)).tolist()
    assert found[1:-1] == list(chain.from_iterable(by_hand))


def test_bad_arguments(tokenizer):
    both = {"tokenizer": tokenizer}
    for noise, arguments, message in (
        (TextInfilling, both | {"share": 1.2}, "share must be between 0 and 1, not 1.2"),
        (TextInfilling, both | {"mean_length": 0.01}, "must be at least 0.1, not 0.01"),
        (TextInfilling, both | {"mean_length": math.inf}, "SpanDraw: .* must be a finite number at least 0.1, not inf"),
        (TokenMasking, both | {"share": -0.1}, "share must be between 0 and 1, not -0.1"),
        (TokenDeletion, {"share": 1.2}, "share must be between 0 and 1, not 1.2"),
        (DocumentRotation, {"probability": math.nan}, "must be a finite number between 0 and 1, not nan"),
    ):
        small.refuses(UsageError, message, noise, **arguments)


def test_dropout_of_mbart_falls():
    """As published: 0.1 for 250,000 updates, 0.05 until update 400,000, then none; attention has none at all."""
    vocabulary = "!new:tests.recipes.test_recipes.Vocabulary {pieces: 100, tags: [de, en]}"
    given = {"tokenizer": vocabulary, "source_language": "de", "target_language": "en", "data_folder": "nowhere"}
    with torch.device("meta"):
        fit = Recipe.load("text/mbart", given).plan["fit"].build()
    scheduled = Scheduled(fit.objective, fit.scheduled)
    model = fit.objective.system.model
    for update, expected in ((1, 0.1), (250_000, 0.1), (250_001, 0.05), (400_000, 0.05), (400_001, 0.0)):
        scheduled.at(update)
        parts = [part for part in model.modules() if isinstance(getattr(part, "dropout", None), float)]
        assert len(parts) > 24 and {part.dropout for part in parts} <= {expected, 0.0}
        layers = (*model.encoder.layers, *model.decoder.layers, model.embeddings["source"], model.target_embedding)
        assert [part.dropout for part in layers] == [expected] * 26
