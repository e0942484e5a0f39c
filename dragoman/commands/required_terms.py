"""Beam search for outputs that contain given terms: dynamic beam allocation (Post and Vilar 2018, arXiv 1804.06609).

The beams of a sentence share its K places by how many tokens of its terms they have written (their bank); no output
ends before it has them all. As in Hu et al. 2019 (NAACL, "Improved Lexically Constrained Decoding"), everything is a
few operations on tensors of all sentences. At each step

1. candidates are the 2K best continuations of all beams, the two best of each beam, and the next token of each term
   that a beam lacks;
2. a candidate's bank is the sum of the lengths of the terms that it has, and of how far it has come in another one;
3. candidates are ordered by their rank within their bank, and those of one rank by their bank, the fullest first; the
   first 2K go through the rules of beam search (shared/search/beam.py).

The fullest bank always has a place, and each of its beams may write the next token of a term: an output has its terms
if it may be as long as they are together, and the model and the bans allow them. Where one must end without them, at
the maximum length, the one with the fullest bank does.

A term is found as its tokens follow each other, from left to right and without overlap with itself (Knuth, Morris and
Pratt 1977), where no token behind it continues its last word. What a beam has is therefore a function of its tokens
alone: no output is searched twice.

Differs from the papers: they count a term as written whatever follows ("Rat" in "Rathaus"), and let one that is broken
off begin anew, where here a part that is also a beginning still counts. A term that is a part of another one is counted
apart (see :func:`counted_apart`).

Legend: A sentences still searched, K beams, V vocabulary, C candidates, P patterns of a sentence (the forms of its
terms), J its terms, L tokens of the longest pattern.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from dragoman.shared.search.bans import ActiveBan, Opening

#: In the place of a form's first token: the beginning of an output, which is no token.
BEGINNING = -2
_NONE = -1


@dataclass(frozen=True)
class Required:
    """A term that an output must contain.

    Attributes:
        forms: the ids that it may be written with; one that holds for the beginning of outputs has
            :data:`BEGINNING` in front.
        times: how often it must stand in the output, at least.
    """

    forms: tuple[tuple[int, ...], ...]
    times: int

    @property
    def length(self) -> int:
        """The number of tokens of its longest form."""
        return max(map(len, self.forms))


def occurrences(tokens: Sequence[int], form: Sequence[int], continuing: Container[int] = ()) -> int:
    """Return how often a form stands in tokens, without overlap and where none of ``continuing`` follows."""
    count, place = 0, 0
    while (end := place + len(form)) <= len(tokens):
        found = tuple(tokens[place:end]) == tuple(form) and (end == len(tokens) or tokens[end] not in continuing)
        count += found
        place = end if found else place + 1
    return count


def counted_apart(terms: Sequence[Required], continuing: Container[int] = ()) -> list[Required]:
    """Return terms with the times that they stand in an output that has each of them by itself.

    One that is a part of another one, as "Bank" of "Bank von England", must be there once more.
    """

    def within(term: Required, whole: Sequence[int]) -> int:
        return sum(occurrences(whole, form, continuing) for form in term.forms)

    return [
        Required(
            term.forms,
            term.times
            + sum(one.times * min(within(term, whole) for whole in one.forms) for one in terms if one is not term),
        )
        for term in terms
    ]


class RequiredTerms:
    """A ban on the end of outputs that lack terms, which also ranks what beam search keeps; for one batch.

    Args:
        terms: of each sentence; their times are those of :func:`counted_apart`.
        continuing: (V,) bool, the tokens that continue a word; None if no token does.
    """

    def __init__(self, terms: Sequence[Sequence[Required]], continuing: Tensor | None = None) -> None:
        self.terms = [list(some) for some in terms]
        self.continuing = continuing

    def begin(self, opening: Opening) -> ActiveBan:
        """Begin with outputs that have nothing."""
        if len(self.terms) != len(opening.start):
            raise ValueError(f"terms of {len(self.terms)} sentences for {len(opening.start)}")
        return _Allocation(self.terms, self.continuing, opening)


class _Allocation(ActiveBan):
    """Knows what each beam has.

    Attributes:
        progress: (A, K, P) tokens of each pattern that the output ends with; all of them until the next token, which
            may continue the last word.
        counts: (A, K, J) how often each term was written before.
    """

    def __init__(self, terms: list[list[Required]], continuing: Tensor | None, opening: Opening) -> None:
        self._beams, self._end = opening.beams, opening.end
        device = opening.start.device
        self._continuing = None if continuing is None else continuing.to(device)
        patterns = [[form for term in some for form in term.forms] for some in terms]
        most, longest = max(map(len, patterns)), max(len(form) for some in patterns for form in some)
        of_terms = max(map(len, terms))
        tokens = torch.full((len(terms), most, longest + 1), _NONE)
        borders = torch.zeros_like(tokens)
        owners = torch.zeros(tokens.shape[:2], dtype=torch.int64)
        needed, weights = torch.zeros(2, len(terms), of_terms, dtype=torch.int64)
        for row, some in enumerate(terms):
            for number, term in enumerate(some):
                needed[row, number], weights[row, number] = term.times, term.length
            for place, form in enumerate(patterns[row]):
                tokens[row, place, : len(form)] = torch.tensor(form)
                borders[row, place, : len(form) + 1] = torch.tensor(_borders(form))
            owners[row, : len(patterns[row])] = torch.tensor(
                [number for number, term in enumerate(some) for _ in term.forms], dtype=torch.int64
            )
        self._depth = _depth(borders)
        # Of patterns: (A, P, L + 1) tokens, and what to go back to where another one comes; (A, P) their terms.
        self._tokens, self._borders, self._owners = tokens.to(device), borders.to(device), owners.to(device)
        # Of terms, (A, J): how often they are needed, and the tokens that each time counts.
        self._needed, self._weights = needed.to(device), weights.to(device)
        self._finished = torch.zeros(len(terms), dtype=torch.bool, device=device)  # (A,) whether an output has all
        self.progress = (self._tokens[:, None, :, 0] == BEGINNING).long().repeat(1, opening.beams, 1)
        self.counts = torch.zeros(len(terms), opening.beams, of_terms, dtype=torch.int64, device=device)

    def apply(self, log_probabilities: Tensor) -> None:
        """Forbid nothing yet: ends are taken out of the candidates."""

    def ranked(self, scores: Tensor, beams: Tensor, best: Tensor, places: Tensor) -> tuple[Tensor, Tensor]:
        """Return 2K candidates by rank and bank."""
        width, vocabulary = scores.shape[1:]
        starts = torch.arange(width, device=scores.device)[:, None] * vocabulary
        following = self._at(self._tokens, self.progress.masked_fill(self._whole(self.progress), 0))
        lacked = self._lacked(self._written(self.progress, self.counts)) & (following >= 0)
        following = following.masked_fill(lacked.logical_not(), _NONE)
        wanted = torch.where(following == _NONE, places[:, :1, None], starts + following)  # what is none comes twice
        own = starts + scores.topk(min(2, vocabulary), dim=-1).indices
        places = torch.cat([places, wanted.flatten(1), own.flatten(1)], dim=1)
        parents, tokens = places // vocabulary, places % vocabulary
        sums = scores.flatten(1).gather(1, places) + beams.gather(1, parents)
        sums = sums.masked_fill(_repeated(places), float("-inf"))
        counts = self.counts.gather(1, parents[..., None].expand(-1, -1, self.counts.shape[2]))
        progress = self.progress.gather(1, parents[..., None].expand(-1, -1, self.progress.shape[2]))
        progress, counts = self._after(progress, counts, tokens)
        banks = self._banks(progress, counts)
        complete, ends = banks == self._banks_of_all()[:, None], tokens == self._end
        # An output without its terms ends where nothing else is possible, and no other one has more of them.
        alive = sums > float("-inf")
        goes_on = (alive & ends.logical_not()).any(1) | self._finished
        most = banks.masked_fill((alive & ends).logical_not(), -1).amax(1)
        early = (
            ends & complete.logical_not() & (goes_on[:, None] | (banks < most[:, None])) & sums.isnan().logical_not()
        )
        sums = sums.masked_fill(early, float("-inf"))
        banks = banks.masked_fill(sums == float("-inf"), -1).masked_fill(sums.isnan(), torch.iinfo(torch.int64).max)
        order = _by_rank_in_bank(sums, banks)[:, : best.shape[1]]
        sums, places = sums.gather(1, order), places.gather(1, order)
        written = (ends & complete).gather(1, order)[:, :width] & (sums[:, :width] > float("-inf"))
        self._finished |= written.any(1)
        return sums, places

    def advance(self, index: Tensor | None, tokens: Tensor) -> None:
        """Follow the beams, and leave out the sentences that have none."""
        if index is None:
            index = torch.arange(tokens.numel(), device=tokens.device)
        rows = index[:: self._beams] // self._beams
        for name in ("_tokens", "_borders", "_owners", "_needed", "_weights", "_finished"):
            setattr(self, name, getattr(self, name).index_select(0, rows))
        progress, counts = (
            old.flatten(0, 1).index_select(0, index).unflatten(0, tokens.shape) for old in (self.progress, self.counts)
        )
        self.progress, self.counts = self._after(progress, counts, tokens)

    def _at(self, table: Tensor, progress: Tensor) -> Tensor:
        """Return what a table (A, P, L + 1) of patterns has at places (A, C, P)."""
        return table[:, None].expand(-1, progress.shape[1], -1, -1).gather(-1, progress[..., None])[..., 0]

    def _whole(self, progress: Tensor) -> Tensor:
        """Return which patterns an output ends with, (A, C, P)."""
        return (progress > 0) & (self._at(self._tokens, progress) == _NONE)

    def _counted(self, counts: Tensor, patterns: Tensor) -> Tensor:
        """Return counts (A, C, J) and one more for each of the patterns (A, C, P)."""
        return counts.scatter_add(2, self._owners[:, None].expand(-1, counts.shape[1], -1), patterns.to(counts.dtype))

    def _written(self, progress: Tensor, counts: Tensor) -> Tensor:
        """Return how often each term stands in an output, (A, C, J)."""
        return self._counted(counts, self._whole(progress))

    def _lacked(self, written: Tensor) -> Tensor:
        """Return which patterns' terms are lacked, (A, C, P)."""
        lacked = written < self._needed[:, None]
        return lacked.gather(2, self._owners[:, None].expand(-1, written.shape[1], -1))

    def _after(self, progress: Tensor, counts: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """Return progress (A, C, P) and counts (A, C, J) after a further token (A, C)."""
        whole = self._whole(progress)
        if self._continuing is not None:
            whole &= self._continuing[tokens][..., None].logical_not()
        counts, progress, tokens = self._counted(counts, whole), progress.masked_fill(whole, 0), tokens[..., None]
        for _ in range(self._depth):
            differs = self._at(self._tokens, progress) != tokens
            progress = torch.where(differs, self._at(self._borders, progress), progress)
        return torch.where(self._at(self._tokens, progress) == tokens, progress + 1, 0), counts

    def _banks(self, progress: Tensor, counts: Tensor) -> Tensor:
        """Return the banks (A, C) of outputs."""
        written = self._written(progress, counts)
        begun = progress.masked_fill(self._whole(progress) | self._lacked(written).logical_not(), 0).amax(2)
        return (torch.minimum(written, self._needed[:, None]) * self._weights[:, None]).sum(2) + begun

    def _banks_of_all(self) -> Tensor:
        """Return the fullest bank of each sentence, (A,)."""
        return (self._needed * self._weights).sum(1)


def _borders(form: Sequence[int]) -> list[int]:
    """Return for each length of a beginning that of the longest shorter one that it also ends with."""
    borders = [0] * (len(form) + 1)
    for length in range(2, len(form) + 1):
        border = borders[length - 1]
        while border and form[border] != form[length - 1]:
            border = borders[border]
        borders[length] = border + (form[border] == form[length - 1])
    return borders


def _depth(borders: Tensor) -> int:
    """Return how often one may have to go back before a token fits or nothing is left."""
    depth, places = 0, torch.arange(borders.shape[-1]).expand(borders.shape)
    while bool(places.any()):
        depth, places = depth + 1, borders.gather(-1, places)
    return depth


def _repeated(places: Tensor) -> Tensor:
    """Return which places (A, C) stood further in front already, (A, C) bool."""
    order = places.argsort(dim=1, stable=True)
    ordered = places.gather(1, order)
    again = torch.zeros_like(ordered, dtype=torch.bool)
    again[:, 1:] = ordered[:, 1:] == ordered[:, :-1]
    return torch.zeros_like(again).scatter(1, order, again)


def _by_rank_in_bank(scores: Tensor, banks: Tensor) -> Tensor:
    """Return the order (A, C) of candidates: the best of each bank, the fullest first; the second best; and so on.

    Those whose bank is below 0 come last.
    """
    by_score = scores.argsort(dim=1, descending=True, stable=True)
    by_bank = banks.gather(1, by_score).argsort(dim=1, descending=True, stable=True)
    order = by_score.gather(1, by_bank)
    banks = banks.gather(1, order)
    places = torch.arange(banks.shape[1], device=banks.device).expand(banks.shape)
    begins = torch.ones_like(banks, dtype=torch.bool)
    begins[:, 1:] = banks[:, 1:] != banks[:, :-1]
    ranks = places - places.masked_fill(begins.logical_not(), 0).cummax(1).values
    ranks = ranks.masked_fill(banks < 0, banks.shape[1])
    return order.gather(1, ranks.argsort(dim=1, stable=True))
