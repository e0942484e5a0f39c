"""Word vectors of two languages in one space, where the neighbours of a word are its translations (mt/induction.py).

The vectors X and Y of a lexicon's words are brought together by the orthogonal W that makes X W nearest to Y, which is
U V^T of the singular value decomposition X^T Y = U S V^T (Smith et al. 2017, arXiv 1702.03859). From the words that are
nearest to each other then, a new lexicon is made, and so on until nothing is gained (self-learning: Artetxe et al.
2018, arXiv 1805.06297). Neighbours are those of the largest cross-domain similarity local scaling (Conneau et al.
2018, arXiv 1710.04087),

    CSLS(x, y) = 2 cos(x, y) - r(x) - r(y),

where r is the mean cosine with the k nearest vectors of the other language: it keeps a vector that is near to
everything from being every word's neighbour.

Differs from VecMap: no whitening and no weights of dimensions (2018); vectors have length 1 again after their mean is
taken away (2017). In scripts without spaces a word is one character.

Not established: word2vec's settings of CSP and CSR, which induce lexicons so.

Legend: X, Y words of the two languages, D width, n pairs, k neighbours.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import torch
from torch import Tensor
from torch.nn import functional as F

from dragoman.mt.lexicon import read_pairs
from dragoman.mt.vector_tables import WordVectors
from dragoman.shared.errors import DataError, UsageError
from dragoman.shared.machine.processes import MainPhase
from dragoman.shared.machine.workspace import Workspace
from dragoman.shared.ranges import NonNegativeInt, PositiveInt, Range

#: Rows whose similarities to all words are held in memory at a time.
ROWS = 1024
#: Words, the most frequent ones, whose similarities within a language make the first lexicon without any seed.
FIRST = 4000
#: What an iteration of self-learning has to gain in mean cosine, and how many may pass without.
GAIN, PATIENCE = 1e-6, 50
#: The share of pairs of words that may be chosen at first, and the factor by which it grows.
KEPT, GROWTH = 0.1, 2.0
SEEDS = ("identical", "numerals", "unsupervised")


def unit(vectors: Tensor) -> Tensor:
    """Return vectors (V, D) of length 1 and mean 0, then of length 1 again, so that products are cosines."""
    vectors = F.normalize(vectors.double(), dim=-1)
    return F.normalize(vectors - vectors.mean(0), dim=-1)


def procrustes(x: Tensor, y: Tensor) -> Tensor:
    """Return the orthogonal W (D, D) for which x W is nearest to y, both (n, D)."""
    left, _, right = torch.linalg.svd(x.T @ y)
    return left @ right


def neighbourhood(x: Tensor, y: Tensor, k: int) -> Tensor:
    """Return r (X,): the mean product of each vector of x (X, D) with its k nearest of y (Y, D)."""
    near = min(k, len(y))
    return torch.cat([(part @ y.T).topk(near).values.mean(1) for part in x.split(ROWS)])


def nearest(
    x: Tensor, y: Tensor, k: int, count: int = 1, *, kept: float = 1.0, generator: torch.Generator | None = None
) -> tuple[Tensor, Tensor]:
    """Return for each vector of x (X, D) of length 1 the best of y (Y, D) by CSLS.

    Args:
        x: of one language.
        y: of the other.
        k: neighbours that r is the mean of; 0: by the cosine alone.
        count: how many.
        kept: the share of all pairs that may be chosen, which are drawn.
        generator: the source of random numbers.

    Returns:
        CSLS, or the cosine (X, count), the largest first, and the rows of y (X, count).
    """
    ours, theirs = (neighbourhood(x, y, k), neighbourhood(y, x, k)) if k else (x.new_zeros(len(x)), y.new_zeros(len(y)))
    best = []
    for part, around in zip(x.split(ROWS), ours.split(ROWS), strict=True):
        scores = (2 if k else 1) * part @ y.T - around[:, None] - theirs
        if kept < 1:
            scores = scores.masked_fill(torch.rand(scores.shape, generator=generator) >= kept, -torch.inf)
        best.append(scores.topk(min(count, len(y))))
    return torch.cat([one.values for one in best]), torch.cat([one.indices for one in best])


@dataclass(frozen=True)
class Entries:
    """A lexicon by rows of the two tables.

    Attributes:
        x: (n,) int64.
        y: (n,) int64.
    """

    x: Tensor
    y: Tensor


def seed_entries(x: WordVectors, y: WordVectors, seed: str) -> Entries:
    """Return the first lexicon.

    Args:
        x: of one language.
        y: of the other.
        seed: "identical": words that both have; "numerals": those of digits alone; or a dictionary in MUSE's layout.

    Raises:
        DataError: if fewer than two entries are found, which map nothing.
    """
    if seed in SEEDS:
        pairs = [(word, word) for word in x.words if seed == "identical" or word.isdigit()]
    else:
        pairs = [*read_pairs(Path(seed))]
    places = [(x.places[one], y.places[other]) for one, other in pairs if one in x.places and other in y.places]
    if len(places) < 2:
        raise DataError(
            f"seed {seed!r}: {len(places)} of {len(pairs)} entries have vectors on both sides, 2 are needed"
        )
    one, other = zip(*places, strict=True)
    return Entries(torch.tensor(one), torch.tensor(other))


def entries_by_shape(x: Tensor, y: Tensor, k: int) -> Entries:
    """Return a first lexicon without a seed: words whose similarities within their language are distributed alike.

    Artetxe et al. 2018, section 3.2: the similarities of each word with all others of its language are sorted, and
    where two languages are alike, translations have like ones.

    Args:
        x: (X, D), of length 1.
        y: (Y, D).
        k: neighbours, as for :func:`nearest`.
    """
    size = min(len(x), len(y), FIRST)

    def shapes(vectors: Tensor) -> Tensor:
        left, values, _ = torch.linalg.svd(vectors[:size], full_matrices=False)
        return unit((left * values @ left.T).sort(dim=1).values)  # of the square root of the products

    return _nearest_entries(shapes(x), shapes(y), k)


def _nearest_entries(
    x: Tensor, y: Tensor, k: int, kept: float = 1.0, generator: torch.Generator | None = None, *, both_ways: bool = True
) -> Entries:
    """Return the nearest of each word of x, and of each of y if it is to go both ways."""
    forward = nearest(x, y, k, kept=kept, generator=generator)[1][:, 0]
    if not both_ways:
        return Entries(torch.arange(len(x)), forward)
    backward = nearest(y, x, k, kept=kept, generator=generator)[1][:, 0]
    return Entries(
        torch.cat([torch.arange(len(x)), backward]),
        torch.cat([forward, torch.arange(len(y))]),
    )


def self_learned(
    x: Tensor,
    y: Tensor,
    entries: Entries,
    *,
    k: int,
    cutoff: int,
    generator: torch.Generator,
    kept: float = KEPT,
    both_ways: bool = True,
) -> Tensor:
    """Return the map W (D, D) after self-learning (Artetxe et al. 2018, section 3.3).

    In each iteration a word's neighbour is chosen from a part of the other language's words, which are drawn. The part
    grows each time that nothing more is gained, so that a poor beginning is not the end.

    Args:
        x: (X, D), of length 1.
        y: (Y, D).
        entries: the first lexicon.
        k: neighbours.
        cutoff: the most frequent words of either language that new entries are made of.
        generator: the source of random numbers.
        kept: the part at first; 1: all words from the beginning.
        both_ways: new entries are the nearest of the words of both languages, otherwise of the first one's alone.
    """
    best, since = float("-inf"), 0
    theirs = y[:cutoff]
    while True:
        mapping = procrustes(x[entries.x], y[entries.y])
        ours = x[:cutoff] @ mapping
        near = [nearest(ours, theirs, 0)[0], *([nearest(theirs, ours, 0)[0]] if both_ways else [])]
        gained = torch.cat(near).mean().item()
        since = 0 if gained >= best + GAIN else since + 1
        best = max(best, gained)
        if since > PATIENCE and kept >= 1:
            return mapping
        if since > PATIENCE:
            kept, since = min(1.0, GROWTH * kept), 0
        entries = _nearest_entries(ours, theirs, k, kept, generator, both_ways=both_ways)


class MapVectors(MainPhase):
    """Bring the vectors of two languages into one space; writes both tables, with their words.

    Args:
        source: a table of vectors, which is mapped.
        target: that of the other language.
        seed: the first lexicon: "identical", "numerals", "unsupervised", or a dictionary in MUSE's layout.
        learn: go on from there by self-learning; otherwise the seed alone decides.
        neighbours: k of CSLS; 0: by the cosine alone.
        cutoff: of self-learning, the most frequent words of either language.
        kept: of self-learning, the share of pairs of words that may be chosen at first; 1: all.
        both_ways: of self-learning, see :func:`self_learned`.

    Raises:
        UsageError: if there is neither a seed nor self-learning.
    """

    def __init__(
        self,
        *,
        source: str,
        target: str,
        seed: str = "numerals",
        learn: bool = True,
        neighbours: NonNegativeInt = 10,
        cutoff: PositiveInt = 20_000,
        kept: Annotated[float, Range(above=0, most=1)] = KEPT,
        both_ways: bool = True,
    ) -> None:
        if seed == "unsupervised" and not learn:
            raise UsageError("seed 'unsupervised' is a beginning of self-learning: it needs learn: True")
        self.source, self.target = Path(source), Path(target)
        self.seed = seed
        self.learn = learn
        self.neighbours = neighbours
        self.cutoff = cutoff
        self.kept = kept
        self.both_ways = both_ways

    def work(self, workspace: Workspace) -> None:
        """Map."""
        one, other = WordVectors.read(self.source), WordVectors.read(self.target)
        if one.values.shape[1] != other.values.shape[1]:
            raise DataError(f"{self.source} and {self.target} have vectors of different widths")
        x, y = unit(one.values), unit(other.values)
        if self.seed == "unsupervised":
            entries = entries_by_shape(x, y, self.neighbours)
        else:
            entries = seed_entries(one, other, self.seed)
        workspace.log.info("begins with %d entries (%s)", len(entries.x), self.seed)
        if self.learn:
            generator = torch.Generator().manual_seed(workspace.seed_for("map"))
            mapping = self_learned(
                x,
                y,
                entries,
                k=self.neighbours,
                cutoff=self.cutoff,
                generator=generator,
                kept=self.kept,
                both_ways=self.both_ways,
            )
        else:
            mapping = procrustes(x[entries.x], y[entries.y])
        WordVectors(one.words, (x @ mapping).float()).write(workspace.folder / self.source.name)
        WordVectors(other.words, y.float()).write(workspace.folder / self.target.name)
