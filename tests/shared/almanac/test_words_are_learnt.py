"""Text alone teaches words: vectors of two languages, counted from texts that do not translate each other, are mapped.

The vectors are a stand-in for word2vec (Levy and Goldberg 2014: positive pointwise mutual information, factorised), the
map is orthogonal (Xing et al. 2015), retrieval is CSLS (Conneau et al. 2018, section 2.3). All of it is here, in numpy
and scipy, so that the world is judged by no code of its own.
"""

import numpy as np
import pytest
from scipy.sparse import coo_matrix
from scipy.sparse.linalg import svds

from shared.almanac.frames import randomness
from shared.almanac.lexicons import halves, lexicon, split_words
from shared.almanac.meanings import draw_meaning
from shared.almanac.phrases import PHRASINGS, grammar

SENTENCES = 30_000
DIMENSIONS = 150
WINDOW = 5
LEAST = 5  # occurrences


def texts(language):
    generator = randomness("text", language)
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
    left, values, _ = svds(
        coo_matrix((information, (together.row, together.col)), shape=(size, size)).tocsr(),
        k=DIMENSIONS,
        v0=np.ones(size),
    )
    found = left * values**0.5
    found /= np.linalg.norm(found, axis=1, keepdims=True) + 1e-12
    found -= found.mean(0)
    found /= np.linalg.norm(found, axis=1, keepdims=True) + 1e-12
    return vocabulary, found


def nearest(mapped, others):
    """CSLS with ten neighbours: (queries, candidates)."""
    similar = mapped @ others.T
    of_queries = np.sort(similar, axis=1)[:, -10:].mean(1)
    of_others = np.sort(similar, axis=0)[-10:].mean(0)
    return (2 * similar - of_queries[:, None] - of_others).argmax(1)


@pytest.fixture(scope="module")
def precision():
    (english, ours), (german, theirs) = vectors(texts("en")), vectors(texts("de"))
    seed, test = (
        [(english[one], german[other]) for one, other in half if one in english and other in german]
        for half in halves(lexicon("en", "de"))
    )
    one, other = np.array(seed).T
    left, _, right = np.linalg.svd(ours[one].T @ theirs[other])
    answers = nearest(ours @ left @ right, theirs)
    words = {number: word for word, number in english.items()}
    german_words = {number: word for word, number in german.items()}
    true = {}
    for source, target in test:
        if words[source] != german_words[target]:
            true.setdefault(source, set()).add(target)
    return len(true), sum(answers[source] in targets for source, targets in true.items()) / len(true)


@pytest.mark.slow
def test_words_that_the_seed_lexicon_lacks_are_found(precision):
    words, found = precision
    assert words > 200
    assert found >= 0.45
