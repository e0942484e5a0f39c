"""Sampling outputs from a model's distribution: all of it, or its top (Fan et al. 2018; Holtzman et al. 2020).

Legend: B sentences, A sentences still searched, N samples, R rows, V vocabulary.

The random numbers are no generator's state: that of token v at step t of the n-th sample of a row is a hash of
(seed, row id, n, t, v). So an output depends neither on the batch that its sentence stands in nor on the other samples.
Tokens are drawn by the Gumbel-max trick (Gumbel 1954): the best of ``log p(v) + g(v)``, with ``g = -log(-log(u))``, is
a draw from p. Rounding that differs from batch to batch turns such a draw only if the best two lie as close together
as that rounding, however many tokens there are.
"""

from __future__ import annotations

import hashlib
from typing import Annotated

import numpy as np
import torch
from torch import Tensor

from dragoman.shared.batch import Batch
from dragoman.shared.described import Described
from dragoman.shared.generator import Generator, Hypothesis
from dragoman.shared.padded import Padded
from dragoman.shared.ranges import NonNegativeInt, PositiveInt, Range
from dragoman.shared.search.rules import Rules
from dragoman.shared.search.stepwise import generate

#: Of temperatures: below, logits that are divided by it can exceed single precision.
COLDEST = 1e-6


class SamplingSearch(Described):
    """Draws outputs token by token.

    What the rules forbid is taken out first; then the distribution is sharpened or flattened, cut to its top, and drawn
    from. A hypothesis's score is the mean log-probability that the model itself gives to its tokens, as in greedy
    search, so that samples can be compared with other outputs.

    Args:
        samples: N, outputs of each sentence, in the order in which they are drawn; they may be equal.
        temperature: logits are divided by it: below 1 sharpens, above 1 flattens.
        top_k: only the K most probable tokens are drawn; 0: all.
        top_p: only the most probable tokens that together have this probability are drawn; 1: all.
        seed: of all random choices.
        rules: lengths, start symbols and bans; by default those of :class:`Rules`.
    """

    def __init__(
        self,
        *,
        samples: PositiveInt = 1,
        temperature: Annotated[float, Range(least=COLDEST)] = 1.0,
        top_k: NonNegativeInt = 0,
        top_p: Annotated[float, Range(above=0, most=1)] = 1.0,
        seed: int = 1,
        rules: Rules | None = None,
    ) -> None:
        self.samples = samples
        self.temperature = temperature
        self.top_k = top_k
        self.top_p = top_p
        self.seed = seed
        self.rules = rules or Rules()

    @torch.no_grad()
    def search(
        self, generator: Generator, batch: Batch, *, prefix: Padded, end: int, padding: int
    ) -> list[list[Hypothesis]]:
        """Return N hypotheses per sentence; arguments and errors are those of :meth:`BeamSearch.search`.

        Raises:
            ValueError: also if the batch has no row ids, which the random numbers are made from.
        """
        if not len(batch):
            return []
        if not batch.ids:
            raise ValueError("sampling needs the ids of the rows: its random numbers are made from them")
        keys = sample_keys(self.seed, batch.ids, self.samples).to(prefix.device)

        def draw(scores: Tensor, sentences: Tensor, step: int) -> Tensor:
            top = truncated(scores / self.temperature, top_k=self.top_k, top_p=self.top_p)
            noise = gumbel(keys.index_select(0, sentences), step, scores.shape[-1])
            return (top + noise).argmax(dim=-1)

        return generate(
            generator, batch, draw, outputs=self.samples, rules=self.rules, prefix=prefix, end=end, padding=padding
        )


def truncated(scores: Tensor, *, top_k: int, top_p: float) -> Tensor:
    """Cut distributions to their top; the most probable token always stays.

    Args:
        scores: (..., V) logits.
        top_k: keep the K best, and what equals the last of them; 0: all.
        top_p: keep the best until their probabilities, after the cut to ``top_k``, sum up to this; 1: all.

    Returns:
        (..., V), minus infinity for what is cut off.
    """
    if 0 < top_k < scores.shape[-1]:
        smallest = scores.topk(top_k, dim=-1).values[..., -1:]
        scores = scores.masked_fill(scores < smallest, float("-inf"))
    if top_p < 1:
        ordered, tokens = scores.sort(dim=-1, descending=True)
        probabilities = ordered.softmax(-1)
        before = probabilities.cumsum(-1) - probabilities
        cut = torch.empty_like(before, dtype=torch.bool).scatter_(-1, tokens, before >= top_p)
        scores = scores.masked_fill(cut, float("-inf"))
    return scores


# -- random numbers ----------------------------------------------------------------------------------------------------

_STEP, _TOKEN = 0x3C6EF372, 0x1B873593  # any odd-looking numbers: they only keep equal inputs apart


def sample_keys(seed: int, ids: list[str], samples: int) -> Tensor:
    """Return the keys (B, N, 2) int32 of each row's samples, from seed, row id and number of the sample alone."""
    digests = [
        hashlib.blake2b(repr((seed, id, number)).encode(), digest_size=8).digest()
        for id in ids
        for number in range(samples)
    ]
    keys = np.frombuffer(b"".join(digests), dtype="<i4").reshape(len(ids), samples, 2)
    return torch.from_numpy(keys.astype(np.int32))


def gumbel(keys: Tensor, step: int, vocabulary: int) -> Tensor:
    """Return a standard Gumbel number (..., V) for each token, a function of key (..., 2), step and token alone."""
    first, second = keys[..., :1], keys[..., 1:]
    tokens = torch.arange(vocabulary, dtype=torch.int32, device=keys.device) * _TOKEN
    at_step = _mixed(first + _wrapped(step * _STEP))
    bits = _mixed(_mixed(tokens ^ at_step) + _mixed(second ^ at_step))
    uniform = ((bits >> 8) & 0xFFFFFF).float().add_(0.5).mul_(2**-24)  # inside (0, 1)
    return uniform.log_().neg_().log_().neg_()


def _mixed(bits: Tensor) -> Tensor:
    """Let each bit of an int32 depend on all others: the last step of MurmurHash3 (Appleby), which is one to one."""
    bits = (bits ^ ((bits >> 16) & 0xFFFF)) * _wrapped(0x85EBCA6B)
    bits = (bits ^ ((bits >> 13) & 0x7FFFF)) * _wrapped(0xC2B2AE35)
    return bits ^ ((bits >> 16) & 0xFFFF)


def _wrapped(number: int) -> int:
    """Return a number as an int32 holds it."""
    return (number + 2**31) % 2**32 - 2**31
