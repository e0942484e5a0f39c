"""Wait-k: a translator of speech learns to write its t-th token when k - 1 + t chunks have been heard.

Ma et al. 2019, "STACL: Simultaneous Translation with Implicit Anticipation and Controllable Latency using
Prefix-to-Prefix Framework" (ACL), arXiv 1810.08398, over speech as in Ma et al. 2020, "SimulMT to SimulST" (AACL),
arXiv 2011.02048: a chunk is a fixed number of encoder states, r. The token that follows t earlier ones attends to the
first

    min(S, (k + t) r)        t = 0, 1, ...

of S states. What has been heard must not change when more is heard: the encoder sees its own chunk and earlier ones. In
training k may be drawn for each batch, so that one model serves several (Elbayad et al. 2020, arXiv 2005.08595).

The subsampling convolutions see a few frames ahead: the last state of what has been heard is made of less sound than in
training. Features have to be normalised by what is known beforehand (GlobalNorm), not by the utterance.

Differs from the papers: whole words are written, not tokens.

Legend: B sentences, L elements, S encoder states, D model width.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Unpack

import torch
from torch import Tensor

from dragoman.shared.errors import UsageError
from dragoman.shared.nn.layer import EncoderLayer, Layer, LayerCache
from dragoman.shared.nn.transformer import Decoder, Encoder, EncoderParts, StackParts
from dragoman.shared.nn.translator import MEMORY
from dragoman.shared.padded import Padded
from dragoman.shared.ranges import NonNegativeInt, PositiveInt


class ChunkedEncoder(Encoder):
    """An encoder whose states see their own chunk and earlier ones, so that more sound does not change them.

    Args:
        layer: the first layer; a plain one, whose attention can be restricted.
        chunk: states of a chunk.
        left: how many earlier chunks each layer sees; None: all. The stack sees ``layers`` times as many.
        parts: see :class:`Encoder`.

    Raises:
        UsageError: if the layer is another one.
    """

    def __init__(
        self,
        *,
        layer: EncoderLayer,
        chunk: PositiveInt,
        left: NonNegativeInt | None = None,
        **parts: Unpack[EncoderParts],
    ) -> None:
        if type(layer) is not Layer:
            raise UsageError(f"a {type(layer).__name__} may see what has not been heard: chunks need plain layers")
        super().__init__(layer=layer, **parts)
        self.chunk = chunk
        self.left = left

    def mask(self, x: Padded) -> Tensor:
        """Return what the elements of x (B, L, D) see: (B, L, L) bool."""
        chunks = torch.arange(x.values.shape[1], device=x.device) // self.chunk
        back = chunks[:, None] - chunks
        seen = back >= 0 if self.left is None else (back >= 0) & (back <= self.left)
        itself = torch.eye(len(chunks), dtype=torch.bool, device=x.device)  # padding has to see something
        return seen & x.mask[:, None] | itself


class WaitKDecoder(Decoder):
    """A decoder each token of which attends to the encoder states that have been heard when it is to be written.

    Args:
        layer: the first layer; attends to the memory "source".
        k: chunks that are heard before the first token.
        ratio: r, encoder states of a chunk.
        drawn: in training, k is drawn among these for each batch; None: it is k.
        parts: see :class:`Stack`.
    """

    def __init__(
        self,
        *,
        layer: Layer,
        k: PositiveInt,
        ratio: PositiveInt = 7,
        drawn: list[PositiveInt] | None = None,
        **parts: Unpack[StackParts],
    ) -> None:
        super().__init__(layer=layer, **parts)
        self.k = k
        self.ratio = ratio
        self.drawn = list(drawn or [])

    def seen(
        self, x: Padded, memories: Mapping[str, Padded], caches: Sequence[LayerCache] | None
    ) -> Mapping[str, Tensor]:
        """Return what of the source has been heard when each token is to be written; see :class:`Decoder`."""
        first = caches[0].past.length if caches else 0
        size = caches[0].memories[MEMORY].keys.shape[2] if caches else memories[MEMORY].values.shape[1]
        numbers = torch.arange(first, first + x.values.shape[1], device=x.device)
        limits = (self._waited() + numbers) * self.ratio
        return {MEMORY: (torch.arange(size, device=x.device) < limits[:, None])[None]}

    def _waited(self) -> int:
        """Return k; in training, one that is drawn by the generator of layer drop."""
        if not self.training or not self.drawn:
            return self.k
        return self.drawn[int(torch.randint(len(self.drawn), (), device="cpu"))]
