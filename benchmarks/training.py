"""The common part of the workers of all training benchmarks, in any environment that has torch."""

from __future__ import annotations

import gc
import hashlib
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.cuda import reset_peak_memory_stats
from torch.utils.data._utils.pin_memory import pin_memory

BEGIN, PADDING, END, UNKNOWN = 0, 1, 2, 3  # fairseq's numbers
SMOOTHING, CLIP, BETAS, EPSILON = 0.1, 1.0, (0.9, 0.98), 1e-8
#: Rounds before time is taken, on a GPU: there, cuDNN attends once a shape has recurred (shared/nn/kernels.py).
WARM_UP = 20
CHECKS, CHECK_RATE, RATE = 3, 5e-4, 1e-5  # updates of the check, and learning rates there and where time is taken


def fill(parameters: Iterable[tuple[str, Tensor]]) -> None:
    """Give parameters values that depend on their names (fairseq's) and shapes alone, so that all arms begin alike."""
    for name, values in parameters:
        seed = int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "little")
        drawn = torch.randn(values.shape, generator=torch.Generator().manual_seed(seed))
        if values.dim() == 1:
            drawn = 0.1 * drawn + (1.0 if "norm" in name and name.endswith("weight") else 0.0)
        else:
            drawn = drawn * values[0].numel() ** -0.5
        if "embed_tokens" in name:
            drawn[PADDING] = 0
        with torch.no_grad():
            values.copy_(drawn)


@contextmanager
def without_noise(off: bool) -> Iterator[None]:
    """Let torch's gumbel_softmax choose the most probable entry, with the gradient of the softmax, if ``off``."""

    def chosen(logits: Tensor, tau: float = 1.0, hard: bool = True) -> Tensor:
        soft = (logits / tau).softmax(-1)
        return nn.functional.one_hot(soft.argmax(-1), soft.shape[-1]) + (soft - soft.detach())

    drawn = nn.functional.gumbel_softmax
    nn.functional.gumbel_softmax = chosen if off else drawn  # type: ignore[assignment]
    try:
        yield
    finally:
        nn.functional.gumbel_softmax = drawn


class Trainer(Protocol):
    """The part that each arm has of its own."""

    model: nn.Module

    def update(self, batch: Any) -> None:
        """Do one update."""

    def loss(self, batch: Any) -> float:
        """Return the loss (nats a token) without dropout."""


def worker(
    build: Callable[[float, float], Trainer],
    batches: list[Any],
    checked: Any,
    work: float,
    device: str,
    **versions: str,
) -> tuple[dict[str, Any], Callable[[], dict[str, Any]]]:
    """Set up, as benchmarks/worker.py wants it: checks with a small batch, then what will be timed.

    Args:
        build: makes a trainer, given dropout and learning rate.
        batches: an update on each is one repetition.
        checked: a small batch, whose losses all arms must have before and after some updates.
        work: what one repetition is worth.
        device: "cpu" or "cuda".
        versions: of libraries.

    """
    if device != "cpu":
        batches = [pin_memory(batch) for batch in batches]  # as loaders do
    torch.backends.cudnn.allow_tf32 = False  # of what is compared in single precision
    found = losses(build(0.0, CHECK_RATE), checked)
    torch.backends.cudnn.allow_tf32 = True
    gc.collect()  # what was compiled holds on to its model
    timed = build(0.1, RATE)
    told = {
        "versions": {"torch": torch.__version__, **versions},
        "checks": found,
        "gpu": torch.cuda.get_device_name() if device != "cpu" else None,
    }
    return told, repetitions(timed.update, batches, work, device)


def losses(trainer: Trainer, batch: Any) -> dict[str, float]:
    """Return the loss before and after some updates."""
    found = {"loss": trainer.loss(batch)}
    for number in range(CHECKS):
        trainer.update(batch)
        found[f"loss after {number + 1}"] = trainer.loss(batch)
    return found


def repetitions(
    update: Callable[[Any], Any], batches: list[Any], work: float, device: str
) -> Callable[[], dict[str, Any]]:
    """Warm up, and return what does an update on each batch; ``work`` is what that is worth."""

    def repeat() -> dict[str, Any]:
        if device != "cpu":
            reset_peak_memory_stats()
        clock = time.perf_counter()
        for batch in batches:
            update(batch)
        measured: dict[str, Any] = {"work": work}
        if device != "cpu":
            torch.cuda.synchronize()
            measured |= {"seconds": time.perf_counter() - clock, "peak_memory": torch.cuda.max_memory_allocated()}
        return measured

    for _ in range(1 if device == "cpu" else WARM_UP):
        repeat()
    return repeat
