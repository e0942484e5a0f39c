"""Beam search with required terms, against a slow one with lists, and against enumeration."""

from __future__ import annotations

import itertools
import math
import re

import numpy as np
import pytest
import torch

from dragoman.commands.required_terms import BEGINNING, Required, RequiredTerms, counted_apart, occurrences
from dragoman.shared.errors import DataError
from dragoman.shared.search import BeamSearch, ForbiddenTokens, RepeatedNgrams, Rules
from tests.shared.search.conftest import END, PAD, START, VOCABULARY, Table, make_batch, make_prefix
from tests.small import refuses


def find(
    table, sources, terms, *, continuing=(), prefixes=None, bans=(), beam=4, n_best=1, length_penalty=1.0, **rules
):
    mask = torch.tensor([token in continuing for token in range(table.vocabulary)]) if continuing else None
    rules = Rules(bans=[*bans, RequiredTerms(terms, mask)], **rules)
    search = BeamSearch(beam=beam, n_best=n_best, length_penalty=length_penalty, rules=rules)
    prefix = make_prefix(prefixes or [[START]] * len(sources))
    return search.search(table, make_batch(sources), prefix=prefix, end=END, padding=PAD)


def spelled(tokens):
    return "".join(chr(ord("c") + token) for token in tokens)


def rest_behind(tokens, form, continuing):
    """Return how often a form stands in an output, and what is behind the last one, both by a pattern of characters."""
    followed = f"(?![{spelled(continuing)}])" if continuing else ""
    parts = re.split(spelled(form) + followed, spelled([BEGINNING, *tokens]))
    return len(parts) - 1, parts[-1]


def counted(tokens, form, continuing=()):
    return rest_behind(tokens, form, continuing)[0]


def begun(tokens, form, continuing=()):
    """Return how many tokens of a form stand at the end, behind its last whole occurrence."""
    rest = rest_behind(tokens, form, continuing)[1]
    return max(n for n in range(len(form)) if rest.endswith(spelled(form)[:n]))


def bank(tokens, terms, continuing):
    have = [sum(counted(tokens, form, continuing) for form in term.forms) for term in terms]
    whole = sum(min(n, term.times) * term.length for n, term in zip(have, terms, strict=True))
    lacked = [term for n, term in zip(have, terms, strict=True) if n < term.times]
    parts = [begun(tokens, form, continuing) for term in lacked for form in term.forms]
    return whole + max(parts, default=0)


def slow_search(table, source, prefix, terms, *, continuing, beam, length_penalty, limit, minimum):
    """Post and Vilar's search for one sentence with lists; returns [(score, tokens)]."""
    forced, everything = prefix[1:], sum(term.times * term.length for term in terms)
    limit = max(limit, len(forced))
    beams, finished = [(0.0, [])], []
    for step in range(limit + 1):
        every, further = [], []
        for total, tokens in beams:
            scores = table.log_probabilities(source, [prefix[0], *tokens])
            allowed = [v for v in range(table.vocabulary) if v != PAD and scores[v] > -math.inf]
            if step < len(forced):
                allowed = [forced[step]]
            elif step >= limit:
                allowed = [END]
            elif step < minimum:
                allowed.remove(END)
            of_beam = {v: (total + scores[v], [*tokens, v]) for v in allowed}
            every += of_beam.values()
            further += sorted(of_beam.values(), key=lambda one: -one[0])[:2]
            for term in terms:
                if sum(counted(tokens, form, continuing) for form in term.forms) < term.times:
                    wanted = [form[begun(tokens, form, continuing)] for form in term.forms]
                    further += [of_beam[token] for token in wanted if token in of_beam]
        candidates = sorted(every, key=lambda one: -one[0])[: 2 * beam]
        candidates += [one for one in further if one not in candidates]
        candidates = [one for n, one in enumerate(candidates) if one not in candidates[:n]]
        goes_on = any(tokens[-1] != END for _, tokens in candidates) or bool(finished)
        fullest = max((bank(tokens, terms, continuing) for _, tokens in candidates if tokens[-1] == END), default=0)
        banks = {}
        for total, tokens in sorted(candidates, key=lambda one: -one[0]):
            level = bank(tokens, terms, continuing)
            if tokens[-1] != END or level == everything or not (goes_on or level < fullest):
                banks.setdefault(level, []).append((total, tokens))
        ranked = [(rank, -level, one) for level, some in banks.items() for rank, one in enumerate(some)]
        candidates = [one for *_, one in sorted(ranked, key=lambda triple: triple[:2])]
        beams = []
        for rank, (total, tokens) in enumerate(candidates[: 2 * beam]):
            if tokens[-1] != END:
                beams.append((total, tokens))
            elif rank < beam and len(finished) < beam:
                finished.append((total / (step + 1) ** length_penalty, tokens))
        beams = beams[:beam]
        if len(finished) == beam or not beams:
            break
    return sorted(finished, key=lambda one: -one[0])


def drawn(rng, *, most, continuing=(), beginning=False):
    """Draw terms of up to three tokens, some with two forms or twice, some that overlap."""
    terms = []
    for _ in range(int(rng.integers(0, most + 1))):
        forms = {tuple(rng.integers(3, 7, size=rng.integers(1, 4)).tolist()) for _ in range(rng.integers(1, 3))}
        apart = all(not counted(one, other) for one in forms for other in forms if one != other)
        forms = tuple(sorted(forms)) if apart else (min(forms),)
        forms += ((BEGINNING, 4, 3),) if beginning and rng.random() < 0.3 else ()
        if not any(set(forms) & set(term.forms) for term in terms):
            terms.append(Required(forms, int(rng.choice([1, 1, 2]))))
    return counted_apart(terms, continuing)


@pytest.mark.parametrize("case", range(120))
def test_agrees_with_a_slow_search(case):
    rng = np.random.default_rng(case)
    sources = [rng.integers(0, 50, size=rng.integers(1, 6)).tolist() for _ in range(rng.integers(1, 6))]
    continuing = sorted({*rng.integers(3, 9, size=2).tolist()}) if case % 3 else []
    terms = [drawn(rng, most=3, continuing=continuing, beginning=case % 4 == 3) for _ in sources]
    terms[-1] = terms[-1] or [Required(((3,),), 1)]
    prefixes = [[START, *rng.integers(3, VOCABULARY, size=rng.integers(0, 3)).tolist()] for _ in sources]
    beam, penalty = int(rng.integers(1, 9)), float(rng.choice([0.0, 0.6, 1.0]))
    limit, minimum = int(rng.integers(2, 12)), int(rng.integers(0, 3))
    table = Table(case, sharpness=float(rng.choice([0.5, 2.0])))
    found = find(
        table, sources, terms, prefixes=prefixes, beam=beam, n_best=beam, length_penalty=penalty,
        maximum_length_extra=limit, minimum_length=minimum, continuing=continuing,
    )  # fmt: skip
    for source, prefix, some, hypotheses in zip(sources, prefixes, terms, found, strict=True):
        limited = {"limit": max(limit, minimum), "minimum": minimum, "continuing": continuing}
        expected = slow_search(table, source, prefix, some, beam=beam, length_penalty=penalty, **limited)
        assert [one.tokens for one in hypotheses] == [tokens for _, tokens in expected]
        assert [one.score for one in hypotheses] == pytest.approx([score for score, _ in expected], abs=1e-4)


CONTINUING = [5]
TERMS = {
    "one token": [Required(((3,),), 1)],
    "twice": [Required(((4,),), 2)],
    "two terms": [Required(((3, 4),), 1), Required(((5,),), 1)],
    "a beginning that ends it": [Required(((3, 4, 3),), 1)],
    "two forms": [Required(((3, 4), (5, 5)), 1)],
    "part of another": [Required(((3,),), 1), Required(((3, 4),), 1)],
    "part of a word": [Required(((3,),), 1), Required(((3, 5),), 1)],
    "at the beginning": [Required(((4,), (BEGINNING, 3)), 1)],
}


@pytest.mark.parametrize("name", TERMS)
@pytest.mark.parametrize("length_penalty", [0.0, 1.0])
def test_a_huge_beam_finds_all_outputs_that_have_the_terms(name, length_penalty):
    limit, vocabulary, source = 4, 6, [7, 7]
    table, terms = Table(1, vocabulary=vocabulary), counted_apart(TERMS[name], CONTINUING)
    expected = []
    for length in range(limit + 1):
        for words in itertools.product([v for v in range(vocabulary) if v not in (PAD, END)], repeat=length):
            if all(sum(counted(words, form, CONTINUING) for form in term.forms) >= term.times for term in terms):
                tokens = [*words, END]
                steps = [(table.log_probabilities(source, [START, *tokens[:i]]), t) for i, t in enumerate(tokens)]
                expected.append((sum(scores[token] for scores, token in steps) / len(tokens) ** length_penalty, tokens))
    expected.sort(key=lambda pair: -pair[0])
    [found] = find(
        table, [source], [terms], beam=500, n_best=500, length_penalty=length_penalty,
        maximum_length_extra=limit, minimum_length=0, continuing=CONTINUING,
    )  # fmt: skip
    assert len(expected) > 5 and [one.tokens for one in found] == [tokens for _, tokens in expected]
    assert [one.score for one in found] == pytest.approx([score for score, _ in expected], abs=1e-4)


@pytest.mark.parametrize("beam", [1, 3, 6])
def test_every_output_has_its_terms_if_it_may_be_as_long_as_they_are(beam):
    rng = np.random.default_rng(beam)
    for case in range(40):
        terms = [drawn(rng, most=4) for _ in range(3)]
        terms[0] = terms[0] or [Required(((3, 4),), 1)]
        longest = max(sum(term.times * term.length for term in some) for some in terms)
        table = Table(case, sharpness=3.0)
        found = find(table, [[1], [2], [3]], terms, beam=beam, maximum_length_extra=longest)
        for some, [best, *_] in zip(terms, found, strict=True):
            assert all(sum(counted(best.tokens, form) for form in term.forms) >= term.times for term in some)


def test_rows_without_terms_are_searched_as_without_a_glossary():
    sources = np.random.default_rng(3).integers(0, 50, size=(6, 4)).tolist()
    table, rules = Table(5), {"maximum_length_extra": 8}
    plain = BeamSearch(beam=4, n_best=4, rules=Rules(**rules)).search(
        table, make_batch(sources), prefix=make_prefix([[START]] * 6), end=END, padding=PAD
    )
    terms = [[Required(((3, 4),), 1)] if row in (1, 4) else [] for row in range(6)]
    held = find(table, sources, terms, beam=4, n_best=4, **rules)
    assert [held[row] == plain[row] for row in range(6)] == [row not in (1, 4) for row in range(6)]


def test_an_output_does_not_depend_on_the_batch():
    rng = np.random.default_rng(4)
    sources = rng.integers(0, 50, size=(10, 5)).tolist()
    terms = [drawn(rng, most=3) or [Required(((4,),), 1)] for _ in sources]
    table, options = Table(6), {"beam": 5, "n_best": 5, "maximum_length_extra": 10}
    together = find(table, sources, terms, **options)
    for row in range(10):
        assert find(table, [sources[row]], [terms[row]], **options)[0] == together[row]


def test_a_term_that_has_no_place_or_is_forbidden_is_left_out_where_the_output_must_end():
    long = [Required(((3, 4, 5, 6),), 1), Required(((7,),), 1)]
    [[best, *_]] = find(Table(2), [[1]], [long], maximum_length_extra=3, beam=6)
    assert len(best.tokens) == 4 and counted(best.tokens, (7,)) >= 1  # the one that fits is there
    for ban in (ForbiddenTokens(tokens=[3]), RepeatedNgrams(size=1)):
        times = 1 if isinstance(ban, ForbiddenTokens) else 2
        [[best, *_]] = find(Table(2), [[1]], [[Required(((3,),), times)]], bans=[ban], maximum_length_extra=5)
        assert len(best.tokens) == 6 and counted(best.tokens, (3,)) == times - 1


def test_a_term_within_another_is_counted_apart():
    bank_of_england, bank, london = Required(((4, 5, 6),), 2), Required(((4,),), 1), Required(((7,),), 1)
    assert [term.times for term in counted_apart([bank_of_england, bank, london])] == [2, 3, 1]
    assert [term.times for term in counted_apart([bank_of_england, bank], [5])] == [2, 1]  # "Bankkonto" is one word
    assert occurrences([3, 3, 3], [3, 3]) == 1 and occurrences([4, 3, 3, 3, 3], [3, 3]) == 2


def test_scores_that_are_no_numbers_are_refused():
    table = Table(0)
    table.logits = lambda source, history: np.full(VOCABULARY, np.nan, dtype=np.float32)
    message = "not numbers at output position 1 of: id0"
    refuses(DataError, message, find, table, [[1]], [[Required(((3,),), 1)]])


def test_terms_of_other_rows_are_refused():
    refuses(ValueError, "terms of 1 sentences for 2", find, Table(0), [[1], [2]], [[Required(((3,),), 1)]])
