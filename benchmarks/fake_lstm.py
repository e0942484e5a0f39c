"""LSTM cells as torch's CUDA kernels compute them, for tensors that are no CUDA tensors.

Legend: B rows, C cells; gates stand in the order input, forget, candidate, output.
"""

from __future__ import annotations

import torch
from torch import Tensor


def cell(
    input_gates: Tensor,
    hidden_gates: Tensor,
    before: Tensor,
    input_bias: Tensor | None = None,
    hidden_bias: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the output (B, C), the cells (B, C), and the gates (B, 4C) that the backward pass wants."""
    added = input_gates + hidden_gates
    if input_bias is not None and hidden_bias is not None:
        added = added + input_bias + hidden_bias
    entering, kept, candidate, leaving = added.chunk(4, 1)
    entering, kept, leaving = entering.sigmoid(), kept.sigmoid(), leaving.sigmoid()
    candidate = candidate.tanh()
    cells = kept * before + entering * candidate
    return leaving * cells.tanh(), cells, torch.cat([entering, kept, candidate, leaving], 1)


def cell_backward(
    of_output: Tensor | None, of_cells: Tensor | None, before: Tensor, cells: Tensor, gates: Tensor, has_bias: bool
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """Return the gradients of the gates (B, 4C), of the cells before, and of each bias (4C,)."""
    if of_output is None and of_cells is None:
        return None, None, None
    entering, kept, candidate, leaving = gates.chunk(4, 1)
    squashed = cells.tanh()
    inner = torch.zeros_like(cells) if of_cells is None else of_cells
    of_leaving = torch.zeros_like(cells)
    if of_output is not None:
        of_leaving = of_output * squashed
        inner = inner + of_output * leaving * (1 - squashed**2)
    parts = [
        inner * candidate * entering * (1 - entering),
        inner * before * kept * (1 - kept),
        inner * entering * (1 - candidate**2),
        of_leaving * leaving * (1 - leaving),
    ]
    of_gates = torch.cat(parts, 1)
    return of_gates, inner * kept, of_gates.sum(0) if has_bias else None
