"""Text alone teaches words: vectors of two languages, counted from texts that do not translate each other, are mapped.

The vectors are a stand-in for word2vec (Levy and Goldberg 2014: positive pointwise mutual information, factorised), the
map is orthogonal (Xing et al. 2015), retrieval is CSLS (Conneau et al. 2018, section 2.3). All of it is here, in numpy
and scipy, so that the world is judged by no code of its own.

One draw of text and one half of the lexicon say little: of 240 words, a figure scatters by three points. So each half
is the seed for the other by turns, and text is drawn four times. ``pytest -rP`` on this file prints the figures.
"""

import numpy as np
import pytest
from scipy.sparse import coo_matrix
from scipy.sparse.linalg import svds

from dragoman.almanac.frames import randomness
from dragoman.almanac.lexicons import halves, lexicon, split_words
from dragoman.almanac.meanings import draw_meaning
from dragoman.almanac.phrases import PHRASINGS, grammar

SENTENCES = 30_000
DIMENSIONS = 150
WINDOW = 5
LEAST = 5  # occurrences
DRAWS = 4


def texts(language, draw):
    generator = randomness("text", language, draw)
    for _ in range(SENTENCES):
        yield split_words(grammar(language).sentence(draw_meaning(generator), generator.randrange(PHRASINGS)))


def vectors(sentences):
    sentences = list(sentences)
    counts = {}
    for words in sentences:
        for word in words:
            counts[word] = counts.get(word, 0) + 1
    vocabulary = {word: number for number, word in enumerate(w for w, count in counts.items() if count >= LEAST)}
    rows, columns, weights = [], [], []
    for words in sentences:
        ids = [vocabulary.get(word, -1) for word in words]
        for place, word in enumerate(ids):
            for distance in range(1, WINDOW + 1):
                if place + distance < len(ids) and word >= 0 and ids[place + distance] >= 0:
                    rows += [word, ids[place + distance]]
                    columns += [ids[place + distance], word]
                    weights += [1.0 / distance] * 2
    size = len(vocabulary)
    together = coo_matrix((weights, (rows, columns)), shape=(size, size)).tocsr().tocoo()
    total = together.data.sum()
    alone = np.asarray(together.sum(1)).ravel()
    smoothed = alone**0.75 / (alone**0.75).sum()
    information = np.log(together.data / alone[together.row] / smoothed[together.col])
    information = np.maximum(information, 0.0)
    assert total > 0
    matrix = coo_matrix((information, (together.row, together.col)), shape=(size, size)).tocsr()
    left, values, _ = svds(matrix, k=DIMENSIONS, v0=np.ones(size))
    found = left * values**0.5
    found /= np.linalg.norm(found, axis=1, keepdims=True) + 1e-12
    found -= found.mean(0)
    found /= np.linalg.norm(found, axis=1, keepdims=True) + 1e-12
    return vocabulary, found


def nearest(mapped, others):
    """CSLS with ten neighbours: (queries, candidates)."""
    similar = mapped @ others.T
    of_queries = np.sort(similar, axis=1)[:, -10:].mean(1)
    return (2 * similar - of_queries[:, None] - np.sort(similar, axis=0)[-10:].mean(0)).argmax(1)


def precision(source, target, seed, test):
    """Share of the test's words whose nearest neighbour is a translation, but for those spelled alike; their number."""
    (known, ours), (others, theirs) = source, target
    pairs = np.array([(known[one], others[other]) for one, other in seed if one in known and other in others])
    left, _, right = np.linalg.svd(ours[pairs[:, 0]].T @ theirs[pairs[:, 1]])
    answers = nearest(ours @ left @ right, theirs)
    true = {}
    for one, other in test:
        if one in known and other in others and one != other:
            true.setdefault(known[one], set()).add(others[other])
    return sum(answers[word] in found for word, found in true.items()) / len(true), len(true)


@pytest.mark.slow
def test_words_that_the_seed_lexicon_lacks_are_found():
    figures = {"en-de": [], "de-en": []}
    for draw in range(DRAWS):
        english, german = (vectors(texts(language, draw)) for language in ("en", "de"))
        for pair, found in figures.items():
            sides = (english, german) if pair == "en-de" else (german, english)
            halved = halves(lexicon(*pair.split("-")))
            found += [precision(*sides, *order) for order in (halved, halved[::-1])]
    for pair, found in figures.items():
        shares, numbers = np.array(found).T
        print(
            f"{pair}: mean {shares.mean():.1%}, from {shares.min():.1%} to {shares.max():.1%}, of {numbers.mean():.0f}"
        )
        assert numbers.min() > 200
    assert np.mean([share for share, _ in figures["en-de"]]) >= 0.45
