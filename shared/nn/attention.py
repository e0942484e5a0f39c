"""Multi-head attention: of a sequence to itself, and to memories; with caches for generating step by step.

Legend: B sentences, K beams, R = B x K rows, L queries, S keys, P prompts, D model width, H heads, d width of a head,
which is D / H unless it is given.

Vaswani et al. 2017, section 3.2.2. Both kinds hand their products to torch's scaled_dot_product_attention, which never
stores the (L, S) weights where it has a fused kernel. Initialisation is fairseq's: Xavier uniform, with gain
1 / sqrt(2) for queries, keys and values, because the three share one input.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dragoman.shared.annotations import Checked
from dragoman.shared.nn import cpu, kernels
from dragoman.shared.nn.linear import Linear
from dragoman.shared.padded import Padded
from dragoman.shared.ranges import PositiveInt, ShareBelowOne


@dataclass(frozen=True)
class Prompts:
    """Keys and values of a layer's self-attention that are not made from its input (Li and Liang 2021).

    Attributes:
        keys: (B, P, H d), or (1, P, H d) for all sentences alike; already projected.
        values: likewise.
        mask: (B, P) bool, True where a key may be attended; None: all may.
    """

    keys: Tensor
    values: Tensor
    mask: Tensor | None = None

    def to(self, device: torch.device | str) -> Prompts:
        """Copy to a device."""
        mask = None if self.mask is None else self.mask.to(device)
        return Prompts(self.keys.to(device), self.values.to(device), mask)

    def joined(self, more: Prompts) -> Prompts:
        """Return these with more behind them; either may be the same for all B sentences."""
        rows = max(len(self.keys), len(more.keys))
        masks = [one.mask_of(rows) for one in (self, more)]
        parts = [(one.keys.expand(rows, -1, -1), one.values.expand(rows, -1, -1)) for one in (self, more)]
        keys, values = (torch.cat(list(pair), dim=1) for pair in zip(*parts, strict=True))
        return Prompts(keys, values, None if self.mask is None and more.mask is None else torch.cat(masks, dim=1))

    def mask_of(self, rows: int) -> Tensor:
        """Return the mask for a number of sentences, (rows, P) bool."""
        mask = self.keys.new_ones(1, self.keys.shape[1], dtype=torch.bool) if self.mask is None else self.mask
        return mask.expand(rows, -1)


@dataclass(frozen=True)
class KeysValues:
    """Keys and values that queries attend to.

    Attributes:
        keys: (B, H, S, d).
        values: (B, H, S, d).
        mask: (B, 1, 1, S) bool, or (B, 1, L, S) for each query, True where a key may be attended; every row has one. Or
            what is added to scores, 0 or -inf in the type of the keys, which kernels make of it at each call. None: all
            may be.
    """

    keys: Tensor
    values: Tensor
    mask: Tensor | None

    def for_many_calls(self) -> KeysValues:
        """Return the same, with each head's keys and values in one piece and the mask as what is added to scores."""
        mask = None if self.mask is None else added(self.mask, self.keys.dtype)
        return KeysValues(self.keys.contiguous(), self.values.contiguous(), mask)

    def restricted(self, seen: Tensor) -> KeysValues:
        """Return the same for L queries of which each may attend where ``seen`` (B or 1, L, S) bool is True as well."""
        mask = seen[:, None]
        if self.mask is not None:
            mask = self.mask & mask if self.mask.dtype == torch.bool else self.mask + added(mask, self.mask.dtype)
        return KeysValues(self.keys, self.values, mask)

    def select(self, rows: Tensor) -> KeysValues:
        """Take sentences (B',) int64."""
        rows = rows.to(self.keys.device)
        mask = None if self.mask is None else self.mask.index_select(0, rows)
        return KeysValues(self.keys.index_select(0, rows), self.values.index_select(0, rows), mask)


def added(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """Return 0 where a mask is True and -inf elsewhere."""
    return torch.zeros_like(mask, dtype=dtype).masked_fill_(~mask, float("-inf"))


class Past:
    """The keys and values of the elements that a decoder has consumed, for R rows; written and reordered in place.

    The buffers grow by ``STEP`` elements at a time, and reordering writes into a second pair of buffers that takes
    turns with the first: in a long search, allocating (and first touching) memory would cost more than the copy.
    Elements stand one after the other, all heads of one together, so that only those that are there need be copied.
    A consequence: a past belongs to the newest state of a search only.

    Attributes:
        length: elements of each row.
        hidden: (R,) int64, how many of the first of them are padding, which nobody may see; None: none of any row.
    """

    STEP = 16

    def __init__(self) -> None:
        self.length = 0
        self.hidden: Tensor | None = None
        self._stored: Tensor | None = None  # (2, R, capacity, H, d): keys and values
        self._spare: Tensor | None = None  # the same, of at least as many rows

    def append(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Add L elements, each (R, H, L, d); return all keys and values so far, (R, H, length, d)."""
        rows, heads, new, size = keys.shape
        end = self.length + new
        if self._stored is None or end > self._stored.shape[2]:
            capacity = -(-end // self.STEP) * self.STEP
            grown = keys.new_empty(2, rows, capacity, heads, size)
            if self._stored is not None:
                grown[:, :, : self.length] = self._stored[:, :, : self.length]
            self._stored = grown
            self._spare = None
        self._stored[0, :, self.length : end] = keys.transpose(1, 2)
        self._stored[1, :, self.length : end] = values.transpose(1, 2)
        self.length = end
        there = self._stored[:, :, :end].transpose(2, 3)
        return there[0], there[1]

    @property
    def seen(self) -> Tensor | None:
        """(R, 1, 1, length) bool, True where an element may be attended; None: all may."""
        if self.hidden is None:
            return None
        return (torch.arange(self.length, device=self.hidden.device) >= self.hidden[:, None])[:, None, None]

    def move_to_end(self, lengths: Tensor) -> None:
        """Let the elements of each row, of which the first ``lengths`` (R,) are real, end in the same place.

        What is appended then stands directly behind the last real element of every row.
        """
        assert self._stored is not None and self.hidden is None
        lengths = lengths.to(self._stored.device)
        self.hidden = self.length - lengths
        places = (torch.arange(self.length, device=lengths.device) - self.hidden[:, None]).clamp(min=0)  # (R, length)
        there = self._stored[:, :, : self.length]
        there.copy_(there.gather(2, places[None, :, :, None, None].expand_as(there)))

    def repeat(self, times: int) -> None:
        """Repeat each row the given number of times, in adjacent rows."""
        if self._stored is not None and times > 1:
            self._stored, self._spare = self._stored.repeat_interleave(times, dim=1), None
            self.hidden = None if self.hidden is None else self.hidden.repeat_interleave(times)

    def reorder(self, index: Tensor) -> None:
        """Keep rows (R',) int64, with repetition if asked."""
        if self._stored is None:
            return
        index = index.to(self._stored.device)
        self.hidden = None if self.hidden is None else self.hidden.index_select(0, index)
        rows = len(index)
        if self._spare is None or self._spare.shape[1] < rows:
            self._spare = self._stored.new_empty(2, rows, *self._stored.shape[2:])
        spare = self._spare[:, :rows]
        for old, new in zip(self._stored[:, :, : self.length], spare[:, :, : self.length], strict=True):
            torch.index_select(old, 0, index, out=new)
        self._stored, self._spare = spare, self._stored


class MultiHeadAttention(Checked, nn.Module):
    """Base class of both kinds of attention: heads, the products, the output projection.

    Args:
        width: D.
        heads: H, which divides D unless ``head_width`` is given.
        dropout: the probability with which an attention weight is dropped in training.
        head_width: d; None for D / H.
        bias: add trained vectors to what is projected.
        scaled: divide scores by sqrt(d).
    """

    def __init__(
        self,
        *,
        width: PositiveInt,
        heads: PositiveInt,
        dropout: ShareBelowOne = 0.0,
        head_width: PositiveInt | None = None,
        bias: bool = True,
        scaled: bool = True,
    ) -> None:
        super().__init__()
        if head_width is None and width % heads:
            raise ValueError(f"the width {width} cannot be divided among {heads} heads")
        self.width = width
        self.heads = heads
        self.inner = width if head_width is None else heads * head_width
        self.dropout = dropout
        self.scaled = scaled
        self.output = Linear(self.inner, width, bias=bias)
        nn.init.xavier_uniform_(self.output.weight)
        if bias:
            nn.init.zeros_(self.output.bias)

    def split(self, projected: Tensor, parts: int) -> list[Tensor]:
        """Return the parts that stand side by side in (R, L, parts x H d), each as (R, H, L, d).

        They are taken apart before heads are put first: their gradients are then copied once, to where they belong.
        """
        separate = projected.unflatten(-1, (parts, self.heads, -1)).unbind(2)
        return [part.transpose(1, 2) for part in separate]

    def attend(
        self, queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None = None, causal: bool = False
    ) -> Tensor:
        """Return softmax(queries keys^T / sqrt(d)) values, (B, H, L, d), or without the root if that is not wanted.

        ``mask`` broadcasts to (B, H, L, S): bool, or what is added to scores.
        """
        kernel = partial(
            F.scaled_dot_product_attention,
            attn_mask=mask,
            dropout_p=self.dropout if self.training else 0.0,
            is_causal=causal,
            scale=None if self.scaled else 1.0,
        )
        # What is compiled for a processor must not depend on shapes.
        if queries.device.type == "cpu" and not torch.compiler.is_compiling():
            if cpu.attends_in_float32(queries, keys):
                return in_float32(kernel, queries, keys, values, mask)
            if cpu.attends_by_products(queries, causal=causal):
                return by_products(queries, keys, values, mask, scaled=self.scaled)
        return kernels.attend(kernel, queries, keys, values, mask)


def in_float32(
    kernel: Callable[..., Tensor], queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None
) -> Tensor:
    """Return what a kernel computes of bfloat16 in float32, in the type of the queries."""
    added_mask = mask.float() if mask is not None and mask.dtype == queries.dtype else mask
    with torch.autocast("cpu", enabled=False):
        attended = kernel(queries.float(), keys.float(), values.float(), attn_mask=added_mask)
    return attended.to(queries.dtype)


def by_products(
    queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None = None, *, scaled: bool = True
) -> Tensor:
    """Return what :meth:`MultiHeadAttention.attend` returns, without dropout, by products of matrices."""
    sentences, heads, length, size = queries.shape
    if mask is None:
        mask = queries.new_zeros(1, 1, 1, 1)
    elif mask.dtype == torch.bool:
        mask = added(mask, queries.dtype)
    bias = mask.expand(sentences, heads, -1, keys.shape[2]).flatten(0, 1)
    queries, keys, values = queries.flatten(0, 1), keys.flatten(0, 1), values.flatten(0, 1)
    scale = size**-0.5 if scaled else 1.0
    weights = torch.baddbmm(bias, queries, keys.transpose(1, 2), alpha=scale).softmax(-1)
    return torch.bmm(weights, values).unflatten(0, (sentences, heads))


def projection(inputs: int, width: int, parts: int, *, bias: bool = True) -> Linear:
    """Return ``parts`` projections (inputs -> width) side by side, each initialised on its own."""
    linear = Linear(inputs, parts * width, bias=bias)
    for part in linear.weight.chunk(parts):
        nn.init.xavier_uniform_(part, gain=2**-0.5)
    return linear


class SelfAttention(MultiHeadAttention):
    """Attention of a sequence to itself; one product makes queries, keys and values.

    The arguments are those of :class:`MultiHeadAttention`.
    """

    def __init__(self, *, width: int, heads: int, dropout: float = 0.0, bias: bool = True, **given: Any) -> None:
        super().__init__(width=width, heads=heads, dropout=dropout, bias=bias, **given)
        self.queries_keys_values = projection(width, self.inner, 3, bias=bias)

    def forward(
        self,
        x: Tensor,
        *,
        mask: Tensor | None = None,
        causal: bool = False,
        prompts: Prompts | None = None,
        past: Past | None = None,
        relative: Tensor | None = None,
    ) -> Tensor:
        """Attend.

        Args:
            x: (R, L, D).
            mask: (R, L) bool, True where an element is real, or (R, L, L), True where the first may attend to the
                second; None if all may be attended. Not needed if ``causal``, because padding stands at the end, where
                no real element looks.
            causal: each element sees itself and what is before it only.
            prompts: more keys and values, seen by every element of their sentence, but for those that they hide.
            past: what was consumed before ``x``; ``x`` is added to it. Only with ``causal``.
            relative: (H, L, S), added to the scores of ``x``, and of what was consumed before it, as keys; to those of
                prompts nothing is.

        Returns:
            (R, L, D).
        """
        rows, length, _ = x.shape
        queries, keys, values = self.split(self.queries_keys_values(x), 3)
        if past is not None:
            if not causal:
                raise ValueError("a cache of the past makes sense for causal attention only")
            keys, values = past.append(keys, values)
        if prompts is not None:
            keys, values = self._with_prompts(prompts.keys, keys), self._with_prompts(prompts.values, values)
        extra = keys.shape[2] - length  # past and prompts, which every element sees
        visible, fused = None, False
        if causal and length > 1:  # one query sees everything
            if extra == 0 and relative is None:
                fused = True  # the kernel knows by itself what causal means
            else:
                visible = torch.ones(length, keys.shape[2], dtype=torch.bool, device=x.device).tril(extra)
        elif mask is not None and not causal:
            visible = (mask if mask.dim() == 3 else mask[:, None])[:, None]
            if extra:
                visible = F.pad(visible, (extra, 0), value=True)
        if past is not None and (seen := past.seen) is not None:
            seen = F.pad(seen, (keys.shape[2] - past.length, 0), value=True)
            visible = seen if visible is None else visible & seen
        if prompts is not None and prompts.mask is not None:
            seen = F.pad(prompts.mask, (0, keys.shape[2] - prompts.mask.shape[1]), value=True)[:, None, None, :]
            visible = seen if visible is None else visible & seen
        if relative is not None:
            scores = F.pad(relative, (keys.shape[2] - relative.shape[2], 0)).to(queries.dtype)
            visible = scores if visible is None else scores.masked_fill(~visible, float("-inf"))
        attended = self.attend(queries, keys, values, visible, fused)
        return self.output(attended.transpose(1, 2).reshape(rows, length, self.inner))

    def _with_prompts(self, prompts: Tensor, rest: Tensor) -> Tensor:
        split = prompts.unflatten(-1, (self.heads, -1)).transpose(1, 2)
        return torch.cat([split.expand(rest.shape[0], -1, -1, -1).to(rest.dtype), rest], dim=2)


class MemoryAttention(MultiHeadAttention):
    """Attention to a memory, for example of a decoder to the encoder's states.

    The memory is projected once (:meth:`remember`) and attended as often as wanted, by any number of beams: the K
    beams of a sentence are grouped as queries of the sentence's one memory, which is never repeated.

    Args:
        memory_width: the width of the memory's states.
        width: D; this and the other arguments are those of :class:`MultiHeadAttention`.
    """

    def __init__(
        self,
        *,
        width: int,
        heads: int,
        memory_width: PositiveInt,
        dropout: float = 0.0,
        bias: bool = True,
        **given: Any,
    ) -> None:
        super().__init__(width=width, heads=heads, dropout=dropout, bias=bias, **given)
        self.queries = projection(width, self.inner, 1, bias=bias)
        self.keys_values = projection(memory_width, self.inner, 2, bias=bias)

    def remember(self, memory: Padded) -> KeysValues:
        """Project a memory (B, S, memory_width), every row of which has at least one element."""
        keys, values = self.split(self.keys_values(memory.values), 2)
        return KeysValues(keys, values, None if memory.needs_no_mask else memory.mask[:, None, None, :])

    def forward(self, x: Tensor, memory: KeysValues, seen: Tensor | None = None) -> Tensor:
        """Attend from x (R, L, D) to the memory of B sentences; rows i K to (i + 1) K - 1 belong to sentence i.

        Args:
            x: what attends.
            memory: what is attended to.
            seen: (B or 1, L, S) bool, True where the beams of a sentence may attend, at least to one state each; None:
                to all.
        """
        rows, length, _ = x.shape
        sentences = memory.keys.shape[0]
        queries = self.queries(x).view(sentences, rows // sentences * length, self.heads, -1).transpose(1, 2)
        if seen is not None:
            memory = memory.restricted(seen.repeat(1, rows // sentences, 1))
        attended = self.attend(queries, memory.keys, memory.values, memory.mask)
        return self.output(attended.transpose(1, 2).reshape(rows, length, self.inner))

    def weights(self, x: Tensor, memory: KeysValues, seen: Tensor | None = None) -> Tensor:
        """Return how much x (B, L, D) attends to the memory of B sentences: (B, H, L, S), which sums to 1 over S."""
        memory = memory if seen is None else memory.restricted(seen)
        queries = self.queries(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        scores = queries @ memory.keys.transpose(2, 3)
        if self.scaled:
            scores = scores / queries.shape[-1] ** 0.5
        if (mask := memory.mask) is not None:
            scores = scores + (added(mask, queries.dtype) if mask.dtype == torch.bool else mask)
        return scores.float().softmax(-1)
