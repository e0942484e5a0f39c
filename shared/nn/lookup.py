"""Rows of a table, whose gradient need not be as large as the table.

An embedding's gradient is a matrix of the table's size, zero but for the rows that were looked up. Where an output
projection has the same table, its gradient has that size anyway: the rows are then added to it, and nothing else of
that size is written. With 250,000 symbols, two lookups would otherwise write and read some gigabytes.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F
from torch.utils.weak import WeakTensorKeyDictionary


def lookup(tokens: Tensor, table: Tensor, padding: int) -> Tensor:
    """Return rows (..., D) of a table (V, D) for tokens (...) int64; those of ``padding`` get no gradient."""
    if torch.compiler.is_compiling() or not (torch.is_grad_enabled() and table.requires_grad):
        return F.embedding(tokens, table, padding)
    return _Lookup.apply(tokens, table, padding)


def announce_gradient(table: Tensor) -> None:
    """Tell lookups whose turn in a backward pass comes later that the caller makes a gradient of the table's size."""
    if table not in _WAITING:
        _WAITING[table] = _Rows(table)
    _WAITING[table].begin()


class _Rows:
    """Rows that wait to be added to the gradient of a table once that is there."""

    def __init__(self, table: Tensor) -> None:
        self.backward_pass = -1
        self.rows = list[tuple[Tensor, Tensor]]()
        table.register_hook(self.add)  # called with the sum of what all parts of the pass contribute

    def begin(self) -> None:
        """Wait for rows of this backward pass only; keep those that wait already, if it has several losses."""
        current = torch._C._current_graph_task_id()
        if self.backward_pass != current:
            self.backward_pass = current
            self.rows = []

    def add(self, gradient: Tensor) -> None:
        """Add what waits."""
        if self.backward_pass == torch._C._current_graph_task_id():
            for tokens, rows in self.rows:
                gradient.index_add_(0, tokens, rows)
        self.rows = []


#: By table, in any backward pass: tables that are copied or stored take nothing of it along.
_WAITING = WeakTensorKeyDictionary()


class _Lookup(torch.autograd.Function):
    """F.embedding; its gradient waits for a larger one that has been announced."""

    @staticmethod
    def forward(ctx: Any, tokens: Tensor, table: Tensor, padding: int) -> Tensor:
        """Return (..., D)."""
        ctx.save_for_backward(tokens)
        ctx.table, ctx.padding = table, padding
        return F.embedding(tokens, table)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, Tensor | None, None]:
        """Return the gradient of the table, None if it waits."""
        (tokens,) = ctx.saved_tensors
        waiting = _WAITING.get(ctx.table)
        if waiting is None or waiting.backward_pass != torch._C._current_graph_task_id():
            of_table = torch.ops.aten.embedding_dense_backward(gradient, tokens, len(ctx.table), ctx.padding, False)
            return None, of_table, None
        rows = gradient.masked_fill((tokens == ctx.padding)[..., None], 0)
        waiting.rows.append((tokens.flatten(), rows.flatten(0, -2)))
        return None, None, None
