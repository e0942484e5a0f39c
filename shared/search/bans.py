"""Bans on what a search generates: tokens that a mask forbids, everywhere or first; n-grams that would be repeated.

Legend: B sentences, A sentences still searched, K beams, T tokens so far, V vocabulary, N n-gram size.

A ban is plain data, and serves any number of searches; ``begin`` makes of it what one batch needs. What is forced, and
the end symbol, are never banned.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from dragoman.shared.batch import Batch
from dragoman.shared.described import Described
from dragoman.shared.errors import UsageError
from dragoman.shared.ranges import PositiveInt


@dataclass(frozen=True)
class Opening:
    """The beginning of the search of a batch.

    Attributes:
        batch: of B sentences.
        start: (B, start symbols) what all outputs begin with; padding stands in front of shorter ones.
        beams: K.
        end: the end symbol.
        padding: the padding symbol, which is never generated.
    """

    batch: Batch
    start: Tensor
    beams: int
    end: int
    padding: int


class ActiveBan:
    """A ban at work on the sentences of one batch."""

    def apply(self, log_probabilities: Tensor) -> None:
        """Set what is forbidden now to minus infinity, in (A, K, V), in place; wait for no device."""
        raise TypeError(f"{type(self).__name__} does not define apply(log_probabilities)")

    def ranked(self, scores: Tensor, beams: Tensor, best: Tensor, places: Tensor) -> tuple[Tensor, Tensor]:
        """Return the candidates (A, C) of a beam search in another order, or others; see ``best_continuations``."""
        return best, places

    def keep(self, sentences: Tensor) -> None:
        """Go on with some sentences (A',) only."""

    def advance(self, index: Tensor | None, tokens: Tensor) -> None:
        """Note a step: row i of the A' x K continues the old row ``index[i]`` (None: row i) by ``tokens`` (A', K)."""


@runtime_checkable
class Ban(Protocol):
    """Something that outputs must not contain."""

    def begin(self, opening: Opening) -> ActiveBan:
        """Return the ban at work on a batch."""
        ...


class TokenList(Described):
    """The list of tokens that a mask is made from.

    Args:
        tokens: ids; or ids by language code, then every language of a batch must be among them.
        side: the side of the batch whose languages count: "target", or "source" for recognition.
    """

    inside = True  # whether the listed tokens are the forbidden ones

    def __init__(self, *, tokens: list[int] | dict[str, list[int]], side: str = "target") -> None:
        lists = tokens if isinstance(tokens, dict) else {"": tokens}
        for language, ids in lists.items():
            if not ids and not self.inside:
                raise ValueError(f"no token is allowed{f' in {language!r}' if language else ''}: give at least one")
            if any(token < 0 for token in ids):
                raise ValueError(f"a token cannot be {min(ids)}")
        self.lists = lists
        self.side = side
        self.by_language = isinstance(tokens, dict)

    def begin(self, opening: Opening) -> ActiveBan:
        """Choose the lists of the batch's languages.

        Raises:
            UsageError: if a language has no list, or the batch does not say its languages.
        """
        if not self.by_language:
            return self.at_work([""], opening)
        languages = opening.batch.languages.get(self.side)
        if languages is None:
            raise UsageError(f"the mask is by {self.side} language, which the batch does not say")
        for language in languages:
            if language not in self.lists:
                raise UsageError(f"the mask has no tokens for {language!r}, only for {', '.join(sorted(self.lists))}")
        return self.at_work(languages, opening)

    def at_work(self, languages: list[str], opening: Opening) -> ActiveBan:
        """Return the masks of languages at work."""
        return _Masked(self, languages, opening)

    def mask(self, language: str, vocabulary: int, end: int) -> Tensor:
        """Return (V,) bool on the CPU, True where a token is forbidden."""
        ids = torch.tensor(self.lists[language], dtype=torch.int64)
        if len(ids) and int(ids.max()) >= vocabulary:
            raise UsageError(f"the mask names token {int(ids.max())}, outside the vocabulary of {vocabulary}")
        mask = torch.full((vocabulary,), not self.inside)
        mask[ids] = self.inside
        mask[end] = False
        return mask


class ForbiddenTokens(TokenList):
    """The listed tokens are never generated."""


class ForbiddenFirst(TokenList):
    """The listed tokens are never the first of an output, and may follow; a forced token is the first."""

    def at_work(self, languages: list[str], opening: Opening) -> ActiveBan:
        """Return the masks of languages at work."""
        return _MaskedFirst(self, languages, opening)


class AllowedTokens(TokenList):
    """Only the listed tokens (and the end symbol) are generated."""

    inside = False


class _Masked(ActiveBan):
    """A token list at work; ``languages`` are those of the B sentences, or the one name of a list for all."""

    def __init__(self, tokens: TokenList, languages: list[str], opening: Opening) -> None:
        self._tokens = tokens
        self._end = opening.end
        self._names = sorted(set(languages))
        which = torch.tensor([self._names.index(language) for language in languages])
        self._which = which.to(opening.start.device) if tokens.by_language else None
        self._masks: Tensor | None = None  # (names, V)
        self._mask: Tensor | None = None  # (A or 1, 1, V)

    def apply(self, log_probabilities: Tensor) -> None:
        """Mask."""
        if self._mask is None:
            if self._masks is None:
                vocabulary = log_probabilities.shape[-1]
                rows = [self._tokens.mask(name, vocabulary, self._end) for name in self._names]
                self._masks = torch.stack(rows).to(log_probabilities.device)
            masks = self._masks if self._which is None else self._masks.index_select(0, self._which)
            self._mask = masks[:, None]
        log_probabilities.masked_fill_(self._mask, float("-inf"))

    def keep(self, sentences: Tensor) -> None:
        """Keep the sentences' masks."""
        if self._which is not None:
            self._which, self._mask = self._which.index_select(0, sentences), None


class _MaskedFirst(_Masked):
    """A token list at work on the first step."""

    _first = True

    def apply(self, log_probabilities: Tensor) -> None:
        """Mask, if nothing was generated yet."""
        if self._first:
            super().apply(log_probabilities)

    def advance(self, index: Tensor | None, tokens: Tensor) -> None:
        """Note that something was."""
        self._first = False


class RepeatedNgrams(Described):
    """No n-gram stands twice in an output (fairseq's ``no_repeat_ngram_size``; Paulus et al. 2018, section 2.5).

    As in fairseq, start symbols and forced tokens count as part of the output.

    Args:
        size: N; 1 forbids every repeated token.
    """

    def __init__(self, *, size: PositiveInt) -> None:
        self.size = size

    def begin(self, opening: Opening) -> ActiveBan:
        """Begin with the start symbols."""
        return _Remembered(self.size, opening)


class _Remembered(ActiveBan):
    """Keeps the outputs so far, where the model is."""

    def __init__(self, size: int, opening: Opening) -> None:
        self._size = size
        self._padding = opening.padding
        self._history = opening.start[:, None].expand(-1, opening.beams, -1)  # (A, K, T)

    def apply(self, log_probabilities: Tensor) -> None:
        """Forbid what has followed the last N - 1 tokens before."""
        before = self._size - 1
        if self._history.shape[-1] < self._size:
            return
        followers = self._history[..., before:]  # (A, K, T - N + 1)
        if before:
            windows = self._history[..., :-1].unfold(-1, before, 1)  # (A, K, T - N + 1, N - 1)
            same = (windows == self._history[..., None, -before:]).all(-1)
            # Padding, which is never generated anyway, stands in for what may follow.
            followers = followers.masked_fill(same.logical_not(), self._padding)
        log_probabilities.scatter_(-1, followers, float("-inf"))

    def advance(self, index: Tensor | None, tokens: Tensor) -> None:
        """Lengthen the outputs."""
        if index is not None:
            rows = self._history.flatten(0, 1).index_select(0, index)
            self._history = rows.view(*tokens.shape, -1)
        self._history = torch.cat([self._history, tokens[..., None]], dim=-1)
