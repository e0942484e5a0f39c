r"""A model of words that translate each other, which is learned from sentence pairs alone.

IBM model 1 (Brown et al. 1993, section 4.2), whose links keep near the diagonal (Dyer, Chahuneau and Smith 2013, "A
Simple, Fast, and Effective Reparameterization of IBM Model 2", section 2). A target sentence of n words is explained by
a source sentence of m words: each target word j independently by one source word i, or by none (i = 0)::

    p(i | j, m, n) = p0                                                  if i = 0
                     (1 - p0) exp(-lambda |i/m - j/n|) / Z_j             else
    p(t_j, a_j = i | s) = p(i | j, m, n) p(t_j | s_i)

The table p(t | s) is what EM finds in a few passes from a uniform one; p0 and lambda are fixed. In that paper the
table has a Dirichlet prior, and EM is variational Bayes: with c(s, t) the expected counts, alpha the concentration and
psi the digamma function::

    p(t | s) = exp(psi(c(s, t) + alpha) - psi(sum_t' (c(s, t') + alpha)))        over words t' that occur with s

The likelihood has several peaks, and from a uniform table EM may stay at one where all links are near the diagonal.
So the first passes may be those of model 1, which has a single one, as GIZA++ begins (Och and Ney 2003, section 4.3).
Of 300 sentence pairs of Almanac's second world, which are short and much reordered, 31 % of the links are wrong after
10 passes (1 - F, of words that the true lexicon has); 24 % if 5 of the passes are of model 1, 25 % with alpha 0.01, 4 %
with both (tests/shared/text/test_word_aligner.py).

Legend: P sentence pairs of one shape, m source words, n target words, C pairs of words that occur together.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Any

import numpy as np
import torch

from dragoman.shared.annotations import Checked
from dragoman.shared.ranges import NonNegativeFloat, NonNegativeInt, PositiveInt, Range
from dragoman.shared.text.word_links import Link, check_symmetrisation, symmetrised

#: Words of a sentence, and those of its translation.
Pair = tuple[Sequence[str], Sequence[str]]


class DirectedAligner(Checked):
    """Explains each target word by one source word or by none.

    Args:
        pairs: what it learns from; those without words on either side tell it nothing.
        iterations: passes of EM.
        tension: lambda; 0 is model 1.
        null: p0, the probability of no source word.
        flat: how many of the passes, from the first, are those of model 1.
        concentration: alpha; 0 is no prior, and fast_align's value 0.01.

    Attributes:
        log_likelihoods: of all pairs, before each pass.
    """

    def __init__(
        self,
        pairs: Iterable[Pair],
        *,
        iterations: PositiveInt = 5,
        tension: NonNegativeFloat = 4.0,
        null: Annotated[float, Range(above=0, below=1)] = 0.08,
        flat: NonNegativeInt = 0,
        concentration: NonNegativeFloat = 0.0,
    ) -> None:
        self.tension = tension
        self.null = null
        self.flat = flat
        self.concentration = concentration
        self._sources: dict[str, int] = {"": 0}  # no word
        self._targets: dict[str, int] = {}
        self.log_likelihoods: list[float] = []
        self._learn(self._grouped(pairs), iterations)

    def prior(self, m: int, n: int, *, flat: bool = False) -> np.ndarray:
        """Return p(i given j, m, n), (n, 1 + m): for each target word, first of no word; flat: as in model 1."""
        places = np.arange(1, m + 1) / max(m, 1) - np.arange(1, n + 1)[:, None] / n
        near = np.exp(-(0.0 if flat else self.tension) * np.abs(places))
        near *= (1 - self.null) / np.maximum(near.sum(1, keepdims=True), np.finfo(float).tiny)
        return np.concatenate([np.full((n, 1), self.null), near], axis=1)

    def links(self, source: Sequence[str], target: Sequence[str]) -> set[Link]:
        """Return (source word, target word) of each target word that one explains better than none does.

        A target word that has never been seen with any word of the source has no link.
        """
        if not source or not target:
            return set()
        joint = self.probabilities(["", *source], target) * self.prior(len(source), len(target))
        return {(int(i) - 1, j) for j, i in enumerate(joint.argmax(1)) if i}  # the first of equal ones

    def probabilities(self, source: Sequence[str], target: Sequence[str]) -> np.ndarray:
        """Return p(t | s) of each target word (rows) and source word (columns); "" is no source word."""
        if not len(self._keys):
            return np.zeros((len(target), len(source)))
        s = np.array([self._sources.get(word, -1) for word in source])
        t = np.array([self._targets.get(word, -1) for word in target])[:, None]
        asked = s * len(self._targets) + t
        places = np.searchsorted(self._keys, asked).clip(max=len(self._keys) - 1)
        there = (s >= 0) & (t >= 0) & (self._keys[places] == asked)
        return np.where(there, self._table[places], 0.0)

    def best(self) -> dict[str, str]:
        """Return each source word's target word of the highest p(t | s); of equal ones the first that was seen."""
        translations: dict[str, str] = {}
        names, words = list(self._sources), list(self._targets)
        sources, targets = np.divmod(self._keys, max(len(words), 1))
        for place in np.lexsort((targets, -self._table, sources)).tolist():
            translations.setdefault(names[int(sources[place])], words[int(targets[place])])
        translations.pop("", None)
        return translations

    def _grouped(self, pairs: Iterable[Pair]) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return the words' numbers by shape: sources (P, 1 + m), the first of which is no word, and targets (P, n)."""
        shapes: dict[tuple[int, int], list[tuple[list[int], list[int]]]] = {}
        for source, target in pairs:
            if source and target:
                s = [0, *(self._sources.setdefault(word, len(self._sources)) for word in source)]
                t = [self._targets.setdefault(word, len(self._targets)) for word in target]
                shapes.setdefault((len(source), len(target)), []).append((s, t))
        columns = (zip(*shapes[shape], strict=True) for shape in sorted(shapes))
        return [(np.array(s, dtype=np.int64), np.array(t, dtype=np.int64)) for s, t in columns]

    def _learn(self, groups: list[tuple[np.ndarray, np.ndarray]], iterations: int) -> None:
        size = len(self._targets)
        # Words that occur together, by one number each: a table of all words by all words would not fit into memory.
        together = [np.unique(s[:, None, :] * size + t[:, :, None]) for s, t in groups]
        self._keys = np.unique(np.concatenate([*together, np.zeros(0, dtype=np.int64)]))
        cells = [np.searchsorted(self._keys, s[:, None, :] * size + t[:, :, None]).astype(np.int32) for s, t in groups]
        sources = self._keys // max(size, 1)
        self._table = np.full(len(self._keys), 1 / max(size, 1))
        for number in range(iterations):
            counts = np.zeros(len(self._keys))
            likelihood = 0.0
            for (s, t), places in zip(groups, cells, strict=True):
                joint = self._table[places] * self.prior(
                    s.shape[1] - 1, t.shape[1], flat=number < self.flat
                )  # (P, n, 1 + m)
                total = joint.sum(-1, keepdims=True)
                likelihood += float(np.log(total).sum())
                counts += np.bincount(places.ravel(), (joint / total).ravel(), len(counts))
            self.log_likelihoods.append(likelihood)
            self._table = self._from_counts(counts, sources)

    def _from_counts(self, counts: np.ndarray, sources: np.ndarray) -> np.ndarray:
        """Return the table that expected counts make; ``sources`` are the source words of its cells."""
        if not len(counts):
            return counts
        counts = counts + self.concentration
        totals = np.bincount(sources, counts)[sources]
        if not self.concentration:
            return counts / np.maximum(totals, np.finfo(float).tiny)
        return np.exp(_digamma(counts) - _digamma(totals))


def _digamma(values: np.ndarray) -> np.ndarray:
    return torch.digamma(torch.from_numpy(values)).numpy()


class WordAligner:
    """Two directions that learn apart, and whose links are made into one set.

    Memory: about four bytes for each word of a sentence times each of its translation, in either direction: 300,000
    pairs of 20 words take a gigabyte. For more, give files in Pharaoh's format (shared/text/word_links.py).

    Args:
        pairs: what it learns from.
        symmetrisation: see :func:`dragoman.shared.text.word_links.symmetrised`.
        options: of both :class:`DirectedAligner`.

    Attributes:
        forward: explains target words by source words.
        backward: explains source words by target words.

    Raises:
        UsageError: for an unknown name.
    """

    def __init__(self, pairs: Sequence[Pair], *, symmetrisation: str = "grow-diag-final", **options: Any) -> None:
        check_symmetrisation(symmetrisation)
        self.symmetrisation = symmetrisation
        self.forward = DirectedAligner(pairs, **options)
        self.backward = DirectedAligner(((target, source) for source, target in pairs), **options)

    def links(self, source: Sequence[str], target: Sequence[str]) -> list[Link]:
        """Return the links of a sentence pair, in order; it need not be one that was learned from."""
        backward = {(s, t) for t, s in self.backward.links(target, source)}
        return symmetrised(self.forward.links(source, target), backward, self.symmetrisation)
