"""Rules that every left-to-right search obeys: shortest and longest outputs, start symbols, bans.

Legend: B sentences, S source memory.

The rules are fairseq's (``sequence_generator.py`` of fairseq 0.12), with two differences that make the output of a
sentence independent of the batch it stands in: the longest output follows from the sentence's own source length, not
from the longest source of the batch, and it is never shorter than the forced beginning.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import torch
from torch import Tensor

from dragoman.shared.described import Described
from dragoman.shared.errors import UsageError
from dragoman.shared.generator import Encoding, Generator, longest_outputs
from dragoman.shared.padded import Padded
from dragoman.shared.ranges import NonNegativeFloat, NonNegativeInt, PositiveInt, Range
from dragoman.shared.search.bans import Ban

#: Tokens of an output that steps can count, in 32 bits.
LONGEST = 2**31 - 1


class Rules(Described):
    """The rules of a search. Lengths are in generated tokens, forced ones included, without the end symbol.

    Args:
        maximum_length_ratio: fairseq's ``max_len_a``: tokens allowed per position of the encoder's longest memory.
        maximum_length_extra: fairseq's ``max_len_b``: tokens allowed in any case, added to it;
            by default as many as the recipes keep in training.
        maximum_length: no output is longer than this, whatever the source, nor longer than the model can make it.
        minimum_length: tokens before the end symbol may come (fairseq's ``min_len``).
        start_symbols: how many tokens of a prefix are the start: they are consumed at once, and do not count.
        bans: what outputs must not contain (see shared/search/bans.py).
        forced_free: a forced token, or an end that the longest length forces, costs nothing, as in Hugging Face's
            ``generate``; by default it counts with its log-probability, as in fairseq.
        whole_prefix: all of a row's prefix is its start, however long; ``start_symbols`` does not matter.

    Raises:
        ValueError: if the numbers contradict each other.
    """

    def __init__(
        self,
        *,
        maximum_length_ratio: NonNegativeFloat = 0.0,
        maximum_length_extra: NonNegativeInt = 250,
        maximum_length: Annotated[int, Range(most=LONGEST)] = 1000,
        minimum_length: NonNegativeInt = 1,
        start_symbols: PositiveInt = 1,
        bans: list[Ban] | None = None,
        forced_free: bool = False,
        whole_prefix: bool = False,
    ) -> None:
        if minimum_length > maximum_length:
            raise ValueError(f"minimum_length {minimum_length} is above maximum_length {maximum_length}")
        self.ratio = maximum_length_ratio
        self.extra = maximum_length_extra
        self.maximum = maximum_length
        self.minimum = minimum_length
        self.start_symbols = start_symbols
        self.bans = list(bans or [])
        self.forced_free = forced_free
        self.whole_prefix = whole_prefix

    def joined(self, *, start_symbols: int, bans: Sequence[Ban]) -> Rules:
        """Return these rules for outputs with at least so many start symbols, and with further bans."""
        changed = {"start_symbols": max(self.start_symbols, start_symbols), "bans": [*self.bans, *bans]}
        return type(self)(**self.arguments | changed)

    def starts(self, prefix: Padded) -> Tensor:
        """Return how many tokens of each row of a prefix (B, P) are its start, (B,) int64 on the CPU."""
        lengths = prefix.lengths.cpu()
        return lengths if self.whole_prefix else torch.full_like(lengths, self.start_symbols)

    def longest(self, encoding: Encoding, generator: Generator, starts: Tensor) -> Tensor:
        """Return the longest output of each sentence, (B,) int64 on the CPU, at least ``minimum_length``.

        Args:
            encoding: of B sentences.
            generator: the model.
            starts: of their prefixes, (B,).

        Raises:
            UsageError: if the model has too few positions for so long an output.
        """
        lengths = [memory.lengths for memory in encoding.memories.values()]
        memories = torch.stack(lengths).amax(0).cpu() if lengths else torch.zeros(len(encoding), dtype=torch.int64)
        # Cut before they become whole numbers, which have a largest one.
        limits = (self.ratio * memories.double()).clamp(max=self.maximum).floor().long()
        limits = (limits + min(self.extra, self.maximum)).clamp(min=self.minimum, max=self.maximum)
        positions = longest_outputs(generator, encoding)
        if positions is None:
            return limits
        room = positions - starts
        if len(room) and self.minimum > max(most := int(room.min()), 1):
            raise UsageError(f"minimum_length {self.minimum} is above {most}, the most tokens that the model can write")
        return limits.minimum(room)
