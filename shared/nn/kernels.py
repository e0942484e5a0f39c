"""Knowledge of GPUs: which kernel of attention is the quickest, by length and mask (of processors: ``cpu.py``).

Measured 26 Nov 2026 on an H100 80 GB, torch 2.11.0+cu130, bf16, width 1024, 16 heads; forward and backward pass, ms:

    rows x length   memory-efficient, mask   cuDNN, mask   flash, no mask
    889 x 20                          0.89          1.17             1.93
    222 x 80                          0.83          0.65             0.74
    40 x 400                          1.58          0.87             0.95
    16 x 1000                         2.94          1.26             1.25

Only training chooses. cuDNN makes a plan for each new shape, in tenths of a second, and keeps it for ever; in a search
each step is a new shape, and the host is the limit there. Where nothing is chosen, torch takes flash without a mask and
the memory-efficient kernel with one (``prepare_process`` keeps cuDNN out).

What is compiled holds the kernel that was chosen when it was compiled, and neither its guards nor torch's cache of
compiled code on disk know what was allowed outside of it. So the choice is a part of what is compiled: the length makes
a guard, as does the card that is asked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from dragoman.shared.padded import Padded

FLASH, EFFICIENT, CUDNN = SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.CUDNN_ATTENTION
#: What torch takes where those before cannot: single precision, odd widths of heads, ``deterministic``.
REST = (EFFICIENT, SDPBackend.MATH)


@dataclass(frozen=True)
class Card:
    """The quickest kernels of attention on a kind of GPU, each a list of which the first that can is taken.

    Attributes:
        long: from how many queries and keys attention is long; only as many of both were measured.
        short: for shorter attention, with a mask or without.
        masked: for long attention with a mask.
        unmasked: without one, causal or not.
    """

    long: int
    short: tuple[SDPBackend, ...] = REST
    masked: tuple[SDPBackend, ...] = REST
    unmasked: tuple[SDPBackend, ...] = (FLASH, *REST)


#: By compute capability; on others, torch chooses.
CARDS = {(9, 0): Card(long=80, masked=(CUDNN, *REST))}
#: How often a layer has to have met a shape before cuDNN is asked: by then its plan would have paid, at some tenths of
#: a second for a plan and 0.2 to 1.7 ms that it saves.
PAYS = 100

_asked: Card | None = None  # by the layer that is called
_met: Counter[tuple[int, ...]] = Counter()


def order(queries: Tensor, keys: Tensor, mask: Tensor | None) -> list[SDPBackend] | None:
    """Return the kernels that may attend, the best first, of queries and keys (B, H, L or S, d); None: torch's own."""
    if _asked is None:
        return None
    if torch.sym_min(queries.shape[2], keys.shape[2]) < _asked.long:
        return list(_asked.short)
    return list(_asked.unmasked if mask is None else _asked.masked)


def attend(kernel: Callable[..., Tensor], queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
    """Return what torch's attention makes of queries, keys and values, by the quickest kernel."""
    backends = order(queries, keys, mask)
    if backends is None:
        return kernel(queries, keys, values)
    with sdpa_kernel(backends, set_priority=True):
        return kernel(queries, keys, values)


def choosing(layer: Callable[..., Tensor], states: Tensor, memories: Mapping[str, Padded]) -> Callable[..., Tensor]:
    """Return a layer that learns, with the choice for states (R, L, D) and memories; as it is where there is none."""
    card = card_of(states.device)
    if card is None or not torch.is_grad_enabled():
        return layer
    sizes = [states.shape[1], *(memory.values.shape[1] for memory in memories.values())]
    if max(sizes) >= card.long and CUDNN in card.masked:
        shape = (len(states), *sizes)
        _met[shape] += 1
        if _met[shape] <= PAYS:
            card = replace(card, masked=tuple(one for one in card.masked if one is not CUDNN))

    def called(*args: Any, **given: Any) -> Tensor:
        with asked(card):
            return layer(*args, **given)

    return called


def card_of(device: torch.device) -> Card | None:
    """Return what is known of a device."""
    if device.type != "cuda" or torch.version.hip is not None:
        return None
    return CARDS.get(torch.cuda.get_device_capability(device))


@contextmanager
def asked(card: Card | None) -> Iterator[None]:
    """Let attention inside choose by a card."""
    global _asked
    before, _asked = _asked, card
    try:
        yield
    finally:
        _asked = before
