"""The word aligner: its passes against all alignments, one by one; and what it finds in hand-made corpora."""

import itertools
import math
from collections import defaultdict

import numpy as np
import pytest

from dragoman.almanac import Almanac
from dragoman.mt.lexicon import read_pairs
from dragoman.shared.errors import UsageError
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


def psi(x):
    """Return the digamma function, which is the derivative of log gamma."""
    step = 1e-4 * min(x, 1)
    return (math.lgamma(x + step) - math.lgamma(x - step)) / (2 * step)


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
            table = {pair: math.exp(psi(n + concentration) - psi(sums[pair[0]])) for pair, n in counts.items()}
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


@pytest.mark.parametrize(("flat", "concentration"), [(2, 0.0), (0, 0.01), (3, 0.5), (9, 0.0)])
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


def test_links_are_those_of_the_most_probable_alignment():
    found = DirectedAligner(PAIRS, iterations=2, tension=TENSION, null=NULL)
    table, _ = one_by_one(2)
    table = defaultdict(float, table)
    for source, target in PAIRS[:4]:
        best = max(alignments(source, target), key=lambda a: joint(table, a, source, target))
        assert found.links(source, target) == {(i - 1, j) for j, i in enumerate(best) if i}


def test_a_word_that_was_never_seen_has_no_link():
    found = DirectedAligner(PAIRS)
    assert found.links(["b", "new"], ["other", "y"]) == {(0, 1)}
    assert found.links([], ["y"]) == found.links(["b"], []) == set()
    assert found.probabilities(["new", "b"], ["x", "new"])[:, 0].tolist() == [0.0, 0.0]
    assert found.probabilities(["b"], ["new"]) == 0.0


def test_a_small_language_is_learned_in_both_directions():
    """Two words are exchanged, one has no translation, one becomes two words."""
    texts = [
        ("the house is small", "das haus ist klein"),
        ("the book is big", "das buch ist gross"),
        ("a small book", "ein klein buch"),
        ("the old house", "das alt haus"),
        ("a book is old", "ein buch ist alt"),
        ("a big house indeed", "ein gross haus"),
        ("indeed the book", "das buch"),
        ("a potato is old", "ein erd apfel ist alt"),
        ("the potato indeed", "das erd apfel"),
        ("small potato", "erd apfel klein"),
        ("big potato", "erd apfel gross"),
    ]
    pairs = [(source.split(), target.split()) for source, target in texts]
    aligner = WordAligner(pairs, iterations=10)
    lexicon = aligner.forward.best()
    wanted = {"the": "das", "house": "haus", "book": "buch", "small": "klein", "big": "gross", "old": "alt", "a": "ein"}
    assert {word: lexicon[word] for word in wanted} == wanted
    assert lexicon["potato"] in ("erd", "apfel")
    backward = aligner.backward.best()
    assert {backward[word]: word for word in wanted.values()} == wanted
    assert aligner.links("the potato is small".split(), "das erd apfel ist klein".split()) == [
        (0, 0), (1, 1), (1, 2), (2, 3), (3, 4)
    ]  # fmt: skip
    assert aligner.links("small house".split(), "haus klein".split()) == [(0, 1), (1, 0)]


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


def test_the_true_lexicon_is_found(tmp_path):
    """Almanac's second world says which words translate each other; inflected forms are what remains."""
    text = {"layouts": ["moses", "lexicons"], "world": 2, "sizes": {"text": 3000, "dev": 2, "test": 2, "train": 2}}
    Almanac(root=tmp_path, languages=["en", "de"], pairs=[["en", "de"]], **text).write()
    sides = [(tmp_path / "text" / "de-en" / f"train.{code}").read_text(encoding="utf-8") for code in ("en", "de")]
    words = [[keys(line.split(), None) for line in side.splitlines()] for side in sides]
    found = DirectedAligner(list(zip(*words, strict=True))).best()
    true = defaultdict(set)
    for word, translation in read_pairs(tmp_path / "lexicons" / "en-de.txt"):
        true[word].add(translation)
    known = [word for word in found if word in true]
    right = [word for word in known if found[word] in true[word]]
    assert len(known) > 400 and len(right) > 0.95 * len(known)


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


def test_refusals():
    for name, value, said in (
        ("iterations", 0, "at least 1"),
        ("tension", -1.0, "at least 0"),
        ("null", 0.0, "above 0 and below 1"),
        ("null", 1.0, "above 0 and below 1"),
        ("flat", -1, "at least 0"),
        ("concentration", -0.1, "at least 0"),
        ("concentration", math.nan, "a finite number at least 0"),
    ):
        with pytest.raises(UsageError, match=f"^DirectedAligner: {name} must be {said}, not {value}$"):
            WordAligner(PAIRS, **{name: value})
    with pytest.raises(UsageError, match="symmetrisation must be one of intersection, .*, not 'all'"):
        WordAligner(PAIRS, symmetrisation="all")
