"""The word aligner: its passes against all alignments, one by one; and what it finds in hand-made corpora."""

import itertools
import math
from collections import defaultdict

import numpy as np
import pytest
from scipy.special import digamma

from dragoman.almanac import Almanac
from dragoman.mt.lexicon import read_pairs
from dragoman.shared.phases.linking import keys
from dragoman.shared.text.word_aligner import DirectedAligner, WordAligner

PAIRS = [
    (["a", "b"], ["x", "y"]),
    (["b", "c", "a"], ["y", "z"]),
    (["c"], ["z", "w", "z"]),
    (["b"], ["y"]),
    ([], ["x"]),
    (["a"], []),
]
TENSION, NULL = 3.0, 0.1


def chance(i, j, m, n, tension=TENSION):
    """Return p(i | j, m, n) of the paper, with words counted from 1."""
    if i == 0:
        return NULL
    return (1 - NULL) * math.exp(-tension * abs(i / m - j / n)) / sum(
        math.exp(-tension * abs(k / m - j / n)) for k in range(1, m + 1)
    )  # fmt: skip


def joint(table, alignment, source, target, tension=TENSION):
    """Return the probability of a target and of one alignment of all its words."""
    product = 1.0
    for j, (i, word) in enumerate(zip(alignment, target, strict=True), 1):
        product *= chance(i, j, len(source), len(target), tension) * table[["", *source][i], word]
    return product


def alignments(source, target):
    return list(itertools.product(range(1 + len(source)), repeat=len(target)))


def one_by_one(passes, flat=0, concentration=0.0):
    """Learn by the expectation over all alignments of each pair; return the table and the log-likelihoods."""
    words = {word for source, target in PAIRS if source for word in target}
    table = defaultdict(lambda: 1 / len(words))
    likelihoods = []
    for number in range(passes):
        tension = 0.0 if number < flat else TENSION
        counts, likelihood = defaultdict(float), 0.0
        for source, target in PAIRS:
            if not source or not target:
                continue
            total = sum(joint(table, a, source, target, tension) for a in alignments(source, target))
            likelihood += math.log(total)
            for a in alignments(source, target):
                for i, word in zip(a, target, strict=True):
                    counts[["", *source][i], word] += joint(table, a, source, target, tension) / total
        sums = defaultdict(float)
        for (source, _), count in counts.items():
            sums[source] += count + concentration
        if concentration:
            logs = {pair: digamma(n + concentration) - digamma(sums[pair[0]]) for pair, n in counts.items()}
            table = {pair: math.exp(log) for pair, log in logs.items()}
        else:
            table = {pair: count / sums[pair[0]] for pair, count in counts.items()}
        likelihoods.append(likelihood)
    return table, likelihoods


@pytest.mark.parametrize("passes", [1, 2, 6])
def test_the_table_against_the_sum_over_all_alignments(passes):
    found = DirectedAligner(PAIRS, iterations=passes, tension=TENSION, null=NULL)
    table, likelihoods = one_by_one(passes)
    sources, targets = ("", "a", "b", "c"), ("x", "y", "z", "w")
    expected = [[table.get((source, target), 0.0) for source in sources] for target in targets]
    assert found.probabilities(sources, targets) == pytest.approx(np.array(expected), abs=1e-9)
    assert found.log_likelihoods == pytest.approx(likelihoods)
    assert all(one < other for one, other in itertools.pairwise(found.log_likelihoods))


@pytest.mark.parametrize(("flat", "concentration"), [(0, 0.0), (2, 0.0), (0, 0.01), (3, 0.5), (9, 0.0)])
def test_first_passes_of_model_1_and_a_prior_of_the_table(flat, concentration):
    found = DirectedAligner(PAIRS, iterations=4, tension=TENSION, null=NULL, flat=flat, concentration=concentration)
    table, likelihoods = one_by_one(4, flat, concentration)
    sources, targets = ("", "a", "b", "c"), ("x", "y", "z", "w")
    expected = [[table.get((source, target), 0.0) for source in sources] for target in targets]
    assert found.probabilities(sources, targets) == pytest.approx(np.array(expected), rel=1e-5, abs=1e-9)
    assert found.log_likelihoods == pytest.approx(likelihoods, rel=1e-6)
    for source, target in PAIRS[:4]:  # links keep near the diagonal, whatever the passes
        best = max(alignments(source, target), key=lambda a: joint(defaultdict(float, table), a, source, target))
        assert found.links(source, target) == {(i - 1, j) for j, i in enumerate(best) if i}


def test_both_directions_learn_as_they_are_asked():
    aligner = WordAligner(PAIRS, iterations=3, tension=2.0, null=0.2, flat=1, concentration=0.1)
    turned = [(target, source) for source, target in PAIRS]
    for direction, pairs in ((aligner.forward, PAIRS), (aligner.backward, turned)):
        alone = DirectedAligner(pairs, iterations=3, tension=2.0, null=0.2, flat=1, concentration=0.1)
        assert direction.log_likelihoods == alone.log_likelihoods and direction.tension == 2.0


def test_a_word_that_was_never_seen_has_no_link():
    found = DirectedAligner(PAIRS)
    assert found.links(["b", "new"], ["other", "y"]) == {(0, 1)}
    assert found.links([], ["y"]) == found.links(["b"], []) == set()
    assert found.probabilities(["new", "b"], ["x", "new"])[:, 0].tolist() == [0.0, 0.0]
    assert found.probabilities(["b"], ["new"]) == 0.0


def test_the_diagonal_decides_between_equal_words():
    pairs = [(["a", "a"], ["x", "x"])] * 3
    assert DirectedAligner(pairs).links(["a", "a"], ["x", "x"]) == {(0, 0), (1, 1)}
    flat = DirectedAligner(pairs, tension=0.0).prior(4, 3)
    assert flat[:, 1:] == pytest.approx(0.92 / 4)


def test_equal_translations_are_decided_by_which_was_seen_first():
    aligner = DirectedAligner([(["a"], ["y"]), (["a"], ["x"])])
    assert aligner.best() == {"a": "y"}


def test_no_pairs():
    aligner = WordAligner([])
    assert aligner.forward.best() == {} and aligner.links(["a"], ["b"]) == []


def test_few_much_reordered_sentences_need_both(tmp_path):
    """Words of the true lexicon with one translation in the sentence: are they linked with it, and with it alone?"""
    text = {"layouts": ["moses", "lexicons"], "world": 2, "sizes": {"text": 300, "dev": 2, "test": 2, "train": 2}}
    Almanac(root=tmp_path, languages=["en", "de"], pairs=[["en", "de"]], **text).write()
    sides = [(tmp_path / "text" / "de-en" / f"train.{code}").read_text(encoding="utf-8") for code in ("en", "de")]
    pairs = list(zip(*[[keys(line.split(), None) for line in side.splitlines()] for side in sides], strict=True))
    true = {*read_pairs(tmp_path / "lexicons" / "en-de.txt")}

    def errors(**settings):
        aligner = WordAligner(pairs, symmetrisation="grow-diag-final-and", iterations=10, **settings)
        right = made = wanted = 0
        for source, target in pairs:
            links = aligner.links(source, target)
            for i, word in enumerate(source):
                answers = [j for j, other in enumerate(target) if (word, other) in true]
                if len(answers) == 1 and source.count(word) == 1:
                    found = [t for s, t in links if s == i]
                    right, made, wanted = right + (answers[0] in found), made + len(found), wanted + 1
        assert wanted > 500
        return 1 - 2 * right / (made + wanted)

    assert min(errors(), errors(flat=5), errors(concentration=0.01)) > 0.2
    assert errors(flat=5, concentration=0.01) < 0.08
